package decide_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/workload"
)

// unknownTasks are elastic tasks whose delay is bounded and of whose lengths any quantiles are known.
func unknownTasks(rng *rand.Rand, now time.Time, most int) []decide.Task {
	var tasks []decide.Task
	for i := range 1 + rng.IntN(most) {
		remaining := time.Duration((0.2 + 5*rng.Float64()) * float64(time.Hour))
		x := task(fmt.Sprint("t", i), now.Add(-time.Hour), time.Time{}, remaining)
		x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 0.9, 0.5}}
		x.Request = map[string]float64{"cpu": 0.5 + rng.Float64()}
		x.LatestStart = now.Add(time.Duration(18 * rng.Float64() * float64(time.Hour)))
		x.Deadline = x.LatestStart.Add(remaining)
		last := 0.0
		for p := 0.05; p < 0.97; p += 0.02 + 0.3*rng.Float64() {
			last += 3 * rng.ExpFloat64() * rng.Float64()
			x.Quantiles = append(x.Quantiles, decide.Quantile{P: p, Remaining: time.Duration(last * float64(time.Hour))})
		}
		if rng.IntN(20) == 0 {
			x.Quantiles[len(x.Quantiles)-1].Remaining = math.MaxInt64
		}
		tasks = append(tasks, x)
	}
	return tasks
}

// forgetful says that it weighs lengths and does not: it plans up to the deadline of the mean length.
type forgetful struct{ joint.Planner }

// Plan plans without what is known of lengths.
func (f forgetful) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	q := *p
	q.Jobs = slices.Clone(p.Jobs)
	for j := range q.Jobs {
		q.Jobs[j].Unknown = nil
	}
	return f.Planner.Plan(ctx, &q)
}

// TestUnknownLengthsKeepTheDelay: whatever is known of the length of a task, the plan keeps its delay at the end of each pause,
// so that the task is in time whatever its length turns out to be. That holds for a planner that does not keep the delay, too.
func TestUnknownLengthsKeepTheDelay(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 5))
	paused, fast := 0, 0
	for n := range 4000 {
		now := at(2 + 6*rng.Float64())
		s := snapshot(t, now, unknownTasks(rng, now, 5)...)
		s.Clusters[0].Capacity = map[string]float64{"cpu": 100}
		planner := plan.Planner(joint.Planner{Effort: 0.3})
		switch n % 4 {
		case 1:
			planner = forgetful{joint.Planner{Effort: 0.3}}
		case 2:
			planner, s.Reserve = joint.Planner{Effort: 0.3, Learned: true}, 0.05
		case 3:
			planner, s.Reserve = forgetful{joint.Planner{Effort: 0.3, Learned: true}}, 0.05
		}
		d := verified(t, s, planner)
		for i := range s.Tasks {
			x, a := &s.Tasks[i], &d.Actions[i]
			if len(a.Phases) == 0 {
				t.Fatalf("case %d, task %d: no phases: %+v", n, i, a)
			}
			work, until := time.Duration(0), now
			for _, p := range a.Phases {
				if gap := p.From.Sub(until); gap > time.Second && p.From.After(x.LatestStart.Add(work+time.Second)) {
					t.Fatalf("case %d, task %d: begins at %v after a pause of %v; %v done, latest start %v", n, i, p.From, gap, work, x.LatestStart)
				} else if gap > time.Second && work > 0 {
					paused++
				}
				rate := 0.0
				for _, v := range x.Scaling.Curve[:p.Workers] {
					rate += v
				}
				if p.Workers > 1 {
					fast++
				}
				work, until = work+time.Duration(rate*float64(p.To.Sub(p.From))), p.To
			}
		}
	}
	if paused < 100 || fast < 100 {
		t.Errorf("%d pauses and %d fast phases in all; want 100 of each", paused, fast)
	}
}

// TestQuantilesChangeThePlan: a plan for an unknown length is another than one for a known length of the same mean.
func TestQuantilesChangeThePlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 6))
	differ := 0
	for range 200 {
		now := at(2 + 6*rng.Float64())
		s := snapshot(t, now, unknownTasks(rng, now, 1)[:1]...)
		with := verified(t, s, joint.Planner{Effort: 0.3}).Actions[0].Phases
		s.Tasks[0].Quantiles = nil
		without := verified(t, s, joint.Planner{Effort: 0.3}).Actions[0].Phases
		if fmt.Sprint(with) != fmt.Sprint(without) {
			differ++
		}
	}
	if differ < 50 {
		t.Errorf("quantiles changed %d of 200 plans; want 50", differ)
	}
}

// TestQuantilesCountBesideASmallReserve: a plan is another one for an unknown length as long as the reserve is small; beside a larger one
// lengths are not weighed.
func TestQuantilesCountBesideASmallReserve(t *testing.T) {
	for _, x := range []struct {
		name    string
		planner joint.Planner
		reserve float64
		weighed bool
	}{
		{"learned, the least", joint.Planner{Effort: 0.3, Learned: true}, reserve.Default().Least, true},
		{"learned, larger", joint.Planner{Effort: 0.3, Learned: true}, 0.06, false},
		{"stated, small", joint.Planner{Effort: 0.3, Reserve: 0.05}, 0, true},
		{"stated, larger", joint.Planner{Effort: 0.3, Reserve: 0.2}, 0, false},
	} {
		rng, differ := rand.New(rand.NewPCG(19, 6)), 0
		for range 100 {
			now := at(2 + 6*rng.Float64())
			s := snapshot(t, now, unknownTasks(rng, now, 1)[:1]...)
			s.Reserve = x.reserve
			with := verified(t, s, x.planner).Actions[0].Phases
			s.Tasks[0].Quantiles = nil
			if without := verified(t, s, x.planner).Actions[0].Phases; fmt.Sprint(with) != fmt.Sprint(without) {
				differ++
			}
		}
		if x.weighed && differ < 25 || !x.weighed && differ > 0 {
			t.Errorf("%s: quantiles changed %d of 100 plans", x.name, differ)
		}
	}
}

// BenchmarkUnknownLengths decides on elastic tasks of unknown length, without a memory.
func BenchmarkUnknownLengths(b *testing.B) {
	rng := rand.New(rand.NewPCG(20, 7))
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t := &testing.T{}
			var tasks []decide.Task
			for len(tasks) < size {
				for _, x := range unknownTasks(rng, at(3), 5) {
					x.ID = fmt.Sprint(len(tasks))
					tasks = append(tasks, x)
				}
			}
			s := snapshot(t, at(3), tasks...)
			s.Clusters[0].Capacity = map[string]float64{"cpu": float64(size)}
			for b.Loop() {
				if _, err := decide.Decide(b.Context(), s, joint.Planner{Effort: 0.3}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
