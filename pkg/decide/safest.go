package decide

import (
	"slices"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// queueMatters reports whether the queue of a cluster may start a task in room that Lull has planned
// otherwise: a task waits in it, if only for a part of its workers or until a pause that is due now, is left to it when
// it comes, or was so by the decision before.
func (w *decider) queueMatters() bool {
	waits := func(i int) bool { return w.items[i].queued || w.s.Tasks[i].Unscheduled }
	lacks := func(t *Task) bool { return t.Lacking > 0 }
	announced := func(i int) bool { return w.s.Tasks[i].Standing != nil }
	return slices.ContainsFunc(w.queue, waits) || slices.ContainsFunc(w.fresh, announced) ||
		w.s.anyTask((*Task).leftToQueue) || w.s.anyTask(lacks)
}

// lateWhereRoomChanges reports whether a task has no place in time while the capacity or the load of others changes. A cluster by
// itself would start it where there is room at the moment.
func (w *decider) lateWhereRoomChanges() bool {
	return !w.s.soft() && !w.limits.steady && slices.ContainsFunc(w.items, func(x item) bool { return x.state == unplaced })
}

// safest is the decision that loses the fewest deadlines when the queues of the clusters do what they
// do: this decision, or if that loses a deadline that the one keeps that makes no plan (goesOnBest), the better of
// both. Each is run forward (foresee). If exact run times are known and nothing new comes, the decision that makes
// no plan does what was foreseen by the decision before: a deadline that was safe stays safe.
func (w *decider) safest() *decider {
	w.foreseen = w.foresee()
	if w.s.soft() {
		w.judgeForeseen()
		return w // no deadline is lost
	}
	best := w
	noPlan, protected := w.s.goesOnBest()
	if n := w.foreseenLate(protected); n.lost > 0 && noPlan.foreseenLate(protected).less(n) {
		best = noPlan
	}
	best.placeForeseenLate(protected)
	best.putOffForeseen(protected)
	best.judgeForeseen()
	return best
}

// goesOnBest chooses between the two decisions that make no plan: the one that follows the standing plans, and if
// tasks are late by it, the one in which all go on or are released as submitted, if fewer are late and no other. protected
// marks the tasks that are in time by it.
func (s *Snapshot) goesOnBest() (best *decider, protected []bool) {
	best = s.goOn(false)
	best.foreseen = best.foresee()
	protected = best.foreseenInTime()
	before := best.foreseenLate(protected).late
	if before == 0 || !slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Standing == nil }) {
		return best, protected
	}
	other := s.goOn(true)
	other.foreseen = other.foresee()
	if n := other.foreseenLate(protected); n.lost > 0 || n.late >= before {
		return best, protected
	}
	return other, other.foreseenInTime()
}

// placeForeseenLate gives tasks that will be late another place in time, if then fewer tasks are late: one where there is room
// beside all that is foreseen, or the queue of a cluster, which starts what fits at the moment and lets it run on when the
// capacity falls. So it does with tasks that are to start where there is no room any more, if no more are late then. While fewer are late
// each time, tasks that found no place are tried again, three times at most: a task that moves leaves room. Each time it tries mostTried
// places at most.
func (w *decider) placeForeseenLate(protected []bool) {
	least := w.foreseenLate(protected)
	for range 3 {
		better := w.placeForeseenLateOnce(protected, least)
		if !better.less(least) {
			return
		}
		least = better
	}
}

// placeForeseenLateOnce is placeForeseenLate without trying again; least is how late tasks are, and what it returns how late they are then.
func (w *decider) placeForeseenLateOnce(protected []bool, least lateness) lateness {
	tries := w.mostTried()
	for i := range w.items {
		if !w.mayBePlaced(i) {
			continue
		}
		inTime, bounded := w.doneInTime(i, w.foreseen[i]), !w.s.Tasks[i].LatestStart.IsZero()
		if inTime && !w.followsTooMuch(i) || !inTime && bounded && len(w.foreseen[i]) > 0 {
			continue // it is in time and fits, or only its delay is bounded
		}
		for _, at := range []place{w.placeBeside, w.leaveAsSubmitted} {
			if n, ok := w.tryPlace(i, at, protected, least, inTime, &tries); ok {
				least = n
				break
			}
		}
	}
	return least
}

// putOffForeseen puts changes off that come too soon, beside all that is foreseen, if no more tasks are late then. What finds no room is
// tried again while another one was put off. It tries mostTried places at most.
func (w *decider) putOffForeseen(protected []bool) {
	least, tries := w.foreseenLate(protected), w.mostTried()
	for again := true; again; {
		again = false
		for i := range w.items {
			if w.mayBePlaced(i) && w.doneInTime(i, w.foreseen[i]) {
				n, ok := w.tryPlace(i, w.putOffBeside, protected, least, true, &tries)
				if ok {
					least, again = n, true
				}
			}
		}
	}
}

