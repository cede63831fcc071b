package exact_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// TestBegunAgainstExact compares planners that count restarts and lost work with proven optima of small
// instances whose jobs run or are paused already.
func TestBegunAgainstExact(t *testing.T) {
	enough := size.Of(800, 4000)
	compared, optimal, within, goOn := 0, 0, 0, 0
	for seed := uint64(0); compared < enough; seed++ {
		o := plantest.Options{MaxJobs: 3, MaxSlots: 5, MaxHosts: 2, Begun: true, Whole: seed%2 == 0}
		if seed%3 > 0 {
			o.Kinds = []workload.Kind{workload.Rigid, workload.Interruptible}
		}
		p := plantest.Random(seed, o)
		best, err := exact.Planner{}.Plan(context.Background(), p)
		if errors.Is(err, exact.ErrTooLarge) {
			continue
		} else if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for name, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "cheapest": cheapest.Planner{}} {
			res, err := planner.Plan(context.Background(), p)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, name, err)
			}
			if len(res.Unplaced) < len(best.Unplaced) {
				t.Fatalf("seed %d: %s plans more jobs than exact", seed, name)
			}
			if len(res.Unplaced) > 0 || len(best.Unplaced) > 0 {
				continue
			}
			if err := errors.Join(plan.Check(p, res.Plan), plan.Check(p, best.Plan)); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, name, err)
			}
			got, least := plan.Evaluate(p, res.Plan).CarbonG, plan.Evaluate(p, best.Plan).CarbonG
			allowed := plantest.BoundRounding*least + 1e-9
			if res.Bound != nil && *res.Bound > least+allowed {
				t.Fatalf("seed %d: %s: bound %v, exact reaches %v", seed, name, *res.Bound, least)
			}
			if best.Status != plan.Optimal {
				continue
			}
			if got < least-allowed {
				t.Fatalf("seed %d: %s reaches %v, the optimum is %v", seed, name, got, least)
			}
			if res.Status == plan.Optimal && got > least+allowed {
				t.Fatalf("seed %d: %s calls %v optimal, the optimum is %v", seed, name, got, least)
			}
			if name != "joint" {
				continue
			}
			compared++
			if res.Status == plan.Optimal {
				optimal++
			}
			if got <= least*1.001+1e-9 {
				within++
			}
			for _, jp := range res.Plan.Jobs {
				if p.GoesOn(jp.Job, jp.Segments) && math.Abs(p.Need(jp.Job, jp.Segments)-p.Jobs[jp.Job].Work()) > 1e-9 {
					goOn++
				}
			}
		}
	}
	t.Logf("%d compared with an optimum: %d called optimal, %d within 0.1 %%, %d jobs go on and spare lost work", compared, optimal, within, goOn)
	if within < compared*99/100 || goOn < compared/50 {
		t.Errorf("%d of %d within 0.1 %%, want 99 %%; %d jobs go on", within, compared, goOn)
	}
}
