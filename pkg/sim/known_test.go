package sim_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// TestKnownJobsRunNoEarlierThanSubmitted: where all jobs are known from the beginning on, none runs before its submission, and the plan of
// an early job makes room for a later one that could not keep its deadline otherwise.
func TestKnownJobsRunNoEarlierThanSubmitted(t *testing.T) {
	s := steps(t, 2, 500, 500, 100, 100, 300, 300)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 1}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: s, Actual: s}},
		Planner:  joint.Planner{}, Slot: 15 * time.Minute, Revise: sim.OnChange, Known: true,
		Jobs: []sim.Job{
			{ID: "early", Submitted: t0, Length: 2 * time.Hour, Estimate: 2 * time.Hour, MaxDelay: 5 * time.Hour, Kind: workload.Rigid, Request: map[string]float64{"cpu": 1}},
			{ID: "later", Submitted: t0.Add(3 * time.Hour), Length: time.Hour, Estimate: time.Hour, Deadline: t0.Add(4 * time.Hour), Kind: workload.Rigid, Request: map[string]float64{"cpu": 1}},
			{ID: "urgent", Submitted: t0.Add(9 * time.Hour), Length: 20 * time.Minute, Estimate: 20 * time.Minute, Kind: workload.Rigid, Request: map[string]float64{"cpu": 1}},
		},
	}
	known := simulate(t, cfg)
	if known.Missed != 0 {
		t.Errorf("%d late where all are known", known.Missed)
	}
	if w := known.Jobs[2].Wait; w != 0 {
		t.Errorf("the job that may not wait waits %v", w)
	}
	cfg.Known = false
	if unknown := simulate(t, cfg); unknown.Missed == 0 {
		t.Error("none late where jobs are not known before they come: the test shows nothing")
	}
	for _, endless := range []bool{false, true} {
		for seed := range uint64(3) {
			cfg := crowd(t, seed, 40, joint.Planner{})
			cfg.Known = true
			if endless {
				cfg.Clusters[0].Capacity = nil
			}
			res := simulate(t, cfg)
			for i, o := range res.Jobs {
				if o.Wait < 0 {
					t.Errorf("endless %v, seed %d: job %s starts %v before its submission", endless, seed, cfg.Jobs[i].ID, -o.Wait)
				}
			}
			if endless && res.Missed > 0 {
				t.Errorf("endless, seed %d: %d late", seed, res.Missed)
			}
		}
	}
}
