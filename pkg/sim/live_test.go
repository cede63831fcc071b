package sim_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// steps is a series of hours with the given intensities, over and over again.
func steps(t testing.TB, days int, values ...float64) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range 24 * days {
		from := t0.Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(values[h%len(values)])})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// alternating is one interruptible job of four hours where every second hour is clean.
func alternating(t testing.TB) sim.Config {
	t.Helper()
	s := steps(t, 3, 500, 100)
	return sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: s, Actual: s}},
		Planner:  cheapest.Planner{}, Slot: 15 * time.Minute, Revise: sim.OnChange,
		Jobs: []sim.Job{{ID: "a", Submitted: t0, Length: 4 * time.Hour, Estimate: 4 * time.Hour, MaxDelay: 20 * time.Hour, Kind: workload.Interruptible, Request: map[string]float64{"cpu": 1}}},
	}
}

// TestRunsAndPausesAreNoShorterThanAllowed: no run between two pauses is shorter than MinRun, no pause shorter than MinPause, and the
// deadline holds.
func TestRunsAndPausesAreNoShorterThanAllowed(t *testing.T) {
	for _, endless := range []bool{true, false} {
		cfg := alternating(t)
		if !endless {
			cfg.Clusters[0].Capacity = map[string]float64{"cpu": 1}
		}
		free := simulate(t, cfg)
		if n := len(free.Jobs[0].Runs); n != 4 {
			t.Fatalf("%d runs without least times, want one in each clean hour", n)
		}
		cfg.MinRun, cfg.MinPause = 90*time.Minute, 2*time.Hour
		res := simulate(t, cfg)
		runs := res.Jobs[0].Runs
		for i, r := range runs {
			if last := i == len(runs)-1; !last && r.To-r.From < cfg.MinRun {
				t.Errorf("endless %v: run %d takes %v, less than %v", endless, i, r.To-r.From, cfg.MinRun)
			}
			if i > 0 && r.From-runs[i-1].To < cfg.MinPause {
				t.Errorf("endless %v: pause %d takes %v, less than %v", endless, i, r.From-runs[i-1].To, cfg.MinPause)
			}
		}
		if res.Missed > 0 || len(runs) == 0 {
			t.Errorf("endless %v: %d late, runs %v", endless, res.Missed, runs)
		}
	}
}

// TestPauseCostsWorkSinceTheCheckpoint: a pause costs the work since the last checkpoint, so that a job whose pauses would lose much
// is paused less often, and one with frequent checkpoints as before.
func TestPauseCostsWorkSinceTheCheckpoint(t *testing.T) {
	cfg := alternating(t)
	free := simulate(t, cfg)
	cfg.Jobs[0].Checkpoint = 5 * time.Minute
	if often := simulate(t, cfg); !reflect.DeepEqual(free.Jobs[0].Runs, often.Jobs[0].Runs) {
		t.Errorf("checkpoints at each pause: runs %v, want %v", often.Jobs[0].Runs, free.Jobs[0].Runs)
	}
	cfg.Jobs[0].Checkpoint = 40 * time.Minute
	res := simulate(t, cfg)
	ran, lost := time.Duration(0), time.Duration(0)
	for i, r := range res.Jobs[0].Runs {
		ran += r.To - r.From
		if i < len(res.Jobs[0].Runs)-1 {
			lost += (r.To - r.From) % (40 * time.Minute)
		}
	}
	if ran != cfg.Jobs[0].Length+lost || res.Missed > 0 {
		t.Errorf("ran %v in %v, of them lost %v; %d late", ran, res.Jobs[0].Runs, lost, res.Missed)
	}
}

// TestEndsInTheMiddleOfASlot: a phase that ends within a slot ends then, not with the slot.
func TestEndsInTheMiddleOfASlot(t *testing.T) {
	cfg := alternating(t)
	cfg.Slot = time.Hour
	cfg.Jobs[0].Length, cfg.Jobs[0].Estimate = 90*time.Minute, 90*time.Minute
	for _, endless := range []bool{true, false} {
		if !endless {
			cfg.Clusters[0].Capacity = map[string]float64{"cpu": 1}
		}
		res := simulate(t, cfg)
		total := time.Duration(0)
		for _, r := range res.Jobs[0].Runs {
			total += r.To - r.From
			if r.From%time.Hour != 0 && r.To%time.Hour != 0 || (r.From/time.Hour)%2 != 1 {
				t.Errorf("endless %v: runs from %v to %v, in a dirty hour", endless, r.From, r.To)
			}
		}
		if total != 90*time.Minute {
			t.Errorf("endless %v: ran %v", endless, total)
		}
	}
}

// exact is a scale of which work and times in whole seconds are whole nanoseconds: two ways to add them up come
// to the same.
var exact = &sim.Scale{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 1, 0.5}}

// crowd is a cluster with jobs of all kinds that compete for it.
func crowd(t testing.TB, seed uint64, jobs int, planner plan.Planner) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 12))
	s := hourly(t, seed, 400)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 12}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1.3}, Forecast: s, Actual: s}},
		Planner:  planner, Slot: 15 * time.Minute, Margin: 5 * time.Minute, MinRun: 20 * time.Minute, MinPause: 10 * time.Minute, Revise: sim.OnChange,
	}
	for i := range jobs {
		length := time.Duration(20+rng.IntN(160)) * time.Minute
		j := sim.Job{
			ID: fmt.Sprintf("%03d", i), Submitted: t0.Add(time.Duration(rng.IntN(24*60)) * time.Minute), Length: length, Estimate: length,
			Kind: workload.Rigid, Request: map[string]float64{"cpu": float64(1 + rng.IntN(3))},
		}
		j.Deadline = j.Submitted.Add(length * time.Duration(3+rng.IntN(9)))
		switch rng.IntN(3) {
		case 0:
			j.Kind = workload.Interruptible
		case 1:
			j.Kind, j.Scale, j.Request = workload.Elastic, exact, map[string]float64{"cpu": 1}
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

// TestSimulatesWhatRuns: a loop that observes, decides and applies as a controller does, written without the
// simulator, runs every job at the same times and scales.
func TestSimulatesWhatRuns(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"cheapest": cheapest.Planner{}, "joint": joint.Planner{}} {
		for seed := range uint64(3) {
			cfg := crowd(t, seed, 40, planner)
			want := newHandLoop(t, cfg).run()
			res := simulate(t, cfg)
			paused := 0
			for i, o := range res.Jobs {
				if !sameRuns(o.Runs, want[cfg.Jobs[i].ID]) {
					t.Fatalf("%s seed %d: job %s runs %v, by hand %v", name, seed, cfg.Jobs[i].ID, o.Runs, want[cfg.Jobs[i].ID])
				}
				if len(o.Runs) > 1 {
					paused++
				}
			}
			if paused == 0 {
				t.Errorf("%s seed %d: nothing was paused or scaled", name, seed)
			}
		}
	}
}

// sameRuns compares runs; times are sums of durations and may be off by some nanoseconds, so that a run of that length
// is none.
func sameRuns(a, b []sim.Run) bool {
	const rounding = time.Microsecond
	long := func(runs []sim.Run) []sim.Run {
		return slices.DeleteFunc(slices.Clone(runs), func(r sim.Run) bool { return r.To-r.From <= rounding })
	}
	a, b = long(a), long(b)
	return slices.EqualFunc(a, b, func(x, y sim.Run) bool {
		return x.Cluster == y.Cluster && x.Workers == y.Workers && (x.From-y.From).Abs() <= rounding && (x.To-y.To).Abs() <= rounding
	})
}
