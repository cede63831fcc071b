package decide

import (
	"slices"

	"lull.dev/lull/pkg/capacity"
)

// queueMatters reports whether the queue of a cluster may start a task in room that Lull has planned
// otherwise: a task waits in it, if only until a pause that is due now, is left to it when it comes, or was so by the
// decision before.
func (w *decider) queueMatters() bool {
	waits := func(i int) bool { return w.items[i].queued || w.s.Tasks[i].Unscheduled }
	announced := func(i int) bool { return w.s.Tasks[i].Standing != nil }
	return slices.ContainsFunc(w.queue, waits) || slices.ContainsFunc(w.fresh, announced) ||
		w.s.anyTask((*Task).leftToQueue)
}

// safest is the decision that loses the fewest deadlines when the queues of the clusters do what they
// do: each candidate is run forward (foresee). The candidates are, in this order:
//
//  1. this decision;
//  2. one that makes no plan: see goOn.
//
// If this decision loses no deadline that the second one keeps, it is taken at once. If exact run times
// are known and nothing new comes, the second one does what was foreseen by the decision before: a
// deadline that was safe stays safe.
func (w *decider) safest() *decider {
	if w.s.soft() { // no deadline is lost: what the queues do is stated
		w.foreseeSettled()
		return w.asForeseen(nil)
	}
	asSubmitted, protected := w.s.goesOnBest()
	noPlan := func() *decider {
		g := w.s.goOn(asSubmitted)
		g.foreseen = g.foresee()
		return g
	}
	best, least := (*decider)(nil), lateness{}
	consider := func(c *decider) bool {
		c.foreseeSettled()
		n := c.foreseenLate(protected)
		if best == nil || n.less(least) {
			best, least = c, n
		}
		return n.lost == 0
	}
	if consider(w) {
		return best.asForeseen(protected)
	}
	if !consider(noPlan()) { // room that was left was taken: no plan yields
		best = noPlan()
	}
	return best.asForeseen(protected)
}

// goesOnBest chooses between the two decisions that make no plan: the one that follows the standing plans, and if
// tasks are late by it, the one in which all go on or are released as submitted, if fewer are late and no other. protected
// marks the tasks that are in time by it.
func (s *Snapshot) goesOnBest() (asSubmitted bool, protected []bool) {
	last := s.goOn(false)
	last.foreseen = last.foresee()
	protected = last.foreseenInTime()
	before := last.foreseenLate(protected).late
	if before == 0 || !slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Standing == nil }) {
		return false, protected
	}
	other := s.goOn(true)
	other.foreseen = other.foresee()
	if n := other.foreseenLate(protected); n.lost > 0 || n.late >= before {
		return false, protected
	}
	return true, other.foreseenInTime()
}

// foreseeSettled foresees what the tasks will do. If plans take room that others have by then, they are made to
// begin when there is room again. Since that leaves the room before to others, the tasks are then foreseen anew,
// a few times at most.
func (w *decider) foreseeSettled() {
	const rounds = 4
	w.foreseen = w.foresee()
	for n := 0; n < rounds && w.overcommits() && w.yieldToQueue(); n++ {
		w.foreseen = w.foresee()
	}
	for n := 0; n < rounds && w.overcommits(); n++ {
		w.planForeseen()
		w.foreseen = w.foresee()
	}
}

// placeForeseenLate gives tasks that will be late for what the queues start another place in time, if there is room beside
// all that is foreseen, and if then fewer tasks are late. It tries a few tasks at most.
func (w *decider) placeForeseenLate(protected []bool) {
	const most = 8
	var l *capacity.Ledger // of all that is foreseen
	tries, least := 0, w.foreseenLate(protected)
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		if x.left && x.state != unplaced && x.state != late || x.state == committed || x.state == kept || t.Deadline.IsZero() || !t.LatestStart.IsZero() || w.inTime(i, w.foreseen[i]) || tries == most {
			continue
		}
		if l == nil {
			l = w.empty.Clone()
			for k := range w.items {
				w.take(l, k, w.foreseen[k], 1)
			}
		}
		w.take(l, i, w.foreseen[i], -1)
		phases, found := w.soonestFit(l, i, t.Deadline)
		w.take(l, i, w.foreseen[i], 1)
		if !found {
			continue
		}
		tries++
		before, foreseen, queue := *x, w.foreseen, slices.Clone(w.queue)
		x.state, x.code, x.phases, x.queued, x.left = placed, "", phases, false, false
		w.queue = slices.DeleteFunc(w.queue, func(k int) bool { return k == i })
		w.foreseen = w.foresee()
		if n := w.foreseenLate(protected); n.less(least) {
			least, l = n, nil
			continue
		}
		*x, w.foreseen, w.queue = before, foreseen, queue
	}
}

