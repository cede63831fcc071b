package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
)

// losses counts the deadlines that runs of random worlds lose, of those that the same worlds keep as submitted.
type losses struct {
	jobs, kept, broken, decisions, reports int
	// acted is the number of actions with the verb that a test is about.
	acted int
}

// run runs a world with a planner. reference is the same world, which has run as submitted.
func (l *losses) run(t *testing.T, where string, reference, w *world, planner plan.Planner, verb decide.Verb) {
	t.Helper()
	w.decided = func(_ decide.Snapshot, d decide.Decision) {
		l.decisions++
		for i := range d.Actions {
			if d.Actions[i].Verb == verb {
				l.acted++
			}
		}
	}
	for _, v := range w.run(t, planner) {
		if l.reports++; l.reports <= 3 {
			t.Logf("%s: %s", where, v)
		}
	}
	for k, x := range w.jobs {
		l.jobs++
		deadline := x.task.Deadline
		if deadline.IsZero() || reference.jobs[k].finish.After(deadline) {
			continue
		}
		l.kept++
		if late := x.finish.Sub(deadline); late > time.Millisecond {
			if l.broken++; l.broken <= 3 {
				t.Errorf("%s: %s %s ends %v after its deadline", where, x.task.Kind, x.task.ID, late)
			}
		}
	}
}

// expectNone fails if a deadline is lost, or Verify reports a decision.
func (l *losses) expectNone(t *testing.T, where string, verb decide.Verb) {
	t.Helper()
	if l.broken+l.reports > 0 {
		t.Errorf("%s: %d of %d deadlines are lost, %d reports on %d decisions", where, l.broken, l.kept, l.reports, l.decisions)
	}
	t.Logf("%s: %d jobs, %d actions %s, %d deadlines kept as submitted, %d of them broken, %d reports on %d decisions", where, l.jobs, l.acted, verb, l.kept, l.broken, l.reports, l.decisions)
}
