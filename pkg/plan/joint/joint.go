// Package joint plans when, where and how much at once, for all kinds of jobs on
// many clusters under shared capacity, and proves how far from optimal its plan may
// be.
package joint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/plan"
)

// Source names what the method is taken from.
const Source = "Lull: Lagrangian prices, priced insertion, ejection chains, ruin and recreate; a bound with every plan"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner joint")

// Planner is the method; its zero value is ready.
type Planner struct {
	// Effort multiplies the work spent on prices and on mending the plan; 0 takes 1.
	Effort float64
	// Gap ends the search when the proven gap is no larger, relative; 0 searches on.
	Gap float64
	// Reserve is the share of each resource that is kept free for work that may not wait,
	// 0 <= Reserve < 1. A job that finds no place beside the reserve may use it, since
	// deadlines outrank it. A job that may pause uses it as long as it can give it back: if it
	// pauses at any time, there is still a place in time for it beside the reserve; that place does
	// not count as free, though another job may run there meanwhile. All others stay out of it.
	Reserve float64
	// Learned keeps the reserve of the problem (plan.Problem.Reserve) instead of Reserve.
	Learned bool
	// Progress, where given, is called now and then with the share of the work
	// done, 0..1.
	Progress func(share float64)
	// Now tells the time, such as time.Now. Where it is given and the context has a deadline, the search shares
	// out the time that is left and goes on until the deadline. Otherwise a deadline only ends it.
	Now func() time.Time
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

// KeptReserve returns the reserve, or learned if it is that of the problem: see plan.ReserveKeeper.
func (pl Planner) KeptReserve() (share float64, learned bool) {
	if pl.Learned {
		return 0, true
	}
	return pl.Reserve, false
}

const (
	maxEffort = 1000
	// The Lagrangian is evaluated 100 to 380 times at effort 1, fewer times the
	// more slots there are to look at, from 160,000 on.
	mostEvaluations  = 380
	leastEvaluations = 100
	manySlots        = 160_000
	// mostMore is how many times as often it is evaluated if jobs that are alike make it cheap.
	mostMore = 2
	// threshold by which a worse plan is accepted at first, in mean costs of a job.
	threshold = 0.3
	seed      = 1
	// boundRounding is taken off the bound so that sums in another order cannot
	// prove it wrong; optimalGap is the gap at which a plan counts as optimal.
	boundRounding = 1e-9
	optimalGap    = 1e-8
	// closeGap is the gap at which a plan of at least closeJobs jobs is good enough at effort 1.
	closeGap  = 2e-4
	closeJobs = 1000
)

// CountsBegun implements plan.CountsBegun.
func (Planner) CountsBegun() bool { return true }

// WeighsLengths implements plan.WeighsLengths.
func (Planner) WeighsLengths() bool { return true }

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
// gets room there, and those it displaces are placed anew. Where the gap stays wide, more
// is spent on prices and on mending.
//
// With hard deadlines, a plan that leaves out fewer jobs is better, whatever it costs.
// Jobs left out are placed by ejection chains. Plan never leaves out more jobs than
// running each as soon as possible, in order of arrival, of deadline or of latest start, would.
//
// Without a deadline of ctx, Plan does a bounded amount of work and is deterministic; the
// order of jobs in the problem decides nothing. It ends early if a plan of 1,000 jobs or more is
// proven to be within 0.02 % of the optimum, divided by the effort. With a deadline, it searches until then,
// or until the gap wanted or the optimum is proven, whatever the effort; at most 30 % of
// the time goes into prices, 40 % with a reserve. When ctx ends, the best plan so far is
// returned.
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
// x clusters x window) an insertion of all; O(clusters x window + parts) a move, at most
// 60,000 of them. With hard deadlines, O(200 + 40 x jobs left out) steps of a repair, fewer for windows of more
// than 336 slots, of some tens of insertions each, which end when they have looked at 5,000,000 slots and 50 times those
// that it takes to place all jobs; ten times as many, up to three times, if few jobs are left out. If at least half of the jobs are alike others (equal requests, lengths, arrivals
// and deadlines), one stands for all that are in an evaluation, and there are up to twice as many. A wide gap takes up to 24 times the moves and 16 times the
// evaluations, a reserve half as many evaluations again. Memory: jobs + clusters x resources x slots.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	res, _, err := pl.Replan(ctx, p, nil)
	return res, err
}
