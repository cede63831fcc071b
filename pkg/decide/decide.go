// Package decide is the one decision path of Lull: given what runs and waits
// now, the carbon series and a planner, it says what each job should do and why.
// The simulator and the live controllers call the same function.
//
// The caller's duties: build the Snapshot from what it observes (never from what
// it remembers of earlier decisions), call Decide, carry out the actions, and
// call again at Decision.Wake or whenever something changes, whichever is first.
package decide

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// Verb is what a task should do.
type Verb string

// The verbs of an action.
const (
	Release  Verb = "Release"  // a held task starts
	Resume   Verb = "Resume"   // a paused task continues
	Scale    Verb = "Scale"    // a running elastic task changes its number of workers
	Move     Verb = "Move"     // a running task goes on at another cluster
	Pause    Verb = "Pause"    // a running task stops for now
	Wait     Verb = "Wait"     // a waiting task keeps waiting
	Continue Verb = "Continue" // a running task keeps running
)

// Action is the decision on one task.
type Action struct {
	Task string
	Verb Verb
	// Cluster is where a task runs that is released or resumed; empty where any
	// will do.
	Cluster string
	// Workers is the scale of an elastic task from now on, 0 where it does not run.
	Workers int
	// Segments are the task's plan in slots of Decision.Grid, their clusters counted
	// as in the snapshot; nil where no plan was needed or found.
	Segments []plan.Segment
	// Phases is what the task is expected to do from now on, in order of time. It is nil if
	// the decision made no plan and followed none.
	Phases []Phase
	// Planned reports whether this decision made the plan; false if it followed a standing one.
	Planned bool
	Reason  Reason
}

// Decision is the actions, in the order of the snapshot's tasks, and when to
// decide again at the latest.
type Decision struct {
	Actions []Action
	Wake    time.Time
	// Grid is that of the plan; its zero value where none was made.
	Grid timegrid.Grid
	// Status is that of the planner's result, empty where no planner was needed.
	Status plan.Status
	// Gap is how far from the least emissions possible the plan of the tasks planned now is
	// at most, a share of what it emits; nil where the planner proves no bound.
	Gap *float64
}

// maxSlots bounds the horizon of one decision.
const maxSlots = 4096

// Decide plans all tasks that may still move and turns the plan into actions.
//
//   - A task without a deadline, or whose latest safe start has come, runs.
//   - Without any carbon data every task runs: Lull never holds blindly.
//   - A task for which the planner finds no place in time runs: the deadline
//     outranks carbon, and the cluster's own queue is the better judge.
//   - With Caspian's objective a task that came during the current slot waits for the next.
//   - Otherwise a task runs when its plan uses the current slot, and waits (or,
//     if interruptible, pauses) when it does not.
//
// The plan is made for slots aligned to multiples of s.Slot, so that decisions
// at different moments of a slot agree. Where the series ends or has a gap, the
// same time on an earlier day stands in (carbon.FillSlots); the reason says so.
//
// Errors: ErrSnapshot, and those of the planner.
// Complexity: that of the planner, on O(tasks) jobs and (horizon / slot) slots.
func Decide(ctx context.Context, s Snapshot, planner plan.Planner) (Decision, error) {
	if err := s.validate(); err != nil {
		return Decision{}, err
	}
	d := Decision{Actions: make([]Action, len(s.Tasks)), Wake: s.Now.Add(24 * time.Hour)}
	movable, kept := make([]int, 0, len(s.Tasks)), 0
	for i := range s.Tasks {
		t := &s.Tasks[i]
		d.Actions[i] = Action{Task: t.ID}
		switch {
		case t.State == Running && t.Kind == workload.Rigid:
			d.Actions[i].set(t, true, Reason{Code: CodeRunning})
		case t.Deadline.IsZero():
			code := CodeNoSlack
			if t.HeldOut {
				code = CodeHeldOut
			}
			d.Actions[i].set(t, true, Reason{Code: code})
		case !s.soft() && t.LatestStart.IsZero() && !s.Now.Before(t.latestStart(s.Margin)),
			!s.soft() && t.Scaling == nil && !s.Now.Before(t.latestStart(s.Margin)):
			d.Actions[i].set(t, true, Reason{Code: CodeLatestStart, LatestStart: t.latestStart(s.Margin)})
		case s.Awaits(t):
			next := timegrid.Align(s.Now, s.Slot).Add(s.Slot)
			d.Actions[i].set(t, false, Reason{Code: CodeNextPeriod, PlannedStart: next, LatestStart: t.Deadline})
			if next.Before(d.Wake) {
				d.Wake = next
			}
		case t.Standing != nil && s.follow(&d, i):
			kept++
		default:
			movable = append(movable, i)
		}
	}
	wake := d.Wake
	for len(movable) > 0 {
		overdue, err := s.plan(ctx, &d, movable, planner)
		if err != nil {
			return Decision{}, err
		}
		if kept > 0 && s.crowded(&d, movable) {
			// No room in time beside the plans that stand: all are made anew.
			movable, kept = s.planned(&d), 0
			continue
		}
		if len(overdue) == 0 {
			break
		}
		// What must run now takes its room before the others are planned.
		for _, i := range overdue {
			t := &s.Tasks[i]
			d.Actions[i] = Action{Task: t.ID, Workers: t.Scaling.MinWorkers}
			d.Actions[i].set(t, true, Reason{Code: CodeLatestStart, LatestStart: t.latestStart(s.Margin)})
			movable = slices.DeleteFunc(movable, func(m int) bool { return m == i })
		}
	}
	if wake.Before(d.Wake) {
		d.Wake = wake
	}
	s.settle(&d)
	for i := range d.Actions {
		if a := &d.Actions[i]; a.Segments != nil {
			a.Phases, a.Planned = s.Phases(d.Grid, a), true
		}
		if a := &d.Actions[i]; s.Tasks[i].Unscheduled && a.Verb == Continue {
			a.Reason.Code = CodeUnscheduled
		}
	}
	return d, nil
}

