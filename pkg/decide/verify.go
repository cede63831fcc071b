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
	// RuleDeadline: no plan ends after the deadline of its task.
	RuleDeadline Rule = "Deadline"
	// RuleDisplaced: no task loses a plan in time that was still possible.
	RuleDisplaced Rule = "Displaced"
	// RuleHeldOut: a held-out task runs as submitted.
	RuleHeldOut Rule = "HeldOut"
	// RuleLatestStart: every held task has a latest safe start ahead.
	RuleLatestStart Rule = "LatestStart"
	// RuleWork: every plan does the work that is left.
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
		case held && !soft && a.Reason.Code != CodeDeadlineAtRisk && a.Reason.LatestStart.After(t.Deadline.Add(rounding-t.fastestRuntime())) && t.LatestStart.IsZero() && !t.NotBefore.After(s.Now):
			report(RuleLatestStart, i, "latest safe start %s, but it takes %v to its deadline %s", a.Reason.LatestStart.Format(time.RFC3339), t.fastestRuntime(), t.Deadline.Format(time.RFC3339))
		}
		if a.Reason.Code.forced() || soft || len(a.Phases) == 0 {
			continue
		}
		if a.Reason.Code == CodeDeadlineAtRisk || a.Reason.Code == CodeLatestStart {
			continue
		}
		if end := a.Phases[len(a.Phases)-1].To; end.After(t.Deadline.Add(rounding)) && a.Planned {
			report(RuleDeadline, i, "its plan ends at %s, after its deadline %s", end.Format(time.RFC3339Nano), t.Deadline.Format(time.RFC3339Nano))
		}
		if work := t.workIn(a.Phases); a.Planned && work+rounding < t.Remaining-t.AtRisk {
			report(RuleWork, i, "its plan does %v of %v", work, t.Remaining)
		}
		if t.Kind == workload.Rigid && len(a.Phases) > 1 {
			report(RuleWork, i, "%d runs of a task that cannot be interrupted", len(a.Phases))
		}
	}
	out = append(out, overcommitted(&s, d.Actions)...)
	return append(out, displaced(&s, d.Actions)...)
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
	s.count(l, func(i int) []Phase { return actions[i].Phases })
	for _, x := range l.Excesses(s.Now) {
		for i := range actions {
			if actions[i].Reason.Code.forced() || s.Tasks[i].Unscheduled || s.Tasks[i].Request[x.Resource] == 0 {
				continue
			}
			for k, p := range actions[i].Phases {
				if k == 0 && actions[i].Verb == Continue && !actions[i].Planned {
					continue // it runs on: the capacity has fallen below what runs
				}
				if p.Cluster == x.Cluster && p.From.Before(orForever(x.To)) && p.To.After(x.From) {
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
		if len(mine) == 0 || mine[len(mine)-1].To.After(t.Deadline) || t.workIn(mine)+rounding < t.Remaining-t.AtRisk {
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
