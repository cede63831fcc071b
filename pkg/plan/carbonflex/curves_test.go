package carbonflex

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// allOf is Algorithm 3 with all of the cluster in every slot and no least throughput.
func allOf(t *testing.T) plan.Planner {
	t.Helper()
	k := NewKnowledge(0)
	if err := k.Add(Case{Capacity: 1, Rho: 0}); err != nil {
		t.Fatal(err)
	}
	pl, err := New(Params{Knowledge: k})
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// TestWorkersOfUseTogether: workers that only together add something, or more than those before
// them, are taken together, where all of them fit, and never some of them alone.
func TestWorkersOfUseTogether(t *testing.T) {
	for _, c := range []struct {
		servers, length float64
		further         []float64
		grams           float64
	}{
		{3, 2, []float64{0, 1}, 30},       // all of the work in the clean slot with 3 workers
		{2, 2, []float64{0, 1}, 10 + 100}, // 1 worker in both slots
		{3, 1.5, []float64{0, 1}, 20},     // half of the slot with 3 workers, half of it with 1
		{2, 2.5, []float64{1.5}, 20},      // the second worker adds more than the first
	} {
		for name, pl := range map[string]plan.Planner{"algorithm 3": allOf(t), "oracle": Oracle{}} {
			p := plantest.OneCluster(c.servers, []float64{10, 100, 100, 100}, plantest.Job("a", workload.Elastic, 0, 4, c.length, c.further...))
			res, err := pl.Plan(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Check(p, res.Plan); err != nil {
				t.Fatal(err)
			}
			if got := plan.Evaluate(p, res.Plan).CarbonG; got != c.grams {
				t.Errorf("%s, %v servers, %v of work, further workers %v: %v g, want %v; %v", name, c.servers, c.length, c.further, got, c.grams, res.Plan)
			}
		}
	}
}

func TestUsefulScales(t *testing.T) {
	for _, pl := range []plan.Planner{allOf(t), Oracle{}} {
		plantest.UsefulScales(t, pl, 300, plantest.Options{})
	}
}
