package carbonscaler

import (
	"lull.dev/lull/pkg/plan"
)

// heap orders slots by the rating of their next step.
type heap []int

// newHeap holds every slot that has a step left.
func newHeap(slots []slot) heap {
	h := make(heap, 0, len(slots))
	for i := range slots {
		if slots[i].taken < slots[i].limit {
			h = append(h, i)
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(slots, i)
	}
	return h
}

// sift puts the first slot, whose next step has changed, to its place; it leaves
// when it is exhausted.
func (h *heap) sift(slots []slot, exhausted bool) {
	if exhausted {
		(*h)[0] = (*h)[len(*h)-1]
		*h = (*h)[:len(*h)-1]
	}
	h.down(slots, 0)
}

func (h heap) down(slots []slot, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && slots[h[child+1]].better(&slots[h[child]]) {
			child++
		}
		if !slots[h[child]].better(&slots[h[i]]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// rounds of bisection: enough to leave the heap a few steps.
const rounds = 24

// curve is what skip needs of steps: work per watt, never rising, and prefix sums
// of work.
type curve struct{ rating, sums []float64 }

// newCurve returns false where a step may be rated above the one before it, or
// costs nothing.
func newCurve(steps []plan.Step) (*curve, bool) {
	if !plan.Concave(steps) {
		return nil, false
	}
	c := &curve{rating: make([]float64, len(steps)), sums: make([]float64, len(steps)+1)}
	for k, step := range steps {
		if !(step.Watts > 0) || !(step.Work > 0) {
			return nil, false
		}
		c.rating[k] = step.Work / step.Watts
		c.sums[k+1] = c.sums[k] + step.Work
	}
	return c, true
}

// above is how many of the first limit steps are rated above a threshold.
func (c *curve) above(threshold float64, limit int) int {
	low, high := 0, limit
	for low < high {
		middle := int(uint(low+high) >> 1)
		if c.rating[middle] > threshold {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// skip takes at once all steps that are rated above a threshold which leaves
// work to do, and returns that work: the heap then takes the few that remain. It
// does nothing where a curve is not concave.
//
// Complexity: O(rounds x slots x log steps).
func skip(slots []slot, need float64) float64 {
	curves := map[*plan.Step]*curve{}
	high := 0.0
	for i := range slots {
		s := &slots[i]
		if !(s.cost > 0) {
			return need // clean power is free: left to the heap
		}
		key := &s.steps[0]
		if s.curve = curves[key]; s.curve == nil {
			var ok bool
			if s.curve, ok = newCurve(s.steps); !ok {
				return need
			}
			curves[key] = s.curve
		}
		high = max(high, s.curve.rating[0]/s.cost)
	}
	work := func(threshold float64) float64 {
		sum := 0.0
		for i := range slots {
			s := &slots[i]
			sum += s.curve.sums[s.curve.above(threshold*s.cost, s.limit)]
		}
		return sum
	}
	low := 0.0
	for range rounds {
		middle := (low + high) / 2
		if work(middle) >= need {
			low = middle
		} else {
			high = middle
		}
	}
	done := work(high)
	if done >= need {
		return need // rounding at the top of the range
	}
	for i := range slots {
		slots[i].taken = slots[i].curve.above(high*slots[i].cost, slots[i].limit)
	}
	return need - done
}
