package decide

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// queueModel is what clusters do by themselves, run forward from now. They start what is released in
// the order of release, each task whenever there is room at that moment, on the cluster with the
// least share in use, whatever Lull has planned in that room. What starts runs until it is done or is
// paused. New tasks do not come, and run times are as expected.
//
// At each moment, in this order: what is done leaves, what waits starts, plans change what runs,
// what waits starts, and what asks for more workers gets them.
type queueModel struct {
	w *decider
	// ledger has what runs as if it ran forever, so it is right up to now.
	ledger *capacity.Ledger
	now    time.Time
	order  []int // of release at the same moment
	rank   []int // of each task in order
	plan   func(i int, at time.Time) intent
	runs   []modelRun
	// pending are the released tasks that wait for room, in the order of their release.
	pending []int
	raises  []int // running tasks that ask for more workers
	starts  []int // of each cluster
	begun   []int // tasks that started since plans were followed last
	classes map[string]int
	freed   bool // there may be more room than when pending was last served
	moments moments
}

// intent is what Lull wants of a task at a time: whether it is released, where (-1: anywhere), with
// how many workers, and when that changes; zero for never.
type intent struct {
	released         bool
	cluster, workers int
	next             time.Time
}

// modelRun is a task of a queueModel.
type modelRun struct {
	need    []capacity.Need
	class   int     // of tasks that find room at the same time, from 1 on; 0 until it waits
	left    float64 // work in ns at the least scale
	run     float64 // work since its run began, what was at risk then included
	cluster int     // -1 for any
	want    int     // workers that are asked for
	workers int     // that run; 0 if it waits
	since   time.Time
	done    bool
	// released reports that it runs or is pending.
	released bool
	version  int
	next     time.Time
	phases   []Phase // what it does
}

