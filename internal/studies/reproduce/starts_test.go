package reproduce

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/test/data"
)

// TestStartsExplainTheCapacityDemo: what planner joint emits in the week of the demo capacity, by how long each
// resumption and change of scale takes. A second of the demo is seven and a half minutes of the week. Run it with -v for
// the figures of docs/capacity.md.
func TestStartsExplainTheCapacityDemo(t *testing.T) {
	env := &Env{Data: data.Folder(t, "carbon", "jobs", "profiles")}
	if err := env.Check(); err != nil {
		t.Skip(err)
	}
	c, err := NewCapacityWeek(env, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	var least float64
	for _, start := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		planner, err := joint.New(0.5, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		res, err := sim.Simulate(t.Context(), sim.Config{
			Clusters: []sim.Cluster{c.week.cluster}, Slot: time.Hour, Jobs: c.week.jobs, Planner: plan.InSlots{Planner: planner},
			Margin: time.Hour, MinRun: 40 * time.Minute, Revise: sim.OnChange, Overhead: start,
		})
		if err != nil {
			t.Fatal(err)
		}
		grams := float64(res.Emissions)
		if start == 0 {
			least = grams
		}
		more := grams/least - 1
		t.Logf("starts of %v: %.2f kg, %+.1f %%, %d late", start, grams/1000, 100*more, res.Missed)
		// Plans count no time for changes of scale: with none lost by them, nobody is late.
		if res.Missed > 1 || start == 0 && res.Missed > 0 {
			t.Errorf("starts of %v: %d late", start, res.Missed)
		}
		// The live run emits 7.7 % more than simulated, as with starts of some three minutes: less than half a second.
		if minutes := start.Minutes(); minutes > 0 && (more < 0.01*minutes || more > 0.03*minutes) {
			t.Errorf("starts of %v: %+.1f %%; want 1 to 3 %% for each minute", start, 100*more)
		}
	}
}
