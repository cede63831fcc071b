// Package cheapest places one job after the other where it emits least in the
// capacity that is left: exact for one rigid or interruptible job, a greedy
// heuristic for many.
package cheapest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Lull: cheapest feasible start, one job at a time, least slack first"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner cheapest")

// Planner is the method; its zero value is ready and keeps nothing free.
type Planner struct {
	// Reserve is the share of each resource that is kept free for work that may
	// not wait, 0 <= Reserve < 1. A job that finds no place beside the reserve
	// uses it: the deadline outranks the reserve.
	Reserve float64
}

// New returns the planner with a reserve, or an error wrapping ErrParams.
func New(reserve float64) (Planner, error) {
	if math.IsNaN(reserve) || reserve < 0 || reserve >= 1 {
		return Planner{}, fmt.Errorf("%w: reserve: %v; accepted: at least 0, below 1", ErrParams, reserve)
	}
	return Planner{Reserve: reserve}, nil
}

// Plan gives each job, least slack first (ties: earlier arrival, then ID), the place of least emissions that the capacity left allows:
//
//	rigid          the contiguous run of ceil(l) slots with the least sum
//	interruptible  the ceil(l) cheapest slots of one cluster; the part of a slot
//	               that a fractional length leaves goes to the dearest of them
//	elastic        as interruptible, at MinWorkers (it does not scale)
//
// Ties: the earlier slot, then the cluster first in the problem. For the MOSP
// objective, whose deadlines are soft, slots before the deadline are preferred
// and the earliest place is taken where none of them is left.
//
// Optimality: for a single rigid or interruptible job. Bound: the sum of every
// job's cheapest place in an empty system, which no plan can beat; proven for
// problems without elastic jobs, absent otherwise.
//
// Errors: that of ctx. Complexity: O(jobs x clusters x T log T).
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	s := search{p: p, free: plan.NewFree(p), reserve: pl.Reserve}
	empty := search{p: p, free: plan.NewFree(p)}
	bound, bounded := 0.0, p.Objective.Kind == plan.Carbon
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for _, j := range leastSlackFirst(p) {
		if err := ctx.Err(); err != nil {
			return plan.Result{}, err
		}
		if bounded {
			_, grams, ok := empty.best(j)
			bounded = ok && p.Jobs[j].Kind != workload.Elastic
			bound += grams
		}
		segments, _, ok := s.best(j)
		if !ok && s.reserve > 0 {
			open := search{p: p, free: s.free}
			segments, _, ok = open.best(j)
			s.considered += open.considered
		}
		if !ok && p.Objective.Kind == plan.MOSP {
			segments, ok = s.free.Earliest(p, j, p.Jobs[j].Arrival, p.Grid.N, 0, true)
		}
		if !ok {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		s.free.TakeAll(j, segments)
		placed = append(placed, plan.JobPlan{Job: j, Segments: segments})
	}
	res := plan.Finish(p, placed, unplaced)
	res.Considered = s.considered
	if bounded {
		bound *= 1 - boundRounding
		res.Bound = &bound
		if len(p.Jobs) == 1 && pl.Reserve == 0 && res.Status == plan.Feasible {
			res.Status = plan.Optimal
		}
	}
	return res, nil
}

// boundRounding is taken off the bound so that sums in another order cannot
// prove it wrong.
const boundRounding = 1e-12

// tieShare is the relative difference below which two windows emit the same:
// differences of prefix sums carry rounding, and rounding must not make a job
// wait.
const tieShare = 1e-10

func leastSlackFirst(p *plan.Problem) []int {
	order := plan.ByArrival(p)
	slack := func(j int) int { return p.Jobs[j].LatestStart() - p.Jobs[j].Arrival }
	sort.SliceStable(order, func(a, b int) bool { return slack(order[a]) < slack(order[b]) })
	return order
}

type search struct {
	p          *plan.Problem
	free       *plan.Free
	reserve    float64
	considered int64
}