// crowded reports whether a task that was planned has found no place in time.
func (s Snapshot) crowded(d *Decision, movable []int) bool {
	for _, i := range movable {
		if d.Actions[i].Reason.Code == CodeDeadlineAtRisk {
			return true
		}
	}
	return false
}

// planned lists the tasks that have a plan or were looked for one.
func (s Snapshot) planned(d *Decision) []int {
	var out []int
	for i := range d.Actions {
		switch d.Actions[i].Reason.Code {
		case CodeRunning, CodeNoSlack, CodeLatestStart, CodeNoCarbonData, CodeNextPeriod:
		default:
			out = append(out, i)
		}
	}
	return out
}

// plan plans the movable tasks and writes what follows into d. It returns those elastic
// tasks whose delay is used up and that the plan does not run now.
func (s Snapshot) plan(ctx context.Context, d *Decision, movable []int, planner plan.Planner) (overdue []int, err error) {
	grid, err := s.grid(movable)
	if err != nil {
		return nil, err
	}
	problem, filled, index, ok := s.problem(grid, movable)
	if !ok {
		for _, i := range movable {
			d.Actions[i].set(&s.Tasks[i], true, Reason{Code: CodeNoCarbonData})
		}
		return nil, nil
	}
	if err := problem.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	res, err := planner.Plan(ctx, problem)
	if err != nil {
		return nil, err
	}
	d.Status, d.Grid, d.Gap = res.Status, grid, gap(problem, res)
	placed := make([][]plan.Segment, len(movable))
	for _, jp := range res.Plan.Jobs {
		placed[jp.Job] = jp.Segments
	}
	// Intensities change and plans move at the boundaries of slots.
	d.Wake = grid.Time(grid.SlotOf(s.Now) + 1)
	for job, i := range movable {
		t := &s.Tasks[i]
		latest := t.latestStart(s.Margin)
		if latest.Before(d.Wake) && latest.After(s.Now) {
			d.Wake = latest
		}
		segments := placed[job]
		reason, runs := s.judge(t, problem, job, segments, filled)
		// Without a place it runs as well: the others make room for it.
		if !s.soft() && t.Scaling != nil && !t.LatestStart.IsZero() &&
			(len(segments) == 0 || latest.Add(doneAtOnce(&problem.Jobs[job], segments, s.Slot)).Before(grid.Time(1))) {
			overdue = append(overdue, i)
		}
		a := &d.Actions[i]
		*a = Action{Task: t.ID}
		if len(segments) > 0 {
			if runs || t.State != Running {
				a.Cluster = problem.Clusters[segments[0].Cluster].Name
			}
			if t.Scaling != nil && segments[0].Slot == 0 {
				a.Workers = segments[0].Workers
			}
			a.Segments = inSnapshot(segments, index)
		}
		a.set(t, runs, reason)
	}
	return overdue, nil
}

// gap is how far the plan is from its bound, relative to the plan.
func gap(p *plan.Problem, res plan.Result) *float64 {
	if res.Bound == nil || p.Objective.Kind != plan.Carbon || len(res.Unplaced) > 0 {
		return nil
	}
	value := plan.Evaluate(p, res.Plan).CarbonG
	share := 0.0
	if value > 0 {
		share = math.Max(0, 1-*res.Bound/value)
	}
	return &share
}

