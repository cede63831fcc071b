package joint_test

import (
	"testing"

	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
)

// TestOneJobOnAnyCurve: nothing competes with a single job, so its best response is the
// plan.
func TestOneJobOnAnyCurve(t *testing.T) {
	plantest.OneJob(t, joint.Planner{}, plantest.Instances(300))
}
