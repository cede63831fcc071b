package relax

import (
	"math"
)

// This file has the best responses of elastic jobs: how far to scale in which slot.

// scale takes the steps of scale of least cost per work until so many slots of work at the least scale are done: one
// threshold on the density over all slots of the window, shared in time in the
// last. The search starts near the threshold of the last prices.
//
// Complexity: O(window log scales + steps near the threshold).
func (e *Pricer) scale(j int, jb *job, cl *class, tb *table, length float64) (float64, bool) {
	cost, ok := e.threshold(j, jb, cl, tb, length)
	if ok {
		e.partsOf(cl, tb, int(jb.arrival), int(jb.last))
	}
	return cost, ok
}

// workRounding is the share of the work that sums over slots may lack by rounding:
// where only a full window does the work, it must be enough.
const workRounding = 1e-12

// partRounding is the part of a slot below which a scale is not taken for the work that
// rounding leaves; far below what Check allows.
const partRounding = 1e-9

const (
	// stepLooks is how often a step in a bracket is looked at: to find it, to select among them, to take it.
	stepLooks = 4
	// near is the relative width of the first bracket around a threshold.
	near = 0.03
	// If the threshold is not there, the next bracket reaches down or up by these factors. From
	// steadyBrackets on, each reaches by the square of the factor before.
	firstFall, firstRise = 0.7, 1.5
	steadyBrackets       = 8
)

// threshold leaves the schedule it finds in e.lo (all steps of a density up to it are
// taken), e.taken (steps above, in no order, the last one in part) and e.share.
//
// Complexity: O(window x log scales + steps in the bracket) a bracket. One bracket shows that the
// window does not hold the work. A threshold that is x times the last one takes O(log |log x|)
// brackets, 20 at most.
func (e *Pricer) threshold(j int, jb *job, cl *class, tb *table, length float64) (float64, bool) {
	from, last := int(jb.arrival), int(jb.last)
	work := length * cl.curve[0]
	rounding := work * workRounding
	work -= rounding
	if e.theta[j] == 0 {
		e.theta[j] = e.guess(cl, tb, from, last, work)
	}
	lo, hi := e.theta[j]*(1-near), e.theta[j]*(1+near)
	var below, cost float64
	for fall, rise, n := firstFall, firstRise, 1; ; n++ {
		if n > steadyBrackets {
			fall, rise = fall*fall, rise*rise
		}
		var within, all float64
		below, cost, within, all = e.bracket(cl, tb, from, last, lo, hi)
		if below < work && below+within >= work {
			break
		}
		switch {
		case all < work || math.IsInf(hi, 1):
			return 0, false // the window does not hold the work
		case below >= work:
			hi, lo = lo, lo*fall
			if lo < 1e-300 {
				lo = -1
			}
		case hi < 1e-300:
			lo, hi = -1, math.Inf(1)
		default:
			if lo, hi = hi, hi*rise; hi > math.MaxFloat64/16 {
				hi = math.Inf(1)
			}
		}
	}
	n, left := selectWork(e.pool, work-below)
	e.lo, e.taken = lo, e.pool[:n]
	for _, x := range e.taken[:n-1] {
		cost += x.work * x.density
	}
	x := e.taken[n-1]
	e.share = math.Min(1, (left+rounding)/x.work)
	cost += e.share * x.work * x.density
	e.theta[j], e.hint = x.density, x.density
	return cost * jb.size, true
}

// guessSlots is how many slots of a long window a guess looks at.
const guessSlots = 96