// place gives a task another place, beside all that is foreseen, which a ledger has; false if there is none.
type place func(l *capacity.Ledger, i int) bool

// tryPlace gives a task another place if fewer tasks are late then, or, where equal is enough, no more. It reports how late they are then;
// false if nothing has changed. tries is how many places may still be tried: for each, the queues of the clusters run forward.
func (w *decider) tryPlace(i int, at place, protected []bool, least lateness, equal bool, tries *int) (lateness, bool) {
	if *tries <= 0 {
		return least, false
	}
	before, foreseen, queue := w.items[i], w.foreseen, slices.Clone(w.queue)
	if !at(w.foreseenLedger(), i) {
		return least, false
	}
	*tries--
	w.foreseen, w.foreseenRoom = w.foresee(), nil
	if n := w.foreseenLate(protected); n.less(least) || equal && !least.less(n) {
		return n, true
	}
	w.items[i], w.foreseen, w.queue, w.foreseenRoom = before, foreseen, queue, nil
	return least, false
}

// followsTooMuch reports whether a task is to start, or to pause and go on, by a standing plan for which there is no room any more beside
// all that is foreseen. Where no plan is made, standing plans are followed as they are.
func (w *decider) followsTooMuch(i int) bool {
	if w.items[i].state != followed || !w.unchecked || w.s.Tasks[i].State == Running && w.runsOn(i, w.items[i].phases) {
		return false
	}
	l := w.foreseenLedger()
	w.take(l, i, w.foreseen[i], -1)
	fits := w.fits(l, i, w.foreseen[i])
	w.take(l, i, w.foreseen[i], 1)
	return !fits
}

// mostTried is how many other places are tried for late tasks. For each, the queues of the clusters run forward with all tasks.
func (w *decider) mostTried() int { return max(8, 10_000/len(w.items)) }

// placeBeside places a task in time beside all that is foreseen, which a ledger has; false if there is no room.
func (w *decider) placeBeside(l *capacity.Ledger, i int) bool {
	x := &w.items[i]
	w.take(l, i, w.foreseen[i], -1)
	phases, found := w.soonestFit(l, i, w.s.Tasks[i].Deadline)
	w.take(l, i, w.foreseen[i], 1)
	soonEnough := w.s.Tasks[i].LatestStart.IsZero() || found && (!phases[0].From.After(x.latest) || !phases[0].From.After(w.s.Now))
	if found = found && soonEnough; found {
		x.state, x.code, x.phases, x.queued, x.left = placed, "", phases, false, false
		w.queue = slices.DeleteFunc(w.queue, func(k int) bool { return k == i })
	}
	return found
}

// putOffBeside puts a change off that comes too soon, beside all that is foreseen, which a ledger has; false if there is no room, or no such
// change.
func (w *decider) putOffBeside(l *capacity.Ledger, i int) bool {
	x := &w.items[i]
	if len(x.phases) == 0 || x.queued || x.left || x.code == CodeLatestStart {
		return false
	}
	until, early := w.tooSoon(i)
	if !early {
		return false
	}
	phases := w.putOffTo(i, until)
	w.take(l, i, w.foreseen[i], -1)
	free := len(phases) > 0 && w.inTime(i, phases) && w.fits(l, i, phases)
	w.take(l, i, w.foreseen[i], 1)
	if free {
		x.phases, x.code = w.priced(phases), CodeTooSoon
	}
	return free
}

// foreseenLedger has all that is foreseen. Whoever changes it puts it back.
func (w *decider) foreseenLedger() *capacity.Ledger {
	if w.foreseenRoom == nil {
		w.foreseenRoom = w.empty.Clone()
		for i := range w.items {
			w.take(w.foreseenRoom, i, w.foreseen[i], 1)
		}
	}
	return w.foreseenRoom
}

// leaveAsSubmitted leaves a task that waits to the queue of a cluster, and lets one that runs go on; false if that is what it does.
func (w *decider) leaveAsSubmitted(_ *capacity.Ledger, i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	switch {
	case x.left, x.state == kept:
		return false
	case t.State == Running && !t.Unscheduled:
		x.state, x.code, x.phases = kept, CodeRunning, w.priced([]Phase{w.on(i)})
	default:
		x.state, x.code = committed, CodeClusterQueue
		w.leave(i, nil)
	}
	return true
}

// mayBePlaced reports whether a task may wait, or runs on as submitted, and may be given another place than its plan or a queue has for it.
func (w *decider) mayBePlaced(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	runs := t.runs() && t.Kind != workload.Rigid
	switch {
	case t.Deadline.IsZero(), x.state == committed && (!runs || x.code != CodeClusterQueue):
		return false
	case x.state == unplaced:
		return true
	}
	return runs || x.state != kept && !x.left
}

