package vcc_test

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/vcc"
	"lull.dev/lull/pkg/workload"
)

// TestWorkersOfUseTogether: two workers that only together add something are taken together, where
// both fit, and never one of them alone.
func TestWorkersOfUseTogether(t *testing.T) {
	for _, c := range []struct{ servers, length, grams float64 }{
		{3, 2, 30},       // all of the work in the clean slot with 3 workers
		{2, 2, 10 + 100}, // 1 worker in both slots
		{3, 1.5, 20},     // half of the slot with 3 workers, half of it with 1
	} {
		p := plantest.OneCluster(c.servers, []float64{10, 100, 100, 100}, plantest.Job("a", workload.Elastic, 0, 4, c.length, 0, 1))
		res, err := planner(t, vcc.Params{Scaling: true, Floor: 1}).Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatal(err)
		}
		if got := plan.Evaluate(p, res.Plan).CarbonG; got != c.grams {
			t.Errorf("%v servers, %v of work: %v g, want %v; %v", c.servers, c.length, got, c.grams, res.Plan)
		}
	}
}

func TestUsefulScales(t *testing.T) {
	plantest.UsefulScales(t, planner(t, vcc.Params{Scaling: true}), 300, plantest.Options{})
}
