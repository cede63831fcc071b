package decide

import (
	"cmp"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
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
		now := len(phases) > 0 && !phases[0].From.After(x.earliest)
		if now && t.State == Running && w.fits(present, tasks[n], phases) {
			phases, now = nil, false // by the sums there is room already, but no node has it
		}
		x.queued, x.phases = !now && !x.earliest.After(w.s.Now), phases
		w.take(w.ledger, tasks[n], phases, 1)
		if x.queued {
			w.queue = append(w.queue, tasks[n])
		}
	}
}

// goOnBesideQueue lets running tasks that are in time go on as they are, on clusters where released
// tasks wait for room. The queue would give the room of a pause to whatever it starts next, not to
// what Lull has planned.
func (w *decider) goOnBesideQueue() {
	waits := map[string]bool{}
	for _, i := range w.queue {
		if x := &w.items[i]; x.queued && len(x.phases) > 0 {
			waits[x.phases[0].Cluster] = true
		}
	}
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		if x.state != open || t.State != Running || w.s.soft() || !waits[w.s.Place(t.Cluster).Name] {
			continue
		}
		if on := []Phase{w.on(i)}; w.inTime(i, on) {
			x.state, x.code, x.phases = kept, CodeClusterQueue, on
			w.take(w.ledger, i, on, 1)
		}
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

// runQueue runs tasks in the order of a queue, as a scheduler does that knows nothing of the
// future: whenever there is room at that moment for one that waits, it starts, at its least
// scale and in one piece. What never finds room has no phases.
//
// Complexity: O(tasks x moments at which capacity or use change).
func (w *decider) runQueue(l *capacity.Ledger, tasks []int) schedule {
	out := make(schedule, len(tasks))
	waiting := make([]int, len(tasks))
	for k := range waiting {
		waiting[k] = k
	}
	now := w.s.Now
	forever := now.AddDate(50, 0, 0)
	for len(waiting) > 0 {
		var next time.Time
		soonest := func(at time.Time) {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		kept := waiting[:0]
		for _, k := range waiting {
			if at := w.items[tasks[k]].earliest; at.After(now) {
				soonest(at)
			} else if w.start(l, tasks[k], now, &out[k]) {
				continue
			}
			kept = append(kept, k)
		}
		waiting = kept
		for c := range w.s.Clusters {
			if at, ok := l.NextChange(l.Cluster(w.s.Clusters[c].Name), now, forever); ok {
				soonest(at)
			}
		}
		if next.IsZero() {
			break
		}
		now = next
	}
	return out
}

// start runs a task from now on where there is room at this moment: on the cluster with the
// least share in use.
func (w *decider) start(l *capacity.Ledger, i int, now time.Time, out *[]Phase) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	best, share := -1, 0.0
	var phase Phase
	for _, c := range w.allowed(t) {
		p := w.phase(i, c, now, max(t.Remaining, time.Millisecond), t.least())
		cluster := l.Cluster(p.Cluster)
		if !l.Fits(cluster, x.need, t.workersOf(&p), now, now.Add(time.Microsecond)) {
			continue
		}
		if used := l.Share(cluster, x.need, now); best < 0 || used < share {
			best, share, phase = c, used, p
		}
	}
	if best < 0 {
		return false
	}
	*out = w.priced([]Phase{phase})
	w.take(l, i, *out, 1)
	return true
}

// queueFresh counts the tasks that may not wait from when the queue starts them in a schedule
// in which others, that were submitted before, keep their place. It reports whether one of them
// waits in the queue.
func (w *decider) queueFresh(phases schedule) (waits bool) {
	for k, i := range w.fresh {
		x := &w.items[i]
		x.phases = phases[k]
		x.queued = w.queues(i)
		if x.queued && !slices.Contains(w.queue, i) {
			w.queue = append(w.queue, i)
		}
		waits = waits || x.queued
	}
	return waits
}

// queues reports whether a released task waits in the queue of its cluster.
func (w *decider) queues(i int) bool {
	x := &w.items[i]
	return !x.earliest.After(w.s.Now) && (len(x.phases) == 0 || x.phases[0].From.After(x.earliest))
}

// releaseAll releases the listed tasks, so that they run as submitted. Where the order of submission
// is what keeps the deadlines and a task that may not wait stands in the queue, the queue must have
// the others too: it would start that task in the room that they leave while they are held.
func (w *decider) releaseAll(list []int, s schedule) {
	for k, i := range list {
		x := &w.items[i]
		x.phases = s[k]
		if x.earliest.After(w.s.Now) {
			x.state = placed // it is yet to be submitted
			continue
		}
		x.state, x.code, x.queued = committed, CodeClusterQueue, w.queues(i)
		if x.queued {
			w.queue = append(w.queue, i)
		}
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
