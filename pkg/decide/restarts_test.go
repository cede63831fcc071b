package decide_test

import (
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
			jobs, kept, broken, pauses, decisions, reports := 0, 0, 0, 0, 0, 0
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
				w.decided = func(_ decide.Snapshot, d decide.Decision) {
					decisions++
					for i := range d.Actions {
						if d.Actions[i].Verb == decide.Pause {
							pauses++
						}
					}
				}
				for _, v := range w.run(t, planner) {
					if reports++; reports <= 3 {
						t.Logf("%s, load %v, seed %d: %s", name, load, seed, v)
					}
				}
				for k, x := range w.jobs {
					jobs++
					deadline := x.task.Deadline
					if deadline.IsZero() || reference.jobs[k].finish.After(deadline) {
						continue
					}
					kept++
					if late := x.finish.Sub(deadline); late > time.Millisecond {
						if broken++; broken <= 3 {
							t.Errorf("%s, load %v, seed %d: %s %s ends %v after its deadline", name, load, seed, x.task.Kind, x.task.ID, late)
						}
					}
				}
			}
			if broken+reports > 0 {
				t.Errorf("%s, load %v: %d of %d deadlines are lost, %d reports on %d decisions", name, load, broken, kept, reports, decisions)
			}
			t.Logf("%s, load %v: %d jobs, %d pauses, %d deadlines kept as submitted, %d of them broken, %d reports on %d decisions", name, load, jobs, pauses, kept, broken, reports, decisions)
		}
	}
}
