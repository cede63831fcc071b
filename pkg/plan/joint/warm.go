package joint

import (
	"context"
	"math"
	"sync"

	"lull.dev/lull/pkg/plan"
)

// Warm is planner joint with a memory of its last plans. A plan of a problem that differs
// little from the last ones takes a small part of the time. Problems may hold some of the
// jobs only and begin at any time. A result depends on the memory, and so on the problems
// before: equal sequences of problems give equal results. Warm is safe for concurrent use;
// calls are served one after the other. It remembers the places of at most 100,000 jobs, or of as
// many as the last problem has.
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

// Sequence returns NewWarm(pl): see plan.Sequential.
func (pl Planner) Sequence() plan.Planner { return NewWarm(pl) }

// KeptReserve is that of the planner without a memory: see plan.ReserveKeeper.
func (w *Warm) KeptReserve() (share float64, learned bool) { return w.planner.KeptReserve() }

// CountsBegun implements plan.CountsBegun.
func (*Warm) CountsBegun() bool { return true }

// WeighsLengths implements plan.WeighsLengths.
func (*Warm) WeighsLengths() bool { return true }

// Plan is Planner.Plan that begins at the last plan of each job, and remembers the one it
// returns.
//
// Errors: those of Planner.Plan; the memory then stays as it was.
func (w *Warm) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	res, memory, err := w.planner.Replan(ctx, p, w.memory)
	switch {
	case err != nil:
	case w.memory == nil:
		w.memory = memory
	default:
		w.memory.learn(p, memory, mostRemembered)
	}
	return res, err
}

// Replan is Plan with a memory of the last plan: places of jobs and what capacity was worth,
// used where they still fit. Slots may begin at any time: jobs go to the nearest ones. The search
// is spent on the jobs whose place does not fit, as long as the plan stays about as near to
// its bound as the last full search came. Otherwise prices are refined and the jobs that are
// far from their best place are moved, or all are placed anew; if that is not enough, a part of a
// full search follows. If that is not enough either and a full search looks at little, Replan also plans
// without the memory and returns the better plan. It returns the memory for the next call. A memory of places only (see
// Remember) is one more first plan of Plan.
//
// The result depends on the memory. The reserve and the bound are as in Plan. If Replan finds
// no place for a job that has one in an empty cluster, it also plans without the memory. It never
// leaves out more jobs than Plan does, if a full search is small enough, and never more than the simple
// rules that Plan names.
//
// What is looked at is bounded: if a full search would look at more than 60,000,000 slots and parts (and 20 times
// those that it takes to place all jobs), the effort falls to that; for a plan made anew, to a third of it.
//
// Complexity: O(jobs x parts + rows) if the places still fit and all lengths are known: see hedge. Else, in addition, some tens of
// evaluations of the Lagrangian, or up to 1,500 where jobs that are alike make them cheap, and two
// to four insertions of all jobs; see Plan for both.
func (pl Planner) Replan(ctx context.Context, p *plan.Problem, last *Memory) (plan.Result, *Memory, error) {
	v, err := pl.begin(ctx, p)
	if err != nil {
		return plan.Result{}, nil, err
	}
	res, memory := v.replan(ctx, last)
	return res, memory, nil
}

func (v *solver) replan(ctx context.Context, last *Memory) (plan.Result, *Memory) {
	var prices []float64
	if last != nil && last.worth != nil {
		prices = last.worth.pricesIn(v.m, last.worth.search)
	}
	few := prices != nil && (last.worth.idle() || float64(len(v.p.Jobs)) < minorShare*float64(last.worth.jobs))
	if prices == nil || few {
		v.ascend(nil, nil)
		if s, value, ok := v.uncontended(); ok {
			v.pl.Progress(1)
			clear(v.prices.Lambda)
			clear(v.bound.Lambda)
			memory := v.remember(s, 0)
			v.lambda = append(v.lambda[:0], v.prices.Lambda...)
			v.hedge(ctx, s)
			return v.finish(s, value), memory
		}
	}
	if prices != nil {
		v.ascend(prices, last.worth.pricesIn(v.m, last.worth.bound))
		s, gap := v.warm(ctx, last)
		memory := v.remember(s, gap)
		v.hedge(ctx, s)
		v.lend(ctx, s)
		v.pl.Progress(1)
		return v.finish(s, v.bound.Proven()), memory
	}
	s := v.cold(ctx, last)
	memory := v.remember(s, v.reached(s, typicalGap))
	v.hedge(ctx, s)
	v.lend(ctx, s)
	v.pl.Progress(1)
	return v.finish(s, v.bound.Proven()), memory
}

