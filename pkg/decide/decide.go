// Package decide is the one decision path of Lull: given what runs and waits now, the carbon
// series and a planner, it says what each task should do and why. The simulator and the live
// controllers call the same function.
//
// A decision is made in three stages, each the only owner of what it decides:
//
//  1. Commit: what is not Lull's to decide is taken out of capacity.
//  2. Plan: the planner places everything else in the capacity that is left.
//  3. Adjust: a deviation from the plan uses only room that is free after both.
//
// All stages share one capacity ledger over continuous time, so no decision of Lull's own
// overcommits a resource. Verify states the invariants of a decision.
//
// The caller's duties: build the Snapshot from what it observes (never from what it remembers
// of earlier decisions), call Decide, carry out the actions in Decision.Order, and call again
// at Decision.Wake or whenever something changes, whichever is first.
package decide

import (
	"context"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
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
	// Phases is what the task is expected to do from now on, in order of time. It is nil if
	// the decision made no plan and followed none. Of a released task that waits in the queue of
	// its cluster it is what the queue is expected to do.
	Phases []Phase
	// Plan is what Lull wants the task to do, where the queues of the clusters are expected to make it do otherwise; nil
	// if that is Phases, or if the task is left to a queue. It is what is kept: see Keeps.
	Plan []Phase
	// Planned reports whether this decision made the plan; false if it followed a standing one
	// or leaves the task to the queue of its cluster.
	Planned bool
	// Renewed reports that the plan replaces a standing one because tasks without a plan compete for its
	// room (Task.Renewable).
	Renewed bool
	Reason  Reason
}

// Keeps returns the plan that is followed from now on: Plan, or Phases if there is none.
func (a *Action) Keeps() []Phase {
	if a.Plan != nil {
		return a.Plan
	}
	return a.Phases
}

// Stands returns the plan that is kept of an action on a task; nil if there is none. The reason of a plan is that for which it
// was made, also while the task waits in the queue of its cluster.
func (a *Action) Stands(t *Task) *Standing {
	reason := a.Reason
	if t.Standing != nil && t.Unscheduled && a.Plan != nil {
		reason = t.Standing.Reason
	}
	if plan := a.Keeps(); len(plan) > 0 {
		return &Standing{Phases: plan, Reason: reason}
	}
	return nil
}

// Decision is the actions, in the order of the snapshot's tasks, and when to
// decide again at the latest.
type Decision struct {
	Actions []Action
	// Order lists the actions in the order to carry them out: what a cluster's own queue
	// should start first is released first.
	Order []int
	Wake  time.Time
	// Status is that of the planner's result, empty where no planner was needed.
	Status plan.Status
	// Gap is how far the plan of the tasks planned now is at most from the least emissions possible beside all other
	// tasks as they are, a share of the latter; nil where the planner proves no bound.
	Gap *float64
}

// maxSlots bounds the horizon of one decision.
const maxSlots = 4096

// longestWake is when Decide asks to be called again if nothing else is due.
const longestWake = 24 * time.Hour

