package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// TestNothingIsLeftAfterTheDeadline: all work of a task is done, as far as is known, and its deadline has passed. It is released, and no phase ends before it begins.
func TestNothingIsLeftAfterTheDeadline(t *testing.T) {
	for _, paused := range []bool{false, true} {
		for _, restart := range []time.Duration{0, time.Minute} {
			x := task("a", at(-6), at(-1), 0)
			x.Kind, x.Paused, x.Cluster, x.Changed = workload.Interruptible, paused, "c0", at(-3)
			if restart > 0 {
				x.Kind, x.Restart, x.Scaling = workload.Elastic, restart, &decide.Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}, Restarts: true}
			}
			s := twoPlaces(t, 4, 8, x)
			a := must(t, s, asap.Planner{}).Actions[0]
			if a.Verb != decide.Release && a.Verb != decide.Resume {
				t.Errorf("paused %v, restart %v: %s (%s)", paused, restart, a.Verb, a.Reason.Code)
			}
			for _, p := range a.Phases {
				if p.To.Before(p.From) {
					t.Errorf("paused %v, restart %v: from %v to %v", paused, restart, p.From, p.To)
				}
			}
		}
	}
}
