package relax

import (
	"math"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// PlaceIn returns the cheapest schedule of job j at the prices set that fits the
// room, as it would be run: whole slots of capacity, at most two scales in a slot,
// the larger first. The parts are valid until the next call. ok is false where none
// fits or leaving the job out is cheaper (soft deadlines only).
//
// Complexity: O(clusters x window x length) for rigid jobs, less where the tables
// rule slots out; as Best, times the number of clusters, for the others.
func (e *Pricer) PlaceIn(j int, room *Room) (cost float64, parts []Part, ok bool) {
	jb := &e.m.jobs[j]
	cl := &e.m.classes[jb.class]
	if cl.kind == workload.Rigid {
		return e.placeRun(jb, cl, room, int(jb.last), e.m.cutOff())
	}
	best := math.Inf(1)
	if e.m.cutOff() {
		best = 0
	}
	e.best = e.best[:0]
	for i, set := range cl.choices {
		tb := e.restricted(jb, cl, set, &e.tables[cl.lane][i], room)
		var v float64
		var found bool
		if cl.kind == workload.Interruptible {
			v, found = e.pick(jb, cl, tb)
		} else {
			v, found = e.scale(j, jb, cl, tb)
		}
		if found && v < best {
			best, ok = v, true
			e.best, e.parts = e.parts, e.best
		}
	}
	return best, e.best, ok
}

// PlaceRunBefore is PlaceIn for a rigid job that may use no slot from last on; with
// cutOff a run that would pass it ends there.
func (e *Pricer) PlaceRunBefore(j int, room *Room, last int, cutOff bool) (parts []Part, ok bool) {
	jb := &e.m.jobs[j]
	_, parts, ok = e.placeRun(jb, &e.m.classes[jb.class], room, last, cutOff)
	return parts, ok
}

func (e *Pricer) placeRun(jb *job, cl *class, room *Room, last int, cutOff bool) (float64, []Part, bool) {
	m := e.m
	best, at, on := math.Inf(1), -1, 0
	if m.cutOff() {
		best = 0
	}
	if len(cl.choices) == 0 {
		return 0, nil, false
	}
	tb := &e.tables[cl.lane][0]
	if !cutOff {
		last -= cl.slots - 1
	}
	for t := int(jb.arrival); t < last; t++ {
		start := m.startCost(jb, cl.slots, t)
		if jb.size*tb.least[t]+start >= best { // the start costs no less later
			break
		}
		if jb.size*tb.cost[t]+start >= best {
			continue
		}
		for _, set := range cl.choices {
			v := jb.size*e.runCost(cl, set[0], t) + start
			if v < best && (at < 0 || v < best-plan.TieShare*math.Abs(best)) && room.runFits(cl, jb.size, set[0], t) {
				best, at, on = v, t, set[0]
			}
		}
	}
	if at < 0 {
		return 0, nil, false
	}
	e.best = e.best[:0]
	for s := at; s < min(m.T, at+cl.slots); s++ {
		e.best = append(e.best, Part{int32(s), int32(on), 0, 1})
	}
	return best, e.best, true
}

// restricted tabulates the slots of a job with one choice of clusters in the room:
// in each the cheapest cluster where it fits.
func (e *Pricer) restricted(jb *job, cl *class, set []int, all *table, room *Room) *table {
	m := e.m
	tb := &e.scratch
	if tb.cost == nil {
		*tb = table{cost: make([]float64, m.T), at: make([]int32, m.T), limit: make([]int32, m.T)}
	}
	tb.hulls = nil
	for t := int(jb.arrival); t < int(jb.last); t++ {
		tb.cost[t], tb.limit[t] = math.Inf(1), 0
		if len(set) == 1 && all.hulls == nil {
			if n := room.fits(cl, jb.size, set[0], t); n > 0 {
				tb.cost[t], tb.at[t], tb.limit[t] = all.cost[t], int32(set[0]), int32(n)
			} else if cl.kind == workload.Elastic {
				tb.cost[t] = 0
			}
			continue
		}
		for _, c := range set {
			v := m.slotCost(cl, e.price, c, t, 0)
			if v > tb.cost[t] || (v == tb.cost[t] && !e.cheaperAbove(cl, c, int(tb.at[t]), t)) {
				continue
			}
			if n := room.fits(cl, jb.size, c, t); n > 0 {
				tb.cost[t], tb.at[t], tb.limit[t] = v, int32(c), int32(n)
			}
		}
		if tb.limit[t] == 0 && cl.kind == workload.Elastic {
			tb.cost[t] = 0
		}
	}
	if cl.kind == workload.Elastic && cl.watts != nil {
		tb.hulls, tb.where = e.truncatedHulls(jb, cl, tb), nil
	}
	return tb
}

// cheaperAbove reports whether the largest scale costs less on cluster c than on
// another: it decides where the least scale costs the same on both, as it does if it
// takes no power.
func (e *Pricer) cheaperAbove(cl *class, c, other, t int) bool {
	top := cl.scales - 1
	return top > 0 && e.m.slotCost(cl, e.price, c, t, top) < e.m.slotCost(cl, e.price, other, t, top)
}

// truncatedHulls are the hulls of the scales that fit, slot by slot.
func (e *Pricer) truncatedHulls(jb *job, cl *class, tb *table) []hull {
	if e.cutHulls == nil {
		e.cutHulls = make([]hull, e.m.T)
	}
	for t := int(jb.arrival); t < int(jb.last); t++ {
		e.steps = e.steps[:0]
		from, before := 0, 0.0
		for i, work := range cl.curve[:tb.limit[t]] {
			cost := e.m.slotCost(cl, e.price, int(tb.at[t]), t, i)
			to := cl.minimum + i
			e.steps = append(e.steps, plan.Step{From: from, To: to, Work: work, Watts: cost - before})
			from, before = to, cost
		}
		if len(e.steps) == 0 {
			e.cutHulls[t] = hull{}
			continue
		}
		e.cutHulls[t] = hullOf(&e.cutHulls[t], e.steps)
	}
	return e.cutHulls
}

// Segments turns a schedule of job j into segments of a plan.
func (m *Model) Segments(j int, parts []Part) []plan.Segment {
	jb := &m.jobs[j]
	out := make([]plan.Segment, len(parts))
	for i, s := range parts {
		f := s.Fraction
		if f > 1-workload.Eps {
			f = 1
		}
		if rest := jb.rest; i == len(parts)-1 && rest > 0 {
			f = rest // Z counts whole slots; what runs is the part needed
		}
		out[i] = plan.Segment{Slot: int(s.Slot), Cluster: int(s.Cluster), Workers: m.P.Jobs[j].MinWorkers + int(s.Scale), Fraction: f}
	}
	return out
}

// Size is the demand of job j: its request times its length, relative to the others
// of its class of resources.
func (m *Model) Size(j int) float64 {
	return m.jobs[j].size * m.classes[m.jobs[j].class].length
}

// Resources returns the names of the resources, in the order of the rows.
func (m *Model) Resources() []string { return m.resources }
