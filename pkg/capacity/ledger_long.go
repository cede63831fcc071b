package capacity

import (
	"math"
	"slices"
	"time"
)

// What a ledger needs that is kept for long, or tried on.

// Forget drops what lies before a time; nothing may be asked or taken before it any more. The
// capacity at that time stays.
//
// Complexity: O(clusters x resources x steps).
func (l *Ledger) Forget(before time.Time) {
	at := l.instant(before)
	for c := range l.clusters {
		s := &l.clusters[c]
		if i := s.step(at); i > 0 {
			s.at = slices.Delete(s.at, 0, i)
			s.at[0] = math.MinInt64
			for r := range s.used {
				s.total[r], s.used[r] = slices.Delete(s.total[r], 0, i), slices.Delete(s.used[r], 0, i)
			}
			s.index.moved(0)
		}
		// The last offer before then still holds.
		i, known := slices.BinarySearch(s.offers, at)
		if !known {
			i--
		}
		if i > 0 {
			s.offers = slices.Delete(s.offers, 0, i)
		}
	}
}

// Clone returns a ledger of the same, of which something else can be taken.
//
// Complexity: O(clusters x resources x steps).
func (l *Ledger) Clone() *Ledger {
	out := &Ledger{Tick: l.Tick, names: slices.Clone(l.names), resources: slices.Clone(l.resources), clusters: slices.Clone(l.clusters)}
	for c := range out.clusters {
		s := &out.clusters[c]
		s.at, s.offers, s.total, s.used = slices.Clone(s.at), slices.Clone(s.offers), slices.Clone(s.total), slices.Clone(s.used)
		s.index = index{}
		for r := range s.used {
			s.total[r], s.used[r] = slices.Clone(s.total[r]), slices.Clone(s.used[r])
		}
	}
	return out
}

// Most returns the largest capacity that a cluster ever has, by resource; resources that it never
// has are left out.
//
// Complexity: O(resources x steps).
func (l *Ledger) Most(cluster int) map[string]float64 {
	out := map[string]float64{}
	for r, total := range l.clusters[cluster].total {
		if most := slices.Max(total); most > 0 {
			out[l.resources[r]] = most
		}
	}
	return out
}
