package decide

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/queue"
)

// verifyReason checks that a reason is true of a task and its plan.
func (v *verifier) verifyReason(i int) {
	t, a, x := &v.s.Tasks[i], &v.d.Actions[i], &v.items[i]
	must, forced := v.mustRun(i)
	forced = forced && must != CodeLatestStart
	now, holds, soon := v.now(a), false, v.s.Now
	if t.Scaling != nil && !t.LatestStart.IsZero() {
		soon = soon.Add(v.s.Slot) // its delay is used up within the slot: see overdue
	}
	switch code := a.Reason.Code; {
	case code == CodePaused || code == CodePlannerFailed:
		holds = v.everyone && len(a.Phases) == 0
	case code == CodeUnscheduled:
		holds = t.Unscheduled
	case code == CodeClusterQueue:
		holds = !forced && (a.Verb.runs() && v.mayBeReleased(i) && (v.leaves || v.overcommits(i)) || !a.Verb.runs() && !v.mayBeReleased(i))
	case code == CodeRunning && !forced:
		holds = now && t.State == Running && !t.Unscheduled && (must == CodeLatestStart || v.overfull(v.s.Place(t.Cluster).Name) || v.overcommits(i))
	case code.forced() || forced:
		holds = code == must && forced
	case code == CodeCleanNow:
		holds = now
	case code == CodeSavingTooSmall:
		holds = now && (v.s.MinSaving > 0 || v.s.SavingConfidence > 0)
	case code == CodePauseDoesNotPay || code == CodeMoveDoesNotPay:
		holds = now && t.State == Running
	case code == CodeCleanerLater || code == CodeSharedCapacity:
		holds = len(a.Phases) > 0 && !now
	case code == CodeTooSoon:
		holds = v.stays(i).After(v.s.Now) || t.savedIn > 0 || t.State == Waiting && t.Paused && (t.Changing || x.earliest.After(v.s.Now))
	case code == CodeLatestStart:
		holds = (a.Verb.runs() || !v.arrived(i)) && !x.latest.After(soon)
	case code == CodeDeadlineAtRisk:
		holds = v.late(i)
	}
	held := !a.Verb.runs() && !now && len(a.Phases) > 0 && !a.Reason.Code.forced() && a.Reason.Code != CodeLatestStart
	switch {
	case !holds:
		v.report(RuleReason, i, "%q of %s, with a plan of %d phases; it must run: %q", a.Reason.Code, a.Verb, len(a.Phases), must)
	case held && !a.Reason.PlannedStart.Equal(a.Keeps()[0].From):
		v.report(RuleReason, i, "is said to start at %s, and its plan begins at %s", stamp(a.Reason.PlannedStart), stamp(a.Keeps()[0].From))
	case a.Planned && len(a.Phases) == 0, !a.Planned && len(a.Phases) > 0 && !v.queued(i) && t.Standing == nil && !a.Reason.Code.forced():
		v.report(RuleReason, i, "planned: %v, with %d phases", a.Planned, len(a.Phases))
	case a.Renewed && (!a.Planned || !t.Renewable || t.Standing == nil):
		v.report(RuleReason, i, "renewed, with no plan to renew")
	}
}

// overcommits reports whether there is no room for what a task is expected to do beside the others: the queue of a cluster starts what
// fits at the moment, and lets it run on when the capacity falls.
func (v *verifier) overcommits(i int) bool {
	phases := v.d.Actions[i].Phases
	if v.stated == nil {
		v.stated = v.empty.Clone() // what tasks need is stated for this ledger: v.items
		for k := range v.items {
			v.take(v.stated, k, v.d.Actions[k].Phases, 1)
		}
	}
	v.take(v.stated, i, phases, -1)
	fits := v.fits(v.stated, i, phases)
	v.take(v.stated, i, phases, 1)
	return !fits
}

// late reports whether a task is not done when it should be. Beside queues it may never be.
func (v *verifier) late(i int) bool {
	a := &v.d.Actions[i]
	return v.lateBy(i, a.Phases) || a.Plan != nil && !v.s.soft() && v.s.Tasks[i].lags(a.Phases, v.s.Now)
}

// mayBeLate reports whether a task is late although Lull could have had it run otherwise.
func (v *verifier) mayBeLate(i int) bool {
	return !v.d.Actions[i].Reason.Code.forced() && v.s.Tasks[i].LatestStart.IsZero() && !v.s.soft() && v.late(i)
}