// newQueueModel returns a model of the listed tasks, in the order of release, beside what a ledger has.
func (w *decider) newQueueModel(l *capacity.Ledger, order []int, plan func(i int, at time.Time) intent) *queueModel {
	m := &queueModel{
		w: w, ledger: l, now: w.s.Now, order: order, rank: make([]int, len(w.items)), plan: plan,
		runs: make([]modelRun, len(w.items)), starts: w.starts(), freed: true, classes: map[string]int{},
	}
	for n, i := range order {
		t, r := &w.s.Tasks[i], &m.runs[i]
		m.rank[i] = n
		*r = modelRun{need: l.Demand(t.Request), left: float64(max(t.Remaining, time.Millisecond)), cluster: -1, want: t.least()}
	}
	return m
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

// observe takes over what a task does now: it runs, or is released and waits for room.
func (m *queueModel) observe(i int) {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	if t.Cluster != "" || t.State == Running && !t.Unscheduled {
		r.cluster = m.w.place(t.Cluster) // the first one if none is named: see Snapshot.Place
	}
	if t.State != Running {
		return
	}
	r.released = true
	if t.Scaling != nil {
		r.want = max(t.Workers, t.least())
	}
	if t.Unscheduled {
		m.pending = append(m.pending, i)
		return
	}
	r.left, r.run = float64(t.Remaining-t.AtRisk), float64(t.AtRisk)
	if r.left <= 0 {
		r.left = float64(m.w.s.Slot)
	}
	running := t.running()
	if running < r.want {
		m.raises = append(m.raises, i)
	}
	m.open(i, r.cluster, running)
}

// run goes from moment to moment until nothing happens any more. It returns what each task does, by
// task of the snapshot; nil for one that never runs.
//
// Complexity: O((tasks + phases) x (log tasks + tasks that wait)), the latter with a small constant:
// of tasks that ask for the same, one is tried.
func (m *queueModel) run() schedule {
	slices.SortStableFunc(m.pending, m.w.releasedFirst)
	due := slices.Clone(m.order)
	for more := true; more; {
		m.serve()
		for _, i := range m.inOrder(append(due, m.begun...)) {
			m.follow(i)
		}
		m.serve()
		m.raise()
		due, more = m.advance()
	}
	out := make(schedule, len(m.runs))
	for i := range m.runs {
		out[i] = m.runs[i].phases
	}
	return out
}

// follow does what Lull wants of a task now.
func (m *queueModel) follow(i int) {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	if r.done || r.workers > 0 && t.Kind == workload.Rigid { // what has begun is not interrupted, whatever was planned
		return
	}
	want := m.plan(i, m.now)
	if r.next = want.next; r.next.After(m.forever()) {
		r.next = time.Time{}
	}
	if !r.next.IsZero() {
		heap.Push(&m.moments, moment{r.next.UnixNano(), i, planChanges})
	}
	if !want.released {
		// What waits in a queue stays there until it runs.
		if r.workers > 0 {
			m.pause(i)
			r.released = false
		}
		return
	}
	if want.cluster < 0 {
		want.cluster = r.cluster
	}
	if r.workers > 0 && want.cluster >= 0 && want.cluster != r.cluster {
		m.pause(i)
		r.released = false
	}
	r.want = 1
	if t.Scaling != nil {
		r.want = max(want.workers, t.Scaling.MinWorkers)
	}
	switch {
	case r.workers > r.want:
		m.scale(i, r.want)
	case r.workers > 0 && r.workers < r.want:
		m.raises = append(m.raises, i)
	case !r.released:
		r.cluster, r.released, m.freed = want.cluster, true, true
		m.pending = append(m.pending, i)
	}
}

// open has a task run from now on.
func (m *queueModel) open(i, cluster, workers int) {
	r := &m.runs[i]
	r.cluster, r.workers, r.since = cluster, workers, m.now
	m.take(i, 1)
	r.version++
	heap.Push(&m.moments, moment{m.endOf(i).UnixNano(), i, r.version})
}

// close ends the present run of a task.
func (m *queueModel) close(i int) {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	m.take(i, -1)
	if m.now.After(r.since) {
		work := t.rate(r.workers) * float64(m.now.Sub(r.since))
		r.left, r.run = r.left-work, r.run+work
		r.phases = append(r.phases, Phase{From: r.since, To: m.now, Cluster: m.w.s.Clusters[r.cluster].Name, Workers: r.workers})
	}
	r.workers = 0
	r.version++
	m.freed = true
}

// pause takes a task off its cluster. That loses what it did since its last checkpoint. Of a task whose
// checkpoints are not known, only what is lost now is known.
func (m *queueModel) pause(i int) {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	now := m.now.Equal(m.w.s.Now)
	m.close(i)
	if now {
		r.left = float64(t.Remaining)
	} else {
		r.left += math.Max(0, r.run-float64(t.checkpointed(r.run)))
	}
}

func (m *queueModel) scale(i, workers int) {
	cluster := m.runs[i].cluster
	m.close(i)
	m.open(i, cluster, workers)
}

// take has the workers of a task use its cluster from now on, or gives them back.
func (m *queueModel) take(i int, sign float64) {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	m.ledger.Take(m.ledger.Cluster(m.w.s.Clusters[r.cluster].Name), r.need, sign*t.workersOf(&Phase{Workers: r.workers}), m.now, m.forever())
}

// forever is later than anything in a model.
func (m *queueModel) forever() time.Time { return m.w.s.Now.AddDate(50, 0, 0) }

func (m *queueModel) endOf(i int) time.Time {
	r := &m.runs[i]
	left := math.Ceil(r.left / m.w.s.Tasks[i].rate(r.workers))
	if last := m.forever().Sub(r.since); left >= float64(last) {
		return r.since.Add(last)
	}
	return r.since.Add(time.Duration(left))
}

// serve starts the pending tasks that find room, in the order of their release.
func (m *queueModel) serve() {
	if !m.freed {
		return
	}
	m.freed = false
	full := map[[2]int]bool{} // classes and clusters for which there is no room
	m.pending = slices.DeleteFunc(m.pending, func(i int) bool {
		r := &m.runs[i]
		at := [2]int{m.classOf(i), r.cluster}
		switch {
		case full[at]:
			return false
		case m.start(i):
			m.begun = append(m.begun, i)
			return true
		}
		full[at] = true
		return false
	})
}

// classOf numbers what a task asks for.
func (m *queueModel) classOf(i int) int {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	if r.class == 0 {
		key := fmt.Sprint(r.need, t.least(), t.Clusters, t.Cluster, t.Migratable)
		if m.classes[key] == 0 {
			m.classes[key] = len(m.classes) + 1
		}
		r.class = m.classes[key]
	}
	return r.class
}

// start runs a task where there is room now: on its cluster, or on the one with the least share in
// use; among equals, the one with the fewest starts.
func (m *queueModel) start(i int) bool {
	t, r := &m.w.s.Tasks[i], &m.runs[i]
	best, share := -1, math.Inf(1)
	for _, c := range m.w.allowed(t) {
		if r.cluster >= 0 && c != r.cluster || !m.fits(i, c, t.least()) {
			continue
		}
		used := m.ledger.Share(m.ledger.Cluster(m.w.s.Clusters[c].Name), r.need, m.now)
		if used < share || used == share && m.starts[c] < m.starts[best] {
			best, share = c, used
		}
	}
	if best < 0 {
		return false
	}
	m.starts[best]++
	r.run = 0
	if len(r.phases) == 0 {
		r.left = float64(max(m.w.workFrom(i, best, m.now), time.Millisecond))
	}
	m.open(i, best, m.room(i, best, t.least(), r.want))
	return true
}

func (m *queueModel) fits(i, cluster, workers int) bool {
	t := &m.w.s.Tasks[i]
	c := m.ledger.Cluster(m.w.s.Clusters[cluster].Name)
	return m.ledger.Fits(c, m.runs[i].need, t.workersOf(&Phase{Workers: workers}), m.now, m.now.Add(time.Microsecond))
}

// room is the largest scale up to most that fits beside what runs, at least the given one.
func (m *queueModel) room(i, cluster, least, most int) int {
	for n := most; n > least; n-- {
		if m.fits(i, cluster, n) {
			return n
		}
	}
	return least
}

// raise adds the workers that are asked for and fit, after what waits has been served.
func (m *queueModel) raise() {
	m.raises = slices.DeleteFunc(m.raises, func(i int) bool {
		r := &m.runs[i]
		if r.workers == 0 || r.workers >= r.want {
			return true
		}
		have := r.workers
		m.take(i, -1)
		n := m.room(i, r.cluster, have, r.want)
		m.take(i, 1)
		if n > have {
			m.scale(i, n)
		}
		return n == r.want
	})
	m.freed = false
}

// advance goes to the next moment at which something happens. It returns the tasks whose plan
// changes something then; false if nothing happens any more.
func (m *queueModel) advance() (due []int, more bool) {
	for len(m.moments) > 0 && !m.holds(m.moments[0]) {
		heap.Pop(&m.moments)
	}
	next := time.Time{}
	if len(m.moments) > 0 {
		next = time.Unix(0, m.moments[0].at).In(m.now.Location())
	}
	if len(m.pending)+len(m.raises) > 0 {
		for c := range m.w.s.Clusters {
			at, ok := m.ledger.NextChange(m.ledger.Cluster(m.w.s.Clusters[c].Name), m.now, m.forever().Add(-1))
			if ok && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	if next.IsZero() {
		return nil, false
	}
	if next.After(m.now) {
		m.now = next
	}
	m.freed = true
	for len(m.moments) > 0 && m.moments[0].at <= m.now.UnixNano() {
		x := heap.Pop(&m.moments).(moment)
		switch {
		case !m.holds(x):
		case x.version == planChanges:
			due = append(due, x.task)
		default:
			m.close(x.task)
			m.runs[x.task].done, m.runs[x.task].released = true, false
		}
	}
	return due, true
}

// inOrder sorts tasks by the order of release, each once. It forgets which have begun.
func (m *queueModel) inOrder(tasks []int) []int {
	m.begun = m.begun[:0]
	slices.SortFunc(tasks, func(a, b int) int { return m.rank[a] - m.rank[b] })
	return slices.Compact(tasks)
}

// holds reports whether what a moment is for is still so.
func (m *queueModel) holds(x moment) bool {
	r := &m.runs[x.task]
	if x.version == planChanges {
		return !r.done && !r.next.IsZero() && r.next.UnixNano() == x.at
	}
	return r.workers > 0 && x.version == r.version
}

// moment is when a task ends, if its version is that of the present run, or its plan changes something.
type moment struct {
	at            int64 // Unix time in ns
	task, version int
}

// planChanges is the version of moments at which a plan changes something.
const planChanges = -1

// moments is a heap.
type moments []moment

func (q moments) Len() int           { return len(q) }
func (q moments) Less(a, b int) bool { return q[a].at < q[b].at }
func (q moments) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }
func (q *moments) Push(x any)        { *q = append(*q, x.(moment)) }
func (q *moments) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
