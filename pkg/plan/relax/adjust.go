package relax

import (
	"cmp"
	"math"
	"slices"

	"lull.dev/lull/pkg/workload"
)

// Adjust returns the schedule nearest to parts, in order of slots, that job j may have in
// the room: what lies outside its window, on other clusters or does not fit is left out,
// and work beyond or short of what the job needs is taken away where it costs most at
// the prices set, or added where it costs least. changed reports whether there was any
// such difference apart from work taken away; ok is false if no schedule comes of it.
// The parts returned are the caller's.
//
// Complexity: O(parts log parts); O(clusters x window) more if work has to be added.
func (e *Pricer) Adjust(j int, parts []Part, room *Room) (out []Part, changed, ok bool) {
	jb := &e.m.jobs[j]
	cl := &e.m.classes[jb.class]
	if len(parts) == 0 {
		return nil, false, false
	}
	set := cl.setOf(int(parts[0].Cluster))
	if set == nil {
		return nil, false, false
	}
	if cl.kind == workload.Rigid {
		return e.adjustRun(jb, cl, parts[0], room)
	}
	if jb.begun != nil && jb.begun.lost > 0 {
		if goesOn(jb, parts) {
			if out, ok = e.adjustBegun(jb, cl, parts, room); ok {
				return out, len(out) > len(parts), true
			}
		}
		changed = true // what a pause loses is another amount each time
	}
	out = make([]Part, 0, max(len(parts), cl.slots))
	for i, s := range parts {
		if i > 0 && parts[i-1].Slot == s.Slot && cl.kind == workload.Interruptible {
			continue
		}
		t := int(s.Slot)
		n := 0
		if t >= int(jb.arrival) && t < int(jb.last) && slices.Contains(set, int(s.Cluster)) {
			n = room.fits(cl, jb.size, int(s.Cluster), t)
		}
		if n == 0 {
			changed = changed || t >= int(jb.arrival)
			continue
		}
		if int(s.Scale) >= n {
			s.Scale, changed = int32(n-1), true
		}
		out = append(out, s)
	}
	if cl.kind == workload.Interruptible {
		out, ok = e.adjustSlots(jb, cl, set, out, room, &changed)
	} else {
		out, ok = e.adjustScales(jb, cl, set, out, room, &changed)
	}
	return out, changed, ok
}

// setOf is the set of clusters of which c is one, nil if there is none.
func (cl *class) setOf(c int) []int {
	for _, set := range cl.choices {
		if slices.Contains(set, c) {
			return set
		}
	}
	return nil
}

// adjustRun starts a run where it was to start, or as near to it as the window allows.
func (e *Pricer) adjustRun(jb *job, cl *class, first Part, room *Room) (out []Part, changed, ok bool) {
	m := e.m
	last := int(jb.last)
	if !m.cutOff() {
		last -= cl.slots - 1
	}
	start := min(max(int(first.Slot), int(jb.arrival)), last-1)
	if start < int(jb.arrival) || !room.runFits(cl, jb.size, int(first.Cluster), start) {
		return nil, true, false
	}
	end := min(m.T, start+cl.slots)
	out = make([]Part, 0, end-start)
	for t := start; t < end; t++ {
		out = append(out, Part{int32(t), first.Cluster, 0, 1})
	}
	return out, start != int(first.Slot), true
}

// adjustSlots leaves an interruptible job the slots that it needs, the dearest of them
// for the part that is needed.
func (e *Pricer) adjustSlots(jb *job, cl *class, set []int, parts []Part, room *Room, changed *bool) ([]Part, bool) {
	for i := range parts {
		parts[i].Scale, parts[i].Fraction = 0, 1
	}
	if len(parts) < cl.slots {
		*changed = true
		more := e.unused(jb, cl, set, parts, room)
		if len(parts)+len(more) < cl.slots {
			return nil, false
		}
		parts = append(parts, more[:cl.slots-len(parts)]...)
	}
	rest := cl.length - float64(cl.slots-1)
	if len(parts) > cl.slots || rest < 1 {
		byCost := func(a, b Part) int {
			return cmp.Or(cmp.Compare(e.costOf(cl, a), e.costOf(cl, b)), int(a.Slot-b.Slot))
		}
		slices.SortFunc(parts, byCost)
	}
	parts = parts[:cl.slots]
	if !e.m.timed() {
		parts[cl.slots-1].Fraction = math.Min(1, rest)
	}
	slices.SortFunc(parts, func(a, b Part) int { return int(a.Slot - b.Slot) })
	return parts, true
}

func (e *Pricer) costOf(cl *class, s Part) float64 {
	return e.m.slotCost(cl, e.price, int(s.Cluster), int(s.Slot), int(s.Scale))
}

// unused lists the slots of the window without a part in which MinWorkers fit, each on
// the cheapest cluster, the cheapest slot first.
func (e *Pricer) unused(jb *job, cl *class, set []int, parts []Part, room *Room) []Part {
	used := make([]bool, max(0, int(jb.last)-int(jb.arrival)))
	for _, s := range parts {
		used[s.Slot-jb.arrival] = true
	}
	var out []Part
	for t := int(jb.arrival); t < int(jb.last); t++ {
		best, at := math.Inf(1), -1
		if used[t-int(jb.arrival)] {
			continue
		}
		for _, c := range set {
			if v := e.m.slotCost(cl, e.price, c, t, 0); v < best && room.fits(cl, jb.size, c, t) > 0 {
				best, at = v, c
			}
		}
		if at >= 0 {
			out = append(out, Part{int32(t), int32(at), 0, 1})
		}
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(e.costOf(cl, a), e.costOf(cl, b)), int(a.Slot-b.Slot))
	})
	return out
}

// adjustScales leaves an elastic job the work that it needs.
func (e *Pricer) adjustScales(jb *job, cl *class, set []int, parts []Part, room *Room, changed *bool) ([]Part, bool) {
	work := workload.Throughputs(cl.curve) // by scale, through a slot
	need := cl.length * cl.curve[0]
	done := 0.0
	for _, s := range parts {
		done += s.Fraction * work[s.Scale]
	}
	switch {
	case done > need*(1+workRounding):
		parts = e.lessWork(cl, parts, work, done-need)
	case done < need*(1-workRounding):
		*changed = true
		for _, s := range e.unused(jb, cl, set, parts, room) {
			s.Fraction = math.Min(1, (need-done)/work[0])
			if s.Fraction < partRounding {
				break
			}
			parts = append(parts, s)
			done += s.Fraction * work[0]
		}
		if done < need*(1-workRounding)-partRounding*work[0] {
			return nil, false
		}
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Or(int(a.Slot-b.Slot), int(b.Scale-a.Scale)) })
	return parts, len(parts) > 0
}

// lessWork takes work away, from the part that costs most for its work first.
func (e *Pricer) lessWork(cl *class, parts []Part, work []float64, excess float64) []Part {
	density := func(s Part) float64 {
		if work[s.Scale] == 0 {
			return math.Inf(1)
		}
		return e.costOf(cl, s) / work[s.Scale]
	}
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(density(a), density(b)), int(a.Slot-b.Slot), int(a.Scale-b.Scale))
	})
	for len(parts) > 0 {
		s := &parts[len(parts)-1]
		if w := s.Fraction * work[s.Scale]; w > excess+partRounding*work[s.Scale] {
			s.Fraction -= excess / work[s.Scale]
			return parts
		} else {
			excess -= w
			parts = parts[:len(parts)-1]
		}
	}
	return parts
}
