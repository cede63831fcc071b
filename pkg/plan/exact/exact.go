// Package exact finds proven optima of small instances by branch and bound over the
// complete schedules of every job. Its search shares no code with the planners that
// are tested against it; capacity is counted by plan.Free, as everywhere.
package exact

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
const Source = "branch and bound over complete schedules; small instances only"

// ErrTooLarge marks a problem that is beyond enumeration.
var ErrTooLarge = errors.New("instance too large for planner exact")

// Planner is the method; its zero value is ready.
type Planner struct {
	// MaxSchedules bounds the schedules of one job, MaxSteps the search; 0 takes
	// 50,000 and 50 million.
	MaxSchedules, MaxSteps int
}

// CountsBegun implements plan.CountsBegun.
func (Planner) CountsBegun() bool { return true }

// Plan enumerates the schedules of each job that could be part of an optimal plan and
// searches their combinations, cheapest first, cutting branches that cannot beat the
// best plan so far:
//
//	rigid          every start on every cluster
//	interruptible  every set of slots, the dearest used for the part needed
//	elastic        every vector of largest scales by slot; within it the work is
//	               spread at least cost, slots shared in time
//	running        these, and the run that goes on as it is (workload.Begun)
//
// Where not every job can be planned, as many as possible are. For the MOSP objective
// theta must be given; elastic jobs run at MinWorkers and no bound is claimed then. Nor
// is one where an elastic job, or one of a fractional length, has a restart or transfer
// energy: longer schedules with fewer pauses are not enumerated. Nor is one where a pause of an
// elastic job loses work.
//
// Optimality: proven. Errors: one wrapping ErrTooLarge, or that of ctx. Complexity:
// exponential in jobs and windows.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	if p.Objective.Kind == plan.MOSP && p.Objective.Theta == nil {
		return plan.Result{}, errors.New("planner exact: objective.theta: absent; accepted: the three normalisers")
	}
	s := &search{ctx: ctx, p: p, mosp: p.Objective.Kind == plan.MOSP, maxSchedules: pl.MaxSchedules, steps: pl.MaxSteps, free: plan.NewFree(p), bestShed: math.MaxInt}
	if s.maxSchedules == 0 {
		s.maxSchedules = 50_000
	}
	if s.steps == 0 {
		s.steps = 50_000_000
	}
	for j := range p.Jobs {
		list, err := s.enumerate(j)
		if err != nil {
			return plan.Result{}, err
		}
		s.order = append(s.order, j)
		s.schedules = append(s.schedules, list)
	}
	// The fewest choices first; the order of the file decides nothing.
	sort.Slice(s.order, func(a, b int) bool {
		x, y := s.order[a], s.order[b]
		if len(s.schedules[x]) != len(s.schedules[y]) {
			return len(s.schedules[x]) < len(s.schedules[y])
		}
		return p.Jobs[x].ID < p.Jobs[y].ID
	})
	s.least = make([]float64, len(s.order)+1)
	for i := len(s.order) - 1; i >= 0; i-- {
		s.least[i] = s.least[i+1]
		if list := s.schedules[s.order[i]]; len(list) > 0 && (!s.mosp || list[0].cost < 0) {
			s.least[i] += list[0].cost
		}
	}
	s.chosen = make([]int, len(s.order))
	s.branch(0, 0, 0)
	if s.err != nil {
		return plan.Result{}, s.err
	}
	return s.result(), nil
}

// schedule is a complete schedule of a job.
type schedule struct {
	cost     float64
	segments []plan.Segment
	peaks    []plan.Segment // the largest segment of every slot
}

type search struct {
	ctx          context.Context
	p            *plan.Problem
	mosp         bool
	maxSchedules int
	steps        int
	free         *plan.Free
	order        []int
	schedules    [][]schedule
	least        []float64 // cost of what comes after, at least
	chosen       []int
	best         []int
	bestShed     int
	bestCost     float64
	visited      int64 // nodes and schedules looked at
	nodes        int64
	partial      int // steps of the enumeration under way
	err          error
}

// fits reports whether w workers of job j fit in what is left.
func (s *search) fits(j, c, t, w int) bool { return s.free.FitsUnder(j, c, t, w, 0) }

// take takes sign times a schedule of job j.
func (s *search) take(j int, sc *schedule, sign int) {
	for _, g := range sc.peaks {
		s.free.Take(j, g.Cluster, g.Slot, sign*g.Workers)
	}
}

// enumerate lists the schedules of job j that fit an empty system, cheapest first.
func (s *search) enumerate(j int) ([]schedule, error) {
	job := &s.p.Jobs[j]
	var list []schedule
	tooMany := false
	s.partial = 0
	add := func(segments []plan.Segment) {
		if len(list) >= s.maxSchedules {
			tooMany = true
			return
		}
		list = append(list, s.price(j, segments))
	}
	switch {
	case job.Kind == workload.Rigid:
		s.runs(j, add)
	case job.Kind == workload.Interruptible || s.mosp:
		for _, set := range s.p.Choices(j) {
			s.sets(j, set, job.Arrival, nil, add, &tooMany)
		}
		s.goOn(j, add)
	default:
		for _, set := range s.p.Choices(j) {
			s.peaks(j, set, job.Arrival, nil, add, &tooMany)
		}
	}
	if tooMany {
		return nil, fmt.Errorf("%w: job %q has more than %d schedules", ErrTooLarge, job.ID, s.maxSchedules)
	}
	sort.SliceStable(list, func(a, b int) bool { return list[a].cost < list[b].cost })
	return list, nil
}

