package carbonscaler

import (
	"sort"

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

// skip takes at once all steps that are rated above a threshold which leaves
// work to do, and returns that work: the heap then takes the few that remain. It
// does nothing where a curve is not concave, since there a step may be rated
// above the one before it.
//
// Complexity: O(rounds x slots x log steps).
func skip(slots []slot, need float64) float64 {
	if len(slots) == 0 || need <= 0 {
		return need
	}
	prefix := map[*plan.Step][]float64{}
	high := 0.0
	for i := range slots {
		s := &slots[i]
		key := &s.steps[0]
		if _, known := prefix[key]; !known {
			if !plan.Concave(s.steps) {
				return need
			}
			sums := make([]float64, len(s.steps)+1)
			for k, step := range s.steps {
				if !(step.Watts > 0) || !(step.Work > 0) {
					return need // free power or no gain: left to the heap
				}
				sums[k+1] = sums[k] + step.Work
			}
			prefix[key] = sums
		}
		if !(s.cost > 0) {
			return need
		}
		high = max(high, s.steps[0].Work/(s.steps[0].Watts*s.cost))
	}
	count := func(s *slot, threshold float64) int {
		return sort.Search(s.limit, func(k int) bool { return s.steps[k].Work <= threshold*s.steps[k].Watts*s.cost })
	}
	work := func(threshold float64) float64 {
		sum := 0.0
		for i := range slots {
			sum += prefix[&slots[i].steps[0]][count(&slots[i], threshold)]
		}
		return sum
	}
	low := 0.0
	if work(low) < need {
		return need // cannot be done; the heap finds that out
	}
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
		slots[i].taken = count(&slots[i], high)
	}
	return need - done
}