// Decide commits, plans and adjusts, and returns an action for every task.
//
//   - A task without a deadline runs. One whose latest safe start has come is planned to run now.
//   - Without carbon data of any cluster that it may use a task runs: Lull never holds blindly.
//   - A task with a standing plan follows it, unless it is to be planned anew or the plan has
//     become impossible. If others find no place in time beside standing plans, all are made anew.
//   - Tasks without a plan are planned beside standing plans. If they compete for scarce room with waiting
//     tasks whose plans may be renewed, both are also planned together, and what emits less in total is taken:
//     see renew.
//   - If the planner finds no place in time for a task, the plan is repaired: see secure. A
//     task for which no order of the work is in time runs in the room that others leave.
//   - With Caspian's objective a task that came during the current slot waits for the next, and
//     deadlines are soft.
//   - Otherwise a task runs when its plan says so, and waits (or, if interruptible, pauses)
//     when it does not.
//
// The slots of the planning problem begin now, so that no slot has begun before. If a series
// ends or has a gap, the value at the same time on an earlier day is used (carbon.FillSlots);
// the reason says so.
//
// Decide returns ErrSnapshot if the snapshot is invalid, and any error of the planner.
//
// Complexity: that of the planner, on O(tasks) jobs and (horizon / slot) slots, and
// O(tasks x log steps) to count capacity; a repair takes O(tasks x steps).
func Decide(ctx context.Context, s Snapshot, planner plan.Planner) (Decision, error) {
	if err := s.validate(); err != nil {
		return Decision{}, err
	}
	s = s.withSaved().withScales().withPossible()
	w, err := planned(ctx, &s, planner)
	if err == nil {
		w, err = w.renew(ctx, planner)
	}
	if err != nil {
		return Decision{}, err
	}
	if w.queueMatters() || w.overcommitted || w.lateWhereRoomChanges() {
		w = w.safest()
	}
	return w.decision(), nil
}

// planned goes through the three stages.
func planned(ctx context.Context, s *Snapshot, planner plan.Planner) (*decider, error) {
	w := newDecider(s)
	w.commit()
	w.follow()
	if err := w.plan(ctx, planner); err != nil {
		return nil, err
	}
	w.placeLate()
	if err := w.refine(ctx, planner); err != nil {
		return nil, err
	}
	w.adjust()
	return w, nil
}

// RunAll is the decision where none can be made: every task runs, for the given
// reason. Lull holds nothing that it cannot plan.
func RunAll(s Snapshot, code Code) Decision {
	d := Decision{Actions: make([]Action, len(s.Tasks)), Order: make([]int, len(s.Tasks)), Wake: s.Now.Add(time.Hour)}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		d.Actions[i] = Action{Task: t.ID}
		d.Actions[i].set(t, true, Reason{Code: code})
		d.Order[i] = i
	}
	slices.SortStableFunc(d.Order, func(a, b int) int { return s.Tasks[a].Deadline.Compare(s.Tasks[b].Deadline) })
	return d
}

// state is how far the decision on a task has come.
type state int

const (
	open      state = iota // the planner places it
	committed              // it runs now, or stays as it is, whatever the planner says
	followed               // its standing plan goes on
	kept                   // it runs on: a pause would serve only the queue, or come too soon
	placed                 // it has a plan made by this decision
	unplaced               // no place in time was found: it is late
)

// item is the decision on a task while it is made.
type item struct {
	state  state
	need   []capacity.Need
	phases []Phase
	// released is the plan of a task that waits in the queue of its cluster: see releasedBy.
	released []Phase
	code     Code
	// arrival is when it may start at all; earliest is when a new plan may start it, after its least pause.
	// latest is its latest safe start; zero where it may not wait.
	arrival, earliest, latest time.Time
	// unsafe reports that the clusters do not have the room for a run from latest on.
	unsafe bool
	// left reports that the queue of a cluster starts it, once it has come; queued, that it is expected to
	// wait in one.
	left, queued bool
	// urgent reports that its latest safe start has come: it is planned to run now, or committed to (runOverdue). A repair may move it.
	urgent bool
	// crowded reports that its bounded delay is used up, and that what must run leaves no room.
	crowded bool
	// goesOn reports that the planner lets it run on as it is until it is done.
	goesOn bool
}

// decider holds a decision while it is made.
type decider struct {
	s      *Snapshot
	ledger *capacity.Ledger
	items  []item
	grid   timegrid.Grid
	// curves and filled are by cluster of the snapshot; a cluster without carbon data has none.
	curves []*carbon.Curve
	filled []carbon.FilledSlots
	bars   map[*carbon.Series][]float64
	queue  []int // tasks that are left to the clusters' queues, in the order of their release
	fresh  []int // tasks that may not wait and are released by this decision
	// unchecked: standing plans are followed whether there is room or not.
	unchecked bool
	// overcommitted reports that a task runs on for which there is not enough room: others do not start when they should.
	overcommitted bool
	// foreseen is what the tasks will do by this decision, where released tasks wait in queues.
	foreseen schedule
	// empty is the capacity without any task.
	empty *capacity.Ledger
	// limits says how late a task can start.
	limits *limits
	// overfullOn names the clusters on which more runs than there is room for; nil until asked.
	overfullOn map[string]bool
	wake       time.Time
	status     plan.Status
	gap        *float64
}