// goOn is the decision that makes no plan: each task follows its standing plan; one that has none
// left runs on, or is released. If no task has a standing plan, or asSubmitted is set, all are released as submitted. A task
// whose plan is impossible is placed where there is room.
func (s *Snapshot) goOn(asSubmitted bool) *decider {
	w := newDecider(s)
	w.unchecked = true
	w.commit()
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
			x.state, x.phases, x.code = kept, []Phase{w.onAfterPlan(i)}, CodeClusterQueue
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
	w.placeLate()
	return w
}

// onAfterPlan is the phase of a running task without a plan ahead: it goes on as it is. One that started late, so that its plan has ended,
// asks for the workers that its plan had last (intends), unless they restart it.
func (w *decider) onAfterPlan(i int) Phase {
	t := &w.s.Tasks[i]
	if t.Scaling == nil || t.restartsToScale() || t.Standing == nil || len(t.Standing.from(w.s.Now)) > 0 {
		return w.on(i)
	}
	phases := t.Standing.Phases
	return w.phase(i, w.place(t.Cluster), w.s.Now, w.ahead(i), max(phases[len(phases)-1].Workers, t.least()))
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
		// A pause that loses more work than planned is not gone through with.
		return phase != nil || !t.PauseLoses() || !t.lags(t.Standing.from(x.arrival), w.s.Now)
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
		out[i] = w.s.Tasks[i].Deadline.IsZero() || w.doneInTime(i, w.foreseen[i])
	}
	return out
}

// doneInTime reports whether the work of a task is done by its deadline by what is foreseen.
func (w *decider) doneInTime(i int, seen []Phase) bool {
	return w.inTime(i, seen) && !w.s.Tasks[i].lags(seen, w.s.Now)
}

// foreseenLate counts the tasks that will be late, those of them that are protected, and those that never find room.
func (w *decider) foreseenLate(protected []bool) (n lateness) {
	for i, inTime := range w.foreseenInTime() {
		if !inTime {
			n.late++
			if protected[i] {
				n.lost++
			}
			if len(w.foreseen[i]) == 0 {
				n.never++
			}
		}
	}
	return n
}

// judgeForeseen says by what is foreseen which tasks are late. What is left to a queue has no other plan.
func (w *decider) judgeForeseen() {
	for i := range w.items {
		t, x, seen := &w.s.Tasks[i], &w.items[i], w.foreseen[i]
		hard := !w.s.soft() && x.state != committed
		switch inTime := w.doneInTime(i, seen); {
		case x.left:
			x.phases = w.priced(seen)
			if x.queued = x.queued || w.queues(i); x.state != committed && !inTime && !w.fits(w.empty, i, seen) {
				x.phases, w.foreseen[i], w.foreseenRoom = nil, nil, nil // the queue may start it, but the capacity falls while it runs
			} else if hard && inTime {
				x.state, x.code = committed, CodeClusterQueue
			}
		case !hard || len(x.phases) == 0:
		case len(seen) == 0 && t.State != Running:
			x.state = unplaced
			w.leave(i, nil) // it never finds room
		case inTime && x.state == unplaced:
			x.state, x.code = placed, ""
		case !inTime && (len(x.phases) > 1 || !w.goesOnAsSubmitted(i)): // else judgeGoingOn says so
			x.state, x.code = unplaced, CodeLatestStart
		}
	}
	w.judgeGoingOn()
}

// goesOnAsSubmitted reports whether a task runs on as if nothing was planned, while nothing waits in a queue for which it would. Where no
// plan is made, a standing plan may say so too.
func (w *decider) goesOnAsSubmitted(i int) bool {
	x := &w.items[i]
	return x.state == kept && (x.code == CodeRunning || x.code == CodeClusterQueue && len(w.queue) == 0) ||
		x.state == followed && w.unchecked && x.code != CodeTooSoon && w.runsOn(i, x.phases)
}

// judgeGoingOn says why tasks run on as if nothing was planned: because there will be less room than they take, or else for the reasons of
// any plan.
func (w *decider) judgeGoingOn() {
	var l *capacity.Ledger
	for i := range w.items {
		if !w.goesOnAsSubmitted(i) {
			continue
		}
		if l == nil {
			l = w.foreseenLedger()
		}
		x := &w.items[i]
		w.take(l, i, w.foreseen[i], -1)
		switch {
		case !w.fits(l, i, w.foreseen[i]):
			x.state, x.code = kept, CodeRunning
		case w.s.soft() || w.doneInTime(i, w.foreseen[i]):
			x.code = ""
		default:
			x.state, x.code = unplaced, CodeLatestStart
		}
		w.take(l, i, w.foreseen[i], 1)
	}
}
