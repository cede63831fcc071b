package carbon

import (
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/units"
)

// Paths are courses that the intensity of a zone may take over the same slots, each as likely as the others. Unlike the quantiles of
// single slots, they say how far sums over several slots may be off: the errors of neighbouring slots belong together in a path.
type Paths struct {
	start time.Time
	step  time.Duration
	// sums are, by path, the sums of the values before each slot, and of all values at the end.
	sums [][]float64
}

// mostPaths and mostSteps bound the memory of Paths.
const mostPaths, mostSteps = 1000, 10_000

// NewPaths returns the paths with the given values in gCO2eq/kWh, by path and slot. Values above units.MaxCarbonIntensity count as that.
//
// It returns an error if the step is not positive, if there are no values or more than 1,000 paths of 10,000 slots, if paths differ in
// length, and if a value is negative or not finite. Complexity: O(values).
func NewPaths(start time.Time, step time.Duration, values [][]float64) (*Paths, error) {
	switch {
	case step <= 0:
		return nil, fmt.Errorf("paths: step: %v; accepted: above 0", step)
	case len(values) == 0 || len(values) > mostPaths:
		return nil, fmt.Errorf("paths: %d paths; accepted: 1 to %d", len(values), mostPaths)
	case len(values[0]) == 0 || len(values[0]) > mostSteps:
		return nil, fmt.Errorf("paths: %d slots; accepted: 1 to %d", len(values[0]), mostSteps)
	}
	p := &Paths{start: start, step: step, sums: make([][]float64, len(values))}
	for i, path := range values {
		if len(path) != len(values[0]) {
			return nil, fmt.Errorf("paths: path %d has %d slots; accepted: %d, as the first one", i, len(path), len(values[0]))
		}
		sums := make([]float64, len(path)+1)
		for k, v := range path {
			if !(v >= 0) || math.IsInf(v, 1) {
				return nil, fmt.Errorf("paths: path %d, slot %d: %v; accepted: a finite number, at least 0", i, k, v)
			}
			sums[k+1] = sums[k] + math.Min(v, float64(units.MaxCarbonIntensity))
		}
		p.sums[i] = sums
	}
	return p, nil
}

// Len is the number of paths; 0 if p is nil.
func (p *Paths) Len() int {
	if p == nil {
		return 0
	}
	return len(p.sums)
}

// Covers reports whether the paths have values for all of [from, to).
func (p *Paths) Covers(from, to time.Time) bool {
	return p.Len() > 0 && !from.Before(p.start) && !to.After(p.start.Add(time.Duration(len(p.sums[0])-1)*p.step))
}

// Mean is the mean intensity of a path over [from, to), which the paths cover. Complexity: O(1).
func (p *Paths) Mean(path int, from, to time.Time) units.CarbonIntensity {
	slots := float64(to.Sub(from)) / float64(p.step)
	if slots <= 0 {
		return 0
	}
	sums := p.sums[path]
	return units.CarbonIntensity((p.at(to).of(sums) - p.at(from).of(sums)) / slots)
}

// AddOver adds weight x the mean over [from, to), which the paths cover, to the element of out of each of the last len(out) paths.
// Complexity: O(paths).
func (p *Paths) AddOver(from, to time.Time, weight float64, out []float64) {
	slots := float64(to.Sub(from)) / float64(p.step)
	if slots <= 0 {
		return
	}
	a, b := p.at(from), p.at(to)
	for i, sums := range p.sums[len(p.sums)-len(out):] {
		out[i] += weight * (b.of(sums) - a.of(sums)) / slots
	}
}

// place is a time in slots: a slot, and the share of it that has passed.
type place struct {
	slot  int
	share float64
}

func (p *Paths) at(moment time.Time) place {
	after := moment.Sub(p.start)
	k := min(max(0, int(after/p.step)), len(p.sums[0])-1)
	if k == len(p.sums[0])-1 {
		return place{slot: k}
	}
	return place{k, float64(after-time.Duration(k)*p.step) / float64(p.step)}
}

// of is the sum of a path before a place, in slots.
func (x place) of(sums []float64) float64 {
	if x.share == 0 {
		return sums[x.slot]
	}
	return sums[x.slot] + x.share*(sums[x.slot+1]-sums[x.slot])
}