// doneAtOnce is the work that a plan does in the current slot, as run time at
// MinWorkers; a slot where the plan does so and ends there, as the job runs on if it is
// not done.
func doneAtOnce(j *workload.Job, segments []plan.Segment, slot time.Duration) time.Duration {
	done := 0.0
	for i, x := range segments {
		if x.Slot > 0 {
			break
		}
		if i == len(segments)-1 {
			return slot
		}
		done += x.Fraction * j.Throughput(x.Workers) / j.Curve[0]
	}
	return time.Duration(done*float64(slot)) + time.Second // progress is counted in floating point
}

// inSnapshot counts the clusters of segments as the snapshot does, where those without
// carbon data have no place in the problem.
func inSnapshot(segments []plan.Segment, index []int) []plan.Segment {
	if index[len(index)-1] == len(index)-1 {
		return segments // every cluster has data
	}
	out := append([]plan.Segment(nil), segments...)
	for i := range out {
		out[i].Cluster = index[out[i].Cluster]
	}
	return out
}

// RunAll is the decision where none can be made: every task runs, for the given
// reason. Lull holds nothing that it cannot plan.
func RunAll(s Snapshot, code Code) Decision {
	d := Decision{Actions: make([]Action, len(s.Tasks)), Wake: s.Now.Add(time.Hour)}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		d.Actions[i] = Action{Task: t.ID}
		d.Actions[i].set(t, true, Reason{Code: code})
	}
	return d
}

// set turns "should run" into a verb, given what the task does. An elastic task that
// runs without a plan has its least scale, or the fastest where its deadline is near.
func (a *Action) set(t *Task, runs bool, r Reason) {
	a.Reason = r
	switch {
	case t.Scaling == nil || !runs:
		a.Workers = 0
	case a.Workers > 0:
	case r.Code == CodeLatestStart || r.Code == CodeDeadlineAtRisk:
		a.Workers, _ = t.Scaling.fastest()
	case t.State == Running:
		a.Workers = t.Workers
	default:
		a.Workers = t.Scaling.MinWorkers
	}
	switch {
	case t.State == Running && runs && a.Cluster != "" && t.Cluster != "" && a.Cluster != t.Cluster:
		a.Verb = Move
	case t.State == Running && runs && a.Workers != t.Workers && t.Scaling != nil:
		a.Verb = Scale
	case t.State == Running && runs:
		a.Verb = Continue
	case t.State == Running:
		a.Verb = Pause
	case !runs:
		a.Verb = Wait
	case t.Paused:
		a.Verb = Resume
	default:
		a.Verb = Release
	}
}

