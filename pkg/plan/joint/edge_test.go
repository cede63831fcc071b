package joint

import (
	"context"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestDeadlineBeforeTheHorizon: a soft deadline may have passed before the plan begins.
func TestDeadlineBeforeTheHorizon(t *testing.T) {
	for _, deadline := range []int{-3, -1000, math.MinInt32} {
		p := plantest.OneCluster(1, []float64{5, 3, 8, 1, 9, 2}, plantest.Job("late", workload.Rigid, 0, deadline, 2), plantest.Job("b", workload.Rigid, 0, 5, 3))
		p.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{1, 1, 1}, Theta: &[3]float64{1, 1, 1}}
		res, err := Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, res.Plan); err != nil || len(res.Plan.Jobs) != 2 {
			t.Errorf("deadline %d: %d jobs planned: %v", deadline, len(res.Plan.Jobs), err)
		}
	}
}

// TestWorkThatFillsTheWindow: ten slots of a tenth sum to a little less than the work
// of ten slots; the window holds it all the same. Two such jobs contend, so that the
// search places them in what is left.
func TestWorkThatFillsTheWindow(t *testing.T) {
	intensity := []float64{5, 3, 8, 1, 9, 2, 7, 4, 6, 10}
	jobs := []workload.Job{plantest.Job("a", workload.Elastic, 0, 10, 10), plantest.Job("b", workload.Elastic, 0, 10, 10), plantest.Job("c", workload.Elastic, 0, 10, 2)}
	for i := range jobs {
		jobs[i].Curve = []float64{0.1}
	}
	p := plantest.OneCluster(3, intensity, jobs...)
	res, err := Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Unplaced) > 0 {
		t.Fatalf("unplaced: %v", res.Unplaced)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Error(err)
	}
}
