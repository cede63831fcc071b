package sim

import (
	"math"
	"time"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
)

// priced returns the energy and emissions of a constant power on cluster c over [from,
// to). Hours without an intensity are filled by carbon.FillRule; energy needs none.
func (e *engine) priced(c int, watts units.Power, from, to time.Time) (kWh float64, p power.Price) {
	return float64(watts.Over(to.Sub(from))), power.PriceOver(watts, e.cfg.Clusters[c].Actual, from, to)
}

// gramsAt returns the emissions of energy that is used at one time.
func (e *engine) gramsAt(c int, kWh float64, at time.Time) float64 {
	s := e.cfg.Clusters[c].Actual
	if x, ok := s.At(at); ok {
		return kWh * float64(x.Value)
	}
	return kWh * float64(s.FilledMean(at, at.Add(1)).Mean)
}

// addTime adds two times; the sum stops at the longest one, 292 years.
func addTime(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// meanOf returns the mean of a time of jobs. It sums in floating point: the sum of a
// hundred thousand waits of a day is longer than a time.Duration can be.
func meanOf(jobs []Outcome, of func(*Outcome) time.Duration) time.Duration {
	sum := 0.0
	for i := range jobs {
		sum += of(&jobs[i]).Seconds()
	}
	return time.Duration(math.Round(sum / float64(len(jobs)) * float64(time.Second)))
}
