package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// TestDecidesOnSome: where capacity is endless, a decision on those jobs alone that are due comes to the same runs as
// decisions on all jobs at every moment. Every deadline here leaves time to spare: a decision that finds no place in time for a
// task makes the plans of all others anew, even where they do not compete, so that a late job moves those that are decided on
// with it (design 0017, step 4).
func TestDecidesOnSome(t *testing.T) {
	for name, planner := range map[string]plan.Planner{
		"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "joint": joint.Planner{}, "window": window.Planner{}, "carbonscaler": carbonscaler.Planner{},
	} {
		for seed := range uint64(10) {
			some := runsOf(t, endlessWorld(t, seed, planner), false)
			all := runsOf(t, endlessWorld(t, seed, planner), true)
			for i := range some {
				if !sameRuns(some[i].Runs, all[i].Runs) {
					t.Errorf("%s, seed %d, job %d: decided on alone %v, among all %v", name, seed, i, some[i].Runs, all[i].Runs)
					break
				}
			}
		}
	}
}

// sameRuns compares runs, up to what rounding of progress explains.
func sameRuns(a, b []Run) bool {
	return slices.EqualFunc(a, b, func(x, y Run) bool {
		return x.Cluster == y.Cluster && x.Workers == y.Workers && (x.From-y.From).Abs() <= time.Microsecond && (x.To-y.To).Abs() <= time.Microsecond
	})
}

// runsOf simulates; with all, each decision is on all jobs in the system, as where capacity is limited.
func runsOf(t *testing.T, cfg Config, all bool) []Outcome {
	t.Helper()
	e, err := newEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.limited = all
	if err := e.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e.result().Jobs
}

// endlessWorld is a world of clusters with room for everything.
func endlessWorld(t *testing.T, seed uint64, planner plan.Planner) Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x736f6d65))
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	cfg := Config{
		Slot: 15 * time.Minute, Margin: 5 * time.Minute, Planner: planner, Revise: Revision(rng.IntN(2)),
		MinRun: time.Duration(rng.IntN(2)) * 5 * time.Minute, MinPause: time.Duration(rng.IntN(2)) * 5 * time.Minute,
	}
	for c := range 1 + rng.IntN(2) {
		var samples []carbon.Sample
		for h := range 96 {
			from := t0.Add(time.Duration(h) * time.Hour)
			samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(50 + 400*rng.Float64())})
		}
		s, err := carbon.NewSeries(carbon.Provenance{}, samples)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Clusters = append(cfg.Clusters, Cluster{Name: fmt.Sprint(c), Actual: s, Forecast: s, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}})
	}
	for i := range 12 {
		length := time.Duration(5+rng.IntN(300)) * time.Minute
		j := Job{
			ID: fmt.Sprint("j", i), Submitted: t0.Add(time.Duration(rng.IntN(24*60)) * time.Minute), Length: length, Estimate: length,
			Kind: []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}[rng.IntN(3)], Request: map[string]float64{"cpu": 1},
			HeldOut: rng.IntN(8) == 0,
		}
		if j.Kind == workload.Elastic {
			j.Scale = &Scale{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 1, 0.5}}
		}
		if j.Scale != nil || rng.IntN(8) > 0 {
			j.Deadline = j.Submitted.Add(cfg.Margin + length*time.Duration(2+rng.IntN(12)))
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}
