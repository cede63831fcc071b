package relax

import (
	"math"
	"slices"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// This file has the schedules of jobs that have run before (workload.Begun): what they cost to
// begin, and the run that goes on without a pause.

// begun is the state of a job when its first slot begins.
type begun struct {
	home int // cluster where it runs or was paused
	runs bool
	may  bool // it may go on at home
	// length is that of the run that goes on, in slots at the least scale; lost is what a pause loses.
	length, lost float64
}

// begunOf is the state of job j, nil if it has not run.
func (m *Model) begunOf(j int) *begun {
	job := &m.P.Jobs[j]
	if job.Begun == nil || job.Kind == workload.Rigid {
		return nil
	}
	home := slices.IndexFunc(m.P.Clusters, func(c plan.Cluster) bool { return c.Name == job.Begun.Cluster })
	return &begun{home: home, runs: !job.Begun.Paused, may: job.Allows(job.Begun.Cluster), length: job.Length - job.Begun.Lost, lost: job.Begun.Lost}
}

// restartCost is what it costs a job of class cl and size 1 to go on in slot t on cluster b, after it
// was at cluster a.
func (m *Model) restartCost(cl *class, a, b, t int) float64 {
	cost := cl.restart * m.perKWh(b, t)
	if a != b {
		cost += m.leaveCost(cl, a, t) + m.leaveCost(cl, b, t)
	}
	return cost
}

// leaveCost is the half of a move in slot t that is counted at the intensity of cluster c.
func (m *Model) leaveCost(cl *class, c, t int) float64 {
	return m.terms.Carbon * cl.move * m.P.Clusters[c].Intensity[t] / 2
}

// beginCost is what it costs to begin in slot t on cluster c, for a size of 1.
func (m *Model) beginCost(jb *job, cl *class, c, t int) float64 {
	b := jb.begun
	if b == nil || b.runs && t == int(jb.arrival) && c == b.home {
		return 0
	}
	return m.restartCost(cl, b.home, c, t)
}

// relaxedLength is the least length that any schedule of the job may have.
func (jb *job) relaxedLength(cl *class) float64 {
	if jb.begun != nil {
		return jb.begun.length
	}
	return cl.length
}

const (
	// mostStates is the number of states up to which the slots of a job that has begun are
	// found exactly when it is placed, mostBoundStates when its best response is priced. Beyond, the
	// places are those at home, found exactly if they are few enough, and the cheapest slots anywhere.
	mostStates      = 1 << 12
	mostBoundStates = 1 << 11
)

// bestBegun is Best for a job that has begun. It knows restarts and moves of an interruptible job
// in a small window; otherwise it leaves those out, so that the cost is still a bound.
func (e *Pricer) bestBegun(j int, jb *job, cl *class) (cost float64, parts []Part) {
	best := cl.shed * jb.size
	e.best = e.best[:0]
	for i, set := range cl.choices {
		tb := &e.tables[cl.lane][i]
		var v float64
		var ok bool
		switch {
		case cl.kind == workload.Elastic:
			v, ok = e.scale(j, jb, cl, tb, jb.relaxedLength(cl))
		case e.pickable(jb, cl, set, mostBoundStates):
			v, ok = e.pickExact(jb, cl, set, nil)
		default:
			v, ok = e.pick(jb, cl, tb)
		}
		if ok && v < best {
			best = v
			e.best, e.parts = e.parts, e.best
		}
	}
	if cl.kind == workload.Interruptible {
		if v, ok := e.goOn(jb, cl, nil); ok && v < best {
			best = v
			e.best, e.parts = e.parts, e.best
		}
	}
	return best, e.best
}

// placeBegun is PlaceIn for a job that has begun: the cheapest of the schedules found, with their
// restarts and moves.
func (e *Pricer) placeBegun(j int, jb *job, cl *class, room *Room) (cost float64, parts []Part, ok bool) {
	best := math.Inf(1)
	e.best = e.best[:0]
	consider := func() {
		if v := e.m.costAt(e.price, j, e.parts); v < best {
			best, ok = v, true
			e.best, e.parts = e.parts, e.best
		}
	}
	if cl.kind == workload.Interruptible {
		if _, found := e.goOn(jb, cl, room); found {
			consider()
		}
	} else {
		e.goOnScaled(j, jb, cl, room, consider)
	}
	for i, set := range cl.choices {
		if cl.kind == workload.Interruptible && e.pickable(jb, cl, set, mostStates) {
			if _, found := e.pickExact(jb, cl, set, room); found {
				consider()
			}
			continue
		}
		home := [1]int{jb.begun.home}
		if len(set) > 1 && cl.kind == workload.Interruptible && jb.begun.may && e.pickable(jb, cl, home[:], mostStates) {
			if _, found := e.pickExact(jb, cl, home[:], room); found {
				consider()
			}
		}
		tb := e.restricted(jb, cl, set, &e.tables[cl.lane][i], room)
		var found bool
		if cl.kind == workload.Interruptible {
			_, found = e.pick(jb, cl, tb)
		} else {
			_, found = e.scale(j, jb, cl, tb, cl.length)
		}
		if found {
			consider()
		}
	}
	return best, e.best, ok
}

// pickable reports whether restarts or moves of an interruptible job cost, and its slots can be
// found exactly within so many states.
func (e *Pricer) pickable(jb *job, cl *class, set []int, most int) bool {
	window := max(0, int(jb.last-jb.arrival))
	return cl.restart+cl.move > 0 && window*cl.slots*len(set) <= most
}

// pickExact takes the cheapest slots for an interruptible job on a set of clusters with its
// restarts and moves, in the room where one is given.
func (e *Pricer) pickExact(jb *job, cl *class, set []int, room *Room) (float64, bool) {
	m, r := e.m, &e.runsOf
	r.N, r.Part, r.From, r.Last, r.Clusters = cl.slots, math.Min(1, cl.length-float64(cl.slots-1)), int(jb.arrival), int(jb.last), len(set)
	r.Slot = func(k, t int) float64 {
		if room != nil && room.fits(cl, jb.size, set[k], t) == 0 {
			return math.Inf(1)
		}
		return m.slotCost(cl, e.price, set[k], t, 0)
	}
	r.Start = func(k, t int) float64 { return m.beginCost(jb, cl, set[k], t) }
	r.Resume = func(k, t int) float64 { return m.restartCost(cl, set[k], set[k], t) }
	r.Leave = func(k, t int) float64 { return m.leaveCost(cl, set[k], t) }
	r.Arrive = r.Leave
	e.Looked += int64(r.Size())
	picked, cost, ok := r.Cheapest()
	e.parts = e.parts[:0]
	for _, x := range picked {
		f := 1.0
		if x.Part {
			f = r.Part
		}
		e.parts = append(e.parts, Part{int32(x.Slot), int32(set[x.Cluster]), 0, f})
	}
	return cost * jb.size, ok
}

// goOn is the run in which an interruptible job goes on where it runs until it is done, in the
// room where one is given.
func (e *Pricer) goOn(jb *job, cl *class, room *Room) (cost float64, ok bool) {
	e.parts = e.parts[:0]
	b := jb.begun
	if b == nil || !b.runs || !b.may {
		return 0, false
	}
	n := max(1, int(math.Ceil(b.length-workload.Eps)))
	if int(jb.arrival)+n > int(jb.last) {
		return 0, false
	}
	for i := range n {
		t := int(jb.arrival) + i
		if room != nil && room.fits(cl, jb.size, b.home, t) == 0 {
			return 0, false
		}
		f := math.Min(1, b.length-float64(i))
		cost += f * e.m.slotCost(cl, e.price, b.home, t, 0)
		e.parts = append(e.parts, Part{int32(t), int32(b.home), 0, f})
	}
	return cost * jb.size, true
}

// RunOn is where job j goes on as it is, and for how many slots at the least scale; no slots if
// it does not run, or may not go on.
func (m *Model) RunOn(j int) (cluster, slots int) {
	b := m.jobs[j].begun
	if b == nil || !b.runs || !b.may {
		return 0, 0
	}
	return b.home, max(1, int(math.Ceil(b.length-workload.Eps)))
}

// mostScales is how many scales are tried for a run that goes on.
const mostScales = 32

// goOnScaled considers, for an elastic job, runs that go on where it runs until it is done: at each
// of up to mostScales scales, or the largest that fits, and at the scales of least cost if these are
// one run.
func (e *Pricer) goOnScaled(j int, jb *job, cl *class, room *Room, consider func()) {
	b := jb.begun
	if !b.runs || !b.may {
		return
	}
	work := workload.Throughputs(cl.curve)
	step := 1 + (cl.scales-1)/mostScales
	for most := cl.scales - 1; most >= 0; most -= step {
		if e.runAt(jb, cl, room, work, most) {
			consider()
		}
	}
	home := [1]int{b.home}
	for i, set := range cl.choices {
		if !slices.Contains(set, b.home) {
			continue
		}
		var all *table
		if len(set) == 1 {
			all = &e.tables[cl.lane][i]
		}
		tb := e.restricted(jb, cl, home[:], all, room)
		if _, found := e.scale(j, jb, cl, tb, b.length); found && goesOn(jb, e.parts) {
			consider()
		}
	}
}

// runAt makes the run that goes on at a scale, or the largest below it that fits.
func (e *Pricer) runAt(jb *job, cl *class, room *Room, work []float64, most int) bool {
	e.parts = e.parts[:0]
	left := jb.begun.length * cl.curve[0]
	for t := int(jb.arrival); t < int(jb.last) && left > partRounding*work[0]; t++ {
		n := room.fits(cl, jb.size, jb.begun.home, t)
		if n == 0 {
			return false
		}
		scale := min(most, n-1)
		f := math.Min(1, left/work[scale])
		left -= f * work[scale]
		e.parts = append(e.parts, Part{int32(t), int32(jb.begun.home), int32(scale), f})
	}
	return left <= partRounding*work[0] && len(e.parts) > 0
}

// goesOn reports whether parts are one run that goes on where the job runs (plan.Problem.GoesOn).
func goesOn(jb *job, parts []Part) bool {
	b := jb.begun
	if b == nil || !b.runs || len(parts) == 0 {
		return false
	}
	slot, used := jb.arrival, 1.0
	for i, s := range parts {
		switch {
		case int(s.Cluster) != b.home:
			return false
		case i > 0 && s.Slot == parts[i-1].Slot:
			used += s.Fraction
			continue
		case s.Slot != slot || used < 1-partRounding:
			return false
		}
		used = s.Fraction
		slot++
	}
	return true
}

// adjustBegun is Adjust for a job that goes on by the parts and whose pause would lose work: it
// goes on at the scale of its first part.
func (e *Pricer) adjustBegun(jb *job, cl *class, parts []Part, room *Room) (out []Part, ok bool) {
	if cl.kind == workload.Interruptible {
		_, ok = e.goOn(jb, cl, room)
	} else {
		ok = jb.begun.may && e.runAt(jb, cl, room, workload.Throughputs(cl.curve), int(parts[0].Scale))
	}
	return slices.Clone(e.parts), ok
}
