package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// meanOnly hides the quantiles of what it learns.
type meanOnly struct{ of *sim.Learned }

func (m meanOnly) Estimate(j *sim.Job, done time.Duration) time.Duration {
	return m.of.Estimate(j, done)
}
func (m meanOnly) Observe(j *sim.Job) { m.of.Observe(j) }

// familyOf is the family of a job, by its name.
func familyOf(j *sim.Job) int { return int(j.ID[0] - 'a') }

// varied is a scenario in which the run times of a family vary: log-normal ones of three families with stated
// deadlines. What the first runs of a family are told is its mean.
func varied(t *testing.T, seed uint64, kind workload.Kind, cpus float64) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 31))
	s := hourly(t, seed, 24*40)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1.3}, Forecast: s, Actual: s}},
		Planner:  plan.Guarded{Planner: cheapest.Planner{}, Probability: plan.SafeProbability},
		Slot:     30 * time.Minute, Margin: 10 * time.Minute, Revise: sim.OnChange, Seed: seed,
	}
	if cpus > 0 {
		cfg.Clusters[0].Capacity = map[string]float64{"cpu": cpus}
	}
	const sigma = 0.6
	for i := range 300 {
		family := i % 3
		median := []float64{0.7, 2, 4}[family]
		length := time.Duration(median * math.Exp(sigma*rng.NormFloat64()) * float64(time.Hour)).Round(time.Second)
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			ID: fmt.Sprintf("%c%03d", 'a'+rune(family), i), Submitted: t0.Add(time.Duration(rng.IntN(24*30*60)) * time.Minute),
			Length: max(time.Minute, length), Estimate: time.Duration(median * math.Exp(sigma*sigma/2) * float64(time.Hour)),
			Kind: kind, Request: map[string]float64{"cpu": 1},
		})
		j := &cfg.Jobs[i]
		j.Deadline = j.Submitted.Add(time.Duration((10 + 26*rng.Float64()) * float64(time.Hour)))
	}
	return cfg
}

// TestQuantilesKeepDeadlines: run times vary within families, and nobody knows them beforehand. With the mean
// only, a job may be held until its mean would just fit. With the quantiles of what has ended before, many more
// deadlines are kept, and most of what was saved still is. Deadlines that running as submitted loses do not
// count: of the others no more may be lost than the probability of the quantile says.
func TestQuantilesKeepDeadlines(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
		for _, cpus := range []float64{0, 4} {
			var lost [2]int
			var saved [2]float64
			deadlines := 0
			for seed := range uint64(4) {
				cfg := varied(t, seed, kind, cpus)
				base, err := sim.AsSubmitted(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				for v, lengths := range []sim.Lengths{meanOnly{&sim.Learned{Class: familyOf}}, &sim.Learned{Class: familyOf}} {
					cfg.Lengths = lengths
					res := simulate(t, cfg)
					for i := range res.Jobs {
						if res.Jobs[i].Missed && !base.Jobs[i].Missed {
							lost[v]++
						}
					}
					saved[v] += (1 - float64(res.Emissions/base.Emissions)) / 4
				}
				deadlines += len(cfg.Jobs) - base.Missed
			}
			t.Logf("%s, %v CPUs: %d of %d deadlines lost with the mean only, %d with quantiles; saved %.1f %% and %.1f %%", kind, cpus, lost[0], deadlines, lost[1], 100*saved[0], 100*saved[1])
			if most := float64(deadlines) * (1 - plan.SafeProbability); lost[0] < 40 || float64(lost[1]) > 0.6*float64(lost[0]) || float64(lost[1]) > most {
				t.Errorf("%s, %v CPUs: lost %v deadlines (mean only, with quantiles)", kind, cpus, lost)
			}
			if saved[1] < saved[0]/2 {
				t.Errorf("%s, %v CPUs: saved %v (mean only, with quantiles)", kind, cpus, saved)
			}
		}
	}
}

