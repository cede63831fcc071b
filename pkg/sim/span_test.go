package sim_test

import (
	"context"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// TestIdleTimeIsTheSameForTheSameWork: two runs of the same work on machines that are always on idle for the same time, however
// early one of them is done with the work. Machines that are turned off without work add nothing.
func TestIdleTimeIsTheSameForTheSameWork(t *testing.T) {
	var samples []carbon.Sample
	for h := range 48 {
		value := units.CarbonIntensity(200)
		if h >= 20 && h < 24 {
			value = 100
		}
		samples = append(samples, carbon.Sample{From: t0.Add(time.Duration(h) * time.Hour), To: t0.Add(time.Duration(h+1) * time.Hour), Value: value})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{
			Name: "c", Capacity: map[string]float64{"cpu": 10}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1.5},
			Nodes: sim.Nodes{Count: 10, Idle: 100}, Forecast: s, Actual: s,
		}},
		Planner: cheapest.Planner{}, Slot: time.Hour,
		Jobs: []sim.Job{{ID: "a", Submitted: t0, Length: 4 * time.Hour, Estimate: 4 * time.Hour, MaxDelay: 36 * time.Hour, Kind: workload.Rigid, Request: map[string]float64{"cpu": 10}}},
	}
	run := func() (submitted, planned sim.Result) {
		submitted, err := sim.AsSubmitted(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		planned = simulate(t, cfg)
		if planned.Jobs[0].Finish != 24*time.Hour || submitted.Jobs[0].Finish != 4*time.Hour {
			t.Fatalf("ends at %v and %v", submitted.Jobs[0].Finish, planned.Jobs[0].Finish)
		}
		sim.SameSpan(cfg, &submitted, &planned)
		return submitted, planned
	}
	submitted, planned := run()
	// 1.5 kW for 24 hours: 20 of them at 200 g/kWh and 4 at 100.
	for name, r := range map[string]*sim.Result{"submitted": &submitted, "planned": &planned} {
		if math.Abs(float64(r.IdleEnergy)-36) > 1e-9 || math.Abs(float64(r.IdleEmissions)-6600) > 1e-6 {
			t.Errorf("%s: idles with %v and %v, want 36 kWh and 6600 g", name, r.IdleEnergy, r.IdleEmissions)
		}
		if math.Abs(float64(r.Emissions-r.IdleEmissions-r.Jobs[0].Emissions)) > 1e-9 || math.Abs(float64(r.Energy-r.IdleEnergy-r.Jobs[0].Energy)) > 1e-9 {
			t.Errorf("%s: %v and %v are not those of the job and of idling", name, r.Energy, r.Emissions)
		}
	}
	if planned.Emissions >= submitted.Emissions {
		t.Errorf("half the intensity emits %v, as submitted %v", planned.Emissions, submitted.Emissions)
	}
	again := planned
	if sim.SameSpan(cfg, &submitted, &planned); planned.Emissions != again.Emissions {
		t.Errorf("a second call adds %v", planned.Emissions-again.Emissions)
	}
	cfg.Clusters[0].Nodes.Resource, cfg.Clusters[0].Nodes.Each = "cpu", 1
	if submitted, planned := run(); math.Abs(float64(submitted.IdleEnergy)-6) > 1e-9 || math.Abs(float64(planned.IdleEnergy)-6) > 1e-9 {
		t.Errorf("turned off without work: idle with %v and %v, want 6 kWh", submitted.IdleEnergy, planned.IdleEnergy)
	}
}

// TestRequestOfNothing: a job that asks for 0 of a resource of which there is none goes where the share in
// use is least.
func TestRequestOfNothing(t *testing.T) {
	cfg := whole(t, 1, 0, workload.Rigid, nil, sim.OnChange)
	full, empty := cfg.Clusters[0], cfg.Clusters[0]
	full.Name, full.Capacity = "full", map[string]float64{"cpu": 10, "gpu": 0}
	empty.Name, empty.Capacity = "empty", map[string]float64{"cpu": 1000, "gpu": 0}
	cfg.Clusters = []sim.Cluster{full, empty}
	for _, id := range []string{"a", "b"} {
		cfg.Jobs = append(cfg.Jobs, sim.Job{ID: id, Submitted: t0, Length: time.Hour, Estimate: time.Hour, Kind: workload.Rigid, Request: map[string]float64{"cpu": 1, "gpu": 0}})
	}
	cfg.Jobs[1].Submitted = t0.Add(time.Minute)
	res, err := sim.AsSubmitted(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Jobs[1].Runs[0].Cluster; got != 1 || res.Jobs[1].Wait != 0 {
		t.Errorf("the second job runs on %s after %v, want the empty one at once", cfg.Clusters[got].Name, res.Jobs[1].Wait)
	}
}
