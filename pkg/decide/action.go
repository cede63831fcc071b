package decide

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
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
	if x.state == committed && x.left && t.State == Waiting && x.earliest.After(w.s.Now) {
		runs = false // it is released when its least pause is over
		w.soonest(x.earliest)
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