// best returns the place of least emissions for job j and what it emits.
func (s *search) best(j int) (segments []plan.Segment, grams float64, ok bool) {
	job := &s.p.Jobs[j]
	from, last := job.Arrival, min(job.Deadline, s.p.Grid.N)
	if job.Kind == workload.Rigid {
		return s.cheapestRun(j, from, last)
	}
	if job.Migratable {
		return s.cheapestSlots(j, s.p.Allowed(j), from, last)
	}
	for _, c := range s.p.Allowed(j) {
		one, g, found := s.cheapestSlots(j, []int{c}, from, last)
		if found && (!ok || g < grams) {
			segments, grams, ok = one, g, true
		}
	}
	return segments, grams, ok
}

// cheapestRun slides a window over every cluster; prefix sums price it.
//
// Complexity: O(clusters x slots).
func (s *search) cheapestRun(j, from, last int) (segments []plan.Segment, grams float64, ok bool) {
	job := &s.p.Jobs[j]
	need := job.Slots()
	bestStart, bestCluster := 0, 0
	for _, c := range s.p.Allowed(j) {
		sum := make([]float64, max(0, last-from)+1)
		for t := from; t < last; t++ {
			sum[t-from+1] = sum[t-from] + s.p.SlotGrams(j, c, t, job.MinWorkers)
		}
		// open counts the slots from start on in which the job fits.
		for start, open := last-1, 0; start >= from; start-- {
			open++
			if !s.free.FitsUnder(j, c, start, job.MinWorkers, s.reserve) {
				open = 0
			}
			if open < need {
				continue
			}
			s.considered++
			g := sum[start-from+need] - sum[start-from]
			switch tie := math.Abs(g-grams) <= tieShare*grams; {
			case !ok || (g < grams && !tie):
				grams, bestStart, bestCluster, ok = g, start, c, true
			case tie && (start < bestStart || (start == bestStart && c < bestCluster)):
				grams, bestStart, bestCluster = math.Min(g, grams), start, c
			}
		}
	}
	if !ok {
		return nil, 0, false
	}
	slots, clusters := make([]int, need), make([]int, need)
	for i := range slots {
		slots[i], clusters[i] = bestStart+i, bestCluster
	}
	return plan.Place(job, slots, clusters, -1), grams, true
}

// cheapestSlots takes the cheapest slots over the given clusters.
func (s *search) cheapestSlots(j int, clusters []int, from, last int) ([]plan.Segment, float64, bool) {
	job := &s.p.Jobs[j]
	type candidate struct {
		slot, cluster int
		grams         float64
	}
	var candidates []candidate
	for t := from; t < last; t++ {
		found, best := false, candidate{slot: t}
		for _, c := range clusters {
			if !s.free.FitsUnder(j, c, t, job.MinWorkers, s.reserve) {
				continue
			}
			s.considered++
			if g := s.p.SlotGrams(j, c, t, job.MinWorkers); !found || g < best.grams {
				found, best.cluster, best.grams = true, c, g
			}
		}
		if found {
			candidates = append(candidates, best)
		}
	}
	need := job.Slots()
	if len(candidates) < need {
		return nil, 0, false
	}
	sort.SliceStable(candidates, func(a, b int) bool { return candidates[a].grams < candidates[b].grams })
	chosen := candidates[:need]
	dearest := chosen[need-1].slot
	sort.Slice(chosen, func(a, b int) bool { return chosen[a].slot < chosen[b].slot })
	slots, at := make([]int, need), make([]int, need)
	partial := -1
	for i, c := range chosen {
		slots[i], at[i] = c.slot, c.cluster
		if c.slot == dearest {
			partial = i
		}
	}
	segments := plan.Place(job, slots, at, partial)
	grams := 0.0
	for _, seg := range segments {
		grams += seg.Fraction * s.p.SlotGrams(j, seg.Cluster, seg.Slot, seg.Workers)
	}
	return segments, grams, true
}
