package decide_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// scaled is a snapshot with a running task of 8 hours at one worker, which may have up to four, restarts to scale, and has what it did in the last minutes at risk.
// The intensity is that of each hour from now on.
func scaled(t *testing.T, workers int, atRisk, restart time.Duration, intensity func(hour int) float64) decide.Snapshot {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(intensity(h))})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	x := task("a", t0.Add(-time.Hour), at(24), 8*time.Hour)
	x.Kind, x.Request, x.State, x.Cluster, x.Workers = workload.Elastic, map[string]float64{"cpu": 1}, decide.Running, "c", workers
	x.AtRisk, x.Checkpoint, x.Restart = atRisk, time.Hour, restart
	x.Scaling = &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}, Restarts: true}
	return decide.Snapshot{
		Now: t0, Slot: time.Hour, Tasks: []decide.Task{x},
		Clusters: []decide.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
	}
}

// TestChangeOfScaleHasToPay: a change of scale that restarts the task is made if it saves more than the lost work and the restart emit, and not otherwise.
func TestChangeOfScaleHasToPay(t *testing.T) {
	step := func(from, to float64) func(int) float64 {
		return func(h int) float64 {
			if h < 2 {
				return from
			}
			return to
		}
	}
	for name, x := range map[string]struct {
		workers         int
		atRisk, restart time.Duration
		intensity       func(int) float64
		changes         bool
	}{
		"clean now, nothing lost":        {1, 0, time.Minute, step(100, 500), true},
		"a little cleaner now":           {1, 0, 30 * time.Minute, step(100, 101), false},
		"a little cleaner, work at risk": {1, 50 * time.Minute, time.Minute, step(100, 101), false},
		"much cleaner, work at risk":     {1, 50 * time.Minute, time.Minute, step(100, 500), true},
		"flat":                           {2, 10 * time.Minute, time.Minute, step(100, 100), false},
	} {
		s := scaled(t, x.workers, x.atRisk, x.restart, x.intensity)
		d, err := decide.Decide(context.Background(), s, joint.Planner{Effort: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		a := d.Actions[0]
		if changed := a.Verb == decide.Scale; changed != x.changes {
			t.Errorf("%s: %s with %d workers, was %d: %v; want a change: %v", name, a.Verb, a.Workers, x.workers, a.Phases, x.changes)
		}
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// TestPlanCountsRestartsOfScale: the phases of a plan that changes the scale later do all the work, restarts and what is lost included.
func TestPlanCountsRestartsOfScale(t *testing.T) {
	s := scaled(t, 1, 0, 10*time.Minute, func(h int) float64 { return []float64{100, 400}[h/3%2] })
	s.Tasks[0].Remaining = 50 * time.Hour
	d, err := decide.Decide(context.Background(), s, joint.Planner{Effort: 0.02})
	if err != nil {
		t.Fatal(err)
	}
	work, last := time.Duration(0), 1
	phases := d.Actions[0].Phases
	for k, p := range phases {
		length := p.To.Sub(p.From)
		if starts := p.Workers != last || k > 0 && p.From.After(phases[k-1].To); starts {
			length -= 10 * time.Minute
		}
		last = p.Workers
		work += time.Duration(p.Workers) * length
	}
	if work < 50*time.Hour || len(phases) < 2 {
		t.Errorf("%v does %v; want two phases and more, and 50h", phases, work)
	}
}

// TestChangesOfScaleThatRestartLoseNoDeadline: where each change of scale loses the work since the last checkpoint and takes a start, every deadline is kept that is
// kept as submitted, and no decision leaves a place unused that Verify finds.
func TestChangesOfScaleThatRestartLoseNoDeadline(t *testing.T) {
	kinds := []workload.Kind{workload.Rigid, workload.Elastic, workload.Elastic}
	for name, planner := range map[string]plan.Planner{"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "joint": joint.Planner{Effort: 0.02}} {
		for _, load := range loads() {
			l, where := losses{}, fmt.Sprintf("%s, load %v", name, load)
			for n := range worlds() {
				seed := 4*n + 2 // times are whole microseconds
				var both [2]*world
				for k := range both {
					both[k] = randomWorld(seed, load, true, kinds)
					rng := rand.New(rand.NewPCG(seed, 59))
					for _, x := range both[k].jobs {
						if x.task.Kind == workload.Elastic {
							x.task.Restart = time.Duration(rng.IntN(600)) * time.Second
							x.task.Checkpoint = time.Duration(rng.IntN(3)*rng.IntN(30)) * time.Minute
							x.task.Scaling.Curve = []float64{1, 1, 1, 1}
							x.task.Scaling.Restarts = true
						}
					}
				}
				reference, w := both[0], both[1]
				reference.run(t, nil)
				l.run(t, fmt.Sprintf("%s, seed %d", where, seed), reference, w, planner, decide.Scale)
			}
			l.expectNone(t, where, decide.Scale)
		}
	}
}
