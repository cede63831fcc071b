// Package account says what observed work has emitted, and what the same work would have emitted as it
// was submitted.
package account

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
)

// Method is the version of this accounting; it changes when figures do. Method 2 left
// time without an intensity out of emissions; method 3 fills it by carbon.FillRule.
const Method = "3"

// Stretch is a time in which something ran without a change, half-open.
type Stretch struct {
	From, To time.Time
	Zone     string
	// Workers is how many of a workload's workers it is: one for a pod.
	Workers int
	// Watts is its power by the model, PUE included.
	Watts float64
}

// Measured is a reading: energy that all of a workload used over a time, PUE included.
type Measured struct {
	From, To time.Time
	Zone     string
	KWh      float64
	// Modelled is the part of KWh that a model says, where not all of the workload was measured.
	Modelled float64
	// Source is who measured it; Use does not read it.
	Source string
}

// Apart returns readings in order of time, none of which overlap: where two were taken of the same time, as
// by two controllers, the one that began earlier counts, then the one that ended earlier. The rest of the
// other counts at its mean power. Readings that last no time are left out; the input is not modified.
//
// Complexity: O(n log n).
func Apart(readings []Measured) []Measured {
	sorted := slices.Clone(readings)
	slices.SortFunc(sorted, func(a, b Measured) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.KWh, b.KWh), cmp.Compare(a.Source, b.Source))
	})
	out := sorted[:0]
	var until time.Time
	for _, m := range sorted {
		whole := m.To.Sub(m.From)
		if len(out) > 0 && m.From.Before(until) {
			m.From = until
		}
		rest := m.To.Sub(m.From)
		if rest <= 0 {
			continue
		}
		if rest < whole {
			m.KWh *= float64(rest) / float64(whole)
			m.Modelled *= float64(rest) / float64(whole)
		}
		out, until = append(out, m), m.To
	}
	return out
}

// Usage is energy and what it emitted.
type Usage struct {
	// KWh is all energy, MeasuredKWh the part that was measured; ModelKWh is what the model
	// alone says.
	KWh, MeasuredKWh, ModelKWh float64
	// Grams of CO2 equivalents. The energy of Unknown is not in it: where Unknown is above 0,
	// a report must withhold the figure.
	Grams float64
	// Filled is the time priced by carbon.FillRule, Unknown the time without any price. Both
	// are summed over stretches and readings.
	Filled, Unknown time.Duration
}

// Use sums what stretches used: what was measured, each moment once (see Apart), and by the model where
// nothing was. Emissions are the energy of each time at the mean intensity of that time; time without an
// intensity is filled by carbon.FillRule.
//
// Complexity: O(measured log measured + stretches log measured + overlaps of both), each with a look-up of
// intensities as in carbon.Series.FilledMean.
func Use(stretches []Stretch, measured []Measured, intensity func(zone string) *carbon.Series) Usage {
	var u Usage
	add := func(from, to time.Time, zone string, watts float64) (kWh float64) {
		p := power.PriceOver(units.Power(watts), intensity(zone), from, to)
		u.Grams += float64(p.Emissions)
		u.Filled += p.Filled
		u.Unknown += p.Unknown
		return watts / 1000 * to.Sub(from).Hours()
	}
	apart := Apart(measured)
	for _, m := range apart {
		kWh := add(m.From, m.To, m.Zone, m.KWh*1000/m.To.Sub(m.From).Hours())
		u.KWh += kWh
		u.MeasuredKWh += kWh - m.Modelled
	}
	for _, s := range stretches {
		u.ModelKWh += s.Watts / 1000 * s.To.Sub(s.From).Hours()
		at := s.From
		first, _ := slices.BinarySearchFunc(apart, at, func(m Measured, at time.Time) int {
			if m.To.After(at) {
				return 1
			}
			return -1
		})
		for _, m := range apart[first:] {
			if !m.From.Before(s.To) {
				break
			}
			if m.From.After(at) {
				u.KWh += add(at, m.From, s.Zone, s.Watts)
			}
			at = m.To
		}
		if at.Before(s.To) {
			u.KWh += add(at, s.To, s.Zone, s.Watts)
		}
	}
	return u
}

// Curve is the throughput of an elastic workload: Marginal[i] is what worker i adds, counted from
// MinWorkers, whose throughput is Marginal[0]. Without it each worker adds as much as the first.
type Curve struct {
	MinWorkers int
	Marginal   []float64
	// Others is how many pods run beside the workers and add nothing: Length counts only what runs beyond them.
	Others int
}

// Rate is the throughput of n workers.
func (c Curve) Rate(n int) float64 {
	if len(c.Marginal) == 0 || n <= 0 {
		return float64(max(n, 0))
	}
	if n < c.MinWorkers {
		return c.Marginal[0] * float64(n) / float64(c.MinWorkers)
	}
	sum := 0.0
	for i := range min(n-c.MinWorkers+1, len(c.Marginal)) {
		sum += c.Marginal[i]
	}
	return sum
}

// Length is how long the work that stretches have done takes at a number of workers in one piece; lost
// is time at that scale that was done twice.
//
// Complexity: O(stretches log stretches).
func Length(stretches []Stretch, curve Curve, workers int, lost time.Duration) time.Duration {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, s := range stretches {
		edges = append(edges, edge{s.From, s.Workers}, edge{s.To, -s.Workers})
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	work, n := 0.0, 0
	for i, e := range edges {
		if i > 0 {
			work += curve.Rate(n-curve.Others) * e.at.Sub(edges[i-1].at).Hours()
		}
		n += e.by
	}
	rate := curve.Rate(workers)
	if rate <= 0 {
		return 0
	}
	return max(0, time.Duration(math.Round(work/rate*float64(time.Hour)))-lost)
}
