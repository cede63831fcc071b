package decide

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// plan has the planner place the open tasks in the capacity that committed
// tasks and standing plans leave. If one of them finds no place in time, all standing plans are
// made anew, beside tasks only that are in time; if one still finds none, the plan is repaired.
func (w *decider) plan(ctx context.Context, planner plan.Planner) error {
	for again := true; again; {
		list := w.listOf(open)
		if len(list) == 0 {
			return nil
		}
		missing, err := w.ask(ctx, planner, list)
		if err != nil {
			return err
		}
		switch {
		case w.commitOverdue(list):
		case len(missing) > 0 && !w.s.soft() && w.reopen(followed, kept):
			w.reopen(placed, unplaced)
		case len(missing) > 0 && !w.s.soft():
			w.secure(append(list, w.urgent()...))
			again = false
		default:
			again = false
		}
	}
	return nil
}

func (w *decider) listOf(s state) (out []int) {
	for i := range w.items {
		if w.items[i].state == s {
			out = append(out, i)
		}
	}
	return out
}

// urgent lists the tasks that are committed to run now, as their delay is used up (runOverdue).
func (w *decider) urgent() (out []int) {
	for i := range w.items {
		if x := &w.items[i]; x.urgent && x.state == committed {
			out = append(out, i)
		}
	}
	return out
}

// reopen gives the capacity of the tasks in the given states back and lets the planner place
// them; false if there were none.
func (w *decider) reopen(states ...state) (any bool) {
	for i := range w.items {
		x := &w.items[i]
		if !slices.Contains(states, x.state) {
			continue
		}
		if x.state != unplaced {
			w.take(w.ledger, i, x.phases, -1)
		}
		x.state, x.phases, x.code, any = open, nil, "", true
	}
	return any
}

// ask has the planner place the listed tasks and takes its plan out of capacity. It returns
// those without a place in time. Planners count no time for restarts. If the plan of a task with its restarts finds no place in time, the planner is
// asked once more for it, beside all others, to plan as much more work as could be done in the time of its restarts.
func (w *decider) ask(ctx context.Context, planner plan.Planner, list []int) (missing []int, err error) {
	for _, i := range list {
		w.items[i].starts = 0
	}
	missing, err = w.askOnce(ctx, planner, list)
	if err != nil || w.s.soft() {
		return missing, err
	}
	var again []int
	missing = slices.DeleteFunc(missing, func(i int) bool {
		if w.items[i].starts == 0 || len(again) == mostRefined {
			return false
		}
		again = append(again, i)
		return true
	})
	status, gap := w.status, w.gap
	defer func() { w.status, w.gap = status, gap }()
	single := plan.Single(planner)
	if single == nil && len(again) > 0 {
		still, err := w.askOnce(ctx, planner, again)
		return append(missing, still...), err
	}
	for _, i := range again { // each alone, so that what the planner remembers of all stays
		still, err := w.askOnce(ctx, single, []int{i})
		if err != nil {
			return nil, err
		}
		missing = append(missing, still...)
	}
	return missing, nil
}

// askOnce is ask with one question. It notes what the restarts of each plan take.
func (w *decider) askOnce(ctx context.Context, planner plan.Planner, list []int) (missing []int, err error) {
	w.takeFixed(list, 1) // what tasks do before they may change is load of the problem
	problem, index := w.problem(list)
	w.takeFixed(list, -1)
	if err := problem.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	res, err := plan.WithRestarts(ctx, planner, problem)
	if err != nil {
		return nil, err
	}
	w.status, w.gap = res.Status, gapOf(problem, res)
	segments := make([][]plan.Segment, len(list))
	for _, jp := range res.Plan.Jobs {
		segments[jp.Job] = jp.Segments
	}
	for job, i := range list {
		x := &w.items[i]
		x.goesOn = problem.GoesOn(job, segments[job])
		x.phases = w.phasesOf(i, w.grid, segments[job], index)
		if w.s.Tasks[i].restartsToScale() {
			x.phases = w.priced(w.settle(i, x.phases))
		}
		x.state, x.starts = placed, w.s.Tasks[i].startsIn(x.phases, w.s.Now)
		keeps := !x.weighed || w.keepsDelay(i, x.phases)
		if len(x.phases) > 0 && (w.s.soft() || w.inTime(i, x.phases)) && keeps && w.fits(w.ledger, i, x.phases) {
			w.take(w.ledger, i, x.phases, 1)
			continue
		}
		x.state, x.phases = unplaced, nil
		missing = append(missing, i)
	}
	return missing, nil
}

// inTime reports whether there are phases, and they end by the task's deadline.
func (w *decider) inTime(i int, phases []Phase) bool {
	return len(phases) > 0 && !phases[len(phases)-1].To.After(w.s.Tasks[i].Deadline.Add(rounding))
}

