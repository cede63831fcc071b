package decide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// almostDone is how much work may be left of a running task that is no longer paused.
const almostDone = time.Second

// commit takes what must run now out of capacity.
//
//   - What runs and cannot be paused, what may not wait and what is held out goes on, or is
//     released, whether there is room or not: that is not Lull's to decide. What finds no room
//     waits in the queue of its cluster and is counted from when the queue can start it.
//   - What has reached its latest safe start is urgent: it is planned with the others, to run now. If there is no room for that, the plan is
//     repaired, so that no deadline is lost for another.
func (w *decider) commit() {
	var submitted []int
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		code, must := w.mustRun(i)
		if !must {
			continue
		}
		switch {
		case code == CodeLatestStart:
			x.urgent = t.Replan || !w.stands(i)
			continue
		case code == CodeNextPeriod:
			w.soonest(timegrid.Align(w.s.Now, w.s.Slot).Add(w.s.Slot))
		case t.State == Running && !t.Unscheduled:
			x.code = code
			x.phases = []Phase{w.on(i)}
			w.take(w.ledger, i, x.phases, 1)
		case t.State == Running:
			w.queue = append(w.queue, i)
		default:
			submitted = append(submitted, i)
		}
		x.state, x.code = committed, code
	}
	bySubmission := func(a, b int) int { return w.s.Tasks[a].Submitted.Compare(w.s.Tasks[b].Submitted) }
	slices.SortStableFunc(w.queue, func(a, b int) int { return w.s.Tasks[a].Changed.Compare(w.s.Tasks[b].Changed) })
	slices.SortStableFunc(submitted, bySubmission)
	w.fresh = submitted
	w.enqueue(append(w.queue, submitted...))
}

// besideRunning is the ledger with the running tasks that are not decided on yet, which go on
// as planned.
func (w *decider) besideRunning() *capacity.Ledger {
	l := w.ledger.Clone()
	for i := range w.items {
		if t := &w.s.Tasks[i]; w.items[i].state == open && t.State == Running {
			phases := []Phase{w.on(i)}
			if w.stands(i) {
				// Of a task that has waited in a queue the plan may be for another cluster.
				if plan := t.Standing.from(w.s.Now); plan[0].Cluster == w.s.Place(t.Cluster).Name {
					phases = plan
				}
			}
			w.take(l, i, phases, 1)
		}
	}
	return l
}

// mustRun says whether a task runs whatever a planner says, and why.
func (w *decider) mustRun(i int) (Code, bool) {
	t, x := &w.s.Tasks[i], &w.items[i]
	switch {
	case t.State == Running && t.Kind == workload.Rigid:
		return CodeRunning, true
	case t.HeldOut:
		return CodeHeldOut, true
	case t.Deadline.IsZero():
		return CodeNoSlack, true
	case !w.known(t):
		return CodeNoCarbonData, true
	case w.s.Awaits(t):
		return CodeNextPeriod, true
	case t.State == Running && t.Remaining <= almostDone:
		return CodeRunning, true
	case t.State == Running && t.Unscheduled:
		return CodeUnscheduled, true
	case w.keepsRoom(i) || w.neverFits(i):
		return CodeRunning, true
	case w.shutOut(i):
		return CodeNoRoom, true
	case w.s.soft() || x.latest.After(w.s.Now):
		return "", false
	}
	// Of an elastic task whose length is unknown the planner may choose the scale: see overdue.
	return CodeLatestStart, t.Scaling == nil || t.LatestStart.IsZero()
}

// shutOut reports whether the load of others leaves no room in time for a task that waits, even without any other task of the
// snapshot. Such a task is not held until there is room: no plan can help it, pods that wait make an autoscaler add nodes, and
// nobody can have it held longer than its latest safe start by taking room.
func (w *decider) shutOut(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	if t.State != Waiting || t.Paused && x.earliest.After(w.s.Now) {
		return false
	}
	last := x.latest
	if w.s.soft() {
		last = t.Deadline
	}
	if w.s.soft() || !t.LatestStart.IsZero() {
		return !last.After(w.s.Now) && !slices.ContainsFunc(w.allowed(t), func(c int) bool {
			return w.fits(w.empty, i, []Phase{w.phase(i, c, x.arrival, min(t.Remaining, w.s.Slot), t.least())})
		})
	}
	if !x.unsafe || t.Standing == nil || t.leftToQueue() {
		return x.unsafe
	}
	phases := t.Standing.from(x.arrival)
	return !w.inTime(i, phases) || !w.fits(w.empty, i, phases)
}

// known reports whether a cluster that the task may use has carbon data.
func (w *decider) known(t *Task) bool {
	return slices.ContainsFunc(w.allowed(t), func(c int) bool { return w.curves[c] != nil })
}

