package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// TestAtOnceIsTheEngine: the short way to the baseline comes to what the events come to.
func TestAtOnceIsTheEngine(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := Config{Slot: time.Hour, atOnce: true}
		for c := range 1 + rng.IntN(3) {
			var samples []carbon.Sample
			for h := range 60 { // too short for the last jobs
				from := t0.Add(time.Duration(h) * time.Hour)
				samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(100 + 300*rng.Float64())})
			}
			s, err := carbon.NewSeries(carbon.Provenance{}, samples)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Clusters = append(cfg.Clusters, Cluster{Name: fmt.Sprint(c), Actual: s, Forecast: s, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10, "gpu": 200}, PUE: 1.2}})
		}
		for i := range 50 {
			j := Job{
				ID: fmt.Sprint(i), Submitted: t0.Add(time.Duration(rng.IntN(50*60)) * time.Minute), Length: time.Duration(1+rng.IntN(900)) * time.Minute,
				Kind: workload.Rigid, Request: map[string]float64{"cpu": float64(1 + rng.IntN(4))},
			}
			j.Estimate = j.Length
			switch rng.IntN(4) {
			case 0:
				j.Kind, j.Scale = workload.Elastic, &Scale{MinWorkers: 2, MaxWorkers: 3, Curve: []float64{1.5, 0.5}}
			case 1:
				j.Kind, j.Scale = workload.Elastic, &Scale{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}, Watts: []float64{70, 150}}
			case 2:
				j.Deadline = j.Submitted.Add(time.Duration(rng.IntN(900)+1) * time.Minute)
				j.Request["gpu"] = 1
			}
			if rng.IntN(3) == 0 {
				j.Clusters = []string{cfg.Clusters[rng.IntN(len(cfg.Clusters))].Name}
			}
			cfg.Jobs = append(cfg.Jobs, j)
		}
		load := func(cfg *Config) *[]float64 {
			var out []float64
			cfg.Observe = func(s Slot) { out = append(out, s.Use["cpu"], s.Use["gpu"]) }
			return &out
		}
		slow, quick := cfg, cfg
		a, b := load(&slow), load(&quick)
		e, err := newEngine(slow)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := e.result()
		got, err := AsSubmitted(context.Background(), quick)
		if err != nil {
			t.Fatal(err)
		}
		near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Max(1, math.Abs(x)) }
		if !near(float64(want.Emissions), float64(got.Emissions)) || !near(float64(want.Energy), float64(got.Energy)) || want.Missed != got.Missed ||
			want.Makespan != got.Makespan || want.Unpriced != got.Unpriced || !near(want.WorkerHours, got.WorkerHours) || want.MeanWait != got.MeanWait || want.MeanDelay != got.MeanDelay {
			t.Fatalf("seed %d: %+v\nwant %+v", seed, got, want)
		}
		for i := range want.Jobs {
			x, y := want.Jobs[i], got.Jobs[i]
			if len(x.Runs) != 1 || len(y.Runs) != 1 || x.Runs[0] != y.Runs[0] || x.Finish != y.Finish || x.Missed != y.Missed || !near(float64(x.Emissions), float64(y.Emissions)) {
				t.Fatalf("seed %d job %d: %+v, want %+v", seed, i, y, x)
			}
		}
		if len(*a) != len(*b) {
			t.Fatalf("seed %d: %d values of load, want %d", seed, len(*b), len(*a))
		}
		for i := range *a {
			if !near((*a)[i], (*b)[i]) {
				t.Fatalf("seed %d: load %d is %v, want %v", seed, i, (*b)[i], (*a)[i])
			}
		}
	}
}
