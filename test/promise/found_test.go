package promise_test

import (
	"context"
	"fmt"
	"testing"

	"lull.dev/lull/pkg/sim"
)

// TestFoundInstancesKeepInvariants replays instances that once broke an invariant of a decision. They differ where recorded
// intensities are left out.
func TestFoundInstancesKeepInvariants(t *testing.T) {
	data := recorded(t)
	for _, x := range []struct {
		seed    uint64
		planner string
		fault   string
	}{
		{139, "gaia-saving", "a task that scaled down and one that ran on took the same room"},
		{595, "gaia-saving", "a plan in time was called at risk"},
		{627, "cheapest", "a plan in time was called at risk"},
		{627, "carbonscaler", "a late task kept the room that another needed for its deadline"},
		{151, "cheapest", "an urgent task took the room of a standing plan in time"},
		{564, "asap", "held tasks left their room to what waits in the queue of the cluster"},
		{545, "asap", "a pause left its room to what waits in the queue of the cluster"},
		{1010, "cheapest", "an urgent task was scaled into the room of what runs"},
		{109, "asap", "an urgent task took room that another one had just taken"},
		{783, "cheapest", "an urgent task made no room for itself and ended late"},
		{451, "carbonscaler", "urgent tasks took the room of others that as submitted are in time"},
		{894, "asap", "urgent tasks were scaled beyond what as submitted leaves for others"},
		{1222, "asap", "clusters in equal use were told apart by rounding"},
		{975, "carbonscaler", "a queue took the room of a pause that was to save another task"},
		{975, "asap", "a task in the queue that could start at once was forgotten"},
		{213, "carbonscaler", "a queue took the room that the next task was planned in"},
		{19, "gaia-saving", "a task scaled up into room that a task in the queue took at that moment"},
		{1407, "cheapest", "a rigid task that a queue had started was expected to be paused by its plan"},
		{1449, "waitawhile-threshold", "tasks were released for a plan that had them wait, and a queue started them"},
		{477, "joint+reserve", "a task that was released for a plan with pauses was taken to run without"},
		{1010, "staticscale", "a task that asks for more workers than there is room for was said to overcommit"},
		{1010, "carbonscaler", "a task that asks for more workers than there is room for was said to overcommit"},
		{338, "asap", "microseconds of overrun cost a task its standing plan"},
	} {
		for _, m := range methods {
			if m.name != x.planner {
				continue
			}
			t.Run(fmt.Sprintf("seed=%d/planner=%s", x.seed, x.planner), func(t *testing.T) {
				in := generate(t, x.seed, true, m, data)
				base, err := sim.AsSubmitted(context.Background(), in.cfg)
				if err != nil {
					t.Fatal(err)
				}
				if c, err := trial(t, in, m, &base, nil); err != nil || c.broken > 0 {
					t.Errorf("%s: %d broken, error %v", x.fault, c.broken, err)
				}
			})
		}
	}
}