func newDecider(s *Snapshot) *decider {
	w := &decider{
		s: s, ledger: s.ledger(), items: make([]item, len(s.Tasks)), wake: s.Now.Add(longestWake),
		curves: make([]*carbon.Curve, len(s.Clusters)), filled: make([]carbon.FilledSlots, len(s.Clusters)), bars: map[*carbon.Series][]float64{},
	}
	w.grid = s.grid()
	for c := range s.Clusters {
		if f, known := carbon.FillSlots(s.Clusters[c].Carbon, w.grid); known {
			w.filled[c], w.curves[c] = f, carbon.NewCurve(s.Clusters[c].Carbon, w.grid, f)
		}
	}
	for i := range s.Tasks {
		w.items[i].need, w.items[i].arrival = w.ledger.Demand(s.Tasks[i].Request), s.arrival(&s.Tasks[i])
	}
	w.empty = w.ledger.Clone()
	w.limits = newLimits(s, w.empty)
	for i := range s.Tasks {
		t, x := &s.Tasks[i], &w.items[i]
		if !t.Deadline.IsZero() {
			at, ok := w.limits.latestStart(t, x.need)
			x.latest, x.unsafe = at, !ok
		}
		x.released = t.releasedBy()
		if x.earliest = w.earliest(i); x.earliest.After(x.arrival) && !w.known(t) {
			x.earliest = x.arrival // it is not held
		}
	}
	return w
}

// arrival is when a task may start: now, or when it is submitted. A task that runs already may run.
func (s *Snapshot) arrival(t *Task) time.Time {
	if t.State != Running && t.NotBefore.After(s.Now) {
		return t.NotBefore
	}
	return s.Now
}

// earliest is when a new plan may start a task: at its arrival, or after its least pause if it may wait
// for that.
func (w *decider) earliest(i int) time.Time {
	t, x := &w.s.Tasks[i], &w.items[i]
	if t.State != Waiting || !t.Paused || t.Changed.IsZero() || t.Deadline.IsZero() || t.HeldOut {
		return x.arrival
	}
	until := t.Changed.Add(w.s.MinPause)
	if x.latest.Before(until) {
		until = x.latest
	}
	if until.After(x.arrival.Add(rounding)) {
		return until
	}
	return x.arrival
}

// grid spans from now to the last deadline of a task that may wait.
func (s *Snapshot) grid() timegrid.Grid {
	last := s.Now
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Deadline.After(last) && (t.State != Running || t.Kind != workload.Rigid) {
			last = t.Deadline
		}
	}
	if s.Horizon > 0 {
		last = s.Now.Add(s.Horizon)
	}
	n := timegrid.Grid{Start: s.Now, Slot: s.Slot, N: 1}.CeilSlot(last)
	return timegrid.Grid{Start: s.Now, Slot: s.Slot, N: max(1, min(n, maxSlots))}
}

// tick is the resolution of the ledger.
const tick = time.Microsecond

