// Package carbon holds carbon-intensity series: what a grid zone emitted, emits
// or is expected to emit per unit of energy, where the numbers come from, and
// where there are none. Gaps are explicit; nothing is ever interpolated behind
// the caller's back.
package carbon

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// ErrSeries marks samples that cannot form a series.
var ErrSeries = errors.New("invalid carbon series")

// Signal says what an intensity describes. The two never mix.
type Signal string

// The signals a provider may publish.
const (
	// Average is the emissions of all generation over all consumption.
	Average Signal = "average"
	// Marginal is the emissions of the generation that answers a change in load.
	Marginal Signal = "marginal"
)

// Factor says which emissions of a power plant an intensity counts.
type Factor string

// The emission factors a provider may use.
const (
	// Lifecycle counts construction, fuel supply and operation (gCO2eq).
	Lifecycle Factor = "lifecycle"
	// Direct counts what leaves the chimney (gCO2).
	Direct Factor = "direct"
)

// Basis says what an intensity rests on, the most trustworthy first.
type Basis string

// The bases of an intensity.
const (
	// Measured: published after the fact, by measurement or estimate.
	Measured Basis = "Measured"
	// LiveForecast: forecast by the provider, as fresh as it should be.
	LiveForecast Basis = "LiveForecast"
	// CachedForecast: forecast by the provider earlier; it has not been renewed.
	CachedForecast Basis = "CachedForecast"
	// OwnForecast: forecast here, from the zone's own past.
	OwnForecast Basis = "OwnForecast"
	// Climatology: what is usual at this hour in this month.
	Climatology Basis = "Climatology"
	// Constant: declared by whoever configured the zone.
	Constant Basis = "Constant"
)

// Provenance says where numbers come from and how far to trust them.
type Provenance struct {
	Zone     string    // grid zone, e.g. "DE" (names of Electricity Maps)
	Signal   Signal    // average or marginal
	Factor   Factor    // life-cycle or direct
	Source   string    // provider or file, in words
	IssuedAt time.Time // when the numbers were published; zero if unknown
	Basis    Basis     // what they rest on; empty if not stated
}

// Sample is one intensity, valid in the half-open interval [From, To).
type Sample struct {
	From, To  time.Time
	Value     units.CarbonIntensity
	Estimated bool // the provider modelled the value instead of measuring it
	// Of is where this very sample comes from, if not from where the series does.
	Of *Provenance
}

// Interval is the half-open interval [From, To).
type Interval struct{ From, To time.Time }

// Series is an immutable sequence of samples in order of time, without overlap;
// where no sample covers an instant there is a gap. Create it with NewSeries.
type Series struct {
	Provenance
	samples []Sample
	// integral[i] and covered[i] sum value*hours and time over samples[:i], so
	// that the mean of any interval costs two binary searches.
	integral []float64
	covered  []time.Duration
	// step is the length of every sample where they follow each other without a gap,
	// else 0.
	step time.Duration
	// levels are the values of the samples, where step is set: slots of that length need
	// no arithmetic.
	levels []float64
}

// NewSeries checks and keeps a copy of samples. Errors wrap ErrSeries and name
// the sample: a value outside 0 to units.MaxCarbonIntensity, an empty or reversed
// interval, a sample that starts before the one ahead of it ends.
//
// Complexity: O(n) time and memory.
func NewSeries(p Provenance, samples []Sample) (*Series, error) {
	s := &Series{
		Provenance: p,
		samples:    append([]Sample(nil), samples...),
		integral:   make([]float64, len(samples)+1),
		covered:    make([]time.Duration, len(samples)+1),
	}
	for i, x := range s.samples {
		switch {
		case !x.Value.Valid():
			return nil, fmt.Errorf("%w: sample %d at %s: intensity: %v; accepted: 0 to %v gCO2eq/kWh",
				ErrSeries, i, x.From.Format(time.RFC3339), float64(x.Value), float64(units.MaxCarbonIntensity))
		case !x.To.After(x.From):
			return nil, fmt.Errorf("%w: sample %d: interval from %s to %s is empty",
				ErrSeries, i, x.From.Format(time.RFC3339), x.To.Format(time.RFC3339))
		case i > 0 && x.From.Before(s.samples[i-1].To):
			return nil, fmt.Errorf("%w: sample %d: %s lies before %s, the end of the sample ahead; accepted: ascending times without overlap",
				ErrSeries, i, x.From.Format(time.RFC3339), s.samples[i-1].To.Format(time.RFC3339))
		}
		span := x.To.Sub(x.From)
		if i == 0 {
			s.step = span
		} else if span != s.step || !x.From.Equal(s.samples[i-1].To) {
			s.step = 0
		}
		s.integral[i+1] = s.integral[i] + float64(x.Value)*span.Hours()
		s.covered[i+1] = s.covered[i] + span
	}
	if s.step > 0 {
		s.levels = make([]float64, len(s.samples))
		for i := range s.samples {
			s.levels[i] = float64(s.samples[i].Value)
		}
	}
	return s, nil
}

// Len returns the number of samples.
func (s *Series) Len() int { return len(s.samples) }

// Sample returns sample i, 0 <= i < Len.
func (s *Series) Sample(i int) Sample { return s.samples[i] }

