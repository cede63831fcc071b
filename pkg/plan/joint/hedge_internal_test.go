package joint

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// unknownJob is a problem of one elastic job whose length is unknown, on a cluster with room for all.
func unknownJob(rng *rand.Rand, slots int) *plan.Problem {
	ci := make([]float64, slots)
	for t := range ci {
		ci[t] = 50 + 450*rng.Float64()
	}
	job := plantest.Job("j", workload.Elastic, 0, slots, 1)
	job.MinWorkers, job.MaxWorkers, job.Curve, job.Watts = 1, 2, []float64{1, 0.3 + 0.7*rng.Float64()}, nil
	qs := []workload.Quantile{{P: 0.1}, {P: 0.3}, {P: 0.5}, {P: 0.7}, {P: 0.9}}
	at := 0.0
	for i := range qs {
		at += 0.1 + rng.Float64()
		qs[i].Length = at
	}
	job.Length = qs[2].Length
	job.Unknown = &workload.Unknown{Quantiles: qs, Delay: float64(slots) - 1.6*at - 1.5, Deadline: slots}
	return plantest.OneCluster(10, ci, job)
}

// solved is the hedger after it has placed the job of a problem.
func solved(t testing.TB, p *plan.Problem) (*hedger, int) {
	t.Helper()
	v, err := Planner{Effort: 1}.begin(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	v.ascend(nil, nil)
	s, _, ok := v.uncontended()
	if !ok {
		t.Fatal("the room is contended")
	}
	s.reprice(make([]float64, len(v.m.Cap)))
	h := &hedger{s: s, limit: hedgeLimit}
	h.place(0, &v.m.P.Jobs[0])
	return h, h.last(&v.m.P.Jobs[0])
}

// expectedCost is what a schedule costs a job that may end at any moment, by integration in small steps. It is infinite if
// the job lies too far behind while it may still run.
func expectedCost(h *hedger, job *workload.Job, longest float64, scales []int) float64 {
	runs := func(done float64) float64 {
		p, from := 0.0, 0.0
		for _, q := range append(append([]workload.Quantile(nil), job.Unknown.Quantiles...), workload.Quantile{P: 1, Length: longest}) {
			if done < q.Length {
				return 1 - p - (q.P-p)*(done-from)/(q.Length-from)
			}
			p, from = q.P, q.Length
		}
		return 0
	}
	cost, done := 0.0, 0.0
	for t, scale := range scales {
		if scale >= 0 {
			speed := job.Curve[0]
			if scale == 1 {
				speed += job.Curve[1]
			}
			const steps = 20
			for k := range steps {
				cost += h.s.e.SlotCost(0, 0, t, scale) * runs(done+speed*(float64(k)+0.5)/steps) / steps
			}
			done += speed
		}
		if done < longest-1e-9 && float64(t+1)-done > job.Unknown.Delay+1e-9 {
			return math.Inf(1)
		}
	}
	return cost
}

// TestHedgeIsTheBestOfAllSchedules compares the schedule with every one that there is. Steps of progress are coarse: it may
// cost a little more.
func TestHedgeIsTheBestOfAllSchedules(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	worst, sum, n := 0.0, 0.0, 0
	for n < 40 {
		const slots = 7
		p := unknownJob(rng, slots)
		if p.Jobs[0].Unknown.Delay < 1 {
			continue
		}
		n++
		h, last := solved(t, p)
		job := p.Jobs[0]
		longest := h.step * hedgeSteps
		best := math.Inf(1)
		scales := make([]int, slots)
		for code := range 2187 { // 3 to the power of the slots
			for i, c := 0, code; i < slots; i, c = i+1, c/3 {
				scales[i] = c%3 - 1
			}
			best = math.Min(best, expectedCost(h, &job, longest, scales))
		}
		job.Length, job.Deadline = longest, slots
		for i := range scales {
			scales[i] = -1
		}
		for _, part := range h.schedule(&job, 0, last) {
			scales[part.Slot] = int(part.Scale)
		}
		got := expectedCost(h, &job, longest, scales)
		ratio := got/best - 1
		if ratio < -1e-6 {
			t.Fatalf("case %d: %v is less than the best of all, %v", n, got, best)
		}
		worst, sum = math.Max(worst, ratio), sum+ratio
	}
	t.Logf("above the best of all schedules: %.3f %% in the mean, %.2f %% at most", 100*sum/float64(n), 100*worst)
	if worst > 0.05 || sum/float64(n) > 0.005 {
		t.Errorf("above the best of all schedules by %.2f %% in the mean and %.2f %% at most; accepted: 0.5 and 5", 100*sum/float64(n), 100*worst)
	}
}

// TestHedgeKeepsTheDelay: no schedule lies further behind than the delay, whatever the length turns out to be.
func TestHedgeKeepsTheDelay(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 500 {
		p := unknownJob(rng, 12+rng.IntN(20))
		u := p.Jobs[0].Unknown
		u.Delay = math.Min(u.Delay, 6*rng.Float64()-0.5)
		h, last := solved(t, p)
		job := p.Jobs[0]
		job.Length, job.Deadline = h.step*hedgeSteps, p.Grid.N
		at, done := -1, 0.0
		check := func(until int) {
			for slot := at + 1; slot < until; slot++ { // idle slots
				if behind := float64(slot+1) - done; behind > u.Delay+h.step && behind > 1 {
					t.Fatalf("case %d: %.2f slots behind at the end of slot %d, allowed %.2f", n, behind, slot, u.Delay)
				}
			}
		}
		for _, part := range h.schedule(&job, 0, last) {
			check(int(part.Slot))
			at, done = int(part.Slot), done+h.scales[part.Scale].work*part.Fraction
		}
		if done < job.Length-1e-6 {
			t.Fatalf("case %d: %.2f of %.2f done", n, done, job.Length)
		}
	}
}

// TestHedgedPlansAreValid: where capacity is scarce, plans with jobs of unknown length keep capacity and deadlines, and leave
// out no more jobs than plans without.
func TestHedgedPlansAreValid(t *testing.T) {
	changed := 0
	for seed := range uint64(40) {
		p := plantest.Sized(seed, 40, 2, 48, 0.5+0.05*float64(seed%10))
		for j := range p.Jobs {
			if job := &p.Jobs[j]; job.Kind == workload.Interruptible {
				job.Kind, job.MaxWorkers, job.Curve = workload.Elastic, 3, []float64{1, 0.8, 0.5}
			}
		}
		plain, err := Planner{Effort: 0.5}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		for j := range p.Jobs {
			job := &p.Jobs[j]
			slack := float64(job.Deadline-job.Arrival) - job.Length
			job.Unknown = &workload.Unknown{Delay: slack - 1, Deadline: job.Deadline}
			for _, q := range []float64{0.1, 0.5, 0.9} {
				job.Unknown.Quantiles = append(job.Unknown.Quantiles, workload.Quantile{P: q, Length: 2 * q * job.Length})
			}
		}
		res, err := Planner{Effort: 0.5}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if res.Bound != nil || res.Status == plan.Optimal {
			t.Errorf("seed %d: bound %v, status %s: the bound is of another problem", seed, res.Bound, res.Status)
		}
		placed, index := plantest.Without(p, res.Unplaced), map[string]int{}
		for j := range placed.Jobs {
			index[placed.Jobs[j].ID] = j
		}
		numbered := plan.Plan{}
		for _, jp := range res.Plan.Jobs {
			numbered.Jobs = append(numbered.Jobs, plan.JobPlan{Job: index[p.Jobs[jp.Job].ID], Segments: jp.Segments})
		}
		if err := plan.Check(&placed, numbered); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if len(res.Unplaced) > len(plain.Unplaced) {
			t.Errorf("seed %d: %d jobs left out, %d with known lengths", seed, len(res.Unplaced), len(plain.Unplaced))
		}
		if !reflect.DeepEqual(res.Plan, plain.Plan) {
			changed++
		}
	}
	if changed < 30 {
		t.Errorf("%d of 40 plans differ from those with known lengths, want 30 at least", changed)
	}
}

// TestHedgeIsBounded: a job with more states than the limit keeps its place.
func TestHedgeIsBounded(t *testing.T) {
	p := unknownJob(rand.New(rand.NewPCG(9, 10)), 12)
	h, _ := solved(t, p)
	h.limit = 100
	before := append([]relax.Part(nil), h.s.parts[0]...)
	h.values = nil
	h.place(0, &h.s.m.P.Jobs[0])
	if h.values != nil || len(h.s.parts[0]) != len(before) || h.limit != 100 {
		t.Errorf("limit %d, %d values, %d parts, %d before", h.limit, len(h.values), len(h.s.parts[0]), len(before))
	}
}

func BenchmarkHedge(b *testing.B) {
	p := unknownJob(rand.New(rand.NewPCG(11, 12)), 168)
	h, _ := solved(b, p)
	for b.Loop() {
		h.limit = hedgeLimit
		h.place(0, &h.s.m.P.Jobs[0])
	}
}
