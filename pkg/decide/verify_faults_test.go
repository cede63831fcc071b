package decide_test

import (
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/workload"
)

// Each test here is a fault that Verify found, in a decision or in itself.

func expectValid(t *testing.T, s decide.Snapshot, d decide.Decision) {
	t.Helper()
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestRunsWithoutCarbonDataAsPlanned: an elastic task that runs on a cluster without carbon data does what its plan says, at
// the scale that it says, and there is a reason.
func TestRunsWithoutCarbonDataAsPlanned(t *testing.T) {
	for name, p := range map[string]plan.Planner{"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "carbonscaler": carbonscaler.Planner{}} {
		for workers := 1; workers <= 4; workers++ {
			for _, standing := range []bool{false, true} {
				x := elastic("a", at(0), at(20))
				x.State, x.Cluster, x.Workers = decide.Running, "dark", workers
				if standing {
					x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(0), To: at(6), Cluster: "dark", Workers: 1}}}
				}
				s := snapshot(t, at(1), x)
				dark := s.Clusters[0]
				dark.Name, dark.Carbon = "dark", nil
				s.Clusters = append(s.Clusters, dark)
				for _, migratable := range []bool{false, true} {
					s.Tasks[0].Migratable = migratable
					d := must(t, s, p)
					expectValid(t, s, d)
					if a := &d.Actions[0]; a.Reason.Code == "" || len(a.Phases) > 0 && !a.Phases[0].From.After(s.Now) && a.Workers != a.Phases[0].Workers {
						t.Errorf("%s, %d workers, standing %v, migratable %v: %s", name, workers, standing, migratable, brief(a))
					}
				}
			}
		}
	}
}

// TestLateTaskIsSaidToBeLate: a pause that is put off until the next checkpoint, a moment from now, does not hide that the
// task is late.
func TestLateTaskIsSaidToBeLate(t *testing.T) {
	x := task("late", at(0), at(2), 3*time.Hour)
	x.Kind, x.State, x.Cluster = workload.Interruptible, decide.Running, "c"
	x.Checkpoint, x.AtRisk = time.Hour, time.Hour-20*time.Microsecond
	x.Request = map[string]float64{"cpu": 10}
	urgent := task("urgent", at(1), at(1.75), 30*time.Minute)
	urgent.Request = map[string]float64{"cpu": 10}
	s := snapshot(t, at(1), x, urgent)
	s.Margin = 0
	d := must(t, s, asap.Planner{})
	expectValid(t, s, d)
	if a := &d.Actions[0]; a.Verb != decide.Continue || len(a.Phases) < 2 || a.Reason.Code != decide.CodeDeadlineAtRisk {
		t.Errorf("%s; want it to go on to its checkpoint, to pause then, and at risk", brief(a))
	}
}

// TestRenewedOnlyByNewcomers: a task that asks for a new plan is not said to be renewed for others.
func TestRenewedOnlyByNewcomers(t *testing.T) {
	x := task("a", at(0), at(20), time.Hour)
	x.Replan, x.Renewable = true, true
	s := snapshot(t, at(1), x)
	d := must(t, s, cheapest.Planner{})
	expectValid(t, s, d)
	if d.Actions[0].Renewed {
		t.Error("renewed, with no plan before")
	}
}

// TestWakesForAnAnnouncedTaskWithoutAPlace: the next decision is due when a task comes that has no place in time.
func TestWakesForAnAnnouncedTaskWithoutAPlace(t *testing.T) {
	x := task("huge", at(3), at(20), time.Hour)
	x.NotBefore, x.Request = at(3), map[string]float64{"cpu": 100}
	s := snapshot(t, at(1), x)
	d := must(t, s, cheapest.Planner{})
	expectValid(t, s, d)
	if d.Wake.After(at(3)) {
		t.Errorf("wakes at %s; want 03:00", d.Wake)
	}
}

// expectNoticed checks that Verify reports a rule of a task about a decision that is right of another snapshot.
func expectNoticed(t *testing.T, s decide.Snapshot, d decide.Decision, rule decide.Rule, task string) {
	t.Helper()
	found := decide.Verify(s, d)
	if !slices.ContainsFunc(found, func(v decide.Violation) bool { return v.Rule == rule && v.Task == task }) {
		t.Errorf("Verify reports %v; want %s of %s", found, rule, task)
	}
}

// TestVerifyNoticesAFalseStart: two tasks that may not wait are said to start now, and there is room for one.
func TestVerifyNoticesAFalseStart(t *testing.T) {
	a, b := task("a", at(8), time.Time{}, time.Hour), task("b", at(9), time.Time{}, time.Hour)
	s := snapshot(t, at(9), a, b)
	s.Clusters[0].Capacity = map[string]float64{"cpu": 2}
	expectValid(t, s, must(t, s, cheapest.Planner{}))

	wrong := s
	wrong.Clusters = slices.Clone(s.Clusters)
	wrong.Clusters[0].Capacity = map[string]float64{"cpu": 4}
	expectNoticed(t, s, must(t, wrong, cheapest.Planner{}), decide.RuleQueue, "b")
}

// TestVerifyNoticesALatestStartTooLate: a task that is announced is said to be able to start later than it can.
func TestVerifyNoticesALatestStartTooLate(t *testing.T) {
	x := task("a", at(9), at(12), time.Hour)
	x.NotBefore = at(9)
	s := snapshot(t, at(8), x)
	d := must(t, s, cheapest.Planner{})
	expectValid(t, s, d)
	d.Actions[0].Reason.LatestStart = at(11.5)
	expectNoticed(t, s, d, decide.RuleLatestStart, "a")
}