// IndexAt returns the first sample that ends after at; Len where there is none.
func (s *Series) IndexAt(at time.Time) int { return s.firstEndingAfter(at) }

// Start returns the start of the first sample, or the zero time.
func (s *Series) Start() time.Time {
	if len(s.samples) == 0 {
		return time.Time{}
	}
	return s.samples[0].From
}

// End returns the end of the last sample, or the zero time.
func (s *Series) End() time.Time {
	if len(s.samples) == 0 {
		return time.Time{}
	}
	return s.samples[len(s.samples)-1].To
}

// ProvenanceOf returns where sample i comes from, 0 <= i < Len.
func (s *Series) ProvenanceOf(i int) Provenance {
	if p := s.samples[i].Of; p != nil {
		return *p
	}
	return s.Provenance
}

// At returns the sample that covers at; false in a gap and outside the series.
func (s *Series) At(at time.Time) (Sample, bool) {
	i := s.firstEndingAfter(at)
	if i == len(s.samples) || s.samples[i].From.After(at) {
		return Sample{}, false
	}
	return s.samples[i], true
}

// Mean returns the time-weighted mean intensity over [from, to) and how much of
// the interval has samples. It is zero where nothing is covered. The mean of a few equal samples is their
// value, without rounding: slots of equal intensity compare as equal.
//
// Complexity: O(log n).
func (s *Series) Mean(from, to time.Time) (units.CarbonIntensity, time.Duration) {
	integral, covered := s.upTo(to)
	i, c := s.upTo(from)
	integral, covered = integral-i, covered-c
	if covered <= 0 {
		return 0, 0
	}
	if value, ok := s.constant(from, to); ok {
		return value, covered
	}
	// Differences of prefix sums may fall below zero by rounding.
	return units.CarbonIntensity(math.Max(0, integral/covered.Hours())), covered
}

// constantOver is how many samples constant looks at, at most: the five-minute samples of an hour and more.
const constantOver = 16

// constant returns the value of the samples in [from, to) if they all have the same one. The mean from
// prefix sums differs from it by rounding, and a planner would take one of two equal slots for the
// cleaner one. It returns false if there are more than constantOver samples.
func (s *Series) constant(from, to time.Time) (value units.CarbonIntensity, ok bool) {
	first := s.firstEndingAfter(from)
	for i := first; i < len(s.samples) && s.samples[i].From.Before(to); i++ {
		if i-first == constantOver || i > first && s.samples[i].Value != value {
			return 0, false
		}
		value, ok = s.samples[i].Value, true
	}
	return value, ok
}

// Gaps returns the parts of [from, to) that no sample covers.
func (s *Series) Gaps(from, to time.Time) []Interval {
	var gaps []Interval
	at := from
	for i := s.firstEndingAfter(from); i < len(s.samples) && s.samples[i].From.Before(to); i++ {
		if s.samples[i].From.After(at) {
			gaps = append(gaps, Interval{at, s.samples[i].From})
		}
		at = s.samples[i].To
	}
	if at.Before(to) {
		gaps = append(gaps, Interval{at, to})
	}
	return gaps
}

// OnGrid returns the mean intensity of each slot and the slots that no sample
// touches (whose value is 0 and must not be used). A slot covered in part
// takes the mean of the part.
//
// Complexity: O(N log n).
func (s *Series) OnGrid(g timegrid.Grid) (values []float64, missing []int) {
	values = make([]float64, g.N)
	for t := range values {
		mean, covered := s.Mean(g.Time(t), g.Time(t+1))
		if covered == 0 {
			missing = append(missing, t)
			continue
		}
		values[t] = float64(mean)
	}
	return values, missing
}

// view is the values of the slots of g where each is a sample, not to be modified.
func (s *Series) view(g timegrid.Grid) ([]float64, bool) {
	if s.step != g.Slot || s.step == 0 {
		return nil, false
	}
	since := g.Start.Sub(s.samples[0].From)
	first := int(since / s.step)
	if since < 0 || since%s.step != 0 || first+g.N > len(s.levels) {
		return nil, false
	}
	return s.levels[first : first+g.N : first+g.N], true
}

// firstEndingAfter returns the first sample whose end lies after at.
func (s *Series) firstEndingAfter(at time.Time) int {
	if s.step > 0 {
		since := at.Sub(s.samples[0].From)
		switch {
		case since < 0:
			return 0
		case at.Before(s.samples[len(s.samples)-1].To):
			return int(since / s.step)
		}
		return len(s.samples)
	}
	return sort.Search(len(s.samples), func(i int) bool { return s.samples[i].To.After(at) })
}

// upTo integrates value*hours and covered time over all that lies before at.
func (s *Series) upTo(at time.Time) (float64, time.Duration) {
	i := s.firstEndingAfter(at)
	if i == len(s.integral) { // the zero value
		return 0, 0
	}
	integral, covered := s.integral[i], s.covered[i]
	if i < len(s.samples) && s.samples[i].From.Before(at) {
		part := at.Sub(s.samples[i].From)
		integral += float64(s.samples[i].Value) * part.Hours()
		covered += part
	}
	return integral, covered
}
