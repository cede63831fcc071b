package plan_test

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/joint"
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

// TestGuardedBoundHoldsForAllPlans: the guard makes the planner avoid the clean last
// slot, which Check accepts; so a bound of the guarded problem is none of this one.
func TestGuardedBoundHoldsForAllPlans(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		job := plantest.Job("a", kind, 0, 4, 1)
		job.Quantiles = []workload.Quantile{{P: 0.95, Length: 3}}
		p := plantest.OneCluster(1, []float64{100, 100, 100, 1}, job)
		clean := plan.Plan{Jobs: []plan.JobPlan{{Segments: []plan.Segment{{Slot: 3, Workers: 1, Fraction: 1}}}}}
		if err := plan.Check(p, clean); err != nil {
			t.Fatal(err)
		}
		least := plan.Evaluate(p, clean).CarbonG
		for _, planner := range []plan.Planner{cheapest.Planner{}, carbonscaler.Planner{}, joint.Planner{}, exact.Planner{}} {
			res, err := plan.Guarded{Planner: planner, Probability: 0.95}.Plan(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			if res.Bound != nil && *res.Bound > least {
				t.Errorf("%s, %T: bound %v, a feasible plan emits %v", kind, planner, *res.Bound, least)
			}
			if res.Status != plan.Feasible {
				t.Errorf("%s, %T: status %s of a plan that is not the best", kind, planner, res.Status)
			}
		}
	}
}

// TestGuardedKeepsABoundItDidNotChange: a guard that moves no deadline changes nothing.
func TestGuardedKeepsABoundItDidNotChange(t *testing.T) {
	job := plantest.Job("a", workload.Rigid, 0, 4, 2)
	job.Quantiles = []workload.Quantile{{P: 0.5, Length: 1.5}, {P: 0.95, Length: 2}}
	p := plantest.OneCluster(1, []float64{100, 100, 100, 1}, job)
	res, err := plan.Guarded{Planner: cheapest.Planner{}, Probability: 0.95}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if res.Bound == nil || res.Status != plan.Optimal {
		t.Errorf("bound %v, status %s; want a bound of an optimal plan", res.Bound, res.Status)
	}
}

// TestGuardYieldsToDeadlines: two jobs that both fit only if one of them starts later
// than its guard allows; the guard is given up for that one, not the job.
func TestGuardYieldsToDeadlines(t *testing.T) {
	a, b := plantest.Job("a", workload.Rigid, 0, 4, 2), plantest.Job("b", workload.Rigid, 0, 4, 2)
	a.Quantiles = []workload.Quantile{{P: 0.95, Length: 4}}
	b.Quantiles = a.Quantiles
	early := plantest.Job("early", workload.Rigid, 4, 8, 1)
	early.Quantiles = []workload.Quantile{{P: 0.95, Length: 3}}
	p := plantest.OneCluster(1, []float64{9, 9, 9, 9, 9, 9, 9, 1}, a, b, early)
	for _, planner := range []plan.Planner{asap.Planner{}, cheapest.Planner{}, joint.Planner{}} {
		res, err := plan.Guarded{Planner: planner, Probability: 0.95}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, res.Plan); err != nil || res.Status != plan.Feasible {
			t.Errorf("%T: %s: %v", planner, res.Status, err)
			continue
		}
		if at, _ := res.Plan.Jobs[2].Start(); at > 5 {
			t.Errorf("%T: the guard of another job was given up: it starts in slot %d, safe until 5", planner, at)
		}
	}
}
