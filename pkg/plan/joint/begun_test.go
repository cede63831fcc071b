package joint_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// slotLater is the problem one slot after p, when its plan has been followed: jobs that ran go on running,
// those that did not are paused or wait. Of the work of the slot a running job may lose what it did.
func slotLater(p *plan.Problem, res plan.Result, rng *rand.Rand) *plan.Problem {
	out := *p
	out.Grid.Start, out.Grid.N = p.Grid.Start.Add(p.Grid.Slot), p.Grid.N-1
	out.Clusters, out.Jobs = nil, nil
	tail := func(of map[string][]float64) map[string][]float64 {
		cut := map[string][]float64{}
		for r, v := range of {
			cut[r] = v[1:]
		}
		return cut
	}
	for _, c := range p.Clusters {
		c.Capacity, c.Load, c.Intensity = tail(c.Capacity), tail(c.Load), c.Intensity[1:]
		out.Clusters = append(out.Clusters, c)
	}
	placed := map[int][]plan.Segment{}
	for _, jp := range res.Plan.Jobs {
		placed[jp.Job] = jp.Segments
	}
	for j, job := range p.Jobs {
		if len(placed[j]) == 0 || job.Deadline <= 1 {
			continue
		}
		ran, done := -1, 0.0
		for _, s := range placed[j] {
			if s.Slot == 0 {
				ran, done = s.Cluster, done+s.Fraction*job.Throughput(s.Workers)/job.Curve[0]
			}
		}
		goesOn := p.GoesOn(j, placed[j])
		arrived := job.Arrival == 0
		job.Arrival, job.Deadline = max(0, job.Arrival-1), job.Deadline-1
		switch {
		case !arrived:
		case ran >= 0:
			lost := 0.0
			if job.Begun != nil && goesOn {
				lost = job.Begun.Lost
			}
			job.Length -= done
			if rng.IntN(2) == 0 { // no checkpoint in this slot
				lost, job.Length = lost+done, job.Length+done
			}
			if job.Length-lost < 0.01 || job.Kind == workload.Rigid {
				continue // done, or load from now on
			}
			job.Begun = &workload.Begun{Cluster: p.Clusters[ran].Name, Lost: lost}
		case job.Begun != nil:
			job.Begun = &workload.Begun{Cluster: job.Begun.Cluster, Paused: true}
		}
		out.Jobs = append(out.Jobs, job)
	}
	return &out
}

// TestWarmWithRunningJobs: where jobs run, pause and go on from problem to problem, warm plans are feasible,
// their bounds hold for cold plans, they leave out no more jobs, and they cost about the same.
func TestWarmWithRunningJobs(t *testing.T) {
	warmCost, coldCost, compared, running := 0.0, 0.0, 0, 0
	for seed := range uint64(25) {
		p := plantest.Random(seed, plantest.Options{MaxJobs: 20, MaxSlots: 20, Begun: true, Kinds: []workload.Kind{workload.Interruptible, workload.Elastic, workload.Interruptible}})
		p.Grid.Slot = time.Hour
		rng := rand.New(rand.NewPCG(seed, 4))
		warm := joint.NewWarm(joint.Planner{Effort: 0.3})
		for p.Grid.N > 1 && len(p.Jobs) > 0 {
			if err := p.Validate(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			res, err := warm.Plan(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			cold := planned(t, joint.Planner{Effort: 0.3}, p)
			if len(res.Unplaced) > len(cold.Unplaced) {
				t.Errorf("seed %d: %d jobs left out, cold %d", seed, len(res.Unplaced), len(cold.Unplaced))
			}
			part := plantest.Without(p, res.Unplaced)
			if len(res.Unplaced) == 0 {
				if err := plan.Check(&part, res.Plan); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if len(res.Unplaced)+len(cold.Unplaced) == 0 {
				a, b := plan.Evaluate(p, res.Plan).CarbonG, plan.Evaluate(p, cold.Plan).CarbonG
				if res.Bound != nil && *res.Bound > b+1e-6*math.Abs(b) {
					t.Errorf("seed %d: bound %v, the cold plan costs %v", seed, *res.Bound, b)
				}
				warmCost, coldCost, compared = warmCost+a, coldCost+b, compared+1
				for j := range p.Jobs {
					if b := p.Jobs[j].Begun; b != nil && b.Lost > 0 {
						running++
					}
				}
			}
			p = slotLater(p, res, rng)
		}
	}
	t.Logf("%d problems with %d jobs that would lose work: warm plans cost %.3f %% more than cold ones", compared, running, 100*(warmCost/coldCost-1))
	if warmCost > 1.01*coldCost || running < 80 {
		t.Errorf("warm plans cost %v, cold ones %v, in %d problems with %d jobs that would lose work", warmCost, coldCost, compared, running)
	}
}
