package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

var t0 = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

func config(t *testing.T, seed uint64, jobs int, cpus float64, planner plan.Planner) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	var samples []carbon.Sample
	for h := range 120 {
		from := t0.Add(time.Duration(h) * time.Hour)
		v := 250 + 150*math.Sin(float64(h)/24*2*math.Pi) + 40*rng.Float64()
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(v)})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	per, err := power.NewPerUnit(map[string]float64{"cpu": 10}, 1.2)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": cpus}, Power: per, Forecast: series, Actual: series}},
		Planner:  planner, Slot: 15 * time.Minute, Margin: 10 * time.Minute,
	}
	for i := range jobs {
		length := time.Duration(10+rng.IntN(400)) * time.Minute
		j := sim.Job{
			ID: fmt.Sprintf("j%03d", i), Submitted: t0.Add(time.Duration(rng.IntN(24*60)) * time.Minute),
			Length: length, Estimate: length, Kind: workload.Rigid, Request: map[string]float64{"cpu": float64(1 + rng.IntN(4))},
		}
		if rng.IntN(3) == 0 {
			j.Kind = workload.Interruptible
		}
		if rng.IntN(3) > 0 {
			j.Deadline = j.Submitted.Add(length + time.Duration(6+rng.IntN(18))*time.Hour)
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

func simulate(t *testing.T, cfg sim.Config) sim.Result {
	t.Helper()
	res, err := sim.Simulate(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestWorkIsConserved: each job runs exactly its length, after its submission,
// never twice at a time; capacity is never exceeded; sums agree.
func TestWorkIsConserved(t *testing.T) {
	w, err := window.New(window.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for name, planner := range map[string]plan.Planner{"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "window": w} {
		for seed := range uint64(10) {
			cfg := config(t, seed, 60, 20, planner)
			res := simulate(t, cfg)
			var total units.Emissions
			for i, o := range res.Jobs {
				id := cfg.Jobs[i].ID
				ran, last := time.Duration(0), cfg.Jobs[i].Submitted.Sub(res.Start)
				for _, r := range o.Runs {
					if r.From < last || r.To <= r.From {
						t.Fatalf("%s seed %d: %s: run %v after %v", name, seed, id, r, last)
					}
					ran, last = ran+r.To-r.From, r.To
				}
				if ran != cfg.Jobs[i].Length {
					t.Fatalf("%s seed %d: %s ran %v, is %v long", name, seed, id, ran, cfg.Jobs[i].Length)
				}
				if cfg.Jobs[i].Kind == workload.Rigid && len(o.Runs) != 1 {
					t.Fatalf("%s seed %d: rigid %s was interrupted", name, seed, id)
				}
				total += o.Emissions
			}
			if math.Abs(float64(total-res.Emissions)) > 1e-9*float64(total) {
				t.Errorf("%s seed %d: jobs sum to %v, result says %v", name, seed, total, res.Emissions)
			}
			if peak := peakUse(cfg, res); peak > 20+1e-9 {
				t.Errorf("%s seed %d: %v CPUs in use of 20", name, seed, peak)
			}
		}
	}
}

func peakUse(cfg sim.Config, res sim.Result) float64 {
	peak := 0.0
	for _, o := range res.Jobs {
		for _, r := range o.Runs {
			used := 0.0
			for i, other := range res.Jobs {
				for _, q := range other.Runs {
					if q.From <= r.From && q.To > r.From {
						used += cfg.Jobs[i].Request["cpu"]
					}
				}
			}
			peak = math.Max(peak, used)
		}
	}
	return peak
}

// TestDeadlinesHoldWithRoom: with room for everyone and true estimates nobody
// is late, and waiting for clean power saves emissions on the same work.
func TestDeadlinesHoldWithRoom(t *testing.T) {
	for seed := range uint64(20) {
		cfg := config(t, seed, 80, 1000, cheapest.Planner{})
		res := simulate(t, cfg)
		base, err := sim.AsSubmitted(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if res.Missed != 0 || base.Missed != 0 {
			t.Errorf("seed %d: %d and %d deadlines missed", seed, res.Missed, base.Missed)
		}
		if math.Abs(float64(res.Energy-base.Energy)) > 1e-9*float64(base.Energy) {
			t.Errorf("seed %d: energy %v, baseline %v: not the same work", seed, res.Energy, base.Energy)
		}
		if res.Emissions >= base.Emissions {
			t.Errorf("seed %d: %v emitted, baseline %v", seed, res.Emissions, base.Emissions)
		}
		if base.MeanWait != 0 {
			t.Errorf("seed %d: the baseline waits %v with room for all", seed, base.MeanWait)
		}
	}
}

func TestDeterministic(t *testing.T) {
	a, b := simulate(t, config(t, 3, 80, 20, cheapest.Planner{})), simulate(t, config(t, 3, 80, 20, cheapest.Planner{}))
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs of the same simulation differ")
	}
}

// TestDecisionsDoNotShareADeadline: a context with a deadline bounds the simulation, not what each
// decision may use. Planner joint would use up all of it in the first decision.
func TestDecisionsDoNotShareADeadline(t *testing.T) {
	seen := &contexts{Planner: cheapest.Planner{}}
	cfg := config(t, 3, 5, 20, seen)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	if _, err := sim.Simulate(ctx, cfg); err != nil || seen.limited || seen.calls == 0 {
		t.Errorf("%d plans, with a deadline: %v, error %v", seen.calls, seen.limited, err)
	}
	cancel()
	if _, err := sim.Simulate(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a simulation that is cancelled, want %v", err, context.Canceled)
	}
}

// contexts records whether a planner was called with a deadline.
type contexts struct {
	plan.Planner
	calls   int
	limited bool
}

func (c *contexts) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	_, limited := ctx.Deadline()
	c.calls, c.limited = c.calls+1, c.limited || limited
	if err := ctx.Err(); err != nil {
		return plan.Result{}, err
	}
	return c.Planner.Plan(ctx, p)
}

// TestJobsWithWrongEstimatesFinish: jobs that run twice as long as stated still finish, and
// each starts no later than its stated latest start.
func TestJobsWithWrongEstimatesFinish(t *testing.T) {
	cfg := config(t, 4, 60, 1000, cheapest.Planner{})
	for i := range cfg.Jobs {
		cfg.Jobs[i].Estimate = cfg.Jobs[i].Length / 2
	}
	res := simulate(t, cfg)
	for i, o := range res.Jobs {
		j := cfg.Jobs[i]
		if latest := j.Deadline.Add(-j.Estimate); !j.Deadline.IsZero() && res.At(o.Runs[0].From).After(latest) {
			t.Errorf("%s starts at %v, after its latest start %v", j.ID, res.At(o.Runs[0].From), latest)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for want, breakIt := range map[string]func(*sim.Config){
		"asks for 1e+06 cpu, 2 memory, more than": func(c *sim.Config) { c.Jobs[0].Request = map[string]float64{"memory": 2, "cpu": 1e6} },
		"length 0s":   func(c *sim.Config) { c.Jobs[0].Length = 0 },
		"estimate 0s": func(c *sim.Config) { c.Jobs[0].Estimate = 0 },
		"clusters":    func(c *sim.Config) { c.Clusters = nil },
	} {
		cfg := config(t, 1, 3, 100, cheapest.Planner{})
		breakIt(&cfg)
		if _, err := sim.Simulate(context.Background(), cfg); !errors.Is(err, sim.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want ErrConfig with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := sim.Simulate(ctx, config(t, 1, 3, 100, cheapest.Planner{})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}
