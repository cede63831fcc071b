package joint

import (
	"context"
	"math"
	"sync"

	"lull.dev/lull/pkg/plan"
)

// Warm is planner joint with a memory of its last plan. A plan of a problem that differs
// little from the last one takes a small part of the time. Its result depends on the
// memory, and so on the problems before. It is safe for concurrent use; calls are
// served one after the other.
//
// A deadline of the context ends the search, as it does for Planner, but is not used up
// when the plan is as good as the last ones without it.
type Warm struct {
	planner Planner
	mu      sync.Mutex
	memory  *Memory
}

// NewWarm returns the planner without a memory yet.
func NewWarm(planner Planner) *Warm { return &Warm{planner: planner} }

// Plan is Planner.Plan that begins at the last plan, and remembers the one it returns.
//
// Errors: those of Planner.Plan; the memory then stays as it was.
func (w *Warm) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	res, memory, err := w.planner.Replan(ctx, p, w.memory)
	if err == nil {
		w.memory = memory
	}
	return res, err
}

// Replan is Plan with a memory of the last plan: prices of capacity and places of jobs,
// used where they still fit. The search is spent on the jobs whose place does not, as long
// as the plan stays about as near to its bound as the last full search came; otherwise
// effort grows, up to that of Plan. It returns the memory for the next call. A memory
// without prices (see Remember) is one more first plan of Plan.
//
// The result depends on the memory. Leaving out fewer jobs, the reserve and the bound are
// as in Plan.
func (pl Planner) Replan(ctx context.Context, p *plan.Problem, last *Memory) (plan.Result, *Memory, error) {
	v, err := pl.begin(ctx, p)
	if err != nil {
		return plan.Result{}, nil, err
	}
	if last != nil && last.prices != nil {
		if prices := last.pricesFor(v.m, last.prices); prices != nil {
			v.ascend(prices, last.pricesFor(v.m, last.bound))
			s, gap := v.warm(ctx, last)
			return v.finish(s, v.bound.Bound), v.remember(s, gap), nil
		}
	}
	v.ascend(nil, nil)
	if s, value, ok := v.uncontended(); ok {
		v.pl.Progress(1)
		clear(v.prices.Lambda)
		clear(v.bound.Lambda)
		return v.finish(s, value), v.remember(s, 0), nil
	}
	s := v.cold(ctx, last)
	v.pl.Progress(1)
	return v.finish(s, v.bound.Bound), v.remember(s, v.gap(s)), nil
}

const (
	// A warm plan is good enough when its gap is no larger than this multiple of that of
	// the last full search and this much more.
	gapGrowth    = 1.1
	gapAllowance = 5e-4
	// warmEach and warmBase bound the moves around the jobs that changed.
	warmEach = 4
	warmBase = 32
	// firstRound is the share of the full effort that the first round of search takes
	// when the plan is not good enough; each further one takes twice as much.
	firstRound = 0.125
)

// warm plans from the memory. It returns the gap that a full search reached: the one
// remembered if none was needed.
func (v *solver) warm(ctx context.Context, last *Memory) (*search, float64) {
	v.prices.Start()
	v.bound.Start()
	v.takePrices()
	s := v.newSearch()
	s.reprice(v.lambda)
	changed := s.resume(last)
	order := s.arrivals(changed)
	s.build(order)
	v.placeAll(ctx, s)
	enough := math.Max(v.pl.Gap, last.gap*gapGrowth+gapAllowance)
	if v.gap(s) <= enough || len(changed) < len(s.parts)/4 {
		v.around(ctx, s, changed)
	}
	gap := last.gap
	if v.gap(s) > enough {
		for share := firstRound; share <= 1 && v.gap(s) > enough && ctx.Err() == nil; share *= 2 {
			v.round(ctx, s, share, share)
			gap = v.gap(s)
		}
		s.settle(plan.ByArrival(v.m.P))
	} else {
		s.settle(order)
	}
	if s.open != nil {
		s.withdraw()
	}
	return s, gap
}

// around mends the plan where jobs changed.
func (v *solver) around(ctx context.Context, s *search, changed []int32) {
	n := min(warmBase+warmEach*len(changed), int(v.effort*moves(v.p)))
	if len(changed) == 0 {
		return
	}
	near := math.Max(v.pl.Gap, optimalGap) * math.Abs(v.bound.Bound)
	v.moves += int64(s.mend(ctx, budget{
		share: func(k int) float64 { return float64(k) / float64(n) }, to: 1,
		stop: func(total float64) bool { return total-v.bound.Bound <= near },
	}, changed))
}

// round spends shares of the full effort on prices and on the plan.
func (v *solver) round(ctx context.Context, s *search, prices, mending float64) {
	steps := int(prices * v.effort * evaluations(v.m.Work()))
	v.prices.Refine(ctx, steps)
	if v.bound != v.prices {
		v.bound.Refine(ctx, steps/2)
	}
	v.takePrices()
	s.reprice(v.lambda)
	n := mending * v.effort * moves(v.p)
	near := math.Max(v.pl.Gap, optimalGap) * math.Abs(v.bound.Bound)
	v.moves += int64(s.mend(ctx, budget{
		share: func(k int) float64 { return float64(k) / n }, to: 1, width: threshold * s.meanCost(),
		stop: func(total float64) bool { return total-v.bound.Bound <= near },
	}, nil))
}

// finish returns the result with its statistics.
func (v *solver) finish(s *search, value float64) plan.Result {
	res := v.result(s, value)
	evaluations := v.prices.Evaluations + 1
	if v.bound != v.prices {
		evaluations += v.bound.Evaluations
	}
	res.Considered = int64(evaluations)*int64(len(v.p.Jobs)) + v.moves
	return res
}
