package slurm

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
)

// TestHostileMarksMakeNoPhaseOfNegativeLength: whatever a mark states as done, before and after the deadline, in each state: a phase ends after it begins, and a decision
// breaks no invariant.
func TestHostileMarksMakeNoPhaseOfNegativeLength(t *testing.T) {
	planners := map[string]plan.Planner{"cheapest": cheapest.Planner{}, "joint": joint.Planner{Effort: 0.02}}
	seen := 0
	for _, sizes := range []bool{false, true} {
		for _, checkpoint := range []string{"", ",checkpoint=30m"} {
			for _, phase := range []Phase{Held, Released, Pausing, Paused} {
				for _, state := range []string{statePending, stateRunning, stateCompleting} {
					for _, done := range []time.Duration{0, 2*time.Hour - time.Second, 2 * time.Hour, longest} {
						for _, ran := range []time.Duration{0, longest} {
							for _, clock := range []string{"09:00:00", "17:59:59", "23:00:00"} {
								j := waiting()
								m := Mark{Phase: phase, Begin: j.Begin, Since: at("08:00:00"), Done: done, Ran: ran}
								if sizes {
									j, m.Size, m.User, m.Each, m.Was, m.To = sizing(), 8, 8, 2, 4, 4
								}
								j.Comment = "lull:max-delay=8h,runtime=2h,interruptible" + checkpoint
								if sizes {
									j.Comment += ",min-tasks=2,restart=5m"
								}
								if j.Restarts = 1; state != statePending {
									j.State, j.Reason, j.Node, j.Started = state, "None", "n1", at("08:30:00")
								}
								j.AdminComment = m.String()
								in := inputAt(t, j)
								in.Now = at(clock)
								v := Observe(in)
								for name, p := range planners {
									d, err := decide.Decide(t.Context(), v.Snapshot, p)
									if err != nil {
										t.Fatalf("%s %s %s %s: %v", name, state, clock, j.AdminComment, err)
									}
									for _, x := range decide.Verify(v.Snapshot, d) {
										t.Fatalf("%s %s %s %s: %v\n%+v\n%+v", name, state, clock, j.AdminComment, x, v.Snapshot.Tasks[0], d.Actions[0])
									}
									for i := range d.Actions {
										for _, ph := range append(d.Actions[i].Phases, d.Actions[i].Plan...) {
											if seen++; ph.To.Before(ph.From) {
												t.Errorf("%s sizes=%v %s %s %s left=%v: %v to %v", name, sizes, state, clock, j.AdminComment, v.Snapshot.Tasks[i].Remaining, ph.From, ph.To)
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d phases; want 1000 and more, or this tests little", seen)
	}
}
