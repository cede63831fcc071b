// Package joint plans when, where and how much at once, for all kinds of jobs on
// many clusters under shared capacity, and proves how far from optimal its plan may
// be.
package joint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Lull: Lagrangian prices, priced insertion, ruin and recreate; a bound with every plan"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner joint")

// Planner is the method; its zero value is ready.
type Planner struct {
	// Effort multiplies the work spent on prices and on mending the plan; 0 takes 1.
	Effort float64
	// Gap ends the search when the proven gap is no larger, relative; 0 searches on.
	Gap float64
	// Reserve is the share of each resource that is kept free for work that may not wait,
	// 0 <= Reserve < 1. Where not all that finds a place without the reserve finds one
	// beside it, the reserve is used: deadlines outrank it.
	Reserve float64
	// Progress, where given, is called now and then with the share of the work
	// done, 0..1.
	Progress func(share float64)
}

// New returns the planner with an effort, a gap to stop at and a reserve, or an error
// wrapping ErrParams.
func New(effort, gap, reserve float64) (Planner, error) {
	if math.IsNaN(reserve) || reserve < 0 || reserve >= 1 {
		return Planner{}, fmt.Errorf("%w: reserve: %v; accepted: at least 0, below 1", ErrParams, reserve)
	}
	if math.IsNaN(effort) || effort <= 0 || effort > maxEffort {
		return Planner{}, fmt.Errorf("%w: effort: %v; accepted: above 0, at most %d", ErrParams, effort, maxEffort)
	}
	if math.IsNaN(gap) || gap < 0 || gap >= 1 {
		return Planner{}, fmt.Errorf("%w: gap: %v; accepted: at least 0, below 1", ErrParams, gap)
	}
	return Planner{Effort: effort, Gap: gap, Reserve: reserve}, nil
}

const (
	maxEffort = 1000
	// The Lagrangian is evaluated 100 to 380 times at effort 1, fewer times the
	// more slots there are to look at, from 160,000 on.
	mostEvaluations  = 380
	leastEvaluations = 100
	manySlots        = 160_000
	// threshold by which a worse plan is accepted at first, in mean costs of a job.
	threshold = 0.3
	seed      = 1
	// boundRounding is taken off the bound so that sums in another order cannot
	// prove it wrong; optimalGap is the gap at which a plan counts as optimal.
	boundRounding = 1e-9
	optimalGap    = 1e-8
)

// Plan minimises emissions with hard deadlines, or maximises Caspian's Z with soft
// ones, mixed with the price of resources by the objective's price weight,
// over schedules of all jobs together:
//
//	minimize   sum_i sum_p c_ip x_ip      (p: complete schedules of job i)
//	s.t.       sum_i sum_p u_ip[j,r,t] x_ip <= C[j,r,t],  sum_p x_ip = 1,  x in {0,1}
//
// Prices of capacity come from the Lagrangian dual of that program (package relax),
// whose value is the bound. Jobs are inserted at those prices in several orders, the
// best of which is mended by ruin and recreate: a job far from its best response
// gets room there, and those it displaces are placed anew.
//
// The search is anytime: when ctx ends during it, the best plan so far is returned; of a
// deadline at most half goes into prices.
// Without a deadline it does a fixed amount of work and is deterministic; the order
// of jobs in the problem decides nothing.
//
// For the MOSP objective without theta, the normalisers are computed first; elastic
// jobs run at MinWorkers there, and no bound is claimed if there are any, nor with a
// price weight if an interruptible job uses a slot in part. Restart and
// transfer energy are part of every plan's cost; best responses, and so the bound, know
// the restarts of interruptible jobs of whole lengths that stay on a cluster, and leave
// the others out.
//
// Optimality: heuristic with a proven bound. Errors: that of ctx, if it ends before
// there is a first plan.
//
// Complexity: O(jobs x window) an evaluation of the Lagrangian, 100 to 380 of them; O(jobs
// x clusters x window) an insertion of all; O(clusters x window) a move, at most
// 60,000 of them. Memory: jobs + clusters x resources x slots.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	res, _, err := pl.solve(ctx, p, nil)
	if err != nil || pl.Reserve == 0 {
		return res, err
	}
	beside, _, err := pl.solve(ctx, p.WithReserve(pl.Reserve), nil)
	if err != nil || len(beside.Unplaced) > len(res.Unplaced) {
		return res, err
	}
	beside.Bound = res.Bound // what is proven holds for all plans, with the reserve or without
	if beside.Status == plan.Optimal {
		beside.Status = plan.Feasible // the best beside the reserve, not of all plans
	}
	return beside, nil
}

