package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// twoPlaces is a snapshot of two clusters, c0 and c1, with so many CPUs.
func twoPlaces(t *testing.T, first, second float64, tasks ...decide.Task) decide.Snapshot {
	t.Helper()
	s := snapshot(t, at(0), tasks...)
	a := s.Clusters[0]
	b := a
	a.Name, a.Capacity = "c0", map[string]float64{"cpu": first}
	b.Name, b.Capacity = "c1", map[string]float64{"cpu": second}
	s.Clusters, s.Margin = []decide.Cluster{a, b}, 0
	return s
}

// noneLate decides. No task may end after its deadline.
func noneLate(t *testing.T, s decide.Snapshot) {
	t.Helper()
	d := must(t, s, asap.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	for i, a := range d.Actions {
		if n := len(a.Phases); !s.Tasks[i].Deadline.IsZero() && (n == 0 || a.Phases[n-1].To.After(s.Tasks[i].Deadline)) {
			t.Errorf("%s is late: %s on %s (%s)", a.Task, a.Verb, a.Cluster, a.Reason.Code)
		}
	}
}

// TestUrgentLeavesRunningWhereItIs: a running elastic task that must go on as it is fills c0. An urgent task should
// start on c1, which is empty, and not take the place on c0.
func TestUrgentLeavesRunningWhereItIs(t *testing.T) {
	for _, slack := range []time.Duration{0, 30 * time.Minute} {
		noneLate(t, twoPlaces(t, 2, 2,
			decide.Task{
				ID: "running", Kind: workload.Elastic, Submitted: at(-0.1), Changed: at(-0.1), State: decide.Running, Cluster: "c0", Request: map[string]float64{"cpu": 1}, Migratable: true,
				Scaling: &decide.Scaling{MinWorkers: 2, MaxWorkers: 3, Curve: []float64{1, 1}}, Workers: 2, Remaining: 2 * time.Hour, AtRisk: 2 * time.Minute, Deadline: at(0).Add(118 * time.Minute),
			},
			decide.Task{ID: "urgent", Kind: workload.Interruptible, Submitted: at(0), State: decide.Waiting, Request: map[string]float64{"cpu": 0.5}, Migratable: true, Remaining: time.Hour, Deadline: at(1).Add(slack)},
		))
	}
}

// TestAnnouncedLeavesRunningWhereItIs: a running task with work at risk fills c0 and is in time only if it goes on.
// An urgent task and one that comes in an hour both fit on c1. As submitted, all are in time.
func TestAnnouncedLeavesRunningWhereItIs(t *testing.T) {
	for kind, deadline := range map[workload.Kind]time.Duration{workload.Interruptible: 2*time.Hour + 30*time.Second, workload.Elastic: 118*time.Minute + 1} {
		running := decide.Task{
			ID: "running", Kind: kind, Submitted: at(-0.1), Changed: at(-0.1), State: decide.Running, Cluster: "c0", Request: map[string]float64{"cpu": 2}, Migratable: true,
			Remaining: 2 * time.Hour, AtRisk: 2 * time.Minute, Checkpoint: 10 * time.Minute, Deadline: at(0).Add(deadline),
		}
		if kind == workload.Elastic {
			running.Request["cpu"], running.Workers = 1, 2
			running.Scaling = &decide.Scaling{MinWorkers: 2, MaxWorkers: 3, Curve: []float64{1, 1}}
		}
		soon := announced("announced", at(1), at(1).Add(142*time.Minute), 142*time.Minute, 1)
		soon.Clusters = []string{"c1"}
		s := twoPlaces(t, 2, 2, soon,
			decide.Task{
				ID: "urgent", Kind: workload.Interruptible, Submitted: at(0), State: decide.Waiting, Request: map[string]float64{"cpu": 0.5}, Migratable: true, Remaining: time.Hour, Checkpoint: time.Hour,
				Deadline: at(1).Add(1), Quantiles: []decide.Quantile{{P: 0.5, Remaining: time.Hour}, {P: 0.95, Remaining: 75 * time.Minute}},
			}, running)
		s.Margin = time.Minute
		noneLate(t, s)
	}
}