// problem is the planning problem of the listed tasks, in their order, and the index in the
// snapshot of each of its clusters: those without carbon data are left out.
func (w *decider) problem(list []int) (*plan.Problem, []int) {
	var index []int
	for c := range w.s.Clusters {
		if w.curves[c] != nil {
			index = append(index, c)
		}
	}
	p := w.problemOn(w.grid, list, index)
	for k, i := range index {
		c, cl := &w.s.Clusters[i], &p.Clusters[k]
		if cl.Intensity = w.filled[i].Values; p.Objective.Kind == plan.MOSP {
			cl.Intensity = atLeast(cl.Intensity, leastIntensity)
		}
		if v, covered := c.Carbon.Mean(p.Grid.Start.Add(-p.Grid.Slot), p.Grid.Start); covered > 0 {
			before := float64(v)
			cl.Before = &before
		}
		if c.CarbonLow != nil && c.CarbonHigh != nil {
			cl.IntensityLow = w.barsOf(i, c.CarbonLow, math.Min)
			cl.IntensityHigh = w.barsOf(i, c.CarbonHigh, math.Max)
		}
	}
	return p, index
}

// problemOn is the planning problem of the listed tasks on a grid and the listed clusters, without intensities.
func (w *decider) problemOn(g timegrid.Grid, list, clusters []int) *plan.Problem {
	s := w.s
	p := &plan.Problem{Grid: g, Objective: s.Objective, Reserve: s.Reserve}
	if p.Objective.Kind == "" {
		p.Objective.Kind = plan.Carbon
	}
	resources := map[string]bool{}
	for _, i := range list {
		for r := range s.Tasks[i].Request {
			resources[r] = true
		}
	}
	for _, i := range clusters {
		c := &s.Clusters[i]
		cl := plan.Cluster{
			Name: c.Name, Zone: c.Zone, Watts: c.Power.Watts, PUE: c.pue(),
			Capacity: make(map[string][]float64, len(resources)), Load: make(map[string][]float64, len(resources)),
		}
		for r := range resources {
			cl.Capacity[r], cl.Load[r] = w.ledger.Slots(w.ledger.Cluster(c.Name), r, g.Start, g.Slot, g.N)
			for slot, v := range cl.Load[r] {
				cl.Load[r][slot] = min(v, workload.MaxNumber)
			}
		}
		p.Clusters = append(p.Clusters, cl)
	}
	p.Jobs = make([]workload.Job, len(list))
	for job, i := range list {
		p.Jobs[job] = w.job(i, g)
	}
	return p
}

// leastIntensity stands for 0 where an objective divides by the intensity, gCO2eq/kWh.
const leastIntensity = 1e-3

func atLeast(values []float64, least float64) []float64 {
	if !slices.ContainsFunc(values, func(v float64) bool { return v < least }) {
		return values
	}
	out := slices.Clone(values)
	for i, v := range out {
		out[i] = math.Max(least, v)
	}
	return out
}

// job converts a task to slots of a grid. The deadline is rounded down and the length of a rigid task up (by the
// planners), both to the safe side.
func (w *decider) job(i int, g timegrid.Grid) workload.Job {
	s, t := w.s, &w.s.Tasks[i]
	j := workload.Job{
		ID: t.ID, Kind: t.Kind,
		Length:   math.Max(float64(t.Remaining+max(t.startOf(false), w.items[i].starts))/float64(g.Slot), minLength),
		Arrival:  max(0, g.CeilSlot(w.items[i].earliest)),
		Deadline: g.SlotOf(t.Deadline.Add(-s.Margin)), Waited: max(0, int(s.Now.Sub(t.Submitted)/g.Slot)),
		Request: bounded(t.Request), MinWorkers: 1, MaxWorkers: 1, Curve: single, PriorityClass: t.PriorityClass,
		Migratable: t.Migratable,
	}
	if j.Arrival > 0 {
		j.Waited = 0
	}
	if w.items[i].weighed {
		j.Unknown = w.unknown(t, g, &j)
	} else if t.Scaling != nil && !t.LatestStart.IsZero() {
		// A job of unknown length may be shorter than expected and must then have ended
		// sooner: as much of it as slack allows is planned before its delay is used up.
		early := t.LatestStart.Add(time.Duration(float64(t.Remaining) * shorter))
		if atOnce := s.Now.Add(t.Remaining + s.Margin); early.Before(atOnce) {
			early = atOnce
		}
		j.Deadline = min(j.Deadline, max(1, g.SlotOf(early.Add(-s.Margin))))
	}
	if t.Watts > 0 {
		j.Watts = []float64{t.Watts}
	}
	if t.Scaling != nil {
		j.MinWorkers, j.MaxWorkers, j.Curve, j.Watts = t.Scaling.MinWorkers, t.Scaling.MaxWorkers, t.Scaling.Curve, t.Scaling.Watts
	}
	allowed := w.allowed(t)
	if t.Kind != workload.Rigid {
		j.RestartKWh, j.TransferKWh = t.RestartKWh, t.TransferKWh
		if w.begin(i, &j); j.Begun != nil && t.State == Running && t.Remaining < s.Slot {
			// No more than an estimate may be off: that moves nothing, and has one place only.
			j.Migratable, allowed = false, []int{w.place(t.Cluster)}
		}
	}
	if w.items[i].urgent {
		j.Deadline = j.Arrival + int(math.Ceil(j.Length))
	}
	j.Quantiles = w.quantiles(t, j.Length)
	for _, c := range allowed {
		if len(allowed) < len(s.Clusters) && w.curves[c] != nil {
			j.Clusters = append(j.Clusters, s.Clusters[c].Name)
		}
	}
	return j
}

