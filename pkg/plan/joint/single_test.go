package joint_test

import (
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestSingleKeepsTheLawsOfPlanners: the planner that refines plans keeps the laws of planners, and its plan of one job costs no more than that of joint.
func TestSingleKeepsTheLawsOfPlanners(t *testing.T) {
	single := joint.Planner{}.Single()
	plantest.OneJob(t, single, 300)
	for seed := range uint64(400) {
		p, err := generate.Instance(generate.Options{
			Seed: seed, Jobs: 1, Slots: 48, Clusters: 1 + int(seed%3), Capacity: 8, Varying: true, Objective: plan.Carbon,
			Kinds: []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic},
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := joint.Planner{}.Plan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := single.Plan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, b.Plan); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(a.Unplaced) < len(b.Unplaced) {
			t.Fatalf("seed %d: not placed, and joint places it", seed)
		}
		if len(b.Unplaced) > 0 {
			continue
		}
		if x, y := plan.Evaluate(p, a.Plan).CarbonG, plan.Evaluate(p, b.Plan).CarbonG; y > x*(1+1e-9) {
			t.Errorf("seed %d: %v g, joint %v g", seed, y, x)
		}
	}
}