// price makes a schedule of segments; those of one slot stand together.
func (s *search) price(j int, segments []plan.Segment) schedule {
	sc := schedule{segments: segments}
	one := *s.p
	one.Jobs = s.p.Jobs[j : j+1]
	e := plan.Evaluate(&one, plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: segments}}})
	sc.cost = e.Cost(s.p.Objective)
	for _, g := range segments {
		if n := len(sc.peaks); n > 0 && sc.peaks[n-1].Slot == g.Slot {
			if g.Workers > sc.peaks[n-1].Workers {
				sc.peaks[n-1] = g
			}
			continue
		}
		sc.peaks = append(sc.peaks, g)
	}
	return sc
}

func (s *search) runs(j int, add func([]plan.Segment)) {
	job := &s.p.Jobs[j]
	for _, c := range s.p.Allowed(j) {
		for start := job.Arrival; start < s.p.LastSlot(j); start++ {
			end := start + job.Slots()
			if end > s.p.LastSlot(j) {
				if !s.mosp {
					break
				}
				end = s.p.Grid.N
			}
			var segments []plan.Segment
			for t := start; t < end && s.fits(j, c, t, job.MinWorkers); t++ {
				segments = append(segments, plan.Segment{Slot: t, Cluster: c, Workers: job.MinWorkers, Fraction: 1})
			}
			if len(segments) == end-start {
				add(segments)
			}
		}
	}
}

// sets enumerates the sets of slots of an interruptible job from slot t on.
func (s *search) sets(j int, set []int, t int, chosen []plan.Segment, add func([]plan.Segment), stop *bool) {
	job := &s.p.Jobs[j]
	if len(chosen) == job.Slots() {
		segments := append([]plan.Segment(nil), chosen...)
		if rest := job.Length - math.Floor(job.Length); rest > workload.Eps && rest < 1-workload.Eps {
			dearest := 0
			for i, g := range segments {
				if s.slotCost(j, g, g.Workers) > s.slotCost(j, segments[dearest], g.Workers) {
					dearest = i
				}
			}
			segments[dearest].Fraction = rest
		}
		add(segments)
		return
	}
	if s.stopped(stop) || s.p.LastSlot(j)-t < job.Slots()-len(chosen) {
		return
	}
	for _, c := range set {
		if s.fits(j, c, t, job.MinWorkers) {
			s.sets(j, set, t+1, append(chosen, plan.Segment{Slot: t, Cluster: c, Workers: job.MinWorkers, Fraction: 1}), add, stop)
		}
	}
	s.sets(j, set, t+1, chosen, add, stop)
}

// goOn adds the run in which a running job that may pause goes on as it is.
func (s *search) goOn(j int, add func([]plan.Segment)) {
	for _, c := range s.p.Allowed(j) {
		if on := s.free.GoOn(s.p, j, c, s.p.Jobs[j].Arrival, s.p.LastSlot(j), 0); on != nil {
			add(on)
		}
	}
}

// slotCost is what w workers cost through the whole of a segment's slot.
func (s *search) slotCost(j int, g plan.Segment, w int) float64 {
	return s.p.SlotGrams(j, g.Cluster, g.Slot, w) + s.p.Objective.PriceWeight*s.p.SlotPrice(j, g.Cluster, g.Slot, w)
}

// stopped counts a step of an enumeration, which most of the time ends in no schedule,
// and reports whether there were too many.
func (s *search) stopped(stop *bool) bool {
	if s.partial++; s.partial > partialFactor*s.maxSchedules {
		*stop = true
	}
	return *stop
}

// partialFactor is how many steps an enumeration may take for each schedule allowed.
const partialFactor = 10

// peaks enumerates the largest scales of an elastic job from slot t on.
func (s *search) peaks(j int, set []int, t int, chosen []plan.Segment, add func([]plan.Segment), stop *bool) {
	job := &s.p.Jobs[j]
	if s.stopped(stop) {
		return
	}
	if t >= s.p.LastSlot(j) {
		if segments, ok := s.spread(j, chosen, job.Work()); ok {
			add(segments)
		}
		if b := job.Begun; b != nil && b.Lost > 0 {
			if segments, ok := s.spread(j, chosen, job.Work()-b.Lost*job.Curve[0]); ok && s.p.GoesOn(j, segments) {
				add(segments)
			}
		}
		return
	}
	s.peaks(j, set, t+1, chosen, add, stop)
	for _, c := range set {
		for w := job.MinWorkers; w <= job.MaxWorkers && s.fits(j, c, t, w); w++ {
			s.peaks(j, set, t+1, append(chosen, plan.Segment{Slot: t, Cluster: c, Workers: w}), add, stop)
		}
	}
}