// anyLeft reports whether the queue of a cluster starts something: it may do so in the room of a plan.
func (v *verifier) anyLeft() bool {
	for i := range v.d.Actions {
		a := &v.d.Actions[i]
		if v.left(i) || a.Plan != nil || (a.Reason.Code.forced() || a.Reason.Code == CodeClusterQueue) && (a.Verb == Release || a.Verb == Resume) {
			return true
		}
	}
	return false
}

// left reports whether a task is left to the queue of a cluster, once it has come and its least pause is over. What awaits the next
// period is not.
func (v *verifier) left(i int) bool {
	code := v.d.Actions[i].Reason.Code
	return v.queued(i) || v.s.Tasks[i].State == Waiting && !v.mayBeReleased(i) && code.forced() && code != CodeNextPeriod
}

// mayBeReleased reports whether a waiting task has come, and its least pause is over.
func (v *verifier) mayBeReleased(i int) bool { return !v.items[i].earliest.After(v.s.Now) }

// verifySchedule checks all actions together: what they take of the capacity, what the queues of the clusters do
// beside them, and whether what is late, or changes too soon, has a better place.
func (v *verifier) verifySchedule() {
	waits := false
	v.counted = make(schedule, len(v.items))
	for i := range v.d.Actions {
		x, a := &v.items[i], &v.d.Actions[i]
		x.phases, x.released, x.queued, v.counted[i] = a.Keeps(), nil, v.queued(i), a.Phases
		if v.s.Tasks[i].Unscheduled {
			x.released = a.Plan
		}
		x.left = v.left(i) && (v.s.Tasks[i].Unscheduled || a.Reason.Code.forced() || len(x.phases) == 0)
		waits = waits || v.queued(i) || a.Plan != nil || v.s.Tasks[i].Lacking > 0
		if !v.queued(i) { // a queue starts nothing without room: see verifyQueue
			v.take(v.ledger, i, a.Phases, 1)
		}
	}
	v.verifyCapacity()
	for i := range v.d.Actions {
		if v.queued(i) {
			v.take(v.ledger, i, v.d.Actions[i].Phases, 1)
		}
		waits = waits || v.forcedIn(i) && v.overcommits(i)
	}
	if waits {
		v.verifyQueue()
	}
	for i := range v.d.Actions {
		v.verifyDeadline(i)
		v.verifyTooSoon(i)
	}
}

// forcedIn reports whether a task that Lull does not decide on is said to start: now, or once it has come. If there is no room for it, it
// waits in the queue of a cluster until there is.
func (v *verifier) forcedIn(i int) bool {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	return a.Reason.Code.forced() && t.State == Waiting && len(a.Phases) > 0
}

// span is a part of time.
type span struct{ from, to time.Time }

// verifyCapacity finds the times at which more is used than there is, and a task that is there
// by Lull's choice.
//
// Queues start what fits at the moment, whatever the capacity will be. If one starts something, what runs on and what has
// begun before the capacity falls does not count, unless Lull gives an elastic task more workers than the cluster has
// room for if it is alone. Neither does what has begun by then and has no other place in time: a cluster by itself would start it too.
func (v *verifier) verifyCapacity() {
	began := map[[2]string]span{} // of the excess that a step goes on with, by cluster and resource
	for _, x := range v.ledger.Excesses(v.s.Now) {
		resource := [2]string{x.Cluster, x.Resource}
		excess := span{x.From, x.To}
		falls := slices.Contains(v.limits.changes[v.place(x.Cluster)], x.From)
		if before, ok := began[resource]; ok && before.to.Equal(x.From) && !falls {
			excess.from = before.from
			falls = slices.Contains(v.limits.changes[v.place(x.Cluster)], excess.from)
		}
		began[resource] = excess
		if x.To.Sub(x.From) <= rounding && !x.To.IsZero() {
			continue // a queue starts a task by a clock that has nanoseconds, and plans have microseconds
		}
		for i := range v.d.Actions {
			t, a := &v.s.Tasks[i], &v.d.Actions[i]
			if a.Reason.Code.forced() || v.queued(i) || t.Request[x.Resource] == 0 {
				continue
			}
			for k, p := range a.Phases {
				if v.runsOnto(i, k) && (v.leaves || v.overfull(x.Cluster)) || falls && p.From.Before(excess.from) && v.mayFallShort(i) {
					continue // more runs than there is room for, or a queue would have the room of a pause
				}
				if p.Cluster == x.Cluster && p.From.Add(tick).Before(orForever(x.To)) && p.To.After(x.From.Add(tick)) { // the ledger rounds times
					v.report(RuleCapacity, i, "cluster %s: %v of %v %s used from %s on", x.Cluster, x.Used, x.Capacity, x.Resource, stamp(x.From))
					break
				}
			}
		}
	}
}

