// Package decide is the one decision path of Lull: given what runs and waits now, the carbon
// series and a planner, it says what each task should do and why. The simulator and the live
// controllers call the same function.
//
// A decision goes through these steps. Each has a file of its own:
//
//  1. Commit (commit.go, queue.go): what is not Lull's to decide is taken out of capacity.
//  2. Follow (standing.go): plans that stand, and still fit, go on.
//  3. Plan (planning.go): the planner places all other tasks in the capacity that is left. If a task finds no place in time,
//     the plan is repaired (secure.go, pieces.go), and what stays late ends as soon as it can.
//  4. Refine (refine.go): tasks that were placed now leave the boundaries of slots.
//  5. Adjust (adjust.go): what deviates from plans into room that is free, such as a change that comes too soon and is put off.
//  6. Renew (renew.go): steps 1 to 5 once more, with plans that compete with newcomers made anew, if that saves.
//  7. Safest (safest.go): where tasks wait in the queues of clusters, the decision is run forward. If a task loses its deadline that
//     would keep it without a new plan, another decision is taken.
//
// The other files say what steps count with: room (room.go, reserve.go), the latest safe start (latest.go), what pauses lose (checkpoint.go,
// begun.go) and starts take (restarts.go), run times that are not known (quantiles.go, overdue.go), savings that are too small (minsaving.go), and
// how the result is stated (action.go, reason.go, goon.go). To learn the package, read snapshot.go, action.go, this file, and then the steps
// in order. docs/design/0017-one-kept-schedule.md has the reasons.
//
// All steps share one capacity ledger over continuous time, so no decision of Lull's own
// overcommits a resource. Verify (verify.go, verify_schedule.go) recomputes a decision and states its invariants.
//
// The caller's duties: build the Snapshot from what it observes (never from what it remembers
// of earlier decisions), call Decide, carry out the actions in Decision.Order, and call again
// at Decision.Wake or whenever something changes, whichever is first.
package decide

import (
	"context"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// maxSlots bounds the horizon of one decision.
const maxSlots = 4096

// longestWake is when Decide asks to be called again if nothing else is due.
const longestWake = 24 * time.Hour

// Decide goes through the steps that the package lists, and returns an action for every task.
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

// planned goes through steps 1 to 5.
func planned(ctx context.Context, s *Snapshot, planner plan.Planner) (*decider, error) {
	w := newDecider(s)
	share, learned := plan.KeptReserve(planner)
	if learned {
		share = s.Reserve
	}
	if plan.Weighs(planner) && !s.soft() && share <= smallReserve {
		w.weighLengths()
	}
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
	// weighed reports that the planner weighs the lengths that it may have: see weighLengths.
	weighed bool
	// goesOn reports that the planner lets it run on as it is until it is done.
	goesOn bool
	// starts is the work that it could do in the time that the starts of the planner's answer take: see ask.
	starts time.Duration
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
	// foreseenRoom is the ledger of foreseenLedger; nil until asked.
	foreseenRoom *capacity.Ledger
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
