package promise_test

import (
	"slices"
	"testing"

	"lull.dev/lull/pkg/sim"
)

// TestAsapIsAsSubmitted: planner asap, simulated, runs each job at the same times as a simulation without a planner, and
// saves nothing. Each job fits beside all others, so any difference is a decision of Lull's own. Slots are 5 minutes to
// an hour, intensities those of all recorded zones and drawn ones. An elastic job starts at the same time; with less slack
// than its margin it has more workers than submitted.
func TestAsapIsAsSubmitted(t *testing.T) {
	data := recorded(t)
	asap := byName(t, "asap")[0]
	for seed := uint64(1); seed <= 200; seed++ {
		in := generate(t, seed, seed%3 == 0, asap, data)
		in.cfg.Clusters = in.cfg.Clusters[:1]
		cl := &in.cfg.Clusters[0]
		cl.Changes, cl.Nodes = nil, sim.Nodes{}
		cl.Capacity = nil // endless
		if seed%2 == 0 {
			cl.Capacity = map[string]float64{}
			for _, r := range resources {
				cl.Capacity[r] = 1e15
			}
		}
		for i := range in.cfg.Jobs {
			in.cfg.Jobs[i].Clusters = nil
		}
		before, err := sim.AsSubmitted(t.Context(), in.cfg)
		if err != nil {
			t.Fatal(err)
		}
		after, err := sim.Simulate(t.Context(), in.with(t, asap))
		if err != nil {
			t.Fatal(err)
		}
		elastic := false
		for i := range after.Jobs {
			if in.cfg.Jobs[i].Scale != nil {
				elastic = true
				if got, want := after.Jobs[i].Runs[0].From, before.Jobs[i].Runs[0].From; got != want {
					t.Errorf("seed %d, %v, slots of %v, elastic job %d: started at %v, as submitted at %v", seed, in.class, in.cfg.Slot, i, got, want)
				}
				continue
			}
			if got, want := after.Jobs[i].Runs, before.Jobs[i].Runs; !slices.Equal(got, want) {
				t.Errorf("seed %d, %v, slots of %v, job %d: ran %v, as submitted %v", seed, in.class, in.cfg.Slot, i, got, want)
			}
		}
		if !elastic && after.Emissions != before.Emissions || after.MeanWait != 0 {
			t.Errorf("seed %d: emitted %v, as submitted %v; waited %v", seed, after.Emissions, before.Emissions, after.MeanWait)
		}
	}
}
