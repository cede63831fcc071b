package plantest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// BoundRounding is how far a bound may lie beyond another planner's plan, relative:
// planners leave up to workload.Eps of a slot undone, which the others count.
const BoundRounding = 3e-6

// BoundCounts says how much a run of Bounds compared.
type BoundCounts struct {
	Instances, Bounds, Plans, Optima int
	// LeftOut counts, by planner, the plans that name jobs although running as soon as
	// possible places all.
	LeftOut map[string]int
}

// Bounds checks, on one instance, that no planner states a bound beyond any feasible
// plan that one of them returns, and that none calls a plan optimal that another beats.
// optimum, where it is not nil, finds proven optima; an instance that is too large for
// it is compared with the others' plans alone. It returns the faults.
func Bounds(p *plan.Problem, planners map[string]plan.Planner, optimum plan.Planner, counts *BoundCounts) []string {
	type stated struct {
		name  string
		value float64
	}
	var faults []string
	var bounds, optimal []stated
	best := stated{"no plan", math.Inf(1)}
	ctx := context.Background()
	asap := p.Objective.Kind == plan.Carbon && AsapPlacesAll(p)
	take := func(name string, planner plan.Planner) {
		res, err := planner.Plan(ctx, p)
		if err != nil {
			if planner != optimum {
				faults = append(faults, fmt.Sprintf("%s: %v", name, err))
			}
			return
		}
		if asap && len(res.Unplaced) > 0 {
			counts.LeftOut[name]++
		}
		if res.Status == plan.Infeasible {
			if planner == optimum && asap {
				faults = append(faults, fmt.Sprintf("%s: jobs unplaced that run as soon as possible", name))
			}
			return
		}
		if err := plan.Check(p, res.Plan); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", name, err))
			return
		}
		counts.Plans++
		e := plan.Evaluate(p, res.Plan)
		cost := e.Cost(p.Objective)
		if res.Bound != nil {
			counts.Bounds++
			bounds = append(bounds, stated{name, costOf(p, *res.Bound)})
		}
		if res.Status == plan.Optimal {
			optimal = append(optimal, stated{name, cost})
			if planner == optimum {
				counts.Optima++
			}
		}
		if cost < best.value {
			best = stated{name, cost}
		}
	}
	if optimum != nil {
		take("exact", optimum)
	}
	for _, name := range slices.Sorted(maps.Keys(planners)) {
		take(name, planners[name])
	}
	counts.Instances++
	allowed := BoundRounding*math.Abs(best.value) + 1e-9*largest(p)
	for _, b := range bounds {
		if b.value > best.value+allowed {
			faults = append(faults, fmt.Sprintf("%s: bound %v, %s reaches %v", b.name, b.value, best.name, best.value))
		}
	}
	for _, o := range optimal {
		if o.value > best.value+allowed {
			faults = append(faults, fmt.Sprintf("%s: calls %v optimal, %s reaches %v", o.name, o.value, best.name, best.value))
		}
	}
	return faults
}

// costOf turns a bound, in the terms of the objective, into one on the cost.
func costOf(p *plan.Problem, bound float64) float64 {
	if p.Objective.Kind == plan.MOSP && p.Objective.PriceWeight == 0 {
		return -bound // Z is gained
	}
	return bound
}

// largest is the emissions of all jobs in the dirtiest slots: what the rounding of a
// sum is relative to, though a plan may emit next to nothing.
func largest(p *plan.Problem) float64 {
	if p.Objective.Kind != plan.Carbon {
		return 0
	}
	sum := 0.0
	for j := range p.Jobs {
		most := 0.0
		for c := range p.Clusters {
			for t := range p.Grid.N {
				most = math.Max(most, p.SlotGrams(j, c, t, p.Jobs[j].MaxWorkers))
			}
		}
		sum += most * p.Jobs[j].Length
	}
	return sum
}

// BoundsLaw runs Bounds on so many random instances: every other one small enough for
// the optimum, a quarter with Caspian's objective, a fifth with prices and the energy
// of restarts, a quarter with jobs that have begun. It fails with the seed of every fault and logs what it compared.
func BoundsLaw(t *testing.T, planners map[string]plan.Planner, optimum plan.Planner, instances int) BoundCounts {
	t.Helper()
	counts := BoundCounts{LeftOut: map[string]int{}}
	for seed := range uint64(instances) {
		o, best := Options{}, plan.Planner(nil)
		if seed%4 < 2 {
			o, best = Options{MaxJobs: 4, MaxSlots: 5, MaxHosts: 2}, optimum
		}
		if seed%16 > 11 {
			o.Objective = plan.MOSP
			if seed%32 > 15 {
				o.Kinds = []workload.Kind{workload.Rigid}
			}
		}
		o.Costs = seed%5 == 4
		o.Begun = seed%3 == 2 && o.Objective != plan.MOSP
		p := Random(seed, o)
		addQuantiles(seed, p)
		for _, fault := range Bounds(p, planners, best, &counts) {
			t.Errorf("seed %d: %s", seed, fault)
		}
	}
	t.Logf("%d instances: %d bounds against %d feasible plans, %d of them proven optima; left out though as soon as possible places all: %v",
		counts.Instances, counts.Bounds, counts.Plans, counts.Optima, counts.LeftOut)
	return counts
}

// addQuantiles makes the run times of some jobs uncertain, so that guards have effect.
func addQuantiles(seed uint64, p *plan.Problem) {
	for j := range p.Jobs {
		if job := &p.Jobs[j]; (seed+uint64(j))%3 == 0 {
			job.Quantiles = []workload.Quantile{{P: 0.5, Length: job.Length}, {P: 0.95, Length: 1.5*job.Length + 1}}
		}
	}
}
