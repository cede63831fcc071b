package plan_test

import (
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
)

// TestEachSequenceHasItsOwnMemory: planner joint gets a memory, below a guard too, and each sequence its own; a
// planner that remembers nothing stays as it is.
func TestEachSequenceHasItsOwnMemory(t *testing.T) {
	if pl := plan.ForSequence(cheapest.Planner{}); pl != (cheapest.Planner{}) {
		t.Errorf("cheapest: %#v", pl)
	}
	guarded := plan.Guarded{Planner: joint.Planner{}, Probability: 0.95}
	memories := map[*joint.Warm]bool{}
	for _, pl := range []plan.Planner{joint.Planner{}, guarded, guarded} {
		pl = plan.ForSequence(pl)
		if g, ok := pl.(plan.Guarded); ok {
			if g.Probability != 0.95 {
				t.Errorf("guarded by %v, want 0.95", g.Probability)
			}
			pl = g.Planner
		}
		w, ok := pl.(*joint.Warm)
		if !ok {
			t.Fatalf("%T remembers nothing", pl)
		}
		memories[w] = true
	}
	if len(memories) != 3 {
		t.Errorf("%d memories for 3 sequences", len(memories))
	}
}
