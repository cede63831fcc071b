// Package capacity bounds how much of a cluster may be used in a slot. Methods want a
// capacity; what runs, what must run and how fast machines come and go say what it becomes.
// The live controller and whoever replays a curve call the same functions.
package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrBounds marks bounds that make no sense.
var ErrBounds = errors.New("invalid bounds of a capacity curve")

// Bounds are the limits of a curve, in units of its resource.
type Bounds struct {
	// Maximum is never exceeded; Minimum is always there.
	Maximum, Minimum float64
	// Ramp is the most by which the capacity changes from a slot to the next; 0 bounds nothing.
	Ramp float64
}

// New returns the bounds, or an error wrapping ErrBounds that names the field.
func New(maximum, minimum, ramp float64) (Bounds, error) {
	switch {
	case !(maximum > 0) || math.IsInf(maximum, 0):
		return Bounds{}, fmt.Errorf("%w: maximum: %v; accepted: above 0", ErrBounds, maximum)
	case !(minimum >= 0 && minimum <= maximum):
		return Bounds{}, fmt.Errorf("%w: minimum: %v; accepted: 0 to the maximum (%v)", ErrBounds, minimum, maximum)
	case !(ramp >= 0) || math.IsInf(ramp, 0):
		return Bounds{}, fmt.Errorf("%w: ramp: %v; accepted: above 0, or none", ErrBounds, ramp)
	}
	return Bounds{Maximum: maximum, Minimum: minimum, Ramp: ramp}, nil
}

// Reason says what a capacity is determined by.
type Reason string

// The reasons, the stronger first.
const (
	AtMaximum Reason = "Maximum" // the maximum, below what is needed or wanted
	AtFloor   Reason = "Floor"   // what may not wait, above what the ramp allows or is wanted
	AtRamp    Reason = "Ramp"    // as far as the ramp goes
	AtMinimum Reason = "Minimum" // the minimum, above what is wanted
	AtWanted  Reason = "Wanted"  // what the method wants
)

// Bound is the capacity of a slot: what a method wants, at least the minimum, no further from the
// capacity of the slot before than the ramp goes, at least the floor (what may not wait), at most the
// maximum; what comes later in this list outranks what comes before. before is below 0 where there
// was no slot before.
//
// Complexity: O(1).
func (b Bounds) Bound(wanted, floor, before float64) (float64, Reason) {
	m, why := wanted, AtWanted
	if m < b.Minimum {
		m, why = b.Minimum, AtMinimum
	}
	if b.Ramp > 0 && before >= 0 {
		if low, high := before-b.Ramp, before+b.Ramp; m < low {
			m, why = low, AtRamp
		} else if m > high {
			m, why = high, AtRamp
		}
	}
	if m < floor {
		m, why = floor, AtFloor
	}
	if m > b.Maximum {
		m, why = b.Maximum, AtMaximum
	}
	return m, why
}

// Running is a piece of work that may be stopped.
type Running struct {
	// Use of the resource, and the work that stopping it now loses, in hours of its run time.
	Use, Lost float64
	// Keep says that it may not be stopped.
	Keep bool
}

// Victims are the indices of what is to be stopped so that at least excess of the resource becomes
// free: what loses least for what it frees first, and nothing that the others free already. It frees
// as much as it can where not all of the excess may be stopped.
//
// Complexity: O(n log n).
func Victims(running []Running, excess float64) []int {
	if !(excess > 0) {
		return nil
	}
	var order []int
	for i, r := range running {
		if !r.Keep && r.Use > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := running[a].Lost/running[a].Use, running[b].Lost/running[b].Use
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var out []int
	freed := 0.0
	for _, i := range order {
		if freed >= excess {
			break
		}
		out, freed = append(out, i), freed+running[i].Use
	}
	// The last ones, which lose most, stay where the others free enough without them.
	for k := len(out) - 1; k >= 0; k-- {
		if use := running[out[k]].Use; freed-use >= excess {
			out, freed = slices.Delete(out, k, k+1), freed-use
		}
	}
	slices.Sort(out)
	return out
}
