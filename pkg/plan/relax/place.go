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
// Complexity: O(clusters x window) for rigid jobs, less where the tables rule slots out; as Best, times the number of clusters, for the others.
func (e *Pricer) PlaceIn(j int, room *Room) (cost float64, parts []Part, ok bool) {
	jb := &e.m.jobs[j]
	cl := &e.m.classes[jb.class]
	if cl.kind == workload.Rigid {
		return e.placeRun(jb, cl, room, int(jb.last), e.m.cutOff(), math.Inf(1))
	}
	if jb.begun != nil {
		return e.placeBegun(j, jb, cl, room)
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
			v, found = e.scale(j, jb, cl, tb, cl.length)
		}
		if found && v < best {
			best, ok = v, true
			e.best, e.parts = e.parts, e.best
		}
	}
	return best, e.best, ok
}

// PlaceBelow is PlaceIn that need not find a run of a rigid job that costs at least most.
func (e *Pricer) PlaceBelow(j int, room *Room, most float64) (cost float64, parts []Part, ok bool) {
	jb := &e.m.jobs[j]
	if cl := &e.m.classes[jb.class]; cl.kind == workload.Rigid {
		return e.placeRun(jb, cl, room, int(jb.last), e.m.cutOff(), most)
	}
	return e.PlaceIn(j, room)
}

// MayFitAt reports whether a run of rigid job j that takes any of the parts, costs less than most and lies
// in the window of the job may fit the room once the job has left its own place, which begins with own. If
// not, there is none.
//
// Complexity: O((parts + slots of the job) x slots of the job).
func (e *Pricer) MayFitAt(parts []Part, j int, own Part, room *Room, most float64) bool {
	jb := &e.m.jobs[j]
	cl := &e.m.classes[jb.class]
	if e.m.timed() || len(cl.choices) == 0 {
		return true
	}
	tb, last := &e.tables[cl.lane][0], int(jb.last)
	if !e.m.cutOff() {
		last -= cl.slots - 1
	}
	for i := range parts {
		c, to := int(parts[i].Cluster), int(parts[i].Slot)
		from := max(int(jb.arrival), to-cl.slots+1)
		if i > 0 && parts[i-1].Cluster == parts[i].Cluster {
			from = max(from, int(parts[i-1].Slot)+1)
		}
		for t := from; t < min(to+1, last); t++ {
			if jb.size*tb.cost[t] >= most || len(cl.choices) > 1 && jb.size*e.runCost(cl, c, t) >= most {
				continue
			}
			beside := c != int(own.Cluster) || t >= int(own.Slot)+cl.slots || t+cl.slots <= int(own.Slot)
			if !beside || room.runFits(cl, jb.size, c, t) {
				return true
			}
		}
	}
	return false
}

// PlaceRunBefore is PlaceIn for a rigid job that may use no slot from last on; with
// cutOff a run that would pass it ends there.
func (e *Pricer) PlaceRunBefore(j int, room *Room, last int, cutOff bool) (parts []Part, ok bool) {
	jb := &e.m.jobs[j]
	_, parts, ok = e.placeRun(jb, &e.m.classes[jb.class], room, last, cutOff, math.Inf(1))
	return parts, ok
}

// placeRun is PlaceIn for a rigid job at a cost below most. A slot in which a run does not fit rules out all starts up
// to it. The slots of a run that fits need not be looked at again for later starts.
func (e *Pricer) placeRun(jb *job, cl *class, room *Room, last int, cutOff bool, most float64) (float64, []Part, bool) {
	m := e.m
	best, at, on := most, -1, 0
	if m.cutOff() {
		best = min(0, most)
	}
	if len(cl.choices) == 0 {
		return 0, nil, false
	}
	tb := &e.tables[cl.lane][0]
	if !cutOff {
		last -= cl.slots - 1
	}
	e.blocked = append(e.blocked[:0], make([]int32, len(cl.choices))...)
	e.fitting = append(e.fitting[:0], e.blocked...)
	timed, start := m.timed(), 0.0
	for t := int(jb.arrival); t < last; t++ {
		e.Looked++
		if timed {
			start = m.startCost(jb, cl.slots, t)
		}
		if jb.size*tb.least[t]+start >= best { // the start costs no less later
			break
		}
		if jb.size*tb.cost[t]+start >= best {
			continue
		}
		for i, set := range cl.choices {
			if t < int(e.blocked[i]) {
				continue
			}
			v := jb.size*e.runCost(cl, set[0], t) + start
			if v >= best || at >= 0 && v >= best-plan.TieShare*math.Abs(best) {
				continue
			}
			from, to := max(t, int(e.fitting[i])), min(m.T, t+cl.slots)
			e.Looked += int64(to - from)
			if full := room.slots.Blocked(set[0], cl.need, jb.size, from, to); full >= 0 {
				e.blocked[i] = int32(full) + 1
				continue
			}
			e.fitting[i] = int32(to)
			best, at, on = v, t, set[0]
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
// in each the cheapest cluster where it fits. all is the table of that choice, nil if there is none.
func (e *Pricer) restricted(jb *job, cl *class, set []int, all *table, room *Room) *table {
	m := e.m
	tb := &e.scratch
	if tb.cost == nil {
		*tb = table{cost: make([]float64, m.T), at: make([]int32, m.T), limit: make([]int32, m.T)}
	}
	tb.hulls = nil
	e.Looked += int64(len(set) * max(0, int(jb.last-jb.arrival)))
	for t := int(jb.arrival); t < int(jb.last); t++ {
		tb.cost[t], tb.limit[t] = math.Inf(1), 0
		if len(set) == 1 && all != nil && all.hulls == nil {
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
	return m.AppendSegments(make([]plan.Segment, 0, len(parts)), j, parts)
}

// AppendSegments appends Segments to a slice.
func (m *Model) AppendSegments(to []plan.Segment, j int, parts []Part) []plan.Segment {
	jb := &m.jobs[j]
	for i, s := range parts {
		f := s.Fraction
		if f > 1-workload.Eps {
			f = 1
		}
		if rest := jb.rest; i == len(parts)-1 && rest > 0 {
			f = rest // Z counts whole slots; what runs is the part needed
		}
		to = append(to, plan.Segment{Slot: int(s.Slot), Cluster: int(s.Cluster), Workers: m.P.Jobs[j].MinWorkers + int(s.Scale), Fraction: f})
	}
	return to
}

// Size is the demand of job j: its request times its length, relative to the others
// of its class of resources.
func (m *Model) Size(j int) float64 {
	return m.jobs[j].size * m.classes[m.jobs[j].class].length
}

// Resources returns the names of the resources, in the order of the rows.
func (m *Model) Resources() []string { return m.resources }
