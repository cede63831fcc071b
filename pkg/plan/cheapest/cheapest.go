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
	// Learned keeps the reserve of the problem (plan.Problem.Reserve) instead of Reserve.
	Learned bool
}

// KeptReserve returns the reserve, or learned if it is that of the problem: see plan.ReserveKeeper.
func (pl Planner) KeptReserve() (share float64, learned bool) {
	if pl.Learned {
		return 0, true
	}
	return pl.Reserve, false
}

// Single implements plan.Refiner.
func (pl Planner) Single() plan.Planner { return pl }

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
//	restarts cost  at MinWorkers, the cheapest slots with restarts and moves
//	has begun      the same, or the run that goes on as it is (workload.Begun)
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
	if pl.Learned {
		pl.Reserve = p.Reserve
	}
	s := search{p: p, free: plan.NewFree(p), reserve: pl.Reserve}
	// A job that is alone has nobody to make room for: its place is the bound.
	alone := len(p.Jobs) == 1 && pl.Reserve == 0
	var empty search
	if !alone {
		empty = search{p: p, free: plan.NewFree(p)}
	}
	bound, bounded := 0.0, p.Objective.Kind == plan.Carbon
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for _, j := range leastSlackFirst(p) {
		if err := ctx.Err(); err != nil {
			return plan.Result{}, err
		}
		segments, grams, ok := s.best(j)
		if bounded {
			least, found := grams, ok
			if !alone {
				_, least, found = empty.best(j)
			}
			bounded = found && p.Jobs[j].Kind != workload.Elastic
			bound += least
		}
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
		if alone && p.Plain() && res.Status == plan.Feasible {
			res.Status = plan.Optimal
		}
	}
	return res, nil
}

// boundRounding is taken off the bound so that sums in another order cannot
// prove it wrong.
const boundRounding = 1e-12

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
	runs       plan.Runs
}

// best returns the place of least emissions for job j and what it emits.
func (s *search) best(j int) (segments []plan.Segment, grams float64, ok bool) {
	job := &s.p.Jobs[j]
	from, last := job.Arrival, min(job.Deadline, s.p.Grid.N)
	var n int64
	if job.Kind == workload.Rigid {
		segments, grams, n, ok = s.free.CheapestRun(s.p, j, from, last, s.reserve)
		s.considered += n
		return segments, grams, ok
	}
	if job.Begun != nil || job.RestartKWh+job.TransferKWh > 0 && s.p.Objective.Kind == plan.Carbon {
		return s.bestWithRestarts(j, last)
	}
	for _, clusters := range s.p.Choices(j) {
		one, g, n, found := s.free.CheapestSlots(s.p, j, job.MinWorkers, clusters, from, last, s.reserve)
		s.considered += n
		if found && (!ok || g < grams) {
			segments, grams, ok = one, g, true
		}
	}
	return segments, grams, ok
}
