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

// hourOf is a day with a clean evening, in which no two hours are equal.
func hourOf(h int) float64 {
	return 300 + 200*math.Sin(float64(h%24)/24*2*math.Pi) + 1.1*float64(h%24)
}

// hourlySeries has the hours of days for which keep is true.
func hourlySeries(t *testing.T, hours int, keep func(h int) bool) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range hours {
		if keep(h) {
			from := t0.Add(time.Duration(h) * time.Hour)
			samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(hourOf(h))})
		}
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func oneJob(s *carbon.Series, at float64) sim.Config {
	return sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 1000}, PUE: 1}, Forecast: s, Actual: s}},
		Jobs: []sim.Job{{
			ID: "j", Submitted: t0.Add(time.Duration(at * float64(time.Hour))), Length: 6 * time.Hour, Estimate: 6 * time.Hour,
			MaxDelay: 48 * time.Hour, Kind: workload.Interruptible, Request: map[string]float64{"cpu": 1},
		}},
		Planner: cheapest.Planner{}, Slot: time.Hour,
	}
}

// TestMissingHoursSaveNothing checks that a series with an end or a gap gives what the
// whole series gives, in the baseline and in the plan, as each day of it is the same.
func TestMissingHoursSaveNothing(t *testing.T) {
	whole := hourlySeries(t, 24*20, func(int) bool { return true })
	for name, tc := range map[string]struct {
		keep func(h int) bool
		at   float64
		both bool // also the baseline lies in missing hours
	}{
		"the series ends":     {func(h int) bool { return h < 96 }, 92, true},
		"a gap of 12 h":       {func(h int) bool { return h < 60 || h >= 72 }, 58, true},
		"a gap of days":       {func(h int) bool { return h < 60 || h >= 168 }, 62, true},
		"an hour of each day": {func(h int) bool { return h%24 != 17 || h > 24*8 }, 60, false},
	} {
		cut := hourlySeries(t, 24*20, tc.keep)
		want, got := simulate(t, oneJob(whole, tc.at)), simulate(t, oneJob(cut, tc.at))
		wantAs, err := sim.AsSubmitted(context.Background(), oneJob(whole, tc.at))
		if err != nil {
			t.Fatal(err)
		}
		gotAs, err := sim.AsSubmitted(context.Background(), oneJob(cut, tc.at))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			name      string
			want, got sim.Result
		}{{"planned", want, got}, {"as submitted", wantAs, gotAs}} {
			if math.Abs(float64(x.want.Emissions-x.got.Emissions)) > 1e-9 || math.Abs(float64(x.want.Energy-x.got.Energy)) > 1e-9 || x.got.Unpriced != 0 {
				t.Errorf("%s, %s: %v on %v, %v unpriced; want %v on %v", name, x.name, x.got.Emissions, x.got.Energy, x.got.Unpriced, x.want.Emissions, x.want.Energy)
			}
		}
		if got.Filled == 0 || tc.both && gotAs.Filled == 0 || got.Jobs[0].Filled != got.Filled {
			t.Errorf("%s: %v and %v of run time filled, want some", name, gotAs.Filled, got.Filled)
		}
	}
}

// TestAJobOutsideHasNoPrice checks that a job more than 7 days from any value is stated
// as unpriced, with its energy: that does not depend on an intensity.
func TestAJobOutsideHasNoPrice(t *testing.T) {
	s := hourlySeries(t, 48, func(int) bool { return true })
	res := simulate(t, oneJob(s, 24*20))
	if res.Unpriced != 6*time.Hour || res.Jobs[0].Unpriced != 6*time.Hour || res.Emissions != 0 || math.Abs(float64(res.Energy)-6) > 1e-9 {
		t.Errorf("%v unpriced, %v on %v; want 6h of 6 kWh", res.Unpriced, res.Emissions, res.Energy)
	}
}

// TestIdleMachinesArePricedByTheSameRule checks machines that are on where the series ends.
func TestIdleMachinesArePricedByTheSameRule(t *testing.T) {
	idle := func(s *carbon.Series) sim.Result {
		cfg := oneJob(s, 92)
		cfg.Clusters[0].Capacity = map[string]float64{"cpu": 4}
		cfg.Clusters[0].Nodes = sim.Nodes{Count: 2, Idle: 100, Resource: "cpu"}
		return simulate(t, cfg)
	}
	want, got := idle(hourlySeries(t, 24*20, func(int) bool { return true })), idle(hourlySeries(t, 96, func(int) bool { return true }))
	if math.Abs(float64(want.IdleEmissions-got.IdleEmissions)) > 1e-9 || math.Abs(float64(want.IdleEnergy-got.IdleEnergy)) > 1e-9 {
		t.Errorf("idle machines: %v on %v, want %v on %v", got.IdleEmissions, got.IdleEnergy, want.IdleEmissions, want.IdleEnergy)
	}
}

// TestRestartsArePricedByTheSameRule checks the energy of going on where the series ends.
func TestRestartsArePricedByTheSameRule(t *testing.T) {
	restart := func(s *carbon.Series) sim.Result {
		cfg := oneJob(s, 92)
		cfg.Jobs[0].RestartKWh, cfg.Jobs[0].Length, cfg.Jobs[0].Estimate = 0.5, 14*time.Hour, 14*time.Hour
		cfg.Jobs[0].MaxDelay = 9 * time.Hour
		return simulate(t, cfg)
	}
	want, got := restart(hourlySeries(t, 24*20, func(int) bool { return true })), restart(hourlySeries(t, 96, func(int) bool { return true }))
	if len(want.Jobs[0].Runs) < 2 || math.Abs(float64(want.Emissions-got.Emissions)) > 1e-9 {
		t.Errorf("%d runs: %v, want %v", len(want.Jobs[0].Runs), got.Emissions, want.Emissions)
	}
}
