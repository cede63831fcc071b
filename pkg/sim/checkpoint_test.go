package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// checkpointed is a cluster on which eighty jobs of up to six hours are submitted in two days. They save their work
// every half an hour to three hours, and take up to a tenth of a kWh for each CPU to restart.
func checkpointed(t testing.TB, seed uint64, planner plan.Planner) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	cfg := sim.Config{Planner: planner, Slot: 15 * time.Minute, Revise: sim.OnChange, Margin: 5 * time.Minute}
	values := make([]float64, 24*5)
	for h := range values {
		values[h] = math.Round(250 + 200*math.Sin(float64(h)/24*2*math.Pi) + 60*rng.Float64())
	}
	s := steps(t, 6, values...)
	cfg.Clusters = []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 24}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 100}, PUE: 1}, Forecast: s, Actual: s}}
	for i := range 80 {
		length := time.Duration(60+rng.IntN(300)) * time.Minute
		cpu := float64(1 + rng.IntN(3))
		submitted := t0.Add(time.Duration(rng.IntN(48*60)) * time.Minute)
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			ID: fmt.Sprintf("j%03d", i), Submitted: submitted, Length: length, Estimate: length, Kind: workload.Interruptible,
			Request: map[string]float64{"cpu": cpu}, Deadline: submitted.Add(length + time.Duration(2+rng.IntN(22))*time.Hour),
			Checkpoint: time.Duration(30+rng.IntN(150)) * time.Minute, RestartKWh: 0.1 * cpu * rng.Float64(),
		})
	}
	return cfg
}

// TestLostWorkAndDeadlines: jobs that lose work by pauses keep their deadlines, and emit less than by
// running at once, with planners that count lost work and with one that does not.
func TestLostWorkAndDeadlines(t *testing.T) {
	for seed := range uint64(2) {
		atOnce := simulate(t, checkpointed(t, seed, asap.Planner{}))
		for name, planner := range map[string]plan.Planner{"joint": joint.Planner{Effort: 0.1}, "cheapest": cheapest.Planner{}, "carbonscaler": carbonscaler.Planner{}} {
			res := simulate(t, checkpointed(t, seed, planner))
			if res.Missed > 0 || res.Emissions >= 0.9*atOnce.Emissions {
				t.Errorf("%s, seed %d: %d late, %v; at once %v", name, seed, res.Missed, res.Emissions, atOnce.Emissions)
			}
		}
	}
}
