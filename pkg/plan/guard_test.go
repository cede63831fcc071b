package plan_test

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestGuardedStartsSafely: the cheapest slot is the last; a job that may run three
// slots must begin early enough for them, though its mean of one decides what it emits.
func TestGuardedStartsSafely(t *testing.T) {
	job := plantest.Job("a", workload.Rigid, 0, 6, 1)
	job.Quantiles = []workload.Quantile{{P: 0.5, Length: 1}, {P: 0.95, Length: 3}, {P: 0.99, Length: 20}}
	p := plantest.OneCluster(1, []float64{60, 50, 40, 30, 20, 10}, job)
	for _, c := range []struct {
		probability float64
		slot        int
	}{{0.5, 5}, {0.9, 3}, {0.95, 3}, {0.99, 0}} { // the last cannot be kept: as early as can be
		res, err := plan.Guarded{Planner: cheapest.Planner{}, Probability: c.probability}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if at, _ := res.Plan.Jobs[0].Start(); at != c.slot {
			t.Errorf("probability %v: starts in slot %d, want %d", c.probability, at, c.slot)
		}
		if e := plan.Evaluate(p, res.Plan); e.CarbonG != p.Clusters[0].Intensity[c.slot] {
			t.Errorf("probability %v: %v g, want those of the mean length", c.probability, e.CarbonG)
		}
	}
	// Interruptible: the k-th slot is no later than deadline - safe length + k.
	job = plantest.Job("b", workload.Interruptible, 0, 6, 2)
	job.Quantiles = []workload.Quantile{{P: 0.95, Length: 3.5}}
	p = plantest.OneCluster(1, []float64{60, 50, 40, 30, 20, 10}, job)
	res, err := plan.Guarded{Planner: cheapest.Planner{}, Probability: 0.95}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for k, s := range res.Plan.Jobs[0].Segments {
		if latest := 6 - 4 + k; s.Slot > latest {
			t.Errorf("slot %d of the job is %d, later than %d", k, s.Slot, latest)
		}
	}
	if p.Jobs[0].Deadline != 6 {
		t.Error("the problem was modified")
	}
}
