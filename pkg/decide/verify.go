package decide

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// Rule names an invariant of decisions.
type Rule string

// The invariants that Verify checks.
const (
	// RuleCapacity: what Lull decides never overcommits a resource at any time.
	RuleCapacity Rule = "Capacity"
	// RuleCluster: a task uses only clusters of the snapshot that it may use, and changes between
	// them only if it can migrate.
	RuleCluster Rule = "Cluster"
	// RuleDeadline: no plan ends after the deadline of its task. What a standing plan that lags does
	// not do is counted after its end.
	RuleDeadline Rule = "Deadline"
	// RuleDisplaced: no task loses a plan in time that was still possible.
	RuleDisplaced Rule = "Displaced"
	// RuleHeldOut: a held-out task runs as submitted.
	RuleHeldOut Rule = "HeldOut"
	// RuleInterrupted: a running task that cannot be interrupted is neither paused nor moved, and a plan
	// runs such a task in one piece.
	RuleInterrupted Rule = "Interrupted"
	// RuleLatestStart: every held task has a latest safe start ahead.
	RuleLatestStart Rule = "LatestStart"
	// RuleNotBefore: no task starts, or is planned to start, before it may.
	RuleNotBefore Rule = "NotBefore"
	// RulePhases: the phases of an action are in order of time and do not overlap.
	RulePhases Rule = "Phases"
	// RuleWork: every plan does the work that is left. A standing plan may lag by a slot.
	RuleWork Rule = "Work"
)

// Violation is an invariant that a decision breaks.
type Violation struct {
	Rule Rule
	// Task is the ID of a task that shows it.
	Task    string
	Message string
}

// String names the rule, the task and what is wrong.
func (v Violation) String() string { return fmt.Sprintf("%s: task %s: %s", v.Rule, v.Task, v.Message) }

// forced reports whether a task with this reason runs whatever its plan: Lull has no choice.
func (c Code) forced() bool {
	switch c {
	case CodeRunning, CodeNoSlack, CodeHeldOut, CodeNoCarbonData, CodePaused, CodePlannerFailed, CodeUnscheduled, CodeNextPeriod, CodeClusterQueue:
		return true
	}
	return false
}

// Verify returns the invariants that a decision on a snapshot breaks; none is what Decide
// promises. It recomputes everything from the snapshot and the phases of the actions.
//
// Complexity: O(tasks x log steps + steps).
func Verify(s Snapshot, d Decision) []Violation {
	s = s.withPossible().withScales()
	m := newLimits(&s, s.ledger())
	var out []Violation
	report := func(rule Rule, i int, format string, args ...any) {
		out = append(out, Violation{Rule: rule, Task: s.Tasks[i].ID, Message: fmt.Sprintf(format, args...)})
	}
	for i := range d.Actions {
		t, a := &s.Tasks[i], &d.Actions[i]
		held := a.Verb == Wait || a.Verb == Pause
		soft := s.soft()
		switch {
		case t.HeldOut && held && !t.NotBefore.After(s.Now):
			report(RuleHeldOut, i, "%s; accepted: Release or Continue", a.Verb)
		case t.HeldOut && t.State == Running && t.Scaling != nil && a.Workers != max(t.Workers, t.Scaling.MinWorkers):
			report(RuleHeldOut, i, "scaled from %d to %d workers", t.Workers, a.Workers)
		case held && !soft && t.Deadline.IsZero() && !t.HeldOut && !t.NotBefore.After(s.Now):
			report(RuleLatestStart, i, "%s, although it may not wait", a.Verb)
		case held && !soft && !t.Deadline.IsZero() && !t.NotBefore.After(s.Now) && !a.Reason.LatestStart.After(s.Now):
			report(RuleLatestStart, i, "%s, although its latest safe start was %s", a.Verb, a.Reason.LatestStart.Format(time.RFC3339))
		case held && !soft && a.Reason.Code != CodeDeadlineAtRisk && t.LatestStart.IsZero() && !t.NotBefore.After(s.Now) && !m.safe(t, a):
			report(RuleLatestStart, i, "from its latest safe start %s on, it cannot be done by its deadline %s", a.Reason.LatestStart.Format(time.RFC3339), t.Deadline.Format(time.RFC3339))
		}
		s.verifyRun(i, a, report)
		s.verifyClusters(i, a, report)
		s.verifyPlan(i, a, report)
	}
	out = append(out, overcommitted(&s, d.Actions)...)
	return append(out, displaced(&s, d.Actions)...)
}

// safe reports whether a held task can be done by its deadline from its latest safe start on: its plan shows
// that, or the clusters have the room when no other task runs.
func (m *limits) safe(t *Task, a *Action) bool {
	latest := a.Reason.LatestStart
	if len(a.Phases) > 0 && !latest.After(a.Phases[0].From) {
		return true
	}
	last, _ := m.lastStart(t, m.l.Demand(t.Request), t.Remaining, t.Deadline.Add(rounding))
	return !latest.After(last)
}

// report records that an action breaks a rule.
type report func(rule Rule, i int, format string, args ...any)

