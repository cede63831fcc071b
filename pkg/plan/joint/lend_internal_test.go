package joint

import (
	"context"
	"math"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// TestPlanThatLendsTheReserveIsFeasible: a plan that lends the reserve is feasible, costs no more than one that does not, and
// has a fallback for each job that may pause: all of them together fit beside the reserve, each ends in
// time, and at the end of every slot what a job has still to do is done by its fallback after that slot. Jobs of unknown length stay
// where hedge has placed them.
func TestPlanThatLendsTheReserveIsFeasible(t *testing.T) {
	const reserve = 0.2
	ctx := context.Background()
	lent, hedged := 0, 0
	for seed := range uint64(24) {
		o := generate.Options{Seed: seed, Jobs: 80, Clusters: 1 + int(seed%3), Slots: 48, Load: 0.2 + 0.1*float64(seed%5),
			Kinds: [][]workload.Kind{{workload.Interruptible}, {workload.Elastic}, {workload.Rigid, workload.Interruptible, workload.Elastic}}[seed/2%3]}
		p, err := generate.Instance(o)
		if err != nil {
			t.Fatal(err)
		}
		if seed%2 == 1 {
			unknown(p, 3)
		}
		v, err := Planner{Reserve: reserve}.begin(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		v.ascend(nil, nil)
		s := v.cold(ctx, nil)
		p = v.m.P // jobs in the order of the search
		before := slices.Clone(s.parts)
		v.hedge(ctx, s)
		for j := range p.Jobs {
			if !slices.Equal(s.parts[j], before[j]) {
				if hedged++; p.Jobs[j].Unknown == nil || s.open[j] {
					t.Errorf("seed %d: hedge has moved job %d; unknown length: %v, needs the reserve: %v", seed, j, p.Jobs[j].Unknown != nil, s.open[j])
				}
			}
		}
		home := slices.Clone(s.parts)
		total := s.total
		fallbacks := v.lend(ctx, s)
		if fallbacks == nil {
			continue
		}
		if err := plan.Check(p, planOf(v, s.parts)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if s.total > total*(1+1e-9) {
			t.Errorf("seed %d: %v with the reserve lent, %v before", seed, s.total, total)
		}
		beside := plan.NewFree(p.WithReserve(reserve))
		for j := range p.Jobs {
			parts := fallbacks[j]
			if parts == nil { // rigid, of unknown length, or it needs the reserve
				if !s.open[j] {
					beside.TakeAll(j, v.m.Segments(j, s.parts[j]))
				}
				if !slices.Equal(s.parts[j], home[j]) {
					t.Errorf("seed %d: job %d has no fallback and was moved", seed, j)
				}
				continue
			}
			if !slices.Equal(s.parts[j], home[j]) {
				lent++
			}
			beside.TakeAll(j, v.m.Segments(j, parts))
			job := &p.Jobs[j]
			if first, last := int(parts[0].Slot), int(parts[len(parts)-1].Slot); first < job.Arrival || last >= p.LastSlot(j) {
				t.Errorf("seed %d: the fallback of job %d runs in slots %d to %d; accepted: %d to before %d", seed, j, first, last, job.Arrival, p.LastSlot(j))
			}
			for slot := range p.Grid.N {
				left := job.Work()
				for _, x := range v.m.Segments(j, s.parts[j]) {
					if x.Slot <= slot {
						left -= job.Throughput(x.Workers) * x.Fraction
					}
				}
				after := 0.0
				for _, x := range parts {
					if int(x.Slot) > slot {
						after += job.Throughput(job.MinWorkers+int(x.Scale)) * x.Fraction
					}
				}
				if left > after+1e-6*math.Max(1, job.Work()) {
					t.Fatalf("seed %d, job %d: after slot %d it has %v of its work left, its fallback does %v", seed, j, slot, left, after)
				}
			}
		}
		for c := range p.Clusters {
			for slot := range p.Grid.N {
				if used := beside.Used(c, slot); used > 1+1e-9 {
					t.Errorf("seed %d: the fallbacks use %v of the room beside the reserve of cluster %d in slot %d", seed, used, c, slot)
				}
			}
		}
	}
	if lent < 100 || hedged < 30 {
		t.Errorf("%d jobs moved into the reserve, %d of unknown length moved: the test shows nothing", lent, hedged)
	}
}

// unknown gives every n-th elastic job an unknown length of the same mean.
func unknown(p *plan.Problem, n int) {
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if job.Kind != workload.Elastic || j%n > 0 {
			continue
		}
		job.Unknown = &workload.Unknown{Delay: float64(job.Deadline-job.Arrival) - job.Length - 1, Deadline: job.Deadline}
		for _, q := range []float64{0.1, 0.5, 0.9} {
			job.Unknown.Quantiles = append(job.Unknown.Quantiles, workload.Quantile{P: q, Length: 2 * q * job.Length})
		}
	}
}

// TestLentReserveSavesAsMuchAsWithout: three jobs of an hour that may pause, room for four, half of it in
// reserve, and one clean hour in the middle: all run in it, and their fallbacks are the hours after it.
func TestLentReserveSavesAsMuchAsWithout(t *testing.T) {
	intensity := []float64{300, 300, 100, 300, 300, 300}
	plans := func(kind workload.Kind) (clean int) {
		var jobs []workload.Job
		for _, name := range []string{"a", "b", "c"} {
			jobs = append(jobs, plantest.Job(name, kind, 0, 6, 1))
		}
		res, err := Planner{Reserve: 0.5}.Plan(context.Background(), plantest.OneCluster(4, intensity, jobs...))
		if err != nil {
			t.Fatal(err)
		}
		for _, jp := range res.Plan.Jobs {
			if jp.Segments[0].Slot == 2 {
				clean++
			}
		}
		return clean
	}
	if n := plans(workload.Interruptible); n != 3 {
		t.Errorf("%d jobs that may pause run in the clean hour, want 3", n)
	}
	if n := plans(workload.Rigid); n != 2 {
		t.Errorf("%d rigid jobs run in the clean hour, want 2", n)
	}
}

// planOf is a plan of the ordered problem.
func planOf(v *solver, parts [][]relax.Part) plan.Plan {
	var out plan.Plan
	for j, x := range parts {
		if len(x) > 0 {
			out.Jobs = append(out.Jobs, plan.JobPlan{Job: j, Segments: v.m.Segments(j, x)})
		}
	}
	return out
}
