package sim_test

import (
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// nightly is a job of half the cluster that may not wait, each day at 20:30, beside small ones all day that can.
func nightly(t *testing.T, days int, planner plan.Planner) sim.Config {
	t.Helper()
	values := make([]float64, 24*(days+2))
	for h := range values {
		values[h] = 400
		if h%24 >= 18 && h%24 < 23 {
			values[h] = 100
		}
	}
	s := steps(t, 1, values...)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 10}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: s, Actual: s}},
		Planner:  planner, Slot: time.Hour, Revise: sim.OnChange,
	}
	for day := range days {
		begin := t0.Truncate(24 * time.Hour).Add(time.Duration(24*day) * time.Hour)
		job := func(id string, hour float64, cpu float64, length, delay time.Duration) {
			at := begin.Add(time.Duration(hour * float64(time.Hour)))
			cfg.Jobs = append(cfg.Jobs, sim.Job{
				ID: fmt.Sprintf("%s-%d-%v", id, day, hour), Submitted: at, Length: length, Estimate: length, Deadline: at.Add(length + delay),
				Kind: workload.Rigid, Request: map[string]float64{"cpu": cpu},
			})
		}
		job("urgent", 20.5, 4.5, 2*time.Hour, 0)
		for hour := range 10 {
			job("patient", float64(hour), 2, 2*time.Hour, 23*time.Hour)
		}
	}
	return cfg
}

// TestLearnedReserveFollowsArrivals: the reserve begins at its start and follows what comes: after a week it is that of the job
// that comes each night, which then always finds room. Without a reserve it does not.
func TestLearnedReserveFollowsArrivals(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"joint": joint.Planner{Effort: 0.1, Learned: true}, "cheapest": cheapest.Planner{Learned: true}} {
		cfg := nightly(t, 9, planner)
		var first, last float64
		cfg.Decided = func(s decide.Snapshot, d decide.Decision) {
			if first == 0 {
				first = s.Reserve
			}
			last = s.Reserve
			for _, v := range decide.Verify(s, d) {
				t.Errorf("%s: %v", name, v)
			}
		}
		res := simulate(t, cfg)
		if res.Missed > 0 {
			t.Errorf("%s: %d deadlines missed with a learned reserve", name, res.Missed)
		}
		if start := reserve.Default().Start; first != start || last != 0.45 {
			t.Errorf("%s: reserve %v at first and %v at last; want %v and 0.45", name, first, last, start)
		}
	}
	if res := simulate(t, nightly(t, 9, cheapest.Planner{})); res.Missed == 0 {
		t.Error("none missed without a reserve: the test shows nothing")
	}
}

// TestPlannerWithAReserveIsToldNone: a planner with a reserve of its own is told none, nor is one on endless capacity.
func TestPlannerWithAReserveIsToldNone(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"stated":  nightly(t, 1, cheapest.Planner{Reserve: 0.2}),
		"none":    nightly(t, 1, cheapest.Planner{}),
		"endless": nightly(t, 1, cheapest.Planner{Learned: true}),
	} {
		if name == "endless" {
			cfg.Clusters[0].Capacity = nil
		}
		decisions := 0
		cfg.Decided = func(s decide.Snapshot, _ decide.Decision) {
			decisions++
			if s.Reserve != 0 {
				t.Errorf("%s: reserve %v at %s; want 0", name, s.Reserve, s.Now)
			}
		}
		simulate(t, cfg)
		if decisions == 0 {
			t.Errorf("%s: no decision", name)
		}
	}
}
