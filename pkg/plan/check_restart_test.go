package plan_test

import (
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestCheckRefusesBridges: a pause filled with next to no work would spare its restart.
func TestCheckRefusesBridges(t *testing.T) {
	p := plantest.OneCluster(1, []float64{10, 100, 10}, plantest.Job("a", workload.Interruptible, 0, 3, 2))
	bridged := plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: []plan.Segment{
		{Slot: 0, Workers: 1, Fraction: 1}, {Slot: 1, Workers: 1, Fraction: 1e-6}, {Slot: 2, Workers: 1, Fraction: 1},
	}}}}
	if err := plan.Check(p, bridged); err != nil {
		t.Errorf("without a restart energy: %v", err)
	}
	p.Jobs[0].RestartKWh = 0.1
	if err := plan.Check(p, bridged); err == nil || !strings.Contains(err.Error(), "3 slots used, its work needs 2") {
		t.Errorf("with one: %v", err)
	}
	paused := plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: []plan.Segment{{Slot: 0, Workers: 1, Fraction: 1}, {Slot: 2, Workers: 1, Fraction: 1}}}}}
	if err := plan.Check(p, paused); err != nil {
		t.Error(err)
	}
	if e := plan.Evaluate(p, paused); e.CarbonG != 10+10+0.1*10 || e.Restarts != 1 {
		t.Errorf("%v g, %d restarts; want 21 g and 1", e.CarbonG, e.Restarts)
	}
}
