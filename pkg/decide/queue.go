package decide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/queue"
	"lull.dev/lull/pkg/workload"
)

// Released tasks that find no room wait in the queue of their cluster, which Lull does not control:
// here is what it is expected to do, and what Lull does about it.

// enqueue counts released tasks from when the queues of the clusters start them: as soon as
// there is room beside what runs, which goes on as planned.
func (w *decider) enqueue(tasks []int) {
	w.queue = nil
	if len(tasks) == 0 {
		return
	}
	l, present := w.besideRunning(), w.ledger.Clone()
	for i := range w.items {
		if t := &w.s.Tasks[i]; w.items[i].state == open && t.State == Running {
			w.take(present, i, []Phase{w.on(i)}, 1)
		}
	}
	for n, phases := range w.runQueue(l, tasks) {
		t, x := &w.s.Tasks[tasks[n]], &w.items[tasks[n]]
		if t.State == Running && len(phases) > 0 && !phases[0].From.After(x.earliest) && w.fits(present, tasks[n], phases) {
			phases = nil // by the sums there is room already, but no node has it
		}
		w.leave(tasks[n], phases)
		w.take(w.ledger, tasks[n], phases, 1)
	}
}

// asSubmitted runs the listed tasks as clusters do by themselves: what runs goes on, the rest
// in the order of submission.
func (w *decider) asSubmitted(l *capacity.Ledger, list []int) schedule {
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return w.runningFirst(list[a], list[b]) })
	tasks := make([]int, len(order))
	for n, k := range order {
		tasks[n] = list[k]
	}
	out := make(schedule, len(list))
	for n, phases := range w.runQueue(l, tasks) {
		out[order[n]] = phases
	}
	return out
}

// queuedWorkers is the scale of a task in a queue: the one that it asked for if it waits there already, or if it runs and another one restarts it;
// else its least.
func (t *Task) queuedWorkers() int {
	if t.State == Running && (t.Unscheduled || t.restartsToScale()) {
		return max(t.Workers, t.least())
	}
	return t.least()
}

// runQueue runs tasks in the order of a queue and counts them in the ledger, each in one piece. What
// never finds room has no phases. What runs, or waits in the queue of a cluster, stays on that cluster.
//
// Complexity: see queue.Model.Run.
func (w *decider) runQueue(l *capacity.Ledger, tasks []int) schedule {
	released := func(i int, at time.Time) queue.Intent {
		if earliest := w.items[i].earliest; earliest.After(at) {
			return queue.Intent{Next: earliest}
		}
		t, cluster := &w.s.Tasks[i], -1
		if t.State == Running && t.Cluster != "" {
			cluster = w.place(t.Cluster)
		}
		return queue.Intent{Released: true, Cluster: cluster, Workers: t.queuedWorkers()}
	}
	model := make([]queue.Task, len(w.items))
	for _, i := range tasks {
		model[i] = w.queueTask(l, i)
	}
	runs := w.runForward(l.Clone(), model, tasks, nil, released)
	out := make(schedule, len(tasks))
	for n, i := range tasks {
		out[n] = w.priced(runs[i])
		w.take(l, i, out[n], 1)
	}
	return out
}

// foresee returns what each task will do if the plans of this decision are followed, beside what the
// queues of the clusters do; nil for a task that never runs.
func (w *decider) foresee() schedule { return w.runQueues(w.order(), w.intends) }

// runQueues runs the queues of the clusters forward with all tasks as they are now, and an intent for each.
func (w *decider) runQueues(order []int, intent func(i int, at time.Time) queue.Intent) schedule {
	l, tasks := w.s.ledger(), make([]queue.Task, len(w.items))
	var pending []int
	for i := range w.items {
		tasks[i] = w.queueTask(l, i)
		w.observe(i, &tasks[i])
		if tasks[i].Released && tasks[i].Workers == 0 {
			pending = append(pending, i)
		}
	}
	slices.SortStableFunc(pending, w.releasedFirst)
	return w.runForward(l, tasks, order, pending, intent)
}

// queueTask is a task that is not released, for a model.
func (w *decider) queueTask(l *capacity.Ledger, i int) queue.Task {
	t := &w.s.Tasks[i]
	return queue.Task{
		Need: l.Demand(t.Request), Least: t.least(), Rigid: t.Kind == workload.Rigid, Want: t.least(), Restarts: t.restartsToScale(),
		Work: float64(max(t.Remaining, leastWork)), Cluster: -1,
	}
}

