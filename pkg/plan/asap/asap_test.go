package asap_test

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

func TestLaws(t *testing.T) {
	plantest.Laws(t, asap.Planner{}, 400, plantest.Options{})
	plantest.Laws(t, asap.Planner{}, 200, plantest.Options{Objective: plan.MOSP})
}

func constant(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func cluster(name string, cpus, intensity float64, n int) plan.Cluster {
	return plan.Cluster{
		Name: name, PUE: 1, Watts: map[string]float64{"cpu": 1000},
		Capacity: map[string][]float64{"cpu": constant(cpus, n)}, Intensity: constant(intensity, n),
	}
}

func rigid(id string, arrival, length, deadline int) workload.Job {
	return workload.Job{
		ID: id, Kind: workload.Rigid, Arrival: arrival, Length: float64(length), Deadline: deadline,
		Request: map[string]float64{"cpu": 1}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
	}
}

// TestSpreadsOverClusters: equal clusters share the work although one is
// cleaner and stands first; otherwise the baseline would be carbon-aware.
func TestSpreadsOverClusters(t *testing.T) {
	const n = 10
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Unix(0, 0), Slot: time.Hour, N: n},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{cluster("clean", 8, 10, n), cluster("dirty", 8, 900, n)},
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		p.Jobs = append(p.Jobs, rigid(id, 0, 2, n))
	}
	res, err := asap.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	on := map[int]int{}
	for _, jp := range res.Plan.Jobs {
		on[jp.Segments[0].Cluster]++
		if jp.Segments[0].Slot != 0 {
			t.Errorf("job %d starts in slot %d, want 0", jp.Job, jp.Segments[0].Slot)
		}
	}
	if on[0] != 3 || on[1] != 3 {
		t.Errorf("jobs per cluster %v, want 3 each", on)
	}
}

// TestQueuesWhenFull: the third job of a cluster for two waits for the first
// to end.
func TestQueuesWhenFull(t *testing.T) {
	const n = 6
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Unix(0, 0), Slot: time.Hour, N: n},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{cluster("c", 2, 100, n)},
		Jobs:      []workload.Job{rigid("a", 0, 2, n), rigid("b", 0, 3, n), rigid("c", 0, 1, n), rigid("d", 0, 6, n)},
	}
	res, err := asap.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Plan.Jobs[2].Segments[0].Slot; got != 2 {
		t.Errorf("job c starts in slot %d, want 2", got)
	}
	if res.Status != plan.Infeasible || len(res.Unplaced) != 1 || p.Jobs[res.Unplaced[0].Job].ID != "d" {
		t.Errorf("status %s, unplaced %+v; want d named", res.Status, res.Unplaced)
	}
}

func BenchmarkPlan(b *testing.B) { plantest.Bench(b, asap.Planner{}) }