// workFrom is the work of a run of a task on a cluster from a time on, as run time at MinWorkers: less than
// what remains if it goes on there as it is.
func (w *decider) workFrom(i, cluster int, from time.Time) time.Duration {
	t := &w.s.Tasks[i]
	if t.State == Running && t.AtRisk > 0 && cluster == w.place(t.Cluster) && !from.After(w.s.Now) {
		return w.ahead(i)
	}
	return t.Remaining
}

// on is the phase of a running task that goes on as it is, or at the widest scale that there is room for if its latest safe start has
// come. A task that should have ended already is expected to run for another slot.
func (w *decider) on(i int) Phase {
	t := &w.s.Tasks[i]
	if w.items[i].code == CodeLatestStart && t.Scaling != nil {
		home := w.place(t.Cluster)
		if t.restartsToScale() {
			return w.soonestScale(i, home)
		}
		return w.phase(i, home, w.s.Now, w.ahead(i), w.widest(w.ledger, i, home))
	}
	return w.unchanged(i)
}

// unchanged is the phase of a running task that goes on at its scale.
func (w *decider) unchanged(i int) Phase {
	t, workers := &w.s.Tasks[i], 1
	if t.Scaling != nil {
		workers = max(t.Workers, t.Scaling.MinWorkers)
	}
	return w.phase(i, w.place(t.Cluster), w.s.Now, w.ahead(i), workers)
}

// ahead is the work that a running task still does if it goes on as it is, as run time at MinWorkers.
func (w *decider) ahead(i int) time.Duration {
	t := &w.s.Tasks[i]
	if left := t.Remaining - t.AtRisk; left > 0 {
		return left
	}
	return w.s.Slot
}

func (w *decider) place(name string) int { return w.s.place(name) }

// widest is the scale of most throughput, or the largest that finds room from now on.
func (w *decider) widest(l *capacity.Ledger, i, cluster int) int {
	t := &w.s.Tasks[i]
	most, _ := t.Scaling.fastest()
	for n := most; n > t.Scaling.MinWorkers; n-- {
		if w.fits(l, i, []Phase{w.phase(i, cluster, w.s.Now, t.Remaining, n)}) {
			return n
		}
	}
	return t.Scaling.MinWorkers
}

// phase is a run from a time on until some work, as run time at MinWorkers, is done, with the time that its start takes.
func (w *decider) phase(i, cluster int, from time.Time, work time.Duration, workers int) Phase {
	t := &w.s.Tasks[i]
	p := Phase{From: from, To: from.Add(t.runtime(work, workers)), Cluster: w.s.Clusters[cluster].Name, Workers: workers}
	if t.Restart > 0 {
		p.To = p.To.Add(t.firstStart([]Phase{p}, w.s.Now))
	}
	return p
}

// standingOf is what the standing plan of a task does from now on; nil if its least pause delays it so
// that it does not do the work any more.
func (w *decider) standingOf(i int) []Phase {
	t, x := &w.s.Tasks[i], &w.items[i]
	phases := t.Standing.from(x.earliest)
	if x.earliest.After(x.arrival) && len(phases) > 0 && t.lags(phases, w.s.Now) {
		return nil
	}
	return phases
}

// follow keeps the standing plans that go on: first those of tasks that run on as they are, then
// of running tasks that change something, then of waiting tasks; by deadline in each group.
func (w *decider) follow() {
	var steady, changing, waiting []int
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		switch {
		case x.state != open || t.Replan || !w.stands(i):
		case t.State != Running:
			waiting = append(waiting, i)
		case w.runsOn(i, w.standingOf(i)):
			steady = append(steady, i)
		default:
			changing = append(changing, i)
		}
	}
	w.sortByDeadline(steady)
	w.sortByDeadline(changing)
	w.sortByDeadline(waiting)
	for _, i := range slices.Concat(steady, changing, waiting) {
		x := &w.items[i]
		phases := w.standingOf(i)
		if len(phases) == 0 || !w.fits(w.ledger, i, phases) && !w.goesOn(i, phases) {
			continue
		}
		x.state, x.phases = followed, phases
		w.take(w.ledger, i, phases, 1)
	}
	w.reopenLate()
	w.keepTooSoon()
}

// reopenLate has the planner place those tasks whose standing plans end too late and for which there is room in time by now.
//
// Complexity: O(late tasks x steps).
func (w *decider) reopenLate() {
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		if x.state != followed || w.s.soft() || !t.LatestStart.IsZero() {
			continue
		}
		if w.inTime(i, x.phases) && (t.Standing.Reason.Code != CodeDeadlineAtRisk || !t.lags(x.phases, w.s.Now)) {
			continue // a plan that was in time may lag by a little: see stands
		}
		w.take(w.ledger, i, x.phases, -1)
		if _, found := w.soonestFit(w.ledger, i, t.Deadline); found {
			x.state, x.phases = open, nil
			continue
		}
		w.take(w.ledger, i, x.phases, 1)
	}
}