// Replan is Plan with a memory of the last plan, which is one more start of the
// search: what it knew of prices and places is used where it still fits. It returns
// the memory for the next period. The result depends on the memory.
func (pl Planner) Replan(ctx context.Context, p *plan.Problem, last *Memory) (plan.Result, *Memory, error) {
	res, end, err := pl.solve(ctx, p, last)
	if err != nil {
		return res, nil, err
	}
	return res, remember(end.m, end.lambda, end.s.parts), nil
}

// solution is where a search ended.
type solution struct {
	m      *relax.Model
	s      *search
	lambda []float64
}

func (pl Planner) solve(ctx context.Context, p *plan.Problem, last *Memory) (plan.Result, solution, error) {
	if err := ctx.Err(); err != nil {
		return plan.Result{}, solution{}, err
	}
	p, err := relax.Normalised(ctx, p)
	if err != nil {
		return plan.Result{}, solution{}, err
	}
	ordered, index := byID(p)
	m := relax.New(ordered, relax.TermsOf(ordered))
	if s, value, ok := uncontended(m); ok {
		return s.result(p, index, value, int64(len(p.Jobs))), solution{m, s, make([]float64, len(m.Cap))}, nil
	}
	effort := pl.Effort
	if effort == 0 {
		effort = 1
	}
	progress := pl.Progress
	if progress == nil {
		progress = func(float64) {}
	}
	a := relax.NewAscent(m, last.prices(m))
	steps := int(effort * evaluations(m.Work()))
	half, cancel := firstHalf(ctx)
	a.Climb(half, steps, func(share float64) { progress(share / 2) })
	cancel()
	s := firstPlan(ctx, m, a.Pricer(), a.Lambda, last)
	near := math.Max(pl.Gap, optimalGap) * math.Abs(a.Bound)
	made := s.mend(ctx, int(effort*moves(p)), threshold, func(total float64, share float64) bool {
		progress(0.5 + 0.5*share)
		return total-a.Bound <= near
	})
	s.settle()
	progress(1)
	considered := int64(a.Evaluations)*int64(len(p.Jobs)) + int64(made)
	return s.result(p, index, a.Bound, considered), solution{m, s, a.Lambda}, nil
}

// firstHalf ends when half of the time that ctx leaves is over: prices are worth nothing
// without a plan.
func firstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// uncontended places every job at its cheapest without prices. Where they all get it,
// the plan is optimal: nothing competes. value is the bound, L at no prices.
func uncontended(m *relax.Model) (s *search, value float64, ok bool) {
	zero := make([]float64, len(m.Cap))
	e := relax.NewPricer(m)
	value = e.Lagrangian(zero, make([]float64, len(m.Cap)))
	near := optimalGap * math.Abs(value)
	s = newSearch(m, e, make([]float64, len(m.P.Jobs)))
	for _, j := range plan.ByArrival(m.P) {
		if best, _ := e.Best(j); !s.insert(j) || s.cost[j] > best+near {
			if best < s.cost[j]-near { // else it is better left out
				return nil, 0, false
			}
		}
	}
	return s, value, s.total <= value+near
}

