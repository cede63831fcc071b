package plantest

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// FourEqual is a problem of four jobs of one slot and one CPU, on four CPUs, in slots of 300,
// 100 and 200 g/kWh, at 1 kW a CPU.
func FourEqual() *plan.Problem {
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Unix(0, 0), Slot: time.Hour, N: 3},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters: []plan.Cluster{{
			Name: "c", PUE: 1, Watts: map[string]float64{"cpu": 1000},
			Capacity: map[string][]float64{"cpu": {4, 4, 4}}, Intensity: []float64{300, 100, 200},
		}},
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		p.Jobs = append(p.Jobs, workload.Job{
			ID: id, Kind: workload.Rigid, Length: 1, Deadline: 3, Request: map[string]float64{"cpu": 1},
			MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
		})
	}
	return p
}

// Reserve checks a planner that keeps a quarter free: three of four equal jobs fit into the
// clean slot; the deadline of jobs that cannot wait outranks it.
func Reserve(t *testing.T, planner plan.Planner) {
	t.Helper()
	p := FourEqual()
	in := func(slot int) (n int) {
		res, err := planner.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatal(err)
		}
		for _, jp := range res.Plan.Jobs {
			if jp.Segments[0].Slot == slot {
				n++
			}
		}
		return n
	}
	if in(1) != 3 || in(2) != 1 {
		t.Errorf("%d jobs in the clean slot and %d in the next best, want 3 and 1", in(1), in(2))
	}
	for j := range p.Jobs {
		p.Jobs[j].Arrival, p.Jobs[j].Deadline = 1, 2
	}
	if in(1) != 4 {
		t.Errorf("%d jobs that cannot wait run, want 4", in(1))
	}
}

// LearnedReserve checks planners whose reserve is learned: they plan beside the reserve of the problem
// as stated, which keeps a quarter free, does whatever the problem says.
func LearnedReserve(t *testing.T, stated plan.Planner, learned ...plan.Planner) {
	t.Helper()
	if share, is := plan.KeptReserve(plan.Guarded{Planner: stated}); share != 0.25 || is {
		t.Errorf("the stated reserve is %v, learned %v; want 0.25, not learned", share, is)
	}
	clean := func(planner plan.Planner, reserve float64) (n int) {
		p := FourEqual()
		p.Reserve = reserve
		res, err := planner.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, jp := range res.Plan.Jobs {
			if jp.Segments[0].Slot == 1 {
				n++
			}
		}
		return n
	}
	for _, reserve := range []float64{0, 0.25, 0.5} {
		if n := clean(stated, reserve); n != 3 {
			t.Errorf("a stated reserve of a quarter: %d jobs in the clean slot with %v in the problem, want 3", n, reserve)
		}
		for _, planner := range learned {
			if share, is := plan.KeptReserve(planner); share != 0 || !is {
				t.Errorf("the learned reserve is %v, learned %v; want that of the problem", share, is)
			}
			if n, want := clean(planner, reserve), int(4*(1-reserve)); n != want {
				t.Errorf("a learned reserve of %v: %d jobs in the clean slot, want %d", reserve, n, want)
			}
		}
	}
}