// planForeseen replaces all plans by what is foreseen, which fits together. What is to begin now and does not keeps its
// plan: it is released now, and waits in the queue.
func (w *decider) planForeseen() {
	for i := range w.items {
		x, seen := &w.items[i], w.foreseen[i]
		if x.left || x.state == committed || len(x.phases) == 0 || len(seen) == 0 {
			continue
		}
		if !x.phases[0].From.After(w.s.Now) && seen[0].From.After(w.s.Now) {
			continue
		}
		w.restate(i, seen)
	}
}

// restate has the plan of a task be what is foreseen.
func (w *decider) restate(i int, seen []Phase) {
	x := &w.items[i]
	if x.state == unplaced || x.state == late {
		x.code = ""
	}
	x.phases, x.state = w.priced(slices.Clone(seen)), placed
	if !w.s.soft() && !w.inTime(i, seen) {
		x.state = unplaced
	}
}

// overcommits reports whether the plans take more than there is beside what runs and what is announced. A queue
// starts nothing without room.
func (w *decider) overcommits() bool {
	l := w.empty.Clone()
	for i := range w.items {
		x, phases := &w.items[i], w.items[i].phases
		if x.left {
			phases = w.foreseen[i]
			if waits := len(phases) > 0 && phases[0].From.After(x.arrival); waits && !x.arrival.After(w.s.Now) {
				continue
			}
		}
		w.take(l, i, phases, 1)
	}
	return len(l.Excesses(w.s.Now)) > 0
}

// yieldToQueue replaces the plans that begin or end later than planned by what is foreseen; false if there
// are none. What is to begin now is released now, and waits in the queue.
func (w *decider) yieldToQueue() (any bool) {
	for i := range w.items {
		x, seen := &w.items[i], w.foreseen[i]
		if x.left || x.state == committed || len(x.phases) == 0 || len(seen) == 0 {
			continue
		}
		first, begins := x.phases[0].From, seen[0].From
		ends := x.phases[len(x.phases)-1].To
		if begins.After(first) && !first.After(w.s.Now) || !begins.After(first) && !seen[len(seen)-1].To.After(ends.Add(rounding)) {
			continue
		}
		w.restate(i, seen)
		any = true
	}
	return any
}

// goOn is the decision that makes no plan: each task follows its standing plan; one that has none
// left runs on, or is released. If no task has a standing plan, or asSubmitted is set, all are released as submitted. A task
// whose plan is impossible is placed where there is room.
func (s *Snapshot) goOn(asSubmitted bool) *decider {
	w := newDecider(s)
	w.unchecked = true
	w.commitForced()
	first := asSubmitted || !slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Standing != nil })
	var submitted []int
	for i := range w.items {
		t, x := &s.Tasks[i], &w.items[i]
		if x.state != open {
			continue
		}
		switch {
		case !asSubmitted && w.followsStanding(i):
			x.state, x.phases = followed, t.Standing.from(w.items[i].arrival)
		case t.State == Running:
			x.state, x.phases, x.code = kept, []Phase{w.on(i)}, CodeClusterQueue
		case !asSubmitted && w.impossible(i):
			x.state = unplaced
			continue
		case first || t.Standing != nil || !x.latest.After(s.Now):
			submitted = append(submitted, i)
			continue
		default:
			x.state = unplaced
			continue
		}
		w.take(w.ledger, i, x.phases, 1)
	}
	if len(submitted) > 0 {
		all := append(slices.Clone(submitted), w.fresh...)
		for _, i := range w.fresh {
			w.take(w.ledger, i, w.items[i].phases, -1)
		}
		queued := w.asSubmitted(w.ledger, all)
		w.queueFresh(queued[len(submitted):])
		w.releaseAll(submitted, queued[:len(submitted)])
	}
	w.placeLate(w.ledger)
	return w
}