// spread does some work of the job at least cost with at most the given scales: steps of
// the lower hull of each slot's cost over work, cheapest first. ok is false where they
// are too small, or larger than what is used of them (then another vector serves).
func (s *search) spread(j int, peaks []plan.Segment, work float64) ([]plan.Segment, bool) {
	job := &s.p.Jobs[j]
	type point struct {
		workers    int
		work, cost float64
	}
	type step struct {
		slot       int
		from, to   point
		work, cost float64
	}
	var steps []step
	for i, g := range peaks {
		hull := []point{{}}
		for w := job.MinWorkers; w <= g.Workers; w++ {
			next := point{w, job.Throughput(w), s.slotCost(j, g, w)}
			for len(hull) > 1 {
				a, b := hull[len(hull)-2], hull[len(hull)-1]
				if (b.cost-a.cost)*(next.work-b.work) < (next.cost-b.cost)*(b.work-a.work) {
					break
				}
				hull = hull[:len(hull)-1]
			}
			if next.work > hull[len(hull)-1].work {
				hull = append(hull, next)
			}
		}
		for k := 1; k < len(hull); k++ {
			steps = append(steps, step{i, hull[k-1], hull[k], hull[k].work - hull[k-1].work, hull[k].cost - hull[k-1].cost})
		}
	}
	sort.SliceStable(steps, func(a, b int) bool { return steps[a].cost*steps[b].work < steps[b].cost*steps[a].work })
	left := work
	at := make([]point, len(peaks))
	var shared step
	share := 1.0
	for _, x := range steps {
		if left <= 1e-9*work {
			break
		}
		at[x.slot] = x.to
		if x.work > left {
			shared, share = x, left/x.work
		}
		left -= x.work
	}
	if left > 1e-9*work {
		return nil, false
	}
	var out []plan.Segment
	for i, g := range peaks {
		if at[i].workers != g.Workers {
			return nil, false
		}
		g.Fraction = 1
		if share < 1 && shared.slot == i {
			g.Fraction = share
			if shared.from.workers > 0 {
				out = append(out, plan.Segment{Slot: g.Slot, Cluster: g.Cluster, Workers: shared.from.workers, Fraction: 1 - share})
			}
		}
		out = append(out, g)
	}
	return out, true
}

const checkEvery = 1 << 10

// branch decides job order[i] given what has been decided.
func (s *search) branch(i, shed int, cost float64) {
	s.visited++
	s.nodes++
	if s.visited > int64(s.steps) {
		s.err = fmt.Errorf("%w: more than %d steps", ErrTooLarge, s.steps)
	} else if s.nodes%checkEvery == 0 && s.ctx.Err() != nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return
	}
	if i == len(s.order) {
		if shed < s.bestShed || (shed == s.bestShed && cost < s.bestCost-plan.TieShare*math.Abs(s.bestCost)) {
			s.bestShed, s.bestCost = shed, cost
			s.best = append(s.best[:0], s.chosen...)
		}
		return
	}
	worse := func(c float64) bool {
		return shed > s.bestShed || (shed == s.bestShed && cost+c+s.least[i+1] >= s.bestCost-plan.TieShare*math.Abs(s.bestCost))
	}
	j := s.order[i]
	for k := range s.schedules[j] {
		sc := &s.schedules[j][k]
		if worse(sc.cost) {
			break
		}
		s.visited++
		if !s.open(j, sc) {
			continue
		}
		s.take(j, sc, 1)
		s.chosen[i] = k
		s.branch(i+1, shed, cost+sc.cost)
		s.take(j, sc, -1)
	}
	s.chosen[i] = -1
	if s.mosp {
		if !worse(0) {
			s.branch(i+1, shed, cost)
		}
	} else if shed+1 <= s.bestShed {
		s.branch(i+1, shed+1, cost)
	}
}

func (s *search) open(j int, sc *schedule) bool {
	for _, g := range sc.peaks {
		if !s.fits(j, g.Cluster, g.Slot, g.Workers) {
			return false
		}
	}
	return true
}

func (s *search) result() plan.Result {
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	unproven := false
	for i, j := range s.order {
		if job := &s.p.Jobs[j]; job.Kind == workload.Elastic {
			unproven = unproven || s.mosp || job.RestartKWh+job.TransferKWh > 0 || job.Begun != nil && job.Begun.Lost > 0
		} else if job.Kind == workload.Interruptible {
			unproven = unproven || (job.RestartKWh+job.TransferKWh > 0 && job.Length != float64(job.Slots()))
		}
		if s.best[i] < 0 {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(s.p, j)})
			continue
		}
		placed = append(placed, plan.JobPlan{Job: j, Segments: s.schedules[j][s.best[i]].segments})
	}
	res := plan.Finish(s.p, placed, unplaced)
	res.Considered = s.visited
	if res.Status == plan.Infeasible || unproven {
		return res
	}
	bound := s.bestCost - 1e-9*math.Abs(s.bestCost)
	if s.mosp && s.p.Objective.PriceWeight == 0 {
		bound = -bound // Z is gained
	}
	res.Bound, res.Status = &bound, plan.Optimal
	return res
}