// mayFallShort reports whether a task may have begun where its room ends before it does, as the capacity falls or the load of others rises.
func (v *verifier) mayFallShort(i int) bool {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	if a.Plan == nil && t.Scaling != nil && !v.fits(v.empty, i, a.Phases) {
		return false
	}
	if v.leaves {
		return true
	}
	v.take(v.ledger, i, a.Phases, -1)
	_, elsewhere := v.soonestFit(v.ledger, i, t.Deadline)
	v.take(v.ledger, i, a.Phases, 1)
	return v.inTime(i, a.Phases) && !elsewhere
}

// runsOnto reports whether a running task goes on until the end of a phase, without a pause, move or more workers.
func (v *verifier) runsOnto(i, phase int) bool {
	t, phases := &v.s.Tasks[i], v.d.Actions[i].Phases[:phase+1]
	for k := range phases {
		p := &phases[k]
		if p.Cluster != t.Cluster || t.Scaling != nil && p.Workers > t.Workers || k > 0 && p.From.After(phases[k-1].To) {
			return false
		}
	}
	return t.State == Running && !phases[0].From.After(v.s.Now)
}

func orForever(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 1<<62)
	}
	return t
}

// withQueues is what all tasks do if the queues of the clusters run forward, with what the decision says and in its order.
func (v *verifier) withQueues() schedule {
	return v.runQueues(v.d.Order, func(i int, at time.Time) queue.Intent {
		out, a, x := v.intends(i, at), &v.d.Actions[i], &v.items[i]
		if out.Released && out.Cluster < 0 && a.Verb.runs() && a.Cluster != "" && (x.left || len(x.phases) == 0) {
			out.Cluster = v.place(a.Cluster)
		}
		return out
	})
}

// verifyQueue compares what the decision states with what the queues of the clusters do.
func (v *verifier) verifyQueue() {
	v.seen = v.withQueues()
	for i, seen := range v.seen {
		t, a := &v.s.Tasks[i], &v.d.Actions[i]
		switch {
		case len(a.Phases) == 0 && !a.Reason.Code.forced() && !v.fits(v.empty, i, seen) && (v.queued(i) || !v.arrived(i)):
			// The queue may start it, but the capacity falls while it runs.
			v.counted[i] = seen
			v.take(v.ledger, i, seen, 1)
			continue
		case (!v.queued(i) || a.Plan != nil) && !a.Reason.Code.forced() && t.savedIn == 0 && !closePhases(seen, a.Phases):
			v.report(RuleQueue, i, "%s (%s): stated %v, and with the queues of the clusters it does %v", a.Verb, a.Reason.Code, a.Phases, seen)
			continue
		case !v.queued(i) && !v.forcedIn(i) || t.State == Running: // it may wait for others in the queue if it is in time
		case len(seen) == 0 != (len(a.Phases) == 0), len(seen) > 0 && seen[0].From.Sub(a.Phases[0].From).Abs() > rounding:
			v.report(RuleQueue, i, "%s: stated %v, and the queues of the clusters do %v", a.Verb, a.Phases, seen)
			continue
		}
		if !t.Deadline.IsZero() && !v.s.soft() && !v.late(i) && !v.inTime(i, seen) {
			v.report(RuleQueue, i, "is said to end in time, %v, and with the queues of the clusters it does %v", a.Phases, seen)
		}
	}
}

// verifyDeadline checks that a task is late only if Lull has no choice, or if there is no place for it beside all others. Where
// tasks wait in the queues of clusters, it tries as many places as a decision does (mostTried).
func (v *verifier) verifyDeadline(i int) {
	t := &v.s.Tasks[i]
	if !v.mayBeLate(i) || v.queued(i) && len(v.d.Actions[i].Phases) > 0 {
		return
	}
	v.take(v.ledger, i, v.counted[i], -1)
	if better, found := v.soonestFit(v.ledger, i, t.Deadline); found && t.savedIn == 0 && v.helps(i, better, &v.triedLate) {
		v.report(RuleDeadline, i, "it has no place before its deadline %s, although there is room: %v", stamp(t.Deadline), better)
	}
	v.take(v.ledger, i, v.counted[i], 1)
}

