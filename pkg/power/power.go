// Package power turns use of machines into watts, energy and emissions.
package power

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// ErrModel marks a power model that cannot describe a machine.
var ErrModel = errors.New("invalid power model")

// Linear is the idle/peak model of a machine:
//
//	P(u) = Idle + (Peak - Idle) * u,   0 <= u <= 1
//
// Source: Piontek et al., J. Supercomputing 80, 2024, Eq. 9 (212 W and 597 W
// there); going back to Fan, Weber and Barroso, ISCA 2007.
type Linear struct{ Idle, Peak units.Power }

// NewLinear checks the model: 0 <= idle <= peak, both finite.
func NewLinear(idle, peak units.Power) (Linear, error) {
	if !finite(float64(idle)) || !finite(float64(peak)) || idle < 0 || peak < idle {
		return Linear{}, fmt.Errorf("%w: idle %v W, peak %v W; accepted: 0 <= idle <= peak", ErrModel, float64(idle), float64(peak))
	}
	return Linear{Idle: idle, Peak: peak}, nil
}

// At returns the power at utilisation u, which is clamped to [0, 1].
func (m Linear) At(u float64) units.Power {
	u = math.Min(1, math.Max(0, u))
	return m.Idle + units.Power(u)*(m.Peak-m.Idle)
}

// PerUnit is the power of one used unit of each resource (W per CPU, per GPU),
// times PUE, the power usage effectiveness of the building (at least 1).
type PerUnit struct {
	Watts map[string]float64
	PUE   float64
}

// DefaultWattsPerCPU is the power of one fully used vCPU where the user states
// none: the maximum that Cloud Carbon Footprint's methodology gives for AWS
// (3.5 W per vCPU at 100 %; GCP 4.26, Azure 3.76).
const DefaultWattsPerCPU = 3.5

// Limits on what a model may state. A larger value is in another unit, and one absurd value
// would spoil every sum that it enters.
const (
	// MaxWattsPerUnit bounds the power of one unit of a resource: a rack of accelerators
	// takes less than 200 kW.
	MaxWattsPerUnit = 1e6
	// MaxWatts bounds the power of a workload: the largest data centers take about 1 GW.
	MaxWatts = 1e9
	// MaxPUE bounds the power usage effectiveness.
	MaxPUE = 10
)

// NewPerUnit checks the model. A PUE of 0 means 1.
func NewPerUnit(watts map[string]float64, pue float64) (PerUnit, error) {
	if pue == 0 {
		pue = 1
	}
	if !(pue >= 1 && pue <= MaxPUE) {
		return PerUnit{}, fmt.Errorf("%w: pue: %v; accepted: 1 to %v", ErrModel, pue, float64(MaxPUE))
	}
	for r, w := range watts {
		if !(w >= 0 && w <= MaxWattsPerUnit) {
			return PerUnit{}, fmt.Errorf("%w: wattsPerUnit[%q]: %v; accepted: 0 to %v W", ErrModel, r, w, float64(MaxWattsPerUnit))
		}
	}
	return PerUnit{Watts: watts, PUE: pue}, nil
}

// Of returns the power, PUE included, of using the given amounts. Resources
// without a stated power use none. The sum runs in the order of the names, so
// that equal inputs give equal bits.
func (m PerUnit) Of(use map[string]float64) units.Power {
	return units.Power(m.PUE * Sum(use, m.Watts))
}

// Sum returns sum_r amounts[r] * weights[r] in the order of the names.
func Sum(amounts, weights map[string]float64) float64 {
	if len(amounts) == 1 {
		for r, q := range amounts {
			return q * weights[r]
		}
	}
	names := make([]string, 0, len(amounts))
	for r := range amounts {
		names = append(names, r)
	}
	sort.Strings(names)
	sum := 0.0
	for _, r := range names {
		sum += amounts[r] * weights[r]
	}
	return sum
}

// Price is the emissions of a constant power over an interval.
type Price struct {
	// Emissions leave out the energy of Unknown: where that is above 0, a report must
	// withhold the figure.
	Emissions units.Emissions
	// Filled is the part priced by carbon.FillRule, Unknown the part without any price.
	Filled, Unknown time.Duration
}

// PriceOver prices a constant power over [from, to), with hours that lack an intensity
// filled by carbon.FillRule.
//
// Complexity: that of carbon.Series.FilledMean.
func PriceOver(p units.Power, s *carbon.Series, from, to time.Time) Price {
	m := s.FilledMean(from, to)
	return Price{Emissions: p.Over(m.Known + m.Filled).At(m.Mean), Filled: m.Filled, Unknown: m.Unknown}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
