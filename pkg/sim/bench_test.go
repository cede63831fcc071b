package sim_test

import (
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/gaia"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/waitawhile"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/data"
)

// year is azure-100k over 2022 in AU-SA, jobs waiting by their class of length.
func year(tb testing.TB, kind workload.Kind) sim.Config {
	tb.Helper()
	dir := data.Folder(tb, "carbon", "jobs")
	f, err := os.Open(filepath.Join(dir, "jobs", "azure-100k.csv.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	tr, err := trace.ReadCSV(gz)
	if err != nil {
		tb.Fatal(err)
	}
	var samples []carbon.Sample
	for _, y := range []string{"2022", "2023"} {
		c, err := os.Open(filepath.Join(dir, "carbon", "AU-SA", y+".csv"))
		if err != nil {
			tb.Fatal(err)
		}
		s, err := carbon.ReadCSV(c, carbon.Provenance{Zone: "AU-SA"})
		if err != nil {
			tb.Fatal(err)
		}
		for i := range s.Len() {
			samples = append(samples, s.Sample(i))
		}
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "AU-SA"}, samples)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 3.5}, PUE: 1}, Forecast: s, Actual: s}},
		Slot:     time.Hour,
	}
	for _, j := range tr.Jobs {
		delay := 48 * time.Hour
		switch {
		case j.Length <= 2*time.Hour:
			delay = 6 * time.Hour
		case j.Length <= 12*time.Hour:
			delay = 24 * time.Hour
		}
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			ID: j.ID, Submitted: s.Start().Add(j.Arrival), Length: j.Length, Estimate: j.Length, MaxDelay: delay, Kind: kind, Request: j.Request,
		})
	}
	return cfg
}

// BenchmarkYear is a year of azure-100k, in jobs per second; joint plans all jobs anew
// every hour.
func BenchmarkYear(b *testing.B) {
	lowest, err := gaia.New(gaia.Params{Policy: gaia.LowestWindow})
	if err != nil {
		b.Fatal(err)
	}
	threshold, err := waitawhile.NewThreshold(waitawhile.Params{})
	if err != nil {
		b.Fatal(err)
	}
	win, err := window.New(window.Params{})
	if err != nil {
		b.Fatal(err)
	}
	all, err := joint.New(1, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name    string
		kind    workload.Kind
		planner plan.Planner
		revise  sim.Revision
	}{
		{"asap", workload.Rigid, asap.Planner{}, sim.OnChange},
		{"cheapest", workload.Rigid, cheapest.Planner{}, sim.OnChange},
		{"window", workload.Rigid, win, sim.OnChange},
		{"gaia-lowest-window", workload.Rigid, lowest, sim.OnChange},
		{"waitawhile-threshold", workload.Interruptible, threshold, sim.OnChange},
		{"waitawhile-deadline", workload.Interruptible, waitawhile.Deadline{}, sim.OnChange},
		{"joint", workload.Interruptible, all, sim.EverySlot},
	} {
		b.Run("planner="+x.name, func(b *testing.B) {
			cfg := year(b, x.kind)
			cfg.Planner, cfg.Revise = x.planner, x.revise
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				res, err := sim.Simulate(context.Background(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				if res.Missed > 0 {
					b.Fatalf("%d late", res.Missed)
				}
			}
			b.ReportMetric(float64(len(cfg.Jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkCrowd is a week of 4,000 jobs that compete for one cluster, in jobs per second: each decision is on
// all jobs in the system.
func BenchmarkCrowd(b *testing.B) {
	s := hourly(b, 1, 400)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 120}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: s, Actual: s}},
		Planner:  cheapest.Planner{}, Slot: 15 * time.Minute, Margin: 5 * time.Minute,
	}
	for i := range 4000 {
		length := time.Duration(20+i*37%160) * time.Minute
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			ID: strconv.Itoa(i), Submitted: t0.Add(time.Duration(i*7919%(7*24*60)) * time.Minute), Length: length, Estimate: length,
			MaxDelay: 6 * time.Hour, Kind: []workload.Kind{workload.Rigid, workload.Interruptible}[i%2], Request: map[string]float64{"cpu": float64(1 + i%3)},
		})
	}
	for name, revise := range map[string]sim.Revision{"on-change": sim.OnChange, "every-slot": sim.EverySlot} {
		b.Run("revise="+name, func(b *testing.B) {
			cfg.Revise = revise
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sim.Simulate(context.Background(), cfg); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(cfg.Jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
