package joint

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// solver is one problem being solved.
type solver struct {
	pl     Planner
	p      *plan.Problem // as it was given
	m      *relax.Model  // of p with its jobs in order of IDs
	index  []int         // of each job of m in p
	effort float64
	// prices climbs the problem that the search plans, less the reserve; bound climbs
	// the whole problem. Without a reserve they are one.
	prices, bound *relax.Ascent
	reserve       []float64 // by row, nil without one
	lambda        []float64 // prices of the search
	e             *relax.Pricer
	kins          []int32 // of each job: see kinsOf
	kinds         int     // how many different ones
	spare         *search // one that is no longer needed, or nil: see newSearch
	alone         []int8  // of each job: see search.alone
	moves         int64   // made so far
	before        int64   // what was looked at before prices and bound began
	until         int64   // what may be looked at, 0 for no limit
	clock         clock
	hedged        bool // hedge has placed a job anew
}

// clock says how much of the time that a context leaves has passed, by the time of the caller (Planner.Now). It is read
// only with a deadline, and only to use it up.
type clock struct {
	now        func() time.Time
	begun, end time.Time
}

func (pl Planner) clockOf(ctx context.Context) clock {
	end, limited := ctx.Deadline()
	if !limited || pl.Now == nil {
		return clock{}
	}
	return clock{pl.Now, pl.Now(), end}
}

func (c clock) limited() bool { return !c.end.IsZero() }

func (c clock) share() float64 {
	return float64(c.now().Sub(c.begun)) / math.Max(1, float64(c.end.Sub(c.begun)))
}

// until returns a context that ends when the share of the time has passed.
func (c clock) until(ctx context.Context, share float64) (context.Context, context.CancelFunc) {
	if !c.limited() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, c.begun.Add(time.Duration(share*float64(c.end.Sub(c.begun)))))
}

// begin lays the problem out.
func (pl Planner) begin(ctx context.Context, p *plan.Problem) (*solver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clock := pl.clockOf(ctx)
	p, err := relax.Normalised(ctx, p)
	if err != nil {
		return nil, err
	}
	if pl.Learned {
		pl.Reserve = p.Reserve
	}
	if pl.Progress == nil {
		pl.Progress = func(float64) {}
	}
	ordered, index := byID(p)
	v := &solver{pl: pl, p: p, index: index, effort: pl.Effort, clock: clock, m: relax.New(ordered, relax.TermsOf(ordered))}
	v.kins, v.kinds = kinsOf(v.m)
	v.alone = make([]int8, len(p.Jobs))
	if v.effort == 0 {
		v.effort = 1
	}
	return v, nil
}

// ascend prepares the ascents, from the given prices or, where they are nil, from guesses.
func (v *solver) ascend(prices, bound []float64) {
	if v.pl.Reserve == 0 {
		v.prices = relax.NewAscent(v.m, prices)
		v.bound, v.e = v.prices, v.prices.Pricer()
		return
	}
	less := relax.New(v.m.P.WithReserve(v.pl.Reserve), relax.TermsOf(v.m.P))
	v.reserve = make([]float64, len(v.m.Cap))
	for i, c := range v.m.Cap {
		v.reserve[i] = math.Max(0, c-less.Cap[i])
	}
	v.prices, v.bound = relax.NewAscent(less, prices), relax.NewAscent(v.m, bound)
	v.e = relax.NewPricer(v.m)
}

// takePrices makes the best prices found those of the search. Rows that are wholly in
// reserve get the highest.
func (v *solver) takePrices() {
	v.lambda = append(v.lambda[:0], v.prices.Lambda...)
	for i, kept := range v.reserve {
		if kept > 0 && kept >= v.m.Cap[i] {
			v.lambda[i] = v.m.Bounded(i, math.Inf(1))
		}
	}
}

// The shares of a limited time after which prices, and the bound of the problem with the
// reserve, are no longer sought: prices are worth nothing without a plan.
const (
	pricesUntil = 0.3
	boundUntil  = 0.4
)