// followsStanding reports whether a task follows its standing plan in a decision that makes no plan. A task
// whose length is unknown does not wait for it after its delay is used up. What was recorded of a task that
// runs whatever is planned says where it was expected to run, which is not where a queue has started it.
func (w *decider) followsStanding(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	if t.Standing == nil || t.leftToQueue() || len(t.Standing.from(x.arrival)) == 0 || w.impossible(i) {
		return false
	}
	if t.State == Running {
		if t.Standing.Reason.Code.forced() {
			return false
		}
		phase, _, _ := t.Standing.At(w.s.Now)
		return phase != nil || !t.PauseLoses() // a pause that loses work is not gone through with
	}
	return t.LatestStart.IsZero() || w.s.Now.Before(x.latest) || !t.Standing.from(w.items[i].arrival)[0].From.After(w.s.Now)
}

// impossible reports whether the standing plan of a task cannot be followed any more: it takes more than
// there is, or ends too late for a deadline that it was in time for when it was made.
func (w *decider) impossible(i int) bool {
	t := &w.s.Tasks[i]
	if t.Standing == nil || t.leftToQueue() {
		return false
	}
	phases := t.Standing.from(w.items[i].arrival)
	late := len(phases) > 0 && !w.inTime(i, phases) && !t.Standing.Reason.Code.mayBeLate()
	return late || !w.fits(w.empty, i, phases)
}

// mayBeLate reports whether a plan of this reason may have been late when it was made.
func (c Code) mayBeLate() bool {
	return c == CodeDeadlineAtRisk || c == CodeLatestStart || c == CodeTooSoon
}

// foreseenInTime marks the tasks that will end by their deadlines.
func (w *decider) foreseenInTime() []bool {
	out := make([]bool, len(w.items))
	for i := range w.items {
		out[i] = w.s.Tasks[i].Deadline.IsZero() || len(w.foreseen[i]) > 0 && w.inTime(i, w.foreseen[i])
	}
	return out
}

// foreseenLate counts the tasks that will be late, and those of them that are protected.
func (w *decider) foreseenLate(protected []bool) (n lateness) {
	for i, inTime := range w.foreseenInTime() {
		if !inTime {
			n.late++
			if protected[i] {
				n.lost++
			}
		}
	}
	return n
}

// asForeseen states what the queues will do as the phases of the tasks that are left to them, and of those
// that follow a plan in whose room a queue has started others.
func (w *decider) asForeseen(protected []bool) *decider {
	if w.s.soft() {
		w.restateAll()
		return w
	}
	w.placeForeseenLate(protected)
	before, queue, least := slices.Clone(w.items), slices.Clone(w.queue), w.foreseenLate(protected)
	w.restateAll()
	same := func(i int) bool {
		return w.items[i].left && before[i].left || samePhases(w.items[i].phases, before[i].phases)
	}
	unchanged := true
	for i := range w.items {
		unchanged = unchanged && same(i)
	}
	if unchanged {
		return w
	}
	foreseen := w.foreseen
	w.foreseen = w.foresee()
	if least.less(w.foreseenLate(protected)) { // a plan that is said to begin later is released later, behind others
		for i := range w.items {
			if !before[i].left {
				w.items[i] = before[i]
			}
		}
		w.queue = queue
	}
	w.foreseen = foreseen
	return w
}

// restateAll states what is foreseen.
func (w *decider) restateAll() {
	for i := range w.items {
		t, x, seen := &w.s.Tasks[i], &w.items[i], w.foreseen[i]
		switch {
		case x.left:
			x.phases = w.priced(seen)
			if x.queued = x.queued || w.queues(i); x.state != committed && !w.fits(w.empty, i, seen) {
				x.phases = nil // the queue may start it, but the capacity falls while it runs
			} else if x.state != committed && !w.s.soft() && w.inTime(i, seen) {
				x.state, x.code = committed, CodeClusterQueue
			}
		case len(x.phases) == 0:
		case len(seen) == 0:
			if !w.s.soft() && x.state != committed && t.State != Running {
				x.state = unplaced
				w.leave(i, nil) // it never finds room
			}
		case w.unchecked && x.state == followed && t.State != Running && !x.phases[0].From.After(w.s.Now) && seen[0].From.After(w.s.Now):
			x.phases, x.queued = w.priced(seen), true
		case w.unchecked && x.state == followed && (t.State == Running || t.lags(x.phases, w.s.Now) || seen[len(seen)-1].To.After(x.phases[len(x.phases)-1].To.Add(rounding))):
			x.phases = w.priced(seen)
		case !w.s.soft() && !w.inTime(i, seen) && x.state != committed:
			w.restate(i, seen) // what the queue starts leaves it no room in time
		case x.state == unplaced || x.state == late:
			if !w.inTime(i, x.phases) { // and by what is foreseen it is
				w.restate(i, seen)
			}
		}
	}
}