// helps reports whether a task is in time by other phases, and no task that was in time becomes late. Where tasks are left to the
// queues of clusters, now or once they come, it runs these forward: they start others at other times or elsewhere then. tried counts
// how often, mostTried at most.
//
// Complexity: that of queue.Model.Run if tasks are left to a queue.
func (v *verifier) helps(i int, phases []Phase, tried *int) bool {
	if !v.leaves {
		return true
	}
	if v.seen == nil {
		v.seen = v.withQueues()
	}
	if *tried++; *tried > v.mostTried() {
		return false
	}
	x := &v.items[i]
	before := *x
	x.phases, x.released, x.queued, x.left = phases, nil, false, false
	seen := v.withQueues()
	*x = before
	for k := range seen {
		if (k == i || v.doneInTime(k, v.seen[k])) && !v.s.Tasks[k].Deadline.IsZero() && !v.doneInTime(k, seen[k]) {
			return false
		}
	}
	return true
}

// verifyTooSoon checks that a task does not change within the least time of a run or pause if its plan can be put off.
func (v *verifier) verifyTooSoon(i int) {
	t, a, x := &v.s.Tasks[i], &v.d.Actions[i], &v.items[i]
	var until time.Time
	switch {
	case a.Reason.Code.forced() || slices.Contains([]Code{CodeTooSoon, CodeDeadlineAtRisk, CodeLatestStart}, a.Reason.Code) || len(a.Phases) == 0 || v.s.soft():
	case t.State == Running && v.changes(i):
		until = v.stays(i)
	case a.Verb == Resume:
		until = x.earliest
	}
	if !until.After(v.s.Now) {
		return
	}
	later := v.putOffTo(i, until)
	v.take(v.ledger, i, v.counted[i], -1)
	if len(later) > 0 && v.inTime(i, later) && v.fits(v.ledger, i, later) && v.helps(i, later, &v.triedSoon) {
		v.report(RuleTooSoon, i, "%s, although it can stay as it is until %s", a.Verb, stamp(until))
	}
	v.take(v.ledger, i, v.counted[i], 1)
}

// count adds the phases that a choice of phases names to a ledger.
func (s *Snapshot) count(l *capacity.Ledger, phases func(i int) []Phase) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Unscheduled {
			continue
		}
		need := l.Demand(t.Request)
		for _, p := range phases(i) {
			if p.moment() {
				continue
			}
			l.Take(l.Cluster(p.Cluster), need, t.workersOf(&p), p.From, p.To)
		}
	}
}

// displaced finds tasks that lost a plan by which they were expected to be in time, although all standing plans together, beside
// what runs and may not be paused, were still possible. While released tasks wait in the queue
// of a cluster, which starts them when it likes, nothing is reported.
func displaced(s *Snapshot, actions []Action) (out []Violation) {
	for i := range s.Tasks {
		if s.Tasks[i].Unscheduled {
			return nil
		}
	}
	for i := range actions {
		t := &s.Tasks[i]
		if actions[i].Reason.Code != CodeDeadlineAtRisk || s.soft() || t.Standing == nil || t.Unscheduled {
			continue
		}
		if p := actions[i].Phases; len(p) > 0 && !p[len(p)-1].To.After(t.Deadline.Add(rounding)) {
			continue
		}
		mine := t.Standing.from(s.Now)
		if t.Standing.Reason.Code == CodeDeadlineAtRisk || len(mine) == 0 || mine[len(mine)-1].To.After(t.Deadline) || t.lags(mine, s.Now) {
			continue
		}
		l := s.ledger()
		s.count(l, func(k int) []Phase {
			other := &s.Tasks[k]
			switch {
			case actions[k].Reason.Code.forced() || actions[k].Reason.Code == CodeLatestStart:
				return actions[k].Phases
			case other.Standing != nil:
				return other.Standing.from(s.Now)
			}
			return nil
		})
		if len(l.Excesses(s.Now)) == 0 {
			out = append(out, Violation{RuleDisplaced, t.ID, "no place was found, although all standing plans were still possible"})
		}
	}
	return out
}