// TestOnlyLongRunsAreLate: with room for all, a job is late only if it ran longer, by more than the margin,
// than the run time that was guarded when it was released: whose estimate was exceeded.
func TestOnlyLongRunsAreLate(t *testing.T) {
	late, held, short := 0, 0, 0
	for seed := range uint64(12) {
		cfg := varied(t, seed, workload.Rigid, 0)
		cfg.Lengths = &sim.Learned{Class: familyOf}
		guarded := map[string]time.Duration{}
		cfg.Decided = func(s decide.Snapshot, d decide.Decision) {
			for i, a := range d.Actions {
				if a.Verb == decide.Release {
					guarded[a.Task], _ = s.Tasks[i].Guarded()
				}
			}
		}
		base, err := sim.AsSubmitted(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Lengths = &sim.Learned{Class: familyOf}
		res := simulate(t, cfg)
		for i, o := range res.Jobs {
			j := &cfg.Jobs[i]
			if o.Wait > 0 && j.Length > guarded[j.ID]+cfg.Margin {
				held++
			}
			if !o.Missed || base.Jobs[i].Missed {
				continue
			}
			if late++; j.Length <= guarded[j.ID]+cfg.Margin {
				short++
				t.Errorf("seed %d: %s is late by %v, took %v, guarded were %v", seed, j.ID, res.At(o.Finish).Sub(j.Deadline), j.Length, guarded[j.ID])
			}
		}
	}
	t.Logf("%d late, %d of them no longer than guarded; %d were longer than guarded", late, short, held)
	if late < 10 {
		t.Errorf("only %d late jobs: too few to show anything", late)
	}
}

// TestPlannersSeeNoRunThatHasNotEnded: what planners are told of run times rests on runs that have ended: a run that ends later
// than it did changes nothing before it would have ended.
func TestPlannersSeeNoRunThatHasNotEnded(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
		cfg := varied(t, 9, kind, 4)
		run := func() sim.Result {
			cfg.Lengths = &sim.Learned{Class: familyOf}
			return simulate(t, cfg)
		}
		before := run()
		const changed = 150
		ended := before.Jobs[changed].Finish
		cfg.Jobs[changed].Length += 100 * time.Hour
		after := run()
		compared := 0
		for i := range before.Jobs {
			for k, r := range before.Jobs[i].Runs {
				if r.From >= ended || i == changed && r.To == ended {
					continue
				}
				if len(after.Jobs[i].Runs) <= k || after.Jobs[i].Runs[k].From != r.From || r.To < ended && after.Jobs[i].Runs[k] != r {
					t.Fatalf("%s: run %d of %s was %v, with another job longer %v; it ended at %v", kind, k, cfg.Jobs[i].ID, r, after.Jobs[i].Runs, ended)
				}
				compared++
			}
		}
		if compared < 50 {
			t.Errorf("%s: only %d runs before the end of the job", kind, compared)
		}
	}
}

// TestJobWithQuantilesStartsEarlyEnough: a job that states quantiles starts early enough for them, and what is not valid names
// the job, the field, the value and what is accepted.
func TestJobWithQuantilesStartsEarlyEnough(t *testing.T) {
	cfg := varied(t, 3, workload.Rigid, 0)
	cfg.Jobs = cfg.Jobs[:60]
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Quantiles = []workload.RunTimeQuantile{{P: 0.5, Length: j.Estimate / 2}, {P: 0.95, Length: 3 * j.Estimate}}
	}
	res := simulate(t, cfg)
	for i, o := range res.Jobs {
		j := &cfg.Jobs[i]
		latest := j.Deadline.Add(-3*j.Estimate - cfg.Margin)
		if latest.Before(j.Submitted) {
			latest = j.Submitted
		}
		if first := res.At(o.Runs[0].From); first.After(latest) {
			t.Errorf("%s starts at %v, after %v", j.ID, first, latest)
		}
	}
	for want, q := range map[string][]workload.RunTimeQuantile{
		"quantiles[0]: p: 1; accepted: above 0, below 1, rising":   {{P: 1, Length: time.Hour}},
		"quantiles[0]: p: NaN; accepted: above 0, below 1, rising": {{P: math.NaN(), Length: time.Hour}},
		"quantiles[0]: length: 0s; accepted: above 0, not falling": {{P: 0.5}},
		"quantiles[1]: length: 1h0m0s; accepted: above 0":          {{P: 0.5, Length: 2 * time.Hour}, {P: 0.9, Length: time.Hour}},
		"quantiles[1]: p: 0.5; accepted: above 0, below 1, rising": {{P: 0.5, Length: time.Hour}, {P: 0.5, Length: time.Hour}},
	} {
		cfg.Jobs[0].Quantiles = q
		if _, err := sim.Simulate(context.Background(), cfg); !errors.Is(err, sim.ErrConfig) || !strings.Contains(err.Error(), `job "a000": `+want) {
			t.Errorf("%v: error %v, want %q", q, err, want)
		}
	}
}
