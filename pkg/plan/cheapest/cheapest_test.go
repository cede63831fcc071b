package cheapest_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func solve(t *testing.T, planner plan.Planner, p *plan.Problem) plan.Result {
	t.Helper()
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, cheapest.Planner{}, 400, plantest.Options{})
	plantest.Laws(t, cheapest.Planner{}, 200, plantest.Options{Objective: plan.MOSP})
}

// TestReserveStaysFree: with a quarter kept free, three of four equal jobs fit
// into the clean slot; the deadline of a job that cannot wait outranks it.
func TestReserveStaysFree(t *testing.T) {
	planner, err := cheapest.New(0.25)
	if err != nil {
		t.Fatal(err)
	}
	plantest.Reserve(t, planner)
	plantest.LearnedReserve(t, planner, cheapest.Planner{Learned: true})
	plantest.Laws(t, planner, 200, plantest.Options{})
	for _, reserve := range []float64{-0.1, 1, math.NaN()} {
		if _, err := cheapest.New(reserve); !errors.Is(err, cheapest.ErrParams) {
			t.Errorf("reserve %v: error %v, want ErrParams", reserve, err)
		}
	}
}

// TestOneJobIsOptimal compares with all subsets of slots, an oracle that shares
// no code with the planner.
func TestOneJobIsOptimal(t *testing.T) {
	kinds := []workload.Kind{workload.Rigid, workload.Interruptible}
	for seed := range uint64(2000) {
		p := plantest.Random(seed, plantest.Options{MaxJobs: 1, MaxSlots: 9, Kinds: kinds})
		res := solve(t, cheapest.Planner{}, p)
		want, ok := bruteForce(p)
		if ok != (res.Status == plan.Optimal) {
			t.Fatalf("seed %d: status %s, brute force finds a place: %v", seed, res.Status, ok)
		}
		if !ok {
			continue
		}
		got := plan.Evaluate(p, res.Plan).CarbonG
		if math.Abs(got-want) > 1e-9*math.Max(1, want) {
			t.Fatalf("seed %d: %v g, brute force %v g", seed, got, want)
		}
	}
}

// bruteForce tries every set of slots and, slot by slot, every cluster.
func bruteForce(p *plan.Problem) (float64, bool) {
	job := &p.Jobs[0]
	need := int(math.Ceil(job.Length - 1e-6))
	best, found := math.Inf(1), false
	last := min(job.Deadline, p.Grid.N)
	fits := func(c, t int) bool {
		for r, q := range job.Request {
			left := p.Clusters[c].Capacity[r][t]
			if load := p.Clusters[c].Load[r]; load != nil {
				left -= load[t]
			}
			if q*float64(job.MinWorkers) > left+1e-9*max(1, left) {
				return false
			}
		}
		return true
	}
	for mask := range 1 << p.Grid.N {
		var slots []int
		for t := range p.Grid.N {
			if mask&(1<<t) != 0 {
				slots = append(slots, t)
			}
		}
		if len(slots) != need || slots[0] < job.Arrival || slots[need-1] >= last {
			continue
		}
		if job.Kind == workload.Rigid && slots[need-1]-slots[0] != need-1 {
			continue
		}
		// All slots on one cluster, or for migratable jobs the best of each.
		options := [][]int{}
		for _, c := range p.Allowed(0) {
			options = append(options, []int{c})
		}
		if job.Migratable {
			options = [][]int{p.Allowed(0)}
		}
		for _, clusters := range options {
			sum, dearest, ok := 0.0, 0.0, true
			for _, t := range slots {
				least := math.Inf(1)
				for _, c := range clusters {
					if fits(c, t) {
						least = math.Min(least, p.SlotGrams(0, c, t, job.MinWorkers))
					}
				}
				ok = ok && !math.IsInf(least, 1)
				sum += least
				dearest = math.Max(dearest, least)
			}
			if rest := float64(need) - job.Length; job.Kind != workload.Rigid && rest > 1e-6 {
				sum -= rest * dearest
			}
			if ok && sum < best {
				best, found = sum, true
			}
		}
	}
	return best, found
}

// TestNothingToGainWhereIntensityIsFlat: on one cluster of constant intensity
// every plan emits the same.
func TestNothingToGainWhereIntensityIsFlat(t *testing.T) {
	for seed := range uint64(200) {
		p := plantest.Random(seed, plantest.Options{MaxHosts: 1, Loose: true})
		for i := range p.Clusters[0].Intensity {
			p.Clusters[0].Intensity[i] = 300
		}
		a, c := solve(t, asap.Planner{}, p), solve(t, cheapest.Planner{}, p)
		ga, gc := plan.Evaluate(p, a.Plan).CarbonG, plan.Evaluate(p, c.Plan).CarbonG
		if a.Status == plan.Feasible && math.Abs(ga-gc) > 1e-9*math.Max(1, ga) {
			t.Fatalf("seed %d: asap %v g, cheapest %v g on a flat intensity", seed, ga, gc)
		}
	}
}

// TestRoundingMakesNobodyWait: where every start emits the same up to rounding,
// each job starts at once, however long the horizon.
func TestRoundingMakesNobodyWait(t *testing.T) {
	for seed := range uint64(300) {
		p := plantest.Random(seed, plantest.Options{MaxHosts: 1, MaxSlots: 200, Loose: true})
		for i := range p.Clusters[0].Intensity {
			p.Clusters[0].Intensity[i] = 100.1
		}
		for _, jp := range solve(t, cheapest.Planner{}, p).Plan.Jobs {
			if start := jp.Segments[0].Slot; start != p.Jobs[jp.Job].Arrival {
				t.Fatalf("seed %d: job %d arrives in slot %d and starts in %d", seed, jp.Job, p.Jobs[jp.Job].Arrival, start)
			}
		}
	}
}

// TestNeverWorseThanAsapWithRoom: where capacity does not bind, each job is at
// its optimum, so the total cannot exceed that of running at once, and a later
// deadline never emits more.
func TestNeverWorseThanAsapWithRoom(t *testing.T) {
	for seed := range uint64(500) {
		p := plantest.Random(seed, plantest.Options{Loose: true})
		a, c := solve(t, asap.Planner{}, p), solve(t, cheapest.Planner{}, p)
		if a.Status != plan.Feasible {
			continue
		}
		ga, gc := plan.Evaluate(p, a.Plan).CarbonG, plan.Evaluate(p, c.Plan).CarbonG
		if gc > ga*(1+1e-9) {
			t.Fatalf("seed %d: cheapest %v g, asap %v g", seed, gc, ga)
		}
		for j := range p.Jobs {
			p.Jobs[j].Deadline++
		}
		if later := plan.Evaluate(p, solve(t, cheapest.Planner{}, p).Plan).CarbonG; later > gc*(1+1e-9) {
			t.Fatalf("seed %d: a later deadline raises %v g to %v g", seed, gc, later)
		}
	}
}

func BenchmarkPlan(b *testing.B) { plantest.Bench(b, cheapest.Planner{}) }
