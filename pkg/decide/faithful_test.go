package decide_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// anyPlan is a planner that places each job at random times before its deadline, whatever the intensity. It keeps the
// problem and its plan.
type anyPlan struct {
	rng     *rand.Rand
	problem *plan.Problem
	plan    plan.Plan
}

func (a *anyPlan) Plan(_ context.Context, p *plan.Problem) (plan.Result, error) {
	a.problem, a.plan = p, plan.Plan{}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		spare := func(slot int, work float64) int { // slots that may pass before the work goes on, at one worker
			return p.LastSlot(i) - slot - int(math.Ceil(work))
		}
		slot := j.Arrival + a.rng.IntN(spare(j.Arrival, j.Length)+1)
		var segments []plan.Segment
		for left := j.Length; left > 1e-9; slot++ {
			workers := j.MinWorkers + a.rng.IntN(j.MaxWorkers-j.MinWorkers+1)
			rate := float64(workers) // each worker adds one
			segments = append(segments, plan.Segment{Slot: slot, Workers: workers, Fraction: math.Min(1, left/rate)})
			left -= rate
			if n := spare(slot+1, left); j.Kind != workload.Rigid && n > 0 && a.rng.IntN(2) == 0 {
				slot += a.rng.IntN(n + 1)
			}
		}
		a.plan.Jobs = append(a.plan.Jobs, plan.JobPlan{Job: i, Segments: segments})
	}
	return plan.Result{Plan: a.plan, Status: plan.Feasible}, nil
}

// TestDecisionFollowsThePlan: where there is room for all and nothing is urgent, each task runs exactly when, where and
// with as many workers as the planner says. No stage moves work to cleaner power, or anywhere else.
func TestDecisionFollowsThePlan(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 17))
		now := at(0).Add(time.Duration(rng.Int64N(int64(24 * time.Hour))))
		s := snapshot(t, now)
		s.Clusters[0].Capacity = map[string]float64{"cpu": 1000}
		s.Clusters[0].Carbon = randomHours(t, rng)
		s.Slot = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}[rng.IntN(3)]
		for i := range 1 + rng.IntN(8) {
			x := task(fmt.Sprint("t", i), now, now.Add(20*time.Hour+time.Duration(rng.Int64N(int64(20*time.Hour)))), time.Minute+time.Duration(rng.Int64N(int64(6*time.Hour))))
			switch rng.IntN(3) {
			case 1:
				x.Kind = workload.Interruptible
			case 2:
				x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}
			}
			s.Tasks = append(s.Tasks, x)
		}
		planner := &anyPlan{rng: rng}
		d, err := decide.Decide(context.Background(), s, planner)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(planner.plan.Jobs) != len(s.Tasks) {
			t.Fatalf("seed %d: %d of %d tasks were planned", seed, len(planner.plan.Jobs), len(s.Tasks))
		}
		for i, jp := range planner.plan.Jobs {
			want := phasesOf(planner.problem, &s.Tasks[i], jp.Segments)
			got := d.Actions[i].Phases
			same := len(got) == len(want)
			for k := range want {
				same = same && got[k].From.Equal(want[k].From) && got[k].To.Sub(want[k].To).Abs() < time.Microsecond && got[k].Workers == want[k].Workers && got[k].Cluster == "c"
			}
			if !same {
				t.Fatalf("seed %d, task %d (%s) of %v at %v, slots of %v:\n got %v\nwant %v", seed, i, s.Tasks[i].Kind, s.Tasks[i].Remaining, now, s.Slot, got, want)
			}
			runs := !want[0].From.After(now)
			if verb := d.Actions[i].Verb; (verb == decide.Release) != runs || (verb == decide.Wait) == runs {
				t.Errorf("seed %d, task %d: %s though its plan starts at %v, now %v", seed, i, verb, want[0].From, now)
			}
		}
	}
}

// phasesOf is what a plan means: each slot is used from its beginning, the last one until the work is done.
func phasesOf(p *plan.Problem, t *decide.Task, segments []plan.Segment) (out []decide.Phase) {
	left := t.Remaining
	for _, seg := range segments {
		from := p.Grid.Start.Add(time.Duration(seg.Slot) * p.Grid.Slot)
		to := from.Add(p.Grid.Slot)
		if end := from.Add(left / time.Duration(seg.Workers)); end.Before(to) {
			to = end
		}
		left -= to.Sub(from) * time.Duration(seg.Workers)
		if n := len(out); n > 0 && out[n-1].To.Equal(from) && out[n-1].Workers == seg.Workers {
			out[n-1].To = to
			continue
		}
		out = append(out, decide.Phase{From: from, To: to, Workers: seg.Workers})
	}
	return out
}

// randomHours are three days of random hourly intensities.
func randomHours(t *testing.T, rng *rand.Rand) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range 72 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(50 + rng.IntN(600))})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X", Source: "test series"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
