package carbon

// Rank says how far to trust one of several values of the same time.
type Rank int

// The ranks, the least trustworthy first.
const (
	RankGap       Rank = iota // no value
	RankForecast              // published before its interval began
	RankEstimated             // modelled by the provider afterwards
	RankMeasured
)

// RankOf returns the rank of a value of the past.
func RankOf(gap, estimated bool) Rank {
	switch {
	case gap:
		return RankGap
	case estimated:
		return RankEstimated
	}
	return RankMeasured
}

// StandsOver says whether a value counts although another of the same time came later: the later one of
// equal rank is a revision.
func (r Rank) StandsOver(later Rank) bool { return r > later }

// RankOf returns the rank of sample i, 0 <= i < Len: a forecast if the series was issued before its interval began.
func (s *Series) RankOf(i int) Rank {
	x := s.samples[i]
	if issued := s.ProvenanceOf(i).IssuedAt; !issued.IsZero() && !x.From.Before(issued) {
		return RankForecast
	}
	return RankOf(false, x.Estimated)
}