// sortByDeadline sorts tasks, which are in the order of the snapshot, by their deadlines. Equal
// deadlines keep that order.
func (w *decider) sortByDeadline(tasks []int) {
	type key struct {
		at   int64
		task int
	}
	keys := make([]key, len(tasks))
	for k, i := range tasks {
		keys[k] = key{math.MinInt64, i}
		if at := w.s.Tasks[i].Deadline; !at.IsZero() {
			keys[k].at = at.UnixNano()
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.at, b.at), a.task-b.task) })
	for k := range keys {
		tasks[k] = keys[k].task
	}
}

// goesOn reports whether a task runs on by its plan although the capacity of its cluster has
// fallen below what runs there. Of tasks that are to be planned anew see keepsRoom.
func (w *decider) goesOn(i int, phases []Phase) bool {
	return w.runsOn(i, phases) && w.overfull(phases[0].Cluster) && w.fits(w.ledger, i, phases[1:])
}

// runsOn reports whether a running task goes on as it is by its plan.
func (w *decider) runsOn(i int, phases []Phase) bool {
	t := &w.s.Tasks[i]
	if t.State != Running || len(phases) == 0 {
		return false
	}
	p := &phases[0]
	return !p.From.After(w.s.Now) && p.Cluster == t.Cluster && (t.Scaling == nil || p.Workers == t.Workers)
}

// keepsRoom reports whether a running task goes on although it would be planned anew, as it asks for that or as
// its plan no longer stands. Its cluster is overfull, and others make room (Task.KeepsRoom). A pause, a move or
// fewer workers that its standing plan asks for now are not prevented.
func (w *decider) keepsRoom(i int) bool {
	t := &w.s.Tasks[i]
	if !t.KeepsRoom || t.State != Running || !t.Replan && w.stands(i) {
		return false
	}
	here := w.s.Place(t.Cluster).Name
	if !w.overfull(here) {
		return false
	}
	if t.Standing == nil {
		return true
	}
	phase, _, done := t.Standing.At(w.s.Now)
	return done || phase != nil && phase.Cluster == here && phase.Workers >= t.Workers
}

// neverFits reports whether a running task takes more than there is on any cluster that it may use, now
// and later: after a pause it would not run again. Its room is not free, whatever its deadline.
func (w *decider) neverFits(i int) bool {
	t := &w.s.Tasks[i]
	if t.State != Running || t.Unscheduled || w.s.soft() || !w.overfull(w.s.Place(t.Cluster).Name) {
		return false
	}
	need, forever := w.items[i].need, w.s.Now.AddDate(50, 0, 0)
	return !slices.ContainsFunc(w.allowed(t), func(c int) bool {
		p := w.phase(i, c, w.s.Now, t.Remaining, t.least())
		_, fits := w.empty.Earliest(w.empty.Cluster(p.Cluster), need, t.workersOf(&p), w.s.Now, p.To.Sub(p.From), forever)
		return fits
	})
}

// running is the number of workers of a running task that run.
func (t *Task) running() int { return max(t.Workers-t.Lacking, t.least()) }

// overfull reports whether more runs on a cluster now than it has room for.
func (w *decider) overfull(cluster string) bool {
	if w.overfullOn == nil {
		w.overfullOn = map[string]bool{}
		l := w.s.ledger()
		for i := range w.s.Tasks {
			if t := &w.s.Tasks[i]; t.State == Running && !t.Unscheduled {
				runs := Phase{Workers: t.running()}
				l.Take(l.Cluster(w.s.Place(t.Cluster).Name), l.Demand(t.Request), t.workersOf(&runs), w.s.Now, w.s.Now.Add(time.Millisecond))
			}
		}
		for _, x := range l.Excesses(w.s.Now) {
			if !x.From.After(w.s.Now.Add(tick)) { // the ledger rounds times
				w.overfullOn[x.Cluster] = true
			}
		}
	}
	return w.overfullOn[cluster]
}

// watts is the power of a task on a cluster at a scale, PUE included.
func (w *decider) watts(i, cluster, workers int) float64 {
	t, c := &w.s.Tasks[i], &w.s.Clusters[cluster]
	if t.Scaling == nil {
		if t.Watts > 0 {
			return t.Watts * c.pue()
		}
		return float64(c.Power.Of(t.Request))
	}
	if t.Scaling.Watts != nil {
		n := min(max(workers, t.Scaling.MinWorkers), t.Scaling.MaxWorkers)
		return t.Scaling.Watts[n-t.Scaling.MinWorkers] * c.pue()
	}
	return float64(c.Power.Of(t.Request)) * float64(workers)
}

func (c *Cluster) pue() float64 { return max(1, c.Power.PUE) }

// basisAt names where the intensity of a cluster at a time comes from, and what it rests on.
func (s *Snapshot) basisAt(cluster int, at time.Time) (string, carbon.Basis) {
	c := &s.Clusters[cluster]
	if c.Carbon == nil {
		return "", ""
	}
	if x, ok := c.Carbon.At(at); ok && x.Of != nil && x.Of.Source != "" {
		return x.Of.Source, x.Of.Basis
	}
	return c.Carbon.Source, c.Carbon.Basis
}
