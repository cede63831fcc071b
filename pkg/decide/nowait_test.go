package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// TestNoWaitLeavesRoom: "nowait" may not wait, "big" comes at the same moment or before and must start now, and both fit
// on c1. As submitted, "nowait" waits for half an hour, and nobody is late.
func TestNoWaitLeavesRoom(t *testing.T) {
	for _, before := range []time.Duration{0, 1, time.Second, time.Hour} {
		for _, heldOut := range []bool{false, true} {
			nowait := decide.Task{ID: "nowait", Kind: workload.Rigid, Submitted: at(0), HeldOut: heldOut, State: decide.Waiting, Request: map[string]float64{"cpu": 3}, Remaining: 90 * time.Minute}
			if heldOut {
				nowait.Deadline = at(4)
			}
			noneLate(t, twoPlaces(t, 3, 7,
				decide.Task{ID: "big", Kind: workload.Rigid, Submitted: at(0).Add(-before), State: decide.Waiting, Request: map[string]float64{"cpu": 6}, Remaining: 90 * time.Minute, Deadline: at(1.5)},
				nowait,
				decide.Task{ID: "running", Kind: workload.Interruptible, Submitted: at(-1), Changed: at(-1), State: decide.Running, Cluster: "c0", Request: map[string]float64{"cpu": 3}, Migratable: true, Remaining: 30 * time.Minute, Deadline: at(0.5)},
			))
		}
	}
}