// grid spans from the current slot to the last deadline of a movable task.
func (s Snapshot) grid(movable []int) (timegrid.Grid, error) {
	start := timegrid.Align(s.Now, s.Slot)
	last := s.Now
	for _, i := range movable {
		if s.Tasks[i].Deadline.After(last) {
			last = s.Tasks[i].Deadline
		}
	}
	if s.Horizon > 0 {
		last = start.Add(s.Horizon)
	}
	n := timegrid.Grid{Start: start, Slot: s.Slot, N: 1}.CeilSlot(last)
	g, err := timegrid.New(start, s.Slot, max(1, min(n, maxSlots)))
	if err != nil {
		return g, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return g, nil
}

// problem builds the planning problem of the movable tasks, in their order; it
// returns false where no cluster has any carbon data. filled names, by
// cluster, the slots whose intensity is not from the series itself; index is the place
// of each cluster in the snapshot.
func (s Snapshot) problem(g timegrid.Grid, movable []int) (p *plan.Problem, filled []carbon.FilledSlots, index []int, ok bool) {
	p = &plan.Problem{Grid: g, Objective: s.Objective}
	if p.Objective.Kind == "" {
		p.Objective.Kind = plan.Carbon
	}
	for i := range s.Clusters {
		c := &s.Clusters[i]
		f, known := carbon.FillSlots(c.Carbon, g)
		if !known {
			continue
		}
		filled, index = append(filled, f), append(index, i)
		cl := plan.Cluster{
			Name: c.Name, Zone: c.Zone, Watts: c.Power.Watts, PUE: c.Power.PUE, Intensity: f.Values,
		}
		if c.CarbonLow != nil && c.CarbonHigh != nil {
			cl.IntensityLow, cl.IntensityHigh = bars(c.CarbonLow, g, f.Values), bars(c.CarbonHigh, g, f.Values)
		}
		cl.Capacity, cl.Load = c.room(g.N)
		if len(movable) < len(s.Tasks) {
			s.addFixed(g, cl, movable)
		}
		p.Clusters = append(p.Clusters, cl)
	}
	if len(p.Clusters) == 0 {
		return nil, nil, nil, false
	}
	p.Jobs = make([]workload.Job, len(movable))
	for job, i := range movable {
		p.Jobs[job] = s.job(g, &s.Tasks[i])
	}
	return p, filled, index, true
}

// room is the capacity and the load of n slots.
func (c *Cluster) room(n int) (capacity, load map[string][]float64) {
	capacity = make(map[string][]float64, len(c.Capacity)+len(c.CapacityAt))
	for r, v := range c.CapacityAt {
		if len(v) >= n {
			capacity[r] = v[:n]
			continue
		}
		capacity[r] = constant(v[len(v)-1], n)
		copy(capacity[r], v)
	}
	for r, v := range c.Capacity {
		if capacity[r] == nil {
			capacity[r] = constant(v, n)
		}
	}
	load = make(map[string][]float64, len(c.Load)+len(c.LoadAt))
	for r, v := range c.Load {
		load[r] = constant(v, n)
	}
	for r, values := range c.LoadAt {
		if load[r] == nil {
			load[r] = make([]float64, n)
		}
		for t, v := range values[:min(n, len(values))] {
			load[r][t] += v
		}
	}
	return capacity, load
}

// bars are the error bars on the grid; where they have none, the value itself.
func bars(s *carbon.Series, g timegrid.Grid, values []float64) []float64 {
	out, missing := s.OnGrid(g)
	for _, t := range missing {
		out[t] = values[t]
	}
	return out
}

// addFixed counts the tasks that will not move as load: until their expected
// end, and at least through the current slot.
func (s Snapshot) addFixed(g timegrid.Grid, cl plan.Cluster, movable []int) {
	moves := make(map[int]bool, len(movable))
	for _, i := range movable {
		moves[i] = true
	}
	for i, t := range s.Tasks {
		stands := s.stands(&t)
		if moves[i] || t.Unscheduled || (!stands && t.Cluster != "" && t.Cluster != cl.Name) {
			continue
		}
		if stands {
			t.Standing.addLoad(g, cl, &t)
			continue
		}
		end := max(1, g.CeilSlot(s.Now.Add(t.Remaining)))
		for r, q := range t.Request {
			if cl.Load[r] == nil {
				cl.Load[r] = make([]float64, g.N)
			}
			workers := max(1, t.Workers)
			if t.Scaling != nil {
				workers = max(t.Scaling.MinWorkers, t.Workers)
			}
			for slot := range min(end, g.N) {
				cl.Load[r][slot] += q * float64(workers)
			}
		}
	}
}

// job converts a movable task. The deadline is rounded down and the length of
// a rigid task up (by the planners), both to the safe side.
func (s Snapshot) job(g timegrid.Grid, t *Task) workload.Job {
	j := workload.Job{
		ID: t.ID, Kind: t.Kind,
		Length:   math.Max(float64(t.Remaining)/float64(g.Slot), minLength),
		Deadline: g.SlotOf(t.Deadline.Add(-s.Margin)), Waited: max(0, int(s.Now.Sub(t.Submitted)/g.Slot)),
		Request: t.Request, MinWorkers: 1, MaxWorkers: 1, Curve: single, PriorityClass: t.PriorityClass,
		Clusters: t.Clusters, Migratable: t.Migratable,
	}
	if t.Scaling != nil && !t.LatestStart.IsZero() {
		// A job of unknown length may be shorter than expected and must then have ended
		// sooner: as much of it as slack allows is planned before its delay is used up.
		early := t.LatestStart.Add(time.Duration(float64(t.Remaining) * shorter))
		if atOnce := s.Now.Add(t.Remaining + s.Margin); early.Before(atOnce) {
			early = atOnce
		}
		j.Deadline = min(j.Deadline, max(1, g.SlotOf(early.Add(-s.Margin))))
	}
	if t.Scaling != nil {
		j.MinWorkers, j.MaxWorkers, j.Curve, j.Watts = t.Scaling.MinWorkers, t.Scaling.MaxWorkers, t.Scaling.Curve, t.Scaling.Watts
	}
	if t.Kind != workload.Rigid {
		j.RestartKWh, j.TransferKWh = t.RestartKWh, t.TransferKWh
	}
	if t.Cluster != "" && !t.Migratable {
		j.Clusters = []string{t.Cluster}
	}
	return j
}

// shorter is the share of its expected length that an elastic job of unknown length is
// taken to have at least, in its deadline. Of 0, 1/4, 1/2 and 1 it saved most in "lull
// reproduce carbonflex fig6", and with less of it fewer jobs were late.
const shorter = 0.25

// single is the curve of a job with one worker. Planners never modify what they are given.
var single = []float64{1}

// minLength keeps a job that is all but done a job.
const minLength = 1e-3

// judge says whether the plan runs the task now, and why.
func (s Snapshot) judge(t *Task, p *plan.Problem, job int, segments []plan.Segment, filled []carbon.FilledSlots) (Reason, bool) {
	r := Reason{LatestStart: t.latestStart(s.Margin)}
	if s.soft() {
		r.LatestStart = t.Deadline // whoever watches over it lets it go then
	}
	if len(segments) == 0 {
		r.Code = CodeDeadlineAtRisk
		return r, !s.soft()
	}
	first := segments[0]
	c := &p.Clusters[first.Cluster]
	r.IntensityNow = units.CarbonIntensity(c.Intensity[0])
	r.IntensityThen = meanIntensity(c.Intensity, segments)
	if c.IntensityLow != nil {
		r.ThenLow, r.ThenHigh = meanIntensity(c.IntensityLow, segments), meanIntensity(c.IntensityHigh, segments)
	}
	r.Source, r.Basis = s.source(c.Name, p.Grid.Time(first.Slot))
	if _, made := filled[first.Cluster].Filled[first.Slot]; made {
		r.Estimated = true
	}
	r.ExpectedG, r.ImmediateG = emissions(p, job, segments, float64(t.AtRisk)/float64(s.Slot))
	if first.Slot == 0 {
		r.Code, r.PlannedStart = CodeCleanNow, s.Now
		return r, true
	}
	r.Code, r.PlannedStart = CodeCleanerLater, p.Grid.Time(first.Slot)
	if t.State == Waiting && !t.Paused && !s.soft() && r.ExpectedG >= r.ImmediateG {
		r.Code = CodeSharedCapacity
		return r, false
	}
	if t.State == Running && r.ExpectedG >= r.ImmediateG {
		// What the pause would lose costs more than the cleaner hours save.
		r.Code, r.PlannedStart = CodePauseDoesNotPay, s.Now
		return r, true
	}
	return r, false
}

// emissions of the plan, and of the same work in one piece from now on, for
// which done slots of it need not be done again.
func emissions(p *plan.Problem, job int, segments []plan.Segment, done float64) (expected, immediate units.Emissions) {
	var last plan.Segment
	gramsPerIntensity := 0.0 // of a slot at the cluster and scale of last
	sum := 0.0
	for _, seg := range segments {
		if last.Workers != seg.Workers || last.Cluster != seg.Cluster {
			last, gramsPerIntensity = seg, p.Grid.Hours()*p.Watts(job, seg.Cluster, seg.Workers)*p.Clusters[seg.Cluster].PUE/1000
		}
		sum += seg.Fraction * gramsPerIntensity * p.Clusters[seg.Cluster].Intensity[seg.Slot]
	}
	j, c := &p.Jobs[job], &p.Clusters[segments[0].Cluster]
	atOnce, left := 0.0, j.Length
	if j.Kind == workload.Rigid {
		left = float64(j.Slots())
	}
	left -= done
	for slot := 0; slot < p.Grid.N && left > workload.Eps; slot++ {
		part := math.Min(1, left)
		atOnce += part * c.Intensity[slot]
		left -= part
	}
	atOnce *= p.Grid.Hours() * p.Watts(job, segments[0].Cluster, j.MinWorkers) * c.PUE / 1000
	return units.Emissions(sum), units.Emissions(atOnce)
}

func meanIntensity(values []float64, segments []plan.Segment) units.CarbonIntensity {
	sum, weight := 0.0, 0.0
	for _, seg := range segments {
		sum += seg.Fraction * values[seg.Slot]
		weight += seg.Fraction
	}
	return units.CarbonIntensity(sum / weight)
}

// source names where the intensity at a time comes from, and what it rests on.
func (s Snapshot) source(cluster string, at time.Time) (string, carbon.Basis) {
	for _, c := range s.Clusters {
		if c.Name != cluster || c.Carbon == nil {
			continue
		}
		if x, ok := c.Carbon.At(at); ok && x.Of != nil && x.Of.Source != "" {
			return x.Of.Source, x.Of.Basis
		}
		return c.Carbon.Source, c.Carbon.Basis
	}
	return "", ""
}

func constant(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}
