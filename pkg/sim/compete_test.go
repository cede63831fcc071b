package sim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// clean is two days of jobs of up to eight CPUs that may run on a small clean cluster or on a large dirty one. Capacity
// of the clean one is a factor of 32 CPUs.
func clean(t testing.TB, kind workload.Kind, factor float64, seed uint64) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	watts := power.PerUnit{Watts: map[string]float64{"cpu": 3.5}, PUE: 1.1}
	low, high := steps(t, 10, 20, 30, 40, 30), hourly(t, 2, 240)
	cfg := sim.Config{
		Clusters: []sim.Cluster{
			{Name: "clean", Capacity: map[string]float64{"cpu": 32 * factor}, Power: watts, Forecast: low, Actual: low},
			{Name: "dirty", Capacity: map[string]float64{"cpu": 128}, Power: watts, Forecast: high, Actual: high},
		},
		Planner: joint.Planner{Effort: 0.3}, Slot: time.Hour, Margin: 30 * time.Minute,
	}
	for i := range 200 {
		length := time.Duration(30+rng.IntN(240)) * time.Minute
		delay := 6 * time.Hour
		if length > 2*time.Hour {
			delay = 24 * time.Hour
		}
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			ID: fmt.Sprint(i), Submitted: t0.Add(time.Duration(rng.IntN(48*60)) * time.Minute), Length: length, Estimate: length, MaxDelay: delay,
			Kind: kind, Request: map[string]float64{"cpu": float64(1 + rng.IntN(8))}, RestartKWh: 0.002,
		})
	}
	return cfg
}

// TestScarceCleanRoom: where room is scarce when and where power is clean, plans that stand until something changes save
// what plans made anew in each slot save.
func TestScarceCleanRoom(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
		slots, changes, missed := 0.0, 0.0, 0
		for seed := range uint64(4) { // a single instance may differ by a few percent in either direction
			cfg := clean(t, kind, 1, seed+1)
			cfg.Planner = plan.InSlots{Planner: cfg.Planner} // each revision would refine them once more
			cfg.Revise = sim.EverySlot
			a := simulate(t, cfg)
			cfg.Revise = sim.OnChange
			b := simulate(t, cfg)
			slots, changes, missed = slots+float64(a.Emissions), changes+float64(b.Emissions), missed+a.Missed+b.Missed
			t.Logf("%s: %v in each slot, %v on change", kind, a.Emissions, b.Emissions)
		}
		if missed > 0 || changes > 1.02*slots {
			t.Errorf("%s: %.1f gCO2eq in each slot, %.1f on change; %d late", kind, slots, changes, missed)
		}
	}
}

// TestRoomForAll: where all find room at the cleanest time and place, each job is planned once, however many come.
func TestRoomForAll(t *testing.T) {
	for _, endless := range []bool{true, false} {
		cfg := clean(t, workload.Rigid, 100, 1)
		if endless {
			cfg.Clusters[0].Capacity, cfg.Clusters[1].Capacity = nil, nil
		}
		cfg.Revise = sim.OnChange
		cfg.Decided = func(_ decide.Snapshot, d decide.Decision) {
			for i := range d.Actions {
				if d.Actions[i].Renewed {
					t.Errorf("endless %v: the plan of %s is renewed", endless, d.Actions[i].Task)
				}
			}
		}
		if res := simulate(t, cfg); res.Planned != len(cfg.Jobs) {
			t.Errorf("endless %v: %d plans for %d jobs", endless, res.Planned, len(cfg.Jobs))
		}
	}
}