// climb finds prices and the bound.
func (v *solver) climb(ctx context.Context) {
	steps := v.steps(1)
	until, cancel := v.clock.until(ctx, pricesUntil)
	v.prices.Climb(until, steps, func(share float64) { v.pl.Progress(share * pricesUntil) })
	v.further(until, v.prices, steps)
	cancel()
	if v.bound != v.prices {
		until, cancel = v.clock.until(ctx, boundUntil)
		v.startBound()
		v.bound.Refine(until, steps/2)
		v.further(until, v.bound, steps)
		cancel()
	}
	v.takePrices()
}

// startBound lets the bound of the whole problem begin at the better of its own prices
// and those beside the reserve.
func (v *solver) startBound() {
	v.bound.Start()
	v.bound.Try(v.prices.Lambda)
}

// further climbs on while there is time to use and it leads somewhere.
func (v *solver) further(ctx context.Context, a *relax.Ascent, steps int) {
	for last := math.Inf(-1); v.clock.limited() && ctx.Err() == nil && a.Bound > last+worthClimbing*math.Abs(last); {
		last = a.Bound
		a.Refine(ctx, steps)
	}
}

// worthClimbing is the relative gain of a bound for which it is sought on.
const worthClimbing = 1e-5

// cold plans without prices to begin with; last, where given, is one more first plan.
func (v *solver) cold(ctx context.Context, last *Memory) *search {
	v.climb(ctx)
	s := v.firstPlan(ctx)
	if last != nil {
		again := v.newSearch()
		again.resume(last)
		again.buildAlike(again.bySize())
		if again.betterThan(s.missing, s.total) {
			s = again
		}
	}
	v.placeAll(ctx, s)
	v.mend(ctx, s)
	v.extend(ctx, s)
	s.settle(plan.ByArrival(v.m.P))
	if s.open != nil {
		s.withdraw()
	}
	return s
}

const (
	// wideGap is the gap from which the search is extended at effort 1; it falls with this
	// power of the effort. A round that leaves more than the share worthExtending of the
	// gap has failed; after mostFailed of them the search ends.
	wideGap        = 0.02
	wideFall       = 0.2
	worthExtending = 0.97
	mostFailed     = 3
	// fewJobs is the number below which the moves at effort 1 have tried all there is: what
	// remains is the gap of the relaxation.
	fewJobs    = 100
	extensions = 8 // rounds at most
	// A round spends these multiples of the effort on prices and on moves.
	extraPrices = 1
	extraMoves  = 6
	// slowElastic divides the moves of a round further, by 1 + slowElastic times the share
	// of elastic jobs, which are slow to place.
	slowElastic = 5
	// mostWider bounds how many times the moves a round gets for a gap so many times wide.
	mostWider = 2
	// Rounds above effort 1 grow by this power of it more.
	extraGrowth = 0.3
	// worthRound is the relative gain of a bound in a round for which the next one spends
	// on prices again.
	worthRound = 3e-4
	// A plan that leaves out up to this share of its jobs gets mostFailed rounds of moves
	// around them, and is repaired after each.
	fewLeftOut = 0.01
	lastRepair = 10 // times the effort of such a repair
)

// timedSlices is how often, in a limited time, jobs without a place are sought one anew.
const timedSlices = 8

// near is the distance to the bound at which the search ends: that of the gap wanted, or of the
// optimum. Without a limit of time a plan of many jobs that is closeGap from the optimum is good
// enough, or nearer with more effort.
func (v *solver) near(s *search) float64 {
	gap := math.Max(v.pl.Gap, optimalGap)
	if !v.clock.limited() && len(v.p.Jobs) >= closeJobs {
		gap = math.Max(gap, closeGap/math.Max(1, v.effort))
	}
	return v.distance(s, gap)
}

// distance is a gap in terms of costs, without those of the jobs that s leaves out, which are far larger.
func (v *solver) distance(s *search, gap float64) float64 {
	if s.missing > 0 {
		return gap * s.placedCost()
	}
	return gap * math.Abs(v.bound.Bound)
}