// leastWork keeps a task that is all but done a task of a model.
const leastWork = time.Millisecond

// observe states in a model what a task does now: it runs, or is released and waits for room.
func (w *decider) observe(i int, x *queue.Task) {
	t := &w.s.Tasks[i]
	if t.Cluster != "" || t.State == Running && !t.Unscheduled {
		x.Cluster = w.place(t.Cluster) // the first one if none is named: see Snapshot.Place
	}
	if t.State != Running {
		return
	}
	x.Released = true
	if t.Scaling != nil {
		x.Want = max(t.Workers, t.least())
	}
	if !t.Unscheduled {
		x.Workers, x.Work, x.Done, x.Starting = 1, float64(w.ahead(i)), float64(t.AtRisk), t.Starting
		if t.Scaling != nil {
			x.Workers = t.running()
		}
	}
}

// runForward runs a model forward.
func (w *decider) runForward(l *capacity.Ledger, tasks []queue.Task, order, pending []int, intent func(i int, at time.Time) queue.Intent) schedule {
	clusters := make([]queue.Cluster, len(w.s.Clusters))
	for c, n := range w.starts() {
		clusters[c] = queue.Cluster{Name: w.s.Clusters[c].Name, Starts: n}
	}
	out := make(schedule, len(tasks))
	for i, runs := range queue.New(queueWorld{w, intent}, l, clusters, w.s.Now, tasks, order, pending).Run() {
		for _, r := range runs {
			out[i] = append(out[i], Phase{From: r.From, To: r.To, Cluster: w.s.Clusters[r.Cluster].Name, Workers: r.Workers})
		}
	}
	return out
}

// starts counts the runs that have begun on each cluster, at least those of the running tasks.
func (w *decider) starts() []int {
	out := make([]int, len(w.s.Clusters))
	for i := range w.s.Tasks {
		if t := &w.s.Tasks[i]; t.State == Running && !t.Unscheduled {
			out[w.place(t.Cluster)]++
		}
	}
	for c := range out {
		out[c] = max(out[c], w.s.Clusters[c].Starts)
	}
	return out
}

// queueWorld says how the tasks of a snapshot behave in a model (queue.World).
type queueWorld struct {
	*decider
	intent func(i int, at time.Time) queue.Intent
}

func (w queueWorld) Intent(i int, at time.Time) queue.Intent {
	out := w.intent(i, at)
	if w.s.Tasks[i].Scaling == nil {
		out.Workers = 1
	}
	return out
}

func (w queueWorld) Clusters(i int) []int        { return w.allowed(&w.s.Tasks[i]) }
func (w queueWorld) Rate(i, workers int) float64 { return w.s.Tasks[i].rate(workers) }

func (w queueWorld) FirstRun(i, cluster int, at time.Time) float64 {
	return float64(max(w.workFrom(i, cluster, at), leastWork))
}

// Start counts a restart before all runs but the first one of a task that has not run yet.
func (w queueWorld) Start(i, cluster int, first bool, at time.Time) time.Duration {
	t := &w.s.Tasks[i]
	if !first {
		return t.Restart
	}
	return t.startOf(t.State == Running && cluster == w.place(t.Cluster) && !at.After(w.s.Now))
}

// AfterPause counts what a task did since its last checkpoint as lost. Of a task whose checkpoints are not known, only what is lost now is
// known.
func (w queueWorld) AfterPause(i int, left, done float64, at time.Time) float64 {
	t := &w.s.Tasks[i]
	if at.Equal(w.s.Now) {
		return float64(t.Remaining)
	}
	return left + math.Max(0, done-float64(t.checkpointed(done)))
}

// intends is what this decision has a task do at a time. What is left to a queue, or has no plan, is
// released until it is done, and so is a task whose plan has ended.
func (w *decider) intends(i int, at time.Time) queue.Intent {
	t, x := &w.s.Tasks[i], &w.items[i]
	workers := t.least()
	if t.State == Running {
		workers = max(workers, t.Workers)
	}
	out, phases, queued := queue.Intent{Released: true, Cluster: -1, Workers: workers}, x.phases, x.queued
	switch {
	case x.arrival.After(at) && t.State != Running:
		return queue.Intent{Next: x.arrival}
	case x.released != nil:
		phases, queued = x.released, false
	case x.left && t.State == Waiting && x.earliest.After(at):
		return queue.Intent{Next: x.earliest} // its least pause is not over
	case x.left || t.State == Running && t.Unscheduled:
		return out
	case w.s.soft() && len(phases) == 0:
		return queue.Intent{} // it waits for a plan
	}
	for k := range phases {
		p := &phases[k]
		switch {
		case at.Before(p.From) && k == 0 && queued: // it is released already, and waits
			return queue.Intent{Released: true, Cluster: w.place(p.Cluster), Workers: p.Workers, Next: p.To}
		case at.Before(p.From):
			return queue.Intent{Next: p.From}
		case at.Before(p.To):
			return queue.Intent{Released: true, Cluster: w.place(p.Cluster), Workers: p.Workers, Next: p.To}
		}
		out.Workers = p.Workers
	}
	return out
}