// verifyRun checks when a task runs: in one piece if it cannot be interrupted, not before it may, and in
// phases that do not overlap.
func (s *Snapshot) verifyRun(i int, a *Action, report report) {
	t := &s.Tasks[i]
	if t.Kind == workload.Rigid {
		switch {
		case t.State == Running && !t.Unscheduled && (a.Verb == Pause || a.Verb == Move):
			report(RuleInterrupted, i, "%s of a task that cannot be interrupted", a.Verb)
		case len(a.Phases) > 1:
			report(RuleInterrupted, i, "%d runs of a task that cannot be interrupted", len(a.Phases))
		}
	}
	first := s.Now
	if len(a.Phases) > 0 {
		first = a.Phases[0].From
	}
	starts := a.Verb == Release || a.Verb == Resume
	if t.State == Waiting && (starts && t.NotBefore.After(s.Now) || len(a.Phases) > 0 && t.NotBefore.After(first)) {
		report(RuleNotBefore, i, "%s, to run from %s on, although it may not start before %s", a.Verb, first.Format(time.RFC3339Nano), t.NotBefore.Format(time.RFC3339Nano))
	}
	for k := range a.Phases {
		p := &a.Phases[k]
		if p.To.Before(p.From) || k > 0 && p.From.Before(a.Phases[k-1].To) {
			report(RulePhases, i, "phase %d of %d is from %s to %s", k+1, len(a.Phases), p.From.Format(time.RFC3339Nano), p.To.Format(time.RFC3339Nano))
		}
	}
}

// verifyClusters checks where a task runs.
func (s *Snapshot) verifyClusters(i int, a *Action, report report) {
	t := &s.Tasks[i]
	switch {
	case a.Cluster != "" && !s.mayUse(t, a.Cluster):
		report(RuleCluster, i, "%s at cluster %q, which it may not use", a.Verb, a.Cluster)
	case !s.possible(t, a.Phases):
		report(RuleCluster, i, "its plan is for clusters that it may not use: %v", clustersOf(a.Phases))
	}
}

func clustersOf(phases []Phase) (out []string) {
	for k := range phases {
		out = append(out, phases[k].Cluster)
	}
	return out
}

// verifyPlan checks that a plan that Lull has chosen does the work that is left, and ends in time.
func (s *Snapshot) verifyPlan(i int, a *Action, report report) {
	t := &s.Tasks[i]
	if a.Reason.Code.forced() || s.soft() || len(a.Phases) == 0 {
		return
	}
	if a.Reason.Code == CodeDeadlineAtRisk || a.Reason.Code == CodeLatestStart {
		return
	}
	end, lag := a.Phases[len(a.Phases)-1].To, time.Duration(0)
	if !a.Planned {
		if a.queued(s, t) || !t.LatestStart.IsZero() {
			return // when it starts, or how much work is left, is not known
		}
		end, lag = t.endOf(a.Phases, s.Now), s.Slot
	}
	if end.After(t.Deadline.Add(rounding)) {
		report(RuleDeadline, i, "its plan ends at %s, after its deadline %s", end.Format(time.RFC3339Nano), t.Deadline.Format(time.RFC3339Nano))
	}
	if t.missing(a.Phases, s.Now) > lag+rounding {
		report(RuleWork, i, "its plan does %v of %v", t.progress(a.Phases, s.Now), t.Remaining)
	}
}

// queued reports whether an action leaves a released task to the queue of its cluster: when it starts
// is not Lull's decision, and the queue starts nothing without room.
func (a *Action) queued(s *Snapshot, t *Task) bool {
	return t.Unscheduled || (a.Verb == Release || a.Verb == Resume) && len(a.Phases) > 0 && a.Phases[0].From.After(s.Now)
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

// overcommitted finds the times at which more is used than there is, and a task that is there
// by Lull's choice.
func overcommitted(s *Snapshot, actions []Action) (out []Violation) {
	l := s.ledger()
	s.count(l, func(i int) []Phase {
		if actions[i].queued(s, &s.Tasks[i]) {
			return nil
		}
		return actions[i].Phases
	})
	for _, x := range l.Excesses(s.Now) {
		if x.To.Sub(x.From) <= rounding && !x.To.IsZero() {
			continue // a queue starts a task by a clock that has nanoseconds, and plans have microseconds
		}
		for i := range actions {
			if actions[i].Reason.Code.forced() || s.Tasks[i].Unscheduled || s.Tasks[i].Request[x.Resource] == 0 {
				continue
			}
			for k, p := range actions[i].Phases {
				if k == 0 && actions[i].Verb == Continue && !actions[i].Planned {
					continue // it runs on: the capacity has fallen below what runs
				}
				if p.Cluster == x.Cluster && p.From.Before(orForever(x.To)) && p.To.After(x.From.Add(tick)) { // the ledger rounds times
					out = append(out, Violation{RuleCapacity, s.Tasks[i].ID, fmt.Sprintf("cluster %s: %v of %v %s used from %s on",
						x.Cluster, x.Used, x.Capacity, x.Resource, x.From.Format(time.RFC3339Nano))})
					break
				}
			}
		}
	}
	return out
}

func orForever(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 1<<62)
	}
	return t
}

// displaced finds tasks that lost a plan in time although all standing plans together, beside
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
		if len(mine) == 0 || mine[len(mine)-1].To.After(t.Deadline) || t.lags(mine, s.Now) {
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