// ledger is the capacity of the clusters from now on, less what runs there that is not among
// the tasks.
func (s *Snapshot) ledger() *capacity.Ledger {
	l := &capacity.Ledger{Tick: tick}
	start := timegrid.Align(s.Now, s.Slot)
	forever := s.Now.AddDate(100, 0, 0)
	for i := range s.Clusters {
		c := &s.Clusters[i]
		slots := 1
		for _, v := range c.CapacityAt {
			slots = max(slots, len(v))
		}
		at := func(slot int) map[string]float64 {
			out := make(map[string]float64, len(c.Capacity)+len(c.CapacityAt))
			for r, v := range c.Capacity {
				out[r] = v
			}
			for r, v := range c.CapacityAt {
				if len(v) > 0 { // as of CapacityNow
					out[r] = v[min(slot, len(v)-1)]
				}
			}
			return out
		}
		changed := func(slot int) bool {
			for _, v := range c.CapacityAt {
				if slot < len(v) && v[slot] != v[slot-1] {
					return true
				}
			}
			return false
		}
		for slot := range slots {
			if slot == 0 || changed(slot) {
				l.Offer(c.Name, start.Add(time.Duration(slot)*s.Slot), at(slot))
			}
		}
		cluster := l.Cluster(c.Name)
		l.Take(cluster, l.Demand(c.Load), 1, s.Now, forever)
		for r, v := range c.LoadAt {
			need := l.Demand(map[string]float64{r: 1})
			for from := 0; from < len(v); {
				to := from + 1
				for to < len(v) && v[to] == v[from] {
					to++
				}
				if v[from] > 0 {
					l.Take(cluster, need, v[from], start.Add(time.Duration(from)*s.Slot), start.Add(time.Duration(to)*s.Slot))
				}
				from = to
			}
		}
	}
	return l
}

// take counts the phases of a task as used, or gives them back.
func (w *decider) take(l *capacity.Ledger, i int, phases []Phase, sign float64) {
	t := &w.s.Tasks[i]
	for k := range phases {
		if p := &phases[k]; !p.moment() {
			l.Take(l.Cluster(p.Cluster), w.items[i].need, sign*t.workersOf(p), p.From, p.To)
		}
	}
}

// moment reports whether a phase is no longer than times are off by rounding: what runs on for a
// moment past its expected end must not take the place of what is planned from then on.
func (p *Phase) moment() bool { return p.To.Sub(p.From) <= rounding }

// rounding is how much later than a deadline a plan may end: times are sums of durations that
// are rounded to the clock.
const rounding = 100 * time.Microsecond

// fits reports whether the phases of a task find room.
func (w *decider) fits(l *capacity.Ledger, i int, phases []Phase) bool {
	t := &w.s.Tasks[i]
	for k := range phases {
		p := &phases[k]
		if !p.moment() && !l.Fits(l.Cluster(p.Cluster), w.items[i].need, t.workersOf(p), p.From, p.To) {
			return false
		}
	}
	return true
}

// workersOf is the number of workers of a phase, as a multiple of the task's request.
func (t *Task) workersOf(p *Phase) float64 {
	if t.Scaling == nil {
		return 1
	}
	return float64(p.Workers)
}

// runtime is how long some work, stated as run time at MinWorkers, takes at a scale.
func (t *Task) runtime(work time.Duration, workers int) time.Duration {
	if t.Scaling == nil {
		return work
	}
	return time.Duration(math.Ceil(float64(work) / t.Scaling.Rate(max(workers, t.Scaling.MinWorkers))))
}

// allowed lists the clusters, by their index in the snapshot, that a task may use from now on.
func (w *decider) allowed(t *Task) []int {
	var out []int
	for c := range w.s.Clusters {
		if w.s.MayUse(t, c) {
			out = append(out, c)
		}
	}
	return out
}

// MayUse reports whether a task may run on a cluster of the snapshot, given by its index.
func (s *Snapshot) MayUse(t *Task, cluster int) bool { return t.mayUse(s.Clusters[cluster].Name) }

// mayUse reports whether a task may run on a cluster, given by its name.
func (s *Snapshot) mayUse(t *Task, name string) bool { return s.has(name) && t.mayUse(name) }

func (t *Task) mayUse(name string) bool {
	switch {
	case t.Cluster != "" && !t.Migratable && t.Cluster != name:
		return false
	case t.Clusters != nil && t.Cluster != name && !slices.Contains(t.Clusters, name):
		return false
	}
	return true
}