// mend improves the plan with the effort set, or until the time is over.
func (v *solver) mend(ctx context.Context, s *search) {
	near := v.near(s)
	n := int(v.effort * moves(v.p))
	b := budget{width: threshold * s.meanCost(), from: 0, to: 1, stop: func(total float64) bool { return total-v.bound.Bound <= near }}
	if !v.clock.limited() {
		b.share = func(k int) float64 {
			v.pl.Progress(pricesUntil + (1-pricesUntil)*float64(k)/float64(n))
			return float64(k) / float64(n)
		}
		v.moves += int64(s.mend(ctx, b, nil))
		return
	}
	begun := v.clock.share()
	b.share = func(int) float64 {
		share := v.clock.share()
		v.pl.Progress(math.Min(1, share))
		return (share - begun) / math.Max(1e-9, 1-begun)
	}
	for i := range timedSlices {
		b.from, b.to = float64(i)/timedSlices, float64(i+1)/timedSlices
		v.moves += int64(s.mend(ctx, b, nil))
		if ctx.Err() != nil || b.stop(s.total) {
			return
		}
		if s.missing > 0 {
			v.repair(ctx, s, v.effort)
		}
	}
}

// extend spends more where the gap is still wide, as on instances of large requests or of
// short windows: rounds of prices and of mending, as long as they narrow it.
func (v *solver) extend(ctx context.Context, s *search) {
	wide := math.Max(v.pl.Gap, wideGap*math.Pow(math.Max(1, v.effort), -wideFall))
	if v.clock.limited() || !v.placeLast(ctx, s) || len(s.parts) < fewJobs {
		return // a limited time is used up already; jobs left out are most of the gap
	}
	last, failed := v.gap(s), 0
	moves := extraMoves * math.Pow(math.Max(1, v.effort), extraGrowth) / (1 + slowElastic*elasticShare(v.p))
	prices := float64(extraPrices)
	for round := 0; round < extensions && last > wide && failed < mostFailed && ctx.Err() == nil && !v.spent(); round++ {
		s.reach = 1 + round%2
		bound := v.prices.Bound
		v.round(ctx, s, prices, moves*math.Min(mostWider, last/wide))
		if v.prices.Bound <= bound+worthRound*math.Abs(bound) {
			prices = 0
		}
		gap := v.gap(s)
		if gap > last*worthExtending {
			failed++
		}
		last = gap
	}
	s.reach = 1
}

// elasticShare is the share of the jobs that are elastic.
func elasticShare(p *plan.Problem) float64 {
	n := 0.0
	for i := range p.Jobs {
		if p.Jobs[i].Kind == workload.Elastic {
			n++
		}
	}
	return n / math.Max(1, float64(len(p.Jobs)))
}

// placeLast finds places for the few jobs that were left out, by moves around them and by
// repair, and reports whether none is left.
func (v *solver) placeLast(ctx context.Context, s *search) bool {
	if !s.hard || s.missing == 0 {
		return true
	}
	left := s.leftOut()
	if float64(len(left)) > math.Max(1, fewLeftOut*float64(len(s.parts))) {
		return false
	}
	n := v.effort * moves(v.p)
	for round := 0; round < mostFailed && len(left) > 0 && ctx.Err() == nil && !v.spent(); round++ {
		v.moves += int64(s.mend(ctx, budget{
			share: func(k int) float64 { return float64(k) / n }, to: 1, width: threshold * s.meanCost(),
			stop: func(float64) bool { return s.missing == 0 || v.spent() },
		}, left))
		if s.missing > 0 {
			left = v.repair(ctx, s, lastRepair*v.effort)
		} else {
			left = nil
		}
	}
	return len(left) == 0
}

