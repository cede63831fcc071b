package plan_test

import (
	"context"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func TestExplain(t *testing.T) {
	p := plantest.OneCluster(1, []float64{60, 10, 40}, plantest.Job("a", workload.Rigid, 1, 2, 1), plantest.Job("b", workload.Rigid, 0, 3, 1))
	res, err := cheapest.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := plan.Explain(p, res.Plan, 1)
	if !ok || x.Grams != 40 || len(x.Alternatives) != 2 {
		t.Fatalf("%+v", x)
	}
	if a := x.Alternatives[0]; a.Slot != 1 || a.Grams != 10 || a.Fits || !strings.Contains(a.Why, "taken by a") {
		t.Errorf("the clean slot: %+v", a)
	}
	if a := x.Alternatives[1]; a.Slot != 0 || a.Grams != 60 || !a.Fits {
		t.Errorf("the first slot: %+v", a)
	}
	if _, ok := plan.Explain(p, plan.Plan{}, 1); ok {
		t.Error("a job without a place was explained")
	}
	// What may pause exchanges its dearest slot.
	p = plantest.OneCluster(1, []float64{60, 10, 40, 20}, plantest.Job("a", workload.Interruptible, 0, 4, 2))
	if res, err = (cheapest.Planner{}).Plan(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	x, _ = plan.Explain(p, res.Plan, 0)
	if len(x.Alternatives) != 2 || x.Alternatives[0].Grams != 50 || x.Alternatives[1].Grams != 70 {
		t.Errorf("%+v", x.Alternatives)
	}
}