// reached is the gap that a full search reached, as later plans are measured by it: at most
// largestGap, and otherwise if jobs are left out, which widen it.
func (v *solver) reached(s *search, otherwise float64) float64 {
	if s.hard && s.missing > 0 {
		return otherwise
	}
	return math.Min(v.gap(s), largestGap)
}

const (
	// A warm plan is good enough if its gap is no larger than this multiple of that of
	// the last full search and enoughMore; otherwise it is polished. If the gap is then
	// above that multiple and acceptedMore, a part of a full search improves it; if it still is,
	// the plan is made anew.
	gapGrowth    = 1.05
	enoughMore   = 1e-3
	acceptedMore = 2e-3
	// A plan anew of manyJobs may take seconds, in which decisions wait: more is accepted then,
	// and where prices are cheap, so that a full search comes nearer to the bound than elsewhere.
	manyJobs      = 10_000
	manyAccepted  = 2.5e-3
	cheapAccepted = 3e-3
	// typicalGap is that of a full search if its own is not known, largestGap the largest
	// that is accepted as one.
	typicalGap = 0.01
	largestGap = 0.05
	// warmLooks is about how many slots and parts a plan from the memory may look at, anewLooks how many a plan made
	// anew after it, and warmPlacings the least of both, in those that are looked at to place all jobs: a larger
	// problem gets less effort. A move looks at about as much as placing moveJobs jobs, the first evaluation of the
	// Lagrangian at firstLooks times as much as a later one.
	warmLooks    = 60_000_000
	anewLooks    = 20_000_000
	warmPlacings = 20
	moveJobs     = 20
	firstLooks   = 2
	// warmEach and warmBase bound the moves around the jobs that changed.
	warmEach = 4
	warmBase = 32
)

// warm plans from the memory. It returns the gap that a full search reached: the one
// remembered if none was needed.
func (v *solver) warm(ctx context.Context, last *Memory) (*search, float64) {
	v.prices.Start()
	v.bound.Start()
	full := v.fullLooks()
	v.limit(full, warmLooks)
	v.takePrices()
	s := v.newSearch()
	s.reprice(v.lambda)
	changed := s.resume(last)
	order := s.arrivals(changed)
	s.build(order)
	v.placeAll(ctx, s)
	limit := func(more float64) float64 { return math.Max(v.pl.Gap, last.worth.gap*gapGrowth+more) }
	// If prices are cheap, a plan that is not good enough is about to be made anew at them.
	if v.gap(s) <= limit(enoughMore) || len(changed) < len(s.parts)/4 && !v.cheap() {
		v.around(ctx, s, changed)
	}
	accepted := acceptedMore
	switch {
	case v.cheap():
		accepted = cheapAccepted
	case len(s.parts) >= manyJobs:
		accepted = manyAccepted
	}
	polished := v.gap(s) > limit(enoughMore)
	if polished {
		s = v.polish(ctx, s, limit(enoughMore))
		// A large problem that lacks jobs is about to be planned anew.
		if v.gap(s) > limit(accepted) && (full <= anewLooks || !v.lacks(s)) {
			v.finer(ctx, s, limit(enoughMore))
		}
	}
	s.settle(order)
	if s.open != nil {
		s.withdraw()
	}
	if v.lacks(s) || polished && full <= anewLooks && v.gap(s) > limit(accepted) && ctx.Err() == nil {
		v.limit(math.Min(full, warmLooks), anewLooks)
		out := v.anew(ctx, s, full <= anewLooks)
		return out, v.reached(out, last.worth.gap)
	}
	return s, last.worth.gap
}

// lacks reports whether the plan leaves out jobs that have a place in an empty cluster.
func (v *solver) lacks(s *search) bool { return s.hard && s.missing > 0 && len(s.leftOut()) > 0 }

// fullLooks is about how many slots and parts a full search looks at: prices and moves, once.
func (v *solver) fullLooks() float64 {
	prices := float64(v.steps(1)) * float64(v.looked()) / float64(v.evaluations()) / firstLooks
	return prices + v.effort*moves(v.p)*moveJobs*float64(v.m.Placing())/math.Max(1, float64(len(v.p.Jobs)))
}