// uncontended places every job at its cheapest without prices. Where they all get it,
// the plan is optimal: nothing competes. value is the bound, L at no prices. With hard deadlines
// a job that would find no place beside the reserve even if it were alone may use it, and only jobs are left
// out that have no place in an empty cluster. Their costs are large, so the tolerance leaves them out too.
func (v *solver) uncontended() (s *search, value float64, ok bool) {
	m := v.m
	zero := make([]float64, len(m.Cap))
	value = v.e.Lagrangian(zero, make([]float64, len(m.Cap)))
	s = v.newSearch()
	best := make([]float64, len(s.parts))
	lost := 0.0 // what the jobs cost that have no place anywhere
	for j := range best {
		var parts []relax.Part
		if best[j], parts = v.e.Best(j); s.hard && len(parts) == 0 {
			if s.fitsEmpty(j) {
				return nil, 0, false
			}
			lost += best[j]
		}
	}
	near := optimalGap * math.Abs(value-lost)
	for _, j := range plan.ByArrival(m.P) {
		placed := s.insert(j)
		if !placed && s.hard && s.open != nil && !s.fitsAlone(j) {
			s.open[j] = true
			placed = s.insert(j)
		}
		if placed && s.cost[j] <= best[j]+near {
			continue
		}
		if best[j] < s.cost[j]-near || s.hard && !placed && best[j] < s.cost[j] { // else it is better left out
			return nil, 0, false
		}
	}
	return s, value, s.placedSum() <= value-lost+near
}

// gap is how far the plan is from the bound of the problem that the search plans, less
// the reserve, relative to the cost of the jobs that have a place there.
func (v *solver) gap(s *search) float64 {
	total, placed, bound := 0.0, 0.0, v.prices.Bound
	e, set := v.prices.Pricer(), false
	for j, parts := range s.parts {
		if s.open != nil && s.open[j] { // the job and its part of the bound
			if !set {
				e.Set(v.prices.Lambda)
				set = true
			}
			cost, _ := e.Best(j)
			bound -= cost
			continue
		}
		total += s.cost[j]
		if len(parts) > 0 {
			placed += s.cost[j]
		}
	}
	return (total - bound) / math.Max(1e-300, math.Abs(placed))
}

// steps is how often the Lagrangian is evaluated for a share of the full effort: more often if
// jobs that are alike make that cheap.
func (v *solver) steps(share float64) int {
	n := v.prices.Work()
	more := math.Max(1, math.Min(mostMore, float64(v.m.Work())/math.Max(1, float64(n))))
	return int(more * share * v.effort * evaluations(n))
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
	sorted := true
	for i := range index {
		index[i] = i
		sorted = sorted && (i == 0 || p.Jobs[i-1].ID < p.Jobs[i].ID)
	}
	if sorted {
		return p, index
	}
	ids := make([]string, len(index)) // side by side: sorting reads them often
	for i := range ids {
		ids[i] = p.Jobs[i].ID
	}
	slices.SortFunc(index, func(a, b int) int { return strings.Compare(ids[a], ids[b]) })
	out := *p
	out.Jobs = make([]workload.Job, len(p.Jobs))
	for i, j := range index {
		out.Jobs[i] = p.Jobs[j]
	}
	return &out, index
}

// result turns the search's plan of the ordered problem into one of p, with the value
// of the relaxation as its bound.
func (v *solver) result(s *search, value float64) plan.Result {
	p := v.p
	placed := make([]plan.JobPlan, 0, len(s.parts))
	var unplaced []plan.Unplaced
	segments := make([]plan.Segment, 0, s.count())
	for i, parts := range s.parts {
		j := v.index[i]
		if len(parts) == 0 {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		from := len(segments)
		segments = v.m.AppendSegments(segments, i, parts)
		placed = append(placed, plan.JobPlan{Job: j, Segments: segments[from:len(segments):len(segments)]})
	}
	res := plan.Finish(p, placed, unplaced)
	if bound, ok := proven(p, value); ok && res.Status == plan.Feasible {
		res.Bound = &bound
		if s.sum()-value <= optimalGap*math.Abs(value) {
			res.Status = plan.Optimal
		}
	}
	return res
}