func evaluations(slots int) float64 {
	return math.Max(leastEvaluations, math.Min(mostEvaluations, mostEvaluations*manySlots/math.Max(1, float64(slots))))
}

// moves of the search at effort 1: some a job for a few, fewer for many and for
// jobs that are slow to place.
func moves(p *plan.Problem) float64 {
	n, slow := float64(len(p.Jobs)), 0.0
	for i := range p.Jobs {
		if p.Jobs[i].Kind != workload.Rigid {
			slow++
		}
	}
	m := math.Max(500, math.Min(2.5*n, math.Min(2000+0.3*n, 60_000)))
	return m / (1 + 2*slow/math.Max(1, n))
}

// proven turns the value of the relaxation into the bound of the problem's
// objective, less a rounding allowance.
func proven(p *plan.Problem, value float64) (float64, bool) {
	value -= boundRounding * math.Abs(value)
	if p.Objective.Kind == plan.Carbon {
		return math.Max(0, value), true
	}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		if job.Kind == workload.Elastic || (job.Kind == workload.Interruptible && p.Objective.PriceWeight > 0 && job.Length != float64(job.Slots())) {
			return 0, false
		}
	}
	if p.Objective.PriceWeight == 0 {
		value = -value // Z is gained
	}
	return value, true
}

// byID returns p with its jobs in the order of their IDs, and where each stood: the
// order of the file decides nothing.
func byID(p *plan.Problem) (*plan.Problem, []int) {
	index := make([]int, len(p.Jobs))
	for i := range index {
		index[i] = i
	}
	sort.Slice(index, func(a, b int) bool { return p.Jobs[index[a]].ID < p.Jobs[index[b]].ID })
	out := *p
	out.Jobs = append(out.Jobs[:0:0], p.Jobs...)
	for i, j := range index {
		out.Jobs[i] = p.Jobs[j]
	}
	return &out, index
}

// paces are those of the online insertions that are tried.
var paces = []float64{0.003, 0.03, 0.1}

// firstPlan is the best of several ways to insert all jobs: the largest first at the
// prices given, in random orders with prices that follow, and what is remembered.
func firstPlan(ctx context.Context, m *relax.Model, e *relax.Pricer, lambda []float64, last *Memory) *search {
	n := len(m.P.Jobs)
	e.Set(lambda)
	best := make([]float64, n)
	for j := range best {
		best[j], _ = e.Best(j)
	}
	largest := make([]int, n)
	for j := range largest {
		largest[j] = j
	}
	sort.SliceStable(largest, func(a, b int) bool { return m.Size(largest[a]) > m.Size(largest[b]) })
	winner := newSearch(m, e, best)
	winner.build(largest)
	try := func(s *search) {
		if s.total < winner.total {
			winner = s
		}
	}
	if last != nil {
		s := newSearch(m, e, best)
		s.resume(last)
		s.build(largest)
		try(s)
	}
	for i, pace := range paces {
		if ctx.Err() != nil {
			break
		}
		s := newSearch(m, e, best)
		s.rng = rand.New(rand.NewPCG(seed, uint64(i)))
		s.buildOnline(lambda, pace)
		try(s)
	}
	winner.reprice(lambda)
	return winner
}

// result turns the search's plan of the ordered problem into one of p, with the value
// of the relaxation as its bound.
func (s *search) result(p *plan.Problem, index []int, value float64, considered int64) plan.Result {
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for i, parts := range s.parts {
		j := index[i]
		if len(parts) == 0 {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		placed = append(placed, plan.JobPlan{Job: j, Segments: s.m.Segments(i, parts)})
	}
	res := plan.Finish(p, placed, unplaced)
	res.Considered = considered
	if bound, ok := proven(p, value); ok && res.Status == plan.Feasible {
		res.Bound = &bound
		if s.total-value <= optimalGap*math.Abs(value) {
			res.Status = plan.Optimal
		}
	}
	return res
}
