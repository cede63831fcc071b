package exact_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

var small = plantest.Options{MaxJobs: 4, MaxSlots: 5, MaxHosts: 2}

func TestLaws(t *testing.T) {
	plantest.Laws(t, exact.Planner{}, 200, small)
	mosp := small
	mosp.Objective = plan.MOSP
	plantest.Laws(t, exact.Planner{}, 200, mosp)
}

// TestLargerJobGetsTheOnlyCleanHour: two jobs want the one clean hour; the larger gets it.
func TestLargerJobGetsTheOnlyCleanHour(t *testing.T) {
	p := plantest.OneCluster(4, []float64{100, 10, 50},
		plantest.Job("a", workload.Rigid, 0, 3, 1),
		plantest.Job("b", workload.Rigid, 0, 3, 1))
	p.Jobs[0].Request["server"], p.Jobs[1].Request["server"] = 2, 3
	res, err := exact.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if e := plan.Evaluate(p, res.Plan); res.Status != plan.Optimal || e.CarbonG != 2*50+3*10 {
		t.Errorf("%s, %v g; want optimal, 130 g", res.Status, e.CarbonG)
	}
}

func TestTooLarge(t *testing.T) {
	p := plantest.Sized(1, 30, 3, 48, 0.5)
	if _, err := (exact.Planner{MaxSteps: 1000}).Plan(context.Background(), p); !errors.Is(err, exact.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	if _, err := (exact.Planner{MaxSchedules: 3}).Plan(context.Background(), p); !errors.Is(err, exact.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}

// TestJointAgainstExact: on small instances that have a proven optimum, of all kinds and both objectives, 10,000 in the
// large run, the bound of joint is never beyond the optimum and its plan never better than it;
// where it calls its plan optimal, it is; and it is seldom far from it.
func TestJointAgainstExact(t *testing.T) {
	enough := size.Of(1500, 10_000)
	var compared, optimal, within int
	worst := 0.0
	for seed := uint64(0); compared < enough; seed++ {
		o := small
		if seed%4 == 3 {
			o.Objective = plan.MOSP
			o.Kinds = []workload.Kind{workload.Rigid, workload.Interruptible}
		}
		o.Costs = seed%5 == 4
		p := plantest.Random(seed, o)
		best, err := exact.Planner{}.Plan(context.Background(), p)
		if errors.Is(err, exact.ErrTooLarge) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		res, err := joint.Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Unplaced) < len(best.Unplaced) && p.Objective.Kind == plan.Carbon {
			t.Fatalf("seed %d: joint plans more jobs than exact", seed)
		}
		if best.Status != plan.Optimal {
			continue
		}
		if res.Status == plan.Infeasible {
			t.Logf("seed %d: joint finds no plan, exact does", seed)
			continue
		}
		cost := func(r plan.Result) float64 {
			e := plan.Evaluate(p, r.Plan)
			return e.Cost(p.Objective)
		}
		opt, got := cost(best), cost(res)
		eps := 1e-7 * math.Max(1e-9, math.Abs(opt))
		if got < opt-eps {
			t.Fatalf("seed %d: joint reaches %v, exact %v", seed, got, opt)
		}
		if res.Bound == nil {
			continue // not claimed: a price on parts of slots, with Z
		}
		bound := *res.Bound
		if p.Objective.Kind == plan.MOSP && p.Objective.PriceWeight == 0 {
			bound = -bound
		}
		if bound > opt+eps {
			t.Fatalf("seed %d: bound %v beyond the optimum %v", seed, bound, opt)
		}
		if res.Status == plan.Optimal && got > opt+10*eps {
			t.Fatalf("seed %d: called optimal at %v, optimum %v", seed, got, opt)
		}
		compared++
		if got <= opt+eps {
			optimal++
		}
		gap := (got - opt) / math.Max(1e-9, math.Abs(opt))
		if gap < 0.01 {
			within++
		}
		worst = math.Max(worst, gap)
	}
	t.Logf("%d compared: %d optimal, %d within 1 %%, worst %.1f %%", compared, optimal, within, 100*worst)
	if within < compared*995/1000 {
		t.Errorf("%d of %d within 1 %%; want 99.5 %%", within, compared)
	}
}

func BenchmarkPlan(b *testing.B) {
	p := plantest.Random(3, plantest.Options{MaxJobs: 8, MaxSlots: 8, MaxHosts: 2, Kinds: []workload.Kind{workload.Rigid, workload.Interruptible}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (exact.Planner{}).Plan(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}