// releasedFirst compares tasks that wait in a queue by the time of their release. Decisions release at one time what is planned
// first, by deadline, then what is left to the queue (order).
func (w *decider) releasedFirst(a, b int) int {
	x, y := &w.s.Tasks[a], &w.s.Tasks[b]
	if c := x.Changed.Compare(y.Changed); c != 0 {
		return c
	}
	p, q := x.wasPlanned(), y.wasPlanned()
	switch {
	case p && q:
		return x.Deadline.Compare(y.Deadline)
	case p:
		return -1
	case q:
		return 1
	}
	return 0
}

// wasPlanned reports whether a task was released by a plan, and not left to a queue.
func (t *Task) wasPlanned() bool {
	return t.Standing != nil && !t.Standing.Reason.Code.forced() && !t.Deadline.IsZero()
}

// releasedBy is the plan by which a task was released that waits in the queue of its cluster: it goes on, and may have begun
// or ended before now. nil if there is none.
func (t *Task) releasedBy() []Phase {
	if t.State != Running || !t.Unscheduled || t.Cluster == "" || t.Standing == nil || t.Standing.Reason.Code.forced() {
		return nil
	}
	return t.Standing.Phases
}

// queueFresh counts the tasks that may not wait from when the queue starts them in a schedule
// in which others, that were submitted before, keep their place. It reports whether one of them
// waits in the queue.
func (w *decider) queueFresh(phases schedule) (waits bool) {
	for k, i := range w.fresh {
		w.leave(i, phases[k])
		waits = waits || w.items[i].queued && !w.items[i].arrival.After(w.s.Now)
	}
	return waits
}

// leave leaves a task that is released as submitted to the queue of its cluster, which is expected to do
// the given phases.
func (w *decider) leave(i int, phases []Phase) {
	x := &w.items[i]
	if !x.left {
		w.queue = append(w.queue, i)
	}
	x.phases, x.left = phases, true
	x.queued = w.queues(i)
}

// queues reports whether a task waits in the queue of its cluster once it is released. One that is yet to
// be submitted is left to that queue too: when it starts is not known for sure.
func (w *decider) queues(i int) bool {
	x := &w.items[i]
	return x.arrival.After(w.s.Now) || !x.earliest.After(w.s.Now) && (len(x.phases) == 0 || x.phases[0].From.After(x.earliest))
}

// releaseAll releases the listed tasks, so that they run as submitted. Where the order of submission
// is what keeps the deadlines and a task that may not wait stands in the queue, the queue must have
// the others too: it would start that task in the room that they leave while they are held.
func (w *decider) releaseAll(list []int, s schedule) {
	for k, i := range list {
		x := &w.items[i]
		x.phases = s[k]
		if x.earliest.After(x.arrival) {
			if x.state = placed; !w.inTime(i, x.phases) { // its least pause is not over
				x.state = unplaced
			}
			continue
		}
		x.state, x.code = committed, CodeClusterQueue
		w.leave(i, s[k])
	}
	slices.SortStableFunc(w.queue, func(a, b int) int {
		if x, y := &w.s.Tasks[a], &w.s.Tasks[b]; x.State == Running && y.State == Running {
			return 0 // as they stand in the queue
		}
		return w.runningFirst(a, b)
	})
}

// runningFirst compares tasks by the order in which a cluster has them by itself: those that were
// released before, then by submission.
func (w *decider) runningFirst(a, b int) int {
	x, y := &w.s.Tasks[a], &w.s.Tasks[b]
	if (x.State == Running) != (y.State == Running) {
		if x.State == Running {
			return -1
		}
		return 1
	}
	return cmp.Or(x.Submitted.Compare(y.Submitted), a-b)
}
