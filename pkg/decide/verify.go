package decide

import (
	"fmt"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// Rule names an invariant of decisions.
type Rule string

// The invariants that Verify checks.
const (
	// RuleActions: there is one action for each task, in the order of the snapshot, and Order lists each once.
	RuleActions Rule = "Actions"
	// RuleCapacity: what Lull decides never overcommits a resource at any time.
	RuleCapacity Rule = "Capacity"
	// RuleCluster: a task uses only clusters of the snapshot that it may use, and changes between
	// them only if it can migrate. The action names the cluster of the phase that runs now.
	RuleCluster Rule = "Cluster"
	// RuleDeadline: no plan ends after the deadline of its task if there is a place in time for it beside all others.
	// What a standing plan that lags does not do is counted after its end.
	RuleDeadline Rule = "Deadline"
	// RuleDisplaced: no task loses a plan in time that was still possible.
	RuleDisplaced Rule = "Displaced"
	// RuleHeldOut: a held-out task runs as submitted.
	RuleHeldOut Rule = "HeldOut"
	// RuleInterrupted: a running task that cannot be interrupted is neither paused nor moved, and a plan
	// runs such a task in one piece.
	RuleInterrupted Rule = "Interrupted"
	// RuleLatestStart: every held task has a latest safe start ahead, and what may not wait is not held.
	RuleLatestStart Rule = "LatestStart"
	// RuleNotBefore: no task starts, or is planned to start, before it may.
	RuleNotBefore Rule = "NotBefore"
	// RulePhases: the phases of an action begin now or later, are in order of time and do not overlap.
	RulePhases Rule = "Phases"
	// RuleQueue: a released task waits only if the queues of the clusters, run forward with all plans, start it
	// when the decision says, and nothing that is said to be in time is late for what the queues start.
	RuleQueue Rule = "Queue"
	// RuleReason: the reason is true of the task and its plan.
	RuleReason Rule = "Reason"
	// RuleTooSoon: no task changes within the least time of a run or pause if it can wait for the end of that.
	RuleTooSoon Rule = "TooSoon"
	// RuleVerb: the verb is possible in the state of the task and does what its plan says for now. What is held
	// has a plan.
	RuleVerb Rule = "Verb"
	// RuleWake: the next decision is due after now, and no later than the next change of a plan or latest start.
	RuleWake Rule = "Wake"
	// RuleWork: every plan does the work that is left. A standing plan may lag by a slot.
	RuleWork Rule = "Work"
	// RuleWorkers: an elastic task has a number of workers that it can have, the one of the phase that runs now.
	RuleWorkers Rule = "Workers"
)

// Violation is an invariant that a decision breaks.
type Violation struct {
	Rule Rule
	// Task is the ID of a task that shows it; empty if none does.
	Task    string
	Message string
}

// String names the rule, the task and what is wrong.
func (v Violation) String() string { return fmt.Sprintf("%s: task %s: %s", v.Rule, v.Task, v.Message) }

// forced reports whether a task with this reason runs whatever its plan: Lull has no choice.
func (c Code) forced() bool {
	switch c {
	case CodeRunning, CodeNoSlack, CodeHeldOut, CodeNoRoom, CodeNoCarbonData, CodePaused, CodePlannerFailed, CodeUnscheduled, CodeNextPeriod, CodeClusterQueue:
		return true
	}
	return false
}

// runs reports whether a task runs, or is released, by a verb.
func (v Verb) runs() bool { return v != Wait && v != Pause }

// verifier checks a decision. It counts what the decision states in a ledger of its own and runs the queues of the clusters
// forward. Of the decider that it has, it uses the snapshot's limits, places and queues, never a state of deciding.
type verifier struct {
	*decider
	d *Decision
	// everyone reports that all tasks run for one reason: see RunAll.
	everyone bool
	// leaves reports that the queue of a cluster starts something: see anyLeft.
	leaves bool
	// seen is what the queues of the clusters make of the decision; nil until it is needed.
	seen schedule
	// counted is what the ledger has of each task: what it is expected to do.
	counted schedule
	// triedLate and triedSoon are how many places of late tasks, and of tasks that change too soon, were run forward: see helps.
	triedLate, triedSoon int
	// stated is the ledger with what the actions say; nil until asked.
	stated *capacity.Ledger
	out    []Violation
}

// Verify returns the invariants that a decision on a snapshot breaks; none is what Decide
// promises. It recomputes everything from the snapshot and the actions.
//
// Complexity: O(tasks x log steps + steps), for each task that is late O(steps) more, and that of queue.Model.Run if
// released tasks wait, or one that may not wait is said to start without room, once and for each late task with room.
func Verify(s Snapshot, d Decision) []Violation {
	s = s.withSaved().withScales().withPossible()
	v := &verifier{d: &d}
	if v.out = incomplete(&s, &d); len(v.out) > 0 {
		return v.out // no action can be told to belong to a task
	}
	v.decider = newDecider(&s)
	for i := range d.Actions {
		v.everyone = (i == 0 || v.everyone) && d.Actions[i].Reason.Code == d.Actions[0].Reason.Code
		v.verifyVerb(i)
		v.verifyClusters(i)
		v.verifyWorkers(i)
		v.verifyPhases(i)
		v.verifyHeld(i)
	}
	v.leaves = v.anyLeft()
	for i := range d.Actions {
		v.verifyReason(i)
	}
	v.verifyWake()
	if len(v.out) == 0 { // else the schedule means nothing
		v.verifySchedule()
	}
	return append(v.out, displaced(&s, d.Actions)...)
}

func (v *verifier) report(rule Rule, i int, format string, args ...any) {
	v.out = append(v.out, Violation{Rule: rule, Task: v.s.Tasks[i].ID, Message: fmt.Sprintf(format, args...)})
}

// incomplete checks that there is an action for each task, and that Order lists each once.
func incomplete(s *Snapshot, d *Decision) (out []Violation) {
	if len(d.Actions) != len(s.Tasks) || len(d.Order) != len(s.Tasks) {
		return []Violation{{RuleActions, "", fmt.Sprintf("%d actions and %d in order of %d tasks", len(d.Actions), len(d.Order), len(s.Tasks))}}
	}
	listed := make([]bool, len(s.Tasks))
	for i, k := range d.Order {
		if k < 0 || k >= len(listed) || listed[k] {
			out = append(out, Violation{RuleActions, "", fmt.Sprintf("order[%d] is %d; accepted: each of %d tasks once", i, k, len(listed))})
		} else {
			listed[k] = true
		}
		if a := &d.Actions[i]; a.Task != s.Tasks[i].ID {
			out = append(out, Violation{RuleActions, s.Tasks[i].ID, fmt.Sprintf("its action is for task %q", a.Task)})
		}
	}
	return out
}

// arrived reports whether a task may run now.
func (v *verifier) arrived(i int) bool { return !v.items[i].arrival.After(v.s.Now) }

// now reports whether the plan of an action runs now.
func (v *verifier) now(a *Action) bool { return v.begun(a.Keeps()) }

// begun reports whether phases begin now.
func (v *verifier) begun(phases []Phase) bool {
	return len(phases) > 0 && !phases[0].From.After(v.s.Now)
}

// queued reports whether an action leaves a released task to the queue of its cluster: when it starts
// is not Lull's decision, and the queue starts nothing without room.
func (v *verifier) queued(i int) bool {
	a := &v.d.Actions[i]
	return v.s.Tasks[i].Unscheduled || (a.Verb == Release || a.Verb == Resume) && !v.begun(a.Phases)
}

// must reports whether a task runs whatever is planned. Only at the latest start Lull has a choice where and how.
func (v *verifier) must(i int) bool {
	code, must := v.mustRun(i)
	return must && code != CodeLatestStart && code != CodeNextPeriod
}

// verifyVerb checks that a verb fits what the task does, and what its plan says for now.
func (v *verifier) verifyVerb(i int) {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	possible := false
	switch a.Verb {
	case Wait:
		possible = t.State == Waiting
	case Release, Resume:
		possible = t.State == Waiting && t.Paused == (a.Verb == Resume)
	case Continue:
		possible = t.State == Running && (t.Scaling == nil || a.Workers == t.Workers) && (a.Cluster == "" || t.Cluster == "" || a.Cluster == t.Cluster)
	case Scale:
		possible = t.State == Running && t.Scaling != nil && a.Workers != t.Workers && (a.Cluster == "" || t.Cluster == "" || a.Cluster == t.Cluster)
	case Move:
		possible = t.State == Running && !t.Unscheduled && t.Cluster != "" && a.Cluster != "" && a.Cluster != t.Cluster
	case Pause:
		possible = t.State == Running
	}
	must := v.must(i)
	switch {
	case !possible:
		v.report(RuleVerb, i, "%q, to cluster %q with %d workers, of a task that is %s at %q with %d (paused: %v)", a.Verb, a.Cluster, a.Workers, t.State, t.Cluster, t.Workers, t.Paused)
	case t.Kind == workload.Rigid && t.State == Running && !t.Unscheduled && (a.Verb == Pause || a.Verb == Move):
		v.report(RuleInterrupted, i, "%s of a task that cannot be interrupted", a.Verb)
	case t.HeldOut && v.arrived(i) && !a.Verb.runs():
		v.report(RuleHeldOut, i, "%s; accepted: Release or Continue", a.Verb)
	case t.HeldOut && t.State == Running && t.Scaling != nil && a.Workers != max(t.Workers, t.Scaling.MinWorkers):
		v.report(RuleHeldOut, i, "scaled from %d to %d workers", t.Workers, a.Workers)
	case must && v.arrived(i) && !a.Verb.runs():
		v.report(RuleLatestStart, i, "%s, although it may not wait", a.Verb)
	case a.Verb.runs() && !v.arrived(i):
		v.report(RuleNotBefore, i, "%s, although it may not start before %s", a.Verb, stamp(t.NotBefore))
	case !a.Verb.runs() && v.now(a) || a.Verb.runs() && len(a.Phases) > 0 && !v.now(a) && !v.queued(i):
		v.report(RuleVerb, i, "%s, and its plan begins at %s", a.Verb, stamp(a.Keeps()[0].From))
	case len(a.Phases) == 0 && v.arrived(i) && !must && a.Verb.runs() == v.s.soft() && !a.Reason.Code.forced():
		v.report(RuleVerb, i, "%s without a plan", a.Verb) // with soft deadlines it waits for one, else it runs
	case len(a.Phases) == 0 && t.State == Running && !t.Unscheduled && a.Verb.runs() && a.Reason.Code != CodePaused && a.Reason.Code != CodePlannerFailed:
		v.report(RuleVerb, i, "%s, and it is not said until when", a.Verb)
	}
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// verifyClusters checks where a task runs.
func (v *verifier) verifyClusters(i int) {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	anywhere := a.Cluster == "" && (!a.Verb.runs() || v.queued(i) || t.State == Waiting && a.Reason.Code.forced())
	at := a.Cluster
	if at == "" && t.State == Running {
		at = v.s.Place(t.Cluster).Name
	}
	switch {
	case a.Cluster != "" && !v.s.mayUse(t, a.Cluster):
		v.report(RuleCluster, i, "%s at cluster %q, which it may not use", a.Verb, a.Cluster)
	case !v.s.possible(t, a.Phases) || !v.s.possible(t, a.Plan):
		v.report(RuleCluster, i, "its plan is for clusters that it may not use: %v", a.Keeps())
	case len(a.Phases) > 0 && !anywhere && at != a.Keeps()[0].Cluster:
		v.report(RuleCluster, i, "%s at cluster %q, and its plan begins at %q", a.Verb, a.Cluster, a.Keeps()[0].Cluster)
	}
}

// verifyWorkers checks the scale of a task, now and later.
func (v *verifier) verifyWorkers(i int) {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	can := func(n int) bool {
		return t.Scaling != nil && (n >= t.Scaling.MinWorkers && n <= t.Scaling.MaxWorkers || t.State == Running && n == t.Workers)
	}
	scales := t.Scaling != nil && a.Verb.runs()
	switch {
	case scales && !can(a.Workers) || !scales && a.Workers != 0:
		v.report(RuleWorkers, i, "%s with %d workers", a.Verb, a.Workers)
	case scales && v.now(a) && !v.queued(i) && a.Workers != a.Keeps()[0].Workers:
		v.report(RuleWorkers, i, "%s with %d workers, and its plan begins with %d", a.Verb, a.Workers, a.Keeps()[0].Workers)
	}
	for k, p := range slices.Concat(a.Phases, a.Plan) {
		if n := p.Workers; t.Scaling != nil && !can(n) || t.Scaling == nil && n > 1 {
			v.report(RuleWorkers, i, "phase %d has %d workers", k+1, n)
		}
	}
}

// verifyPhases checks when a plan runs, and that it does the work that is left.
func (v *verifier) verifyPhases(i int) {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	v.verifyTimes(i, a.Phases)
	if released := t.releasedBy(); released == nil {
		v.verifyTimes(i, a.Plan)
	} else if !samePhases(a.Plan, released) {
		v.report(RulePhases, i, "its plan is %v; accepted: the one by which it was released, %v", a.Plan, released)
	}
	if len(a.Phases) == 0 {
		return
	}
	if missing := t.missing(a.Phases, v.s.Now); missing > rounding && (a.Plan == nil || t.Unscheduled) && !v.mayLag(i, missing) {
		v.report(RuleWork, i, "its plan does %v of %v", t.progress(a.Phases, v.s.Now), t.Remaining)
	}
	if a.Reason.Code != CodeDeadlineAtRisk && a.Reason.Code != CodeLatestStart && v.mayBeLate(i) {
		v.report(RuleDeadline, i, "its plan ends at %s, after its deadline %s", stamp(t.endOf(a.Phases, v.s.Now)), stamp(t.Deadline))
	}
}

// verifyTimes checks the order of phases.
func (v *verifier) verifyTimes(i int, phases []Phase) {
	if len(phases) == 0 {
		return
	}
	if v.s.Tasks[i].Kind == workload.Rigid && len(phases) > 1 {
		v.report(RuleInterrupted, i, "%d runs of a task that cannot be interrupted", len(phases))
	}
	if first := phases[0].From; first.Before(v.items[i].arrival) {
		rule := RulePhases
		if !first.Before(v.s.Now) {
			rule = RuleNotBefore
		}
		v.report(rule, i, "its plan begins at %s; accepted: from %s on", stamp(first), stamp(v.items[i].arrival))
	}
	for k := range phases {
		p := &phases[k]
		if p.To.Before(p.From) || k > 0 && p.From.Before(phases[k-1].To) {
			v.report(RulePhases, i, "phase %d of %d is from %s to %s", k+1, len(phases), stamp(p.From), stamp(p.To))
		}
	}
}

// mayLag reports whether an action follows a standing plan that may leave some work: how much is left of a task of unknown
// length is an estimate, and of a task that is late already Lull follows the plan that it has.
func (v *verifier) mayLag(i int, missing time.Duration) bool {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	stands := !a.Planned && t.Standing != nil && (samePhases(a.Phases, t.Standing.from(v.s.Now)) || samePhases(a.Phases, t.Standing.from(v.items[i].earliest)))
	return stands && (missing <= v.s.Slot+rounding || v.s.soft() || !t.LatestStart.IsZero() || a.Reason.Code == CodeDeadlineAtRisk)
}

// verifyHeld checks the latest safe start of a task that is held, or will be when it comes.
func (v *verifier) verifyHeld(i int) {
	t, a := &v.s.Tasks[i], &v.d.Actions[i]
	if a.Verb.runs() || v.must(i) || v.s.soft() {
		return
	}
	latest, planned := a.Reason.LatestStart, len(a.Phases) > 0 && !a.Reason.LatestStart.After(a.Keeps()[0].From)
	last, _ := v.limits.lastStart(t, v.items[i].need, t.Remaining, t.Deadline.Add(rounding))
	if !t.LatestStart.IsZero() {
		last = t.LatestStart
	}
	if at := v.items[i].latest; !v.items[i].unsafe && at.After(last) {
		last = at // where the capacity changes, a run that is to end earlier may start later
	}
	switch {
	case v.arrived(i) && !latest.After(v.s.Now):
		v.report(RuleLatestStart, i, "%s, although its latest safe start was %s", a.Verb, stamp(latest))
	case !planned && latest.After(last):
		v.report(RuleLatestStart, i, "from its latest safe start %s on, it cannot be done by its deadline %s", stamp(latest), stamp(t.Deadline))
	}
}

// verifyWake checks when the next decision is due.
func (v *verifier) verifyWake() {
	if wake := v.d.Wake; !wake.After(v.s.Now) || wake.After(v.s.Now.Add(longestWake)) {
		v.out = append(v.out, Violation{RuleWake, "", fmt.Sprintf("%s; accepted: after %s, within %v", stamp(wake), stamp(v.s.Now), longestWake)})
	}
	for i := range v.d.Actions {
		a := &v.d.Actions[i]
		var changes []time.Time
		switch {
		case v.s.Tasks[i].Unscheduled: // what waits is started by its queue
		case v.now(a):
			if changes = append(changes, a.Keeps()[0].To); v.begun(a.Phases) {
				changes = append(changes, a.Phases[0].To)
			}
		case !a.Verb.runs() && len(a.Phases) > 0:
			if changes = append(changes, a.Keeps()[0].From); v.arrived(i) && !v.s.soft() {
				changes = append(changes, a.Reason.LatestStart)
			}
		case !a.Verb.runs() && a.Reason.Code != CodeNextPeriod:
			changes = append(changes, v.items[i].arrival)
		}
		for _, at := range changes {
			if at.After(v.s.Now) && v.d.Wake.After(at) {
				v.report(RuleWake, i, "%s; its plan changes at %s", stamp(v.d.Wake), stamp(at))
			}
		}
	}
}
