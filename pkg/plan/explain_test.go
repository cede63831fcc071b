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

// TestExplainRefusesPlacesTooLateForTheGuard: places that are too late for the guarded run time do not fit, as planners do not use
// them. A rigid run of two slots that may take four has to end by slot 4 of 6.
func TestExplainRefusesPlacesTooLateForTheGuard(t *testing.T) {
	for kind, late := range map[workload.Kind]int{workload.Rigid: 3, workload.Interruptible: 4} {
		job := plantest.Job("a", kind, 0, 6, 2)
		job.Quantiles = []workload.Quantile{{P: 0.95, Length: 4}}
		p := plantest.OneCluster(1, []float64{60, 50, 40, 30, 20, 10}, job)
		g := plan.Guarded{Planner: cheapest.Planner{}, Probability: 0.95}
		res, err := g.Plan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		x, ok := g.Explain(p, res.Plan, 0)
		if !ok || x.Guard != 4 || len(x.Alternatives) == 0 {
			t.Fatalf("%s: %+v", kind, x)
		}
		for _, a := range x.Alternatives {
			if fits := a.Slot < late; a.Fits != fits || fits != (a.Why == "") {
				t.Errorf("%s: slot %d: fits %v, %q", kind, a.Slot, a.Fits, a.Why)
			}
			if a.Fits && a.Grams < x.Grams {
				t.Errorf("%s: slot %d is said to be better than the plan", kind, a.Slot)
			}
		}
		if x, _ := (plan.Guarded{Probability: 0.5}).Explain(plantest.OneCluster(1, []float64{60, 50}, plantest.Job("b", kind, 0, 2, 1)), plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: []plan.Segment{{Slot: 1, Workers: 1, Fraction: 1}}}}}, 0); x.Guard != 0 || !x.Alternatives[0].Fits {
			t.Errorf("%s: a certain run time is guarded: %+v", kind, x)
		}
	}
}
