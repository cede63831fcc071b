package decide_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// TestRestartsLoseNoDeadline: where each start after a pause takes up to ten minutes, every deadline is kept that is kept as
// submitted, and no decision leaves a place unused that Verify finds. In one world of four starts take up to ten hours.
func TestRestartsLoseNoDeadline(t *testing.T) {
	kinds := []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}
	for name, planner := range map[string]plan.Planner{"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "joint": joint.Planner{Effort: 0.02}} {
		for _, load := range loads() {
			l, where := losses{}, fmt.Sprintf("%s, load %v", name, load)
			for seed := range worlds() {
				reference := randomWorld(seed, load, true, kinds)
				reference.run(t, nil)
				w := randomWorld(seed, load, true, kinds)
				rng, longest := rand.New(rand.NewPCG(seed, 41)), 600
				if seed%4 == 3 {
					longest = 36000
				}
				for _, x := range w.jobs {
					if x.task.Kind != workload.Rigid {
						x.task.Restart = time.Duration(rng.IntN(longest)) * time.Second
					}
				}
				l.run(t, fmt.Sprintf("%s, seed %d", where, seed), reference, w, planner, decide.Pause)
			}
			l.expectNone(t, where, decide.Pause)
		}
	}
}