// limit bounds what is looked at from now on, of a search that looks at so much: the effort falls if it is more than
// most.
func (v *solver) limit(full, most float64) {
	most = math.Max(most, warmPlacings*float64(v.m.Placing()))
	v.effort *= math.Min(1, most/full)
	v.until = v.looked() + int64(most)
}

// spent reports whether the work of a plan from the memory is used up.
func (v *solver) spent() bool { return v.until > 0 && v.looked() >= v.until }

// repair is that of the plan, within half of what may be looked at if there is a limit.
func (v *solver) repair(ctx context.Context, s *search, effort float64) []int32 {
	looks := int64(effort * (repairLeast + repairPlacings*float64(v.m.Placing())))
	if v.until > 0 {
		looks = min(looks, anewLooks/2, max(0, v.until-v.looked())/2)
	}
	return s.repair(ctx, effort, looks)
}

// anew plans without the memory, as Plan does to the bit if the problem is small, and returns the better of that
// plan and s. The bound is the better of both.
func (v *solver) anew(ctx context.Context, s *search, small bool) *search {
	prices, bound := v.prices, v.bound
	v.moves += int64(v.evaluations()) * int64(len(v.p.Jobs))
	v.before = v.looked()
	v.ascend(nil, nil)
	var out *search
	ok := false
	if small { // Plan tries it first: prices begin where it leaves them
		out, _, ok = v.uncontended()
	}
	if !ok {
		out = v.cold(ctx, nil)
	}
	v.prices.Start()
	v.bound.Start()
	if prices.Bound > v.prices.Bound {
		v.prices.Try(prices.Lambda)
	}
	if bound != prices && bound.Bound > v.bound.Bound {
		v.bound.Try(bound.Lambda)
	}
	if s.betterThan(out.missing, out.total) {
		return s
	}
	return out
}

// around mends the plan where jobs changed.
func (v *solver) around(ctx context.Context, s *search, changed []int32) {
	n := min(warmBase+warmEach*len(changed), int(v.effort*moves(v.p)))
	if len(changed) == 0 {
		return
	}
	near := v.distance(s, math.Max(v.pl.Gap, optimalGap))
	v.moves += int64(s.mend(ctx, budget{
		share: func(k int) float64 { return float64(k) / float64(n) }, to: 1,
		stop: func(total float64) bool { return total-v.bound.Bound <= near },
	}, changed))
}

// round spends shares of the full effort on prices and on the plan.
func (v *solver) round(ctx context.Context, s *search, prices, mending float64) {
	v.refine(ctx, prices)
	s.reprice(v.lambda)
	n := mending * v.effort * moves(v.p)
	near := v.distance(s, math.Max(v.pl.Gap, optimalGap))
	v.moves += int64(s.mend(ctx, budget{
		share: func(k int) float64 { return float64(k) / n }, to: 1, width: threshold * s.meanCost(),
		stop: func(total float64) bool { return total-v.bound.Bound <= near || v.spent() },
	}, nil))
}

// refine spends a share of the full effort on prices.
func (v *solver) refine(ctx context.Context, share float64) {
	steps := v.steps(share)
	v.prices.Refine(ctx, steps)
	if v.bound != v.prices {
		v.bound.Refine(ctx, steps/2)
	}
	v.takePrices()
}

// finish returns the result with its statistics.
func (v *solver) finish(s *search, value float64) plan.Result {
	res := v.result(s, value)
	if v.hedged { // a job may use slots then that the problem of the bound does not have
		if res.Bound = nil; res.Status == plan.Optimal {
			res.Status = plan.Feasible
		}
	}
	res.Considered = int64(v.evaluations()+1)*int64(len(v.p.Jobs)) + v.moves
	return res
}

// looked is the work done so far: see relax.Pricer.
func (v *solver) looked() int64 {
	n := v.before + v.prices.Looked()
	if v.bound != v.prices {
		n += v.bound.Looked() + v.e.Looked
	}
	return n
}

// evaluations is how often the Lagrangian was evaluated for the prices in use.
func (v *solver) evaluations() int {
	n := v.prices.Evaluations
	if v.bound != v.prices {
		n += v.bound.Evaluations
	}
	return n
}
