package relax

import "lull.dev/lull/pkg/plan"

// hull is the lower convex hull of cost over work of one slot: corner i, reached
// from the one before (or from nothing) by work of density cost per work, which
// rises from corner to corner.
type hull struct {
	scale   []int32   // index into the job's scales
	density []float64 // of the step to corner i
	work    []float64 // cumulative
	cost    []float64 // cumulative
}

// hullOf returns the hull of steps from nothing; Watts are their cost. It reuses
// the memory of into.
func hullOf(into *hull, steps []plan.Step) hull {
	var h hull
	if into != nil {
		h = hull{into.scale[:0], into.density[:0], into.work[:0], into.cost[:0]}
	}
	first := steps[0].To
	work, cost := 0.0, 0.0
	for _, s := range plan.Hull(steps) {
		if s.Work <= 0 {
			continue
		}
		work += s.Work
		cost += s.Watts
		h.scale = append(h.scale, int32(s.To-first))
		h.density = append(h.density, s.Watts/s.Work)
		h.work = append(h.work, work)
		h.cost = append(h.cost, cost)
	}
	return h
}

// upTo returns how many corners have a density of at most d.
func (h *hull) upTo(d float64) int {
	lo, hi := 0, len(h.density)
	for lo < hi {
		mid := (lo + hi) / 2
		if h.density[mid] <= d {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