// bounded is a request that a planning problem may state. What asks for more fits nowhere, as what asks for the most does, and fails no planner.
func bounded(request map[string]float64) map[string]float64 {
	for _, q := range request {
		if q > workload.MaxNumber {
			out := maps.Clone(request)
			for r, q := range out {
				out[r] = min(q, workload.MaxNumber)
			}
			return out
		}
	}
	return request
}

// shorter is the share of its expected length that an elastic job of unknown length which is not weighed is
// taken to have at least, in its deadline. Of 0, 1/4, 1/2 and 1 it saved most in "lull
// reproduce carbonflex fig6", and with less of it fewer jobs were late.
const shorter = 0.25

// single is the curve of a job with one worker. Planners never modify what they are given.
var single = []float64{1}

// minLength keeps a job that is all but done a job.
const minLength = 1e-3

// leastIdle is the part of a slot for which a start now is not put off. Decisions that plan anew each time would else put it off again
// and again, by moments that save nothing.
const leastIdle = 100

// phasesOf turns the segments of a task into phases. Slots that follow one another at the same
// cluster and scale become one phase. A slot to come that is used in part is used at its end if
// the slot after it is used and the one before is not: that saves a restart. A waiting task uses the slot that begins now in the same
// way, if that puts its start off by more than 1/leastIdle of the slot. The last phase ends when the work is done; pauses are at checkpoints. It returns nil without segments.
func (w *decider) phasesOf(i int, g timegrid.Grid, segments []plan.Segment, index []int) []Phase {
	if len(segments) == 0 {
		return nil
	}
	t := &w.s.Tasks[i]
	if t.Kind == workload.Rigid {
		return w.priced([]Phase{w.phase(i, index[segments[0].Cluster], g.Time(segments[0].Slot), t.Remaining, 1)})
	}
	var out []Phase
	left := float64(t.Remaining)
	if w.items[i].goesOn && (!t.restartsToScale() || segments[0].Workers == t.Workers) {
		left = float64(w.ahead(i))
	}
	if p, slots := w.fixed(i); slots > 0 {
		out, left = append(out, p), left-float64(t.workIn([]Phase{p}))
	}
	var last time.Time // end of the last segment
	starts := func(next Phase) time.Duration {
		if n := len(out); n > 0 && !t.interrupted(&out[n-1], &next) {
			return 0
		} else if n > 0 {
			return t.Restart
		}
		return t.firstStart([]Phase{next}, w.s.Now)
	}
	for k, seg := range segments {
		from := g.Time(seg.Slot)
		to := from.Add(time.Duration(seg.Fraction * float64(g.Slot)))
		if k > 0 && segments[k-1].Slot == seg.Slot { // the rest of a slot at another scale
			from, to = last, to.Add(last.Sub(from))
		}
		if end := g.Time(seg.Slot + 1); to.After(end) { // the parts of a slot may exceed it by rounding
			to = end
		}
		before := k > 0 && segments[k-1].Slot >= seg.Slot-1
		after := k+1 < len(segments) && segments[k+1].Slot == seg.Slot+1
		if after && !before && (from.After(w.s.Now) || t.State != Running) {
			if idle := g.Time(seg.Slot + 1).Sub(to); idle > g.Slot/leastIdle || from.After(w.s.Now) {
				from = from.Add(idle)
			}
			to = g.Time(seg.Slot + 1)
		}
		rate, name := t.rate(seg.Workers), w.s.Clusters[index[seg.Cluster]].Name
		left += rate * float64(starts(Phase{From: from, To: from, Cluster: name, Workers: seg.Workers}))
		if done := from.Add(time.Duration(math.Ceil(left / rate))); done.Before(to) || k == len(segments)-1 {
			to = done
		}
		last = to
		if !to.After(from) {
			continue
		}
		left -= rate * float64(to.Sub(from))
		if n := len(out); n > 0 && out[n-1].To.Equal(from) && out[n-1].Workers == seg.Workers && out[n-1].Cluster == name {
			out[n-1].To = to
			continue
		}
		out = append(out, Phase{From: from, To: to, Cluster: name, Workers: seg.Workers})
	}
	return w.priced(t.atCheckpoints(out, w.s.Now))
}

// priced states the mean intensity of each phase.
func (w *decider) priced(phases []Phase) []Phase {
	for k := range phases {
		w.price(&phases[k])
	}
	return phases
}

// withIntensities returns phases of which each states its mean intensity. Phases may be those of a
// standing plan, which is not changed.
func (w *decider) withIntensities(phases []Phase) []Phase {
	missing := func(p Phase) bool { return p.Intensity == 0 && w.curves[w.place(p.Cluster)] != nil }
	if !slices.ContainsFunc(phases, missing) {
		return phases
	}
	out := slices.Clone(phases)
	for k := range out {
		if missing(out[k]) {
			w.price(&out[k])
		}
	}
	return out
}
