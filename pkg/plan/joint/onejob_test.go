package joint_test

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestOneJobOnAnyCurve: nothing competes with a single job, so its best response is the
// plan.
func TestOneJobOnAnyCurve(t *testing.T) {
	plantest.OneJob(t, joint.Planner{}, plantest.Instances(300))
}

// TestALeastScaleWithoutPowerDoesNotHideTheCleanCluster: a job that may migrate takes no
// power at its least scale, so that only further workers tell the clusters apart.
func TestALeastScaleWithoutPowerDoesNotHideTheCleanCluster(t *testing.T) {
	job := plantest.Job("a", workload.Elastic, 0, 2, 4, 1, 1, 1)
	job.Watts, job.Migratable = []float64{0, 300, 600, 900}, true
	p := plantest.OneCluster(9, []float64{500, 500}, job)
	clean := p.Clusters[0]
	clean.Name, clean.Intensity = "clean", []float64{10, 10}
	p.Clusters = append(p.Clusters, clean)
	res, err := joint.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if grams := plan.Evaluate(p, res.Plan).CarbonG; grams > 6+1e-6 {
		t.Errorf("%v g, want 6, all on the clean cluster", grams)
	}
}
