// Package carbonscaler implements CarbonScaler: each job is scaled along its
// marginal capacity curve, up where the grid is clean and down where it is not.
package carbonscaler

import (
	"context"
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Algorithm 1"

// Planner is the method; its zero value is ready.
type Planner struct{}

// Plan schedules one job after the other, in order of arrival, in the capacity
// that the ones before have left. Each takes increments of scale in the order of
// work per emissions until its work is done:
//
//	minimize   sum_t ci[t] * P(k[t]) * dt
//	s.t.       sum_t C(k[t]) * dt >= work,  k[t] in {0} + [kmin, kmax]
//
// The last increment is used for a part of its slot. Ties: the earlier slot.
//
// Deviations from the source: increments are rated by work per emissions, MC_j /
// (c_i * marginal watts), which is MC_j / c_i where every server draws the same;
// a slot grows one step at a time (Section 3.4), so a later step that is better
// than the one before it waits for it. Jobs with a choice of cluster take the one
// on which they emit least, migratable ones the cleanest in each slot. Rigid jobs,
// which cannot scale, take their cheapest run.
//
// Optimality: for a single job whose work per watt never rises along the curve
// (Theorem 1), with the last slot shared in time. Bound: the sum of what each job
// would emit alone in an empty system, sharing slots in time on the lower hull of
// its curve; absent where a job cannot be done at all.
//
// Errors: that of ctx. Complexity: O(T log K log 1/eps + T log T) a job where the
// curve is concave, O(S log T) for S increments taken where it is not.
// Source: Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Algorithm 1.
func (Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free, empty := plan.NewFree(p), plan.NewFree(p)
	bound, bounded := 0.0, p.Objective.Kind == plan.Carbon
	exact := len(p.Jobs) == 1
	alone := true // no job before took anything
	res, err := plan.PlaceEach(ctx, p, free, func(j, _ int) ([]plan.Segment, int64, bool) {
		s, ok := best(p, free, j, false)
		if bounded {
			least, possible := s, ok
			if !alone || !s.exact { // else nothing beats it
				least, possible = best(p, empty, j, true)
			}
			bounded = possible
			bound += least.grams
		}
		alone = alone && !ok
		exact = exact && s.exact
		return s.segments, s.considered, ok
	})
	if err == nil && bounded {
		bound *= 1 - boundRounding
		res.Bound = &bound
		if exact && p.Plain() && res.Status == plan.Feasible {
			res.Status = plan.Optimal
		}
	}
	return res, err
}

// boundRounding is taken off the bound so that sums in another order cannot
// prove it wrong.
const boundRounding = 1e-9

// schedule is a way to do a job.
type schedule struct {
	segments   []plan.Segment
	grams      float64
	considered int64
	exact      bool
}

// best is the schedule of least emissions for job j in what is free. hull shares
// slots in time on the lower hull of the curve, which nothing beats.
func best(p *plan.Problem, free *plan.Free, j int, hull bool) (out schedule, ok bool) {
	job := &p.Jobs[j]
	last := min(job.Deadline, p.Grid.N)
	if job.Kind == workload.Rigid {
		segments, grams, considered, found := free.CheapestRun(p, j, job.Arrival, last, 0)
		return schedule{segments, grams, considered, true}, found
	}
	out.exact = true
	for _, clusters := range p.Choices(j) {
		s, found := scale(p, free, j, clusters, job.Arrival, last, hull)
		out.considered += s.considered
		out.exact = out.exact && s.exact
		if found && (!ok || s.grams < out.grams) {
			out.segments, out.grams, ok = s.segments, s.grams, true
		}
	}
	return out, ok
}

// slot is where a job may run: at most limit of its cluster's steps fit.
type slot struct {
	t, cluster, limit int
	// cost is the emissions of a watt for a slot, gCO2eq.
	cost  float64
	steps []plan.Step
	taken int
	curve *curve // of steps, for skip
}

// rating of the next step: work per emissions; free power rates above all.
func (s *slot) better(than *slot) bool {
	a, b := s.steps[s.taken], than.steps[than.taken]
	left, right := a.Work*b.Watts*than.cost, b.Work*a.Watts*s.cost
	if left != right {
		return left > right
	}
	return s.t < than.t
}

// fits is how many of the steps have room in a slot. A step of the hull counts as
// soon as a part of it has: its chord bounds what is possible.
func fits(free *plan.Free, j, c, t int, steps []plan.Step, hull bool, least int) int {
	return sort.Search(len(steps), func(i int) bool {
		workers := steps[i].To
		if hull {
			workers = max(least, steps[i].From+1)
		}
		return !free.FitsUnder(j, c, t, workers, 0)
	})
}

// scale runs Algorithm 1 over the given clusters.
func scale(p *plan.Problem, free *plan.Free, j int, clusters []int, from, last int, hull bool) (schedule, bool) {
	job := &p.Jobs[j]
	steps := make(map[int][]plan.Step, len(clusters))
	out := schedule{exact: job.Kind != workload.Elastic || len(clusters) == 1}
	for _, c := range clusters {
		steps[c] = p.Steps(j, c)
		if job.Kind != workload.Elastic {
			steps[c] = steps[c][:1]
		}
		out.exact = out.exact && plan.Concave(steps[c])
		if hull {
			steps[c] = plan.Hull(steps[c])
		}
	}
	var slots []slot
	for t := from; t < last; t++ {
		found, at := false, slot{t: t}
		for _, c := range clusters {
			limit := fits(free, j, c, t, steps[c], hull, job.MinWorkers)
			if limit == 0 {
				continue
			}
			if hull {
				at.limit = max(at.limit, limit) // a relaxation: the cleanest price at the largest room
			}
			cost := p.Grid.Hours() * p.Clusters[c].PUE * p.Clusters[c].Intensity[t] / 1000
			if !found || cost*steps[c][0].Watts < at.cost*at.steps[0].Watts {
				found, at.cluster, at.cost, at.steps = true, c, cost, steps[c]
				if !hull {
					at.limit = limit
				}
			}
		}
		if !found {
			continue
		}
		at.limit = min(at.limit, len(at.steps))
		out.considered += int64(at.limit)
		slots = append(slots, at)
	}
	need := job.Work()
	need = skip(slots, need)
	done := need <= workload.Eps*job.Work()
	h := newHeap(slots)
	share := 1.0 // of the last step taken
	lastTaken := -1
	for !done && len(h) > 0 {
		i := h[0]
		s := &slots[i]
		step := s.steps[s.taken]
		s.taken++
		lastTaken, share = i, 1
		if step.Work >= need {
			share = need / step.Work
			done = true
			break
		}
		need -= step.Work
		if done = need <= workload.Eps*job.Work(); done {
			break
		}
		h.sift(slots, s.taken == s.limit || s.steps[s.taken].Work <= 0)
	}
	if !done {
		return out, false
	}
	for i := range slots {
		s := &slots[i]
		if s.taken == 0 {
			continue
		}
		fraction := 1.0
		if i == lastTaken {
			fraction = share
		}
		top := s.steps[s.taken-1]
		out.segments = append(out.segments, plan.Segment{Slot: s.t, Cluster: s.cluster, Workers: top.To, Fraction: fraction})
		if rest := 1 - fraction; rest > 0 && top.From > 0 {
			out.segments = append(out.segments, plan.Segment{Slot: s.t, Cluster: s.cluster, Workers: top.From, Fraction: rest})
		}
	}
	for _, seg := range out.segments {
		out.grams += seg.Fraction * p.SlotGrams(j, seg.Cluster, seg.Slot, seg.Workers)
	}
	return out, true
}
