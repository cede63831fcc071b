// Package carbonscaler implements CarbonScaler: each job is scaled along its
// marginal capacity curve, up where the grid is clean and down where it is not.
package carbonscaler

import (
	"context"

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
// The last increment is used for a part of its slot, and the scale below it for the
// rest. Ties: the earlier slot.
//
// Deviations from the source: increments are rated by work per emissions, MC_j /
// (c_i * marginal watts), which is MC_j / c_i where every server draws the same.
// Where work per watt rises along the curve (bumps, steps without work, scales in
// powers of two), an increment leads from one corner of its lower hull to the next
// (plan.Hull), over the scales that fit; a curve that never rises has them all. Jobs
// with a choice of cluster take the one on which they emit least, migratable ones the
// cleanest in each slot. Rigid jobs, which cannot scale, take their cheapest run.
//
// Optimality: for a single job (Theorem 1, with slots shared in time), unless it may
// migrate and the cleanest cluster of a slot has room for fewer scales than another.
// Bound: the sum of what each job would emit alone in an empty system; absent where a
// job cannot be done at all, or may go on with less work than Length (workload.Begun): the
// method does not count that, nor restarts.
//
// Errors: that of ctx. Complexity: O(T log K log 1/eps + T log T) a job where the
// curve is concave, O(S log T + K * min(K, T)) for S increments taken where it is not.
// Source: Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Algorithm 1.
func (Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free, empty := plan.NewFree(p), plan.NewFree(p)
	bound, bounded := 0.0, p.Objective.Kind == plan.Carbon
	alone := true // no job before took anything
	exact := true
	res, err := plan.PlaceEach(ctx, p, free, func(j, _ int) ([]plan.Segment, int64, bool) {
		s, ok := best(p, free, j, scheduled)
		if bounded {
			least, possible := s, ok
			if !alone || !s.exact { // else nothing beats it
				least, possible = best(p, empty, j, relaxed)
			}
			bounded = possible && (p.Jobs[j].Begun == nil || p.Jobs[j].Begun.Lost == 0)
			bound += least.grams
		}
		exact = exact && alone && s.exact
		alone = alone && !ok
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

// mode says what scale returns.
type mode int

const (
	// scheduled is a schedule that fits.
	scheduled mode = iota
	// widest is scheduled, but prefers the cluster with room for most scales in a slot.
	widest
	// relaxed is a schedule that nothing beats, and may fit on no cluster: in each slot
	// it has the least emissions and the most room of all clusters.
	relaxed
)

// best is the schedule of least emissions for job j in what is free.
func best(p *plan.Problem, free *plan.Free, j int, how mode) (out schedule, ok bool) {
	job := &p.Jobs[j]
	last := min(job.Deadline, p.Grid.N)
	if job.Kind == workload.Rigid {
		segments, grams, considered, found := free.CheapestRun(p, j, job.Arrival, last, 0)
		return schedule{segments, grams, considered, true}, found
	}
	out.exact = true
	for _, clusters := range p.Choices(j) {
		s, found := scale(p, free, j, clusters, how)
		if !found && !s.exact && how == scheduled {
			s, found = scale(p, free, j, clusters, widest)
			s.exact = false
		}
		out.considered += s.considered
		out.exact = out.exact && s.exact
		if found && (!ok || s.grams < out.grams) {
			out.segments, out.grams, ok = s.segments, s.grams, true
		}
	}
	return out, ok
}

// scale runs Algorithm 1 over the given clusters.
func scale(p *plan.Problem, free *plan.Free, j int, clusters []int, how mode) (schedule, bool) {
	job := &p.Jobs[j]
	slots, out := slotsOf(p, free, j, clusters, how)
	// What Job.Slots counts as no slot is left undone.
	rounding := workload.Eps * min(job.Work(), job.Curve[0])
	need := job.Work()
	if how == relaxed {
		need -= rounding // others may leave it undone
	}
	need = skip(slots, need)
	done := need <= rounding
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
		if done = need <= rounding; done {
			break
		}
		h.sift(slots, s.taken == s.limit)
	}
	if !done {
		return out, false
	}
	out.segments = segmentsOf(slots, lastTaken, share)
	for _, seg := range out.segments {
		out.grams += seg.Fraction * p.SlotGrams(j, seg.Cluster, seg.Slot, seg.Workers)
	}
	return out, true
}

// segmentsOf returns the use of slots whose steps are taken; of the last step taken, in
// slot lastTaken, only a share is used and the scale below it for the rest.
func segmentsOf(slots []slot, lastTaken int, share float64) []plan.Segment {
	var out []plan.Segment
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
		out = append(out, plan.Segment{Slot: s.t, Cluster: s.cluster, Workers: top.To, Fraction: fraction})
		if rest := 1 - fraction; rest > 0 && top.From > 0 {
			out = append(out, plan.Segment{Slot: s.t, Cluster: s.cluster, Workers: top.From, Fraction: rest})
		}
	}
	return out
}