// guess finds a threshold near the one that does the work, from the last one found by
// whole powers and then halves of a power, on a sample of the slots.
func (e *Pricer) guess(cl *class, tb *table, from, last int, work float64) float64 {
	stride := 1 + (last-from)/guessSlots
	done := func(d float64) float64 {
		e.Looked += int64((last - from) / stride)
		sum := 0.0
		for t := from; t < last; t += stride {
			h, scale := e.slotHull(cl, tb, t)
			if a := h.upTo(ratio(d, scale)); a > 0 {
				sum += h.work[a-1]
			}
		}
		return sum * float64(stride)
	}
	at := e.hint
	if at == 0 {
		for t := from; t < last; t++ {
			if h, scale := e.slotHull(cl, tb, t); len(h.density) > 0 {
				at = math.Max(at, scale*h.density[0])
			}
		}
	}
	if at == 0 {
		return 0
	}
	const most = 60 // powers of two
	lo, hi := at, at
	for i := 0; i < most && done(lo) >= work; i++ {
		hi, lo = lo, lo/2
	}
	for i := 0; i < most && done(hi) < work; i++ {
		lo, hi = hi, hi*2
	}
	for hi > lo*(1+near) {
		mid := math.Sqrt(lo * hi)
		if done(mid) < work {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// bracket returns the work and the cost of all steps of a density up to lo, the work of
// those above it up to hi, which it puts in the pool, and the work of all steps.
//
// Complexity: O(window x log scales + steps in the pool).
func (e *Pricer) bracket(cl *class, tb *table, from, last int, lo, hi float64) (below, cost, within, all float64) {
	e.brackets++
	e.pool = e.pool[:0]
	for t := from; t < last; t++ {
		h, scale := e.slotHull(cl, tb, t)
		if len(h.work) == 0 {
			continue
		}
		all += h.work[len(h.work)-1]
		a := h.upTo(ratio(lo, scale))
		done := 0.0
		if a > 0 {
			done = h.work[a-1]
			below += done
			cost += scale * h.cost[a-1]
		}
		for i := a; i < len(h.density); i++ {
			d := scale * h.density[i]
			if d > hi {
				break
			}
			w := h.work[i] - done
			done = h.work[i]
			within += w
			e.pool = append(e.pool, increment{d, w, int32(t), int32(i)})
		}
	}
	e.Looked += int64(last - from + stepLooks*len(e.pool))
	return below, cost, within, all
}

// before is the order in which steps are taken.
func (a *increment) before(b *increment) bool {
	if a.density != b.density {
		return a.density < b.density
	}
	if a.slot != b.slot {
		return a.slot < b.slot
	}
	return a.corner < b.corner
}

// selectWork reorders steps so that the first n of them, the last in part, do the
// work; left is what the last of them has to do. It needs at least one step.
//
// Complexity: O(steps) on average.
func selectWork(x []increment, work float64) (n int, left float64) {
	from, to := 0, len(x)
	for to-from > 1 {
		// The median of three as pivot, then a partition.
		mid := from + (to-from)/2
		a, b, c := &x[from], &x[mid], &x[to-1]
		p := b
		switch {
		case a.before(b) != a.before(c):
			p = a
		case c.before(a) != c.before(b):
			p = c
		}
		pivot := *p
		i, k, sum := from, to-1, 0.0
		for {
			for x[i].before(&pivot) {
				sum += x[i].work
				i++
			}
			for pivot.before(&x[k]) {
				k--
			}
			if i >= k {
				break
			}
			x[i], x[k] = x[k], x[i]
		}
		// x[i] is the pivot: no two steps are equal in order.
		switch {
		case sum >= work:
			to = i
		case sum+x[i].work >= work || i == to-1:
			return i + 1, work - sum
		default:
			work -= sum + x[i].work
			from = i + 1
		}
	}
	return from + 1, work
}

func ratio(a, b float64) float64 {
	if b == 0 {
		if a >= 0 {
			return math.Inf(1)
		}
		return -1
	}
	return a / b
}

func (e *Pricer) slotHull(cl *class, tb *table, t int) (*hull, float64) {
	if tb.hulls != nil {
		return &tb.hulls[t], 1
	}
	if tb.limit != nil && int(tb.limit[t]) < cl.scales {
		return cl.truncated(int(tb.limit[t])), tb.cost[t]
	}
	return &cl.hull, tb.cost[t]
}

// partsOf writes the parts of the schedule that threshold found, in order of slots, the
// larger of a shared slot first: it counts against capacity.
func (e *Pricer) partsOf(cl *class, tb *table, from, last int) {
	e.parts = e.parts[:0]
	e.corners = e.corners[:0]
	for t := from; t < last; t++ {
		h, scale := e.slotHull(cl, tb, t)
		e.corners = append(e.corners, int32(h.upTo(ratio(e.lo, scale))-1))
	}
	n := len(e.taken) - 1
	for _, x := range e.taken[:n] {
		at := &e.corners[int(x.slot)-from]
		*at = max(*at, x.corner)
	}
	shared, share := e.taken[n], e.share
	for t := from; t < last; t++ {
		h, _ := e.slotHull(cl, tb, t)
		corner := e.corners[t-from]
		if t != int(shared.slot) {
			if corner >= 0 {
				e.parts = append(e.parts, e.corner(h, tb, t, int(corner), 1))
			}
			continue
		}
		switch {
		case corner >= 0 && share < partRounding: // what rounding leaves is not worth a change of scale
			e.parts = append(e.parts, e.corner(h, tb, t, int(corner), 1))
		case corner >= 0 && share < 1-partRounding:
			e.parts = append(e.parts, e.corner(h, tb, t, int(shared.corner), share), e.corner(h, tb, t, int(corner), 1-share))
		default:
			e.parts = append(e.parts, e.corner(h, tb, t, int(shared.corner), share))
		}
	}
}

// demandOf adds the use of the schedule that threshold found.
func (e *Pricer) demandOf(jb *job, cl *class, tb *table) {
	workers := func(h *hull, corner int) float64 {
		if corner < 0 {
			return 0
		}
		return float64(cl.minimum+int(h.scale[corner])) / float64(cl.minimum)
	}
	for t := int(jb.arrival); t < int(jb.last); t++ {
		h, scale := e.slotHull(cl, tb, t)
		if a := h.upTo(ratio(e.lo, scale)); a > 0 {
			e.ask(cl, tb, t, a-1, jb.size*workers(h, a-1))
		}
	}
	for i, x := range e.taken {
		f := jb.size
		if i == len(e.taken)-1 {
			f *= e.share
		}
		h, _ := e.slotHull(cl, tb, int(x.slot))
		if tb.where != nil && x.corner > 0 { // the corner below may be on another cluster
			e.ask(cl, tb, int(x.slot), int(x.corner)-1, -f*workers(h, int(x.corner)-1))
			e.ask(cl, tb, int(x.slot), int(x.corner), f*workers(h, int(x.corner)))
			continue
		}
		e.ask(cl, tb, int(x.slot), int(x.corner), f*(workers(h, int(x.corner))-workers(h, int(x.corner)-1)))
	}
}

func (e *Pricer) ask(cl *class, tb *table, t, corner int, amount float64) {
	c := tb.at[t]
	if tb.where != nil {
		c = tb.where[t][corner]
	}
	for _, d := range cl.need {
		at := (int(c)*e.m.R+d.Resource())*(e.m.T+1) + t
		e.diff[at] += amount * d.Amount()
		e.diff[at+1] -= amount * d.Amount()
	}
}

func (e *Pricer) corner(h *hull, tb *table, t, corner int, f float64) Part {
	c := tb.at[t]
	if tb.where != nil {
		c = tb.where[t][corner]
	}
	return Part{int32(t), c, h.scale[corner], f}
}