// gapOf is how far the plan is from its bound, relative to the bound; nil where that is not known, or where the bound
// is 0 and the plan is not.
func gapOf(p *plan.Problem, res plan.Result) *float64 {
	if res.Bound == nil || p.Objective.Kind != plan.Carbon || len(res.Unplaced) > 0 {
		return nil
	}
	value := plan.Evaluate(p, res.Plan).CarbonG
	share := 0.0
	switch excess := value - *res.Bound; {
	case excess <= 0:
	case *res.Bound <= 0:
		return nil
	default:
		share = excess / *res.Bound
	}
	return &share
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

// decision turns the items into actions.
func (w *decider) decision() Decision {
	d := Decision{Actions: make([]Action, len(w.items)), Status: w.status, Gap: w.gap}
	for i := range w.items {
		d.Actions[i] = w.action(i)
	}
	d.Order, d.Wake = w.order(), w.wake
	return d
}

// order is that of release: by deadline, then what waits in the queues of the clusters, in the
// order in which they start it.
func (w *decider) order() []int {
	queued := make(map[int]bool, len(w.queue))
	for _, i := range w.queue {
		queued[i] = true
	}
	out := make([]int, 0, len(w.items))
	for i := range w.items {
		if !queued[i] {
			out = append(out, i)
		}
	}
	w.sortByDeadline(out)
	return append(out, w.queue...)
}

// soonest brings the wake-up forward.
func (w *decider) soonest(at time.Time) {
	if at.After(w.s.Now) && at.Before(w.wake) {
		w.wake = at
	}
}

// expected returns what a task will do, and its plan if the queues of the clusters make that differ.
func (w *decider) expected(i int) (phases, wanted []Phase) {
	x := &w.items[i]
	phases = w.withIntensities(x.phases)
	if x.released != nil {
		return phases, x.released
	}
	stays := x.code.forced() && w.s.Tasks[i].Lacking == 0 // what lacks workers gets them from the queue, also if it is not planned
	if w.foreseen == nil || len(x.phases) == 0 || x.left || stays || closePhases(w.foreseen[i], x.phases) {
		return phases, nil
	}
	return w.priced(slices.Clone(w.foreseen[i])), phases
}

// action states the decision on a task.
func (w *decider) action(i int) Action {
	t, x := &w.s.Tasks[i], &w.items[i]
	a := Action{Task: t.ID, Planned: x.state != followed && (!x.queued || x.arrival.After(w.s.Now)) && len(x.phases) > 0}
	a.Phases, a.Plan = w.expected(i)
	a.Renewed = a.Planned && t.renewed
	r := w.reason(i)
	runs := x.queued
	if x.left || len(x.phases) == 0 && x.state != committed {
		w.soonest(x.arrival)
	}
	if len(x.phases) > 0 {
		first := &x.phases[0]
		if !first.From.After(w.s.Now) {
			runs = true
			a.Workers = first.Workers
			w.soonest(first.To)
		} else if !x.queued {
			w.soonest(first.From)
			w.soonest(x.latest)
		}
		if a.Plan != nil && len(a.Phases) > 0 && !a.Phases[0].From.After(w.s.Now) {
			w.soonest(a.Phases[0].To)
		}
		if (!x.left || !x.queued) && (runs || t.State != Running) {
			a.Cluster = first.Cluster
		}
	} else if x.state == committed || x.state == unplaced {
		runs = x.code != CodeNextPeriod && (!w.s.soft() || x.state != unplaced)
	}
	runs = runs && !x.arrival.After(w.s.Now)
	if t.Scaling != nil && runs && (a.Workers == 0 || t.Unscheduled) && t.State == Running {
		a.Workers = max(t.Workers, t.Scaling.MinWorkers)
	}
	a.set(t, runs, r)
	if x.code == CodeTooSoon && t.State == Running {
		a.Workers = t.Workers
		a.Verb = Continue
	}
	w.saveFirst(i, &a)
	if t.Unscheduled && a.Verb == Continue {
		a.Reason.Code = CodeUnscheduled
	}
	return a
}
