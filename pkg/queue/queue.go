// Package queue models what clusters do by themselves with released tasks. It is Lull's one model of that: a decision runs it
// forward to foresee when each task runs, and the simulator chooses clusters by the same rule (LeastUsed).
//
// Clusters start what is released in the order of release, each task whenever there is room at that moment, on the cluster with
// the least share in use of the resources that the task asks for, whatever Lull has planned in that room. What starts runs until it is done or is paused. No tasks come
// that the model does not know, and run times are as expected.
//
// At each moment, in this order: what is done leaves, what waits starts, intents change what runs, what waits starts, and what
// asks for more workers gets them.
package queue

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// Cluster is a place that runs tasks.
type Cluster struct {
	// Name in the ledger.
	Name string
	// Starts is how many runs have begun there.
	Starts int
}

// Task is a task as it is when a model begins. Work is in nanoseconds at the least scale.
type Task struct {
	// Need is what one worker takes.
	Need []capacity.Need
	// Least is the number of workers with which it starts, at least 1.
	Least int
	// Rigid tasks, once started, run until they are done, whatever their intent.
	Rigid bool
	// Restarts says that another number of workers ends its run, as a pause does; it then waits for room for all of them. It starts with all that it asks for, not
	// with Least.
	Restarts bool
	// Work is what is left to do; Done is what its present run has done that a pause may lose.
	Work, Done float64
	// Starting is for how long its present run takes to start, in which no work is done.
	Starting time.Duration
	// Cluster is where it is; -1 if it may start anywhere.
	Cluster int
	// Released reports that it runs with Workers, or waits in the queue of its cluster if Workers is 0.
	Released bool
	Workers  int
	// Want is the number of workers that it asks for.
	Want int
}

// Intent is what Lull wants of a task at a time.
type Intent struct {
	Released bool
	// Cluster is where it is to run; -1: anywhere.
	Cluster int
	// Workers that it is to have; less than its least scale counts as that.
	Workers int
	// Next is when the intent changes; zero for never.
	Next time.Time
}

// Run is a time during which a task runs at one cluster and scale.
type Run struct {
	From, To         time.Time
	Cluster, Workers int
}

// World says how the tasks of a model behave. Tasks and clusters are given by their index.
type World interface {
	// Intent is what Lull wants of a task at a time.
	Intent(task int, at time.Time) Intent
	// Clusters are those that a task may use.
	Clusters(task int) []int
	// Rate is how many times as fast as at its least scale a task runs with some workers.
	Rate(task, workers int) float64
	// FirstRun is the work of a task whose first run begins on a cluster at a time.
	FirstRun(task, cluster int, at time.Time) float64
	// Start is how long a run that begins on a cluster at a time takes to start, in which no work is done. first reports that it is the first one.
	Start(task, cluster int, first bool, at time.Time) time.Duration
	// AfterPause is the work that is left when a task is paused at a time that had some left and had done some in its run.
	AfterPause(task int, left, done float64, at time.Time) float64
}

// Model is the state of the clusters and their queues at a moment.
type Model struct {
	world    World
	clusters []Cluster
	inLedger []int // index in the ledger of each cluster
	// ledger has what runs as if it ran forever, so it is right up to now.
	ledger     *capacity.Ledger
	begin, now time.Time
	tasks      []task
	order      []int // of release at the same moment
	rank       []int // of each task in order
	// pending are the released tasks that wait for room, in the order of their release.
	pending []int
	raises  []int // running tasks that ask for more workers
	begun   []int // tasks that started since intents were followed last
	classes map[string]int
	full    []int // see fullFor
	served  int   // rounds of serve
	freed   bool  // there may be more room than when pending was last served
	moments moments
}

// task is a Task while a model runs.
type task struct {
	Task
	class   int // of tasks that find room at the same time, from 1 on; 0 until it waits
	since   time.Time
	done    bool
	version int
	next    time.Time
	runs    []Run
	// restarted says that its first run has ended, of whatever length.
	restarted bool
}

// New returns a model that begins now, beside what a ledger has. The model takes the ledger over. order lists the tasks that take
// part, in the order in which they are released if that is at the same moment; pending those that wait in a queue already, in the order
// in which it has them.
func New(world World, ledger *capacity.Ledger, clusters []Cluster, now time.Time, tasks []Task, order, pending []int) *Model {
	m := &Model{
		world: world, clusters: slices.Clone(clusters), inLedger: make([]int, len(clusters)), ledger: ledger, begin: now, now: now,
		tasks: make([]task, len(tasks)), order: order, rank: make([]int, len(tasks)), pending: slices.Clone(pending),
		freed: true, classes: map[string]int{},
	}
	for c := range clusters {
		m.inLedger[c] = ledger.Cluster(clusters[c].Name)
	}
	for n, i := range order {
		m.rank[i] = n
		m.tasks[i].Task = tasks[i]
		x := &m.tasks[i]
		x.Workers = 0
		if running := tasks[i].Workers; running > 0 {
			if running < x.Want {
				m.raises = append(m.raises, i)
			}
			m.open(i, x.Cluster, running)
		}
	}
	return m
}

// Run goes from moment to moment until nothing happens any more. It returns the runs of each task; nil for one that never runs.
//
// Complexity: O((tasks + changes of intents) x (log tasks + tasks that wait)), the latter with a small constant: of tasks that ask for
// the same, one is tried.
func (m *Model) Run() [][]Run {
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
	out := make([][]Run, len(m.tasks))
	for i := range m.tasks {
		out[i] = m.tasks[i].runs
	}
	return out
}

// follow does what Lull wants of a task now.
func (m *Model) follow(i int) {
	x := &m.tasks[i]
	if x.done || x.Workers > 0 && x.Rigid {
		return
	}
	want := m.world.Intent(i, m.now)
	if x.next = want.Next; x.next.After(m.forever()) {
		x.next = time.Time{}
	}
	if !x.next.IsZero() {
		heap.Push(&m.moments, moment{x.next.UnixNano(), i, intentChanges})
	}
	if !want.Released {
		// What waits in a queue stays there until it runs.
		if x.Workers > 0 {
			m.pause(i)
		}
		return
	}
	if want.Cluster < 0 {
		want.Cluster = x.Cluster
	}
	if moves := want.Cluster >= 0 && want.Cluster != x.Cluster; x.Workers > 0 && (moves || x.Restarts && max(want.Workers, x.Least) != x.Workers) {
		m.pause(i)
	}
	if x.Want = max(want.Workers, x.Least); x.Restarts {
		x.class = 0
	}
	switch {
	case x.Workers > x.Want:
		m.scale(i, x.Want)
	case x.Workers > 0 && x.Workers < x.Want:
		m.raises = append(m.raises, i)
	case !x.Released:
		x.Cluster, x.Released, m.freed = want.Cluster, true, true
		m.pending = append(m.pending, i)
	}
}

// open has a task run from now on.
func (m *Model) open(i, cluster, workers int) {
	x := &m.tasks[i]
	x.Cluster, x.Workers, x.since = cluster, workers, m.now
	m.take(i, 1)
	x.version++
	heap.Push(&m.moments, moment{m.endOf(i).UnixNano(), i, x.version})
}

// close ends the present run of a task.
func (m *Model) close(i int) {
	x := &m.tasks[i]
	m.take(i, -1)
	if m.now.After(x.since) {
		length := m.now.Sub(x.since)
		starts := min(x.Starting, length)
		work := m.world.Rate(i, x.Workers) * float64(length-starts)
		x.Starting -= starts
		x.Work, x.Done = x.Work-work, x.Done+work
		x.runs = append(x.runs, Run{From: x.since, To: m.now, Cluster: x.Cluster, Workers: x.Workers})
	}
	x.Workers = 0
	x.version++
	m.freed = true
}

// pause takes a task off its cluster.
func (m *Model) pause(i int) {
	m.close(i)
	x := &m.tasks[i]
	x.Work, x.Starting, x.Released = m.world.AfterPause(i, x.Work, x.Done, m.now), 0, false
	x.restarted = x.Restarts
}

func (m *Model) scale(i, workers int) {
	cluster := m.tasks[i].Cluster
	m.close(i)
	m.open(i, cluster, workers)
}

// take has the workers of a task use its cluster from now on, or gives them back.
func (m *Model) take(i int, sign float64) {
	x := &m.tasks[i]
	m.ledger.Take(m.inLedger[x.Cluster], x.Need, sign*float64(x.Workers), m.now, m.forever())
}

// forever is later than anything in a model.
func (m *Model) forever() time.Time { return m.begin.AddDate(50, 0, 0) }

func (m *Model) endOf(i int) time.Time {
	x := &m.tasks[i]
	left := float64(x.Starting) + math.Ceil(x.Work/m.world.Rate(i, x.Workers))
	if last := m.forever().Sub(x.since); left >= float64(last) {
		return x.since.Add(last)
	}
	return x.since.Add(time.Duration(left))
}

// serve starts the pending tasks that find room, in the order of their release.
func (m *Model) serve() {
	if !m.freed {
		return
	}
	m.freed = false
	m.served++
	m.pending = slices.DeleteFunc(m.pending, func(i int) bool {
		at := m.fullFor(i)
		switch {
		case *at == m.served:
			return false
		case m.start(i):
			m.begun = append(m.begun, i)
			return true
		}
		*at = m.served
		return false
	})
}

// fullFor says when there was last no room for tasks that ask for what a task asks for, on its cluster: in which round of serve.
func (m *Model) fullFor(i int) *int {
	clusters := len(m.clusters) + 1 // and -1 for any
	at := m.classOf(i)*clusters + m.tasks[i].Cluster + 1
	for len(m.full) <= at {
		m.full = append(m.full, 0)
	}
	return &m.full[at]
}

// classOf numbers what a task asks for.
func (m *Model) classOf(i int) int {
	x := &m.tasks[i]
	if x.class == 0 {
		key := fmt.Sprint(x.Need, x.starts(), m.world.Clusters(i))
		if m.classes[key] == 0 {
			m.classes[key] = len(m.classes) + 1
		}
		x.class = m.classes[key]
	}
	return x.class
}

// start runs a task where there is room now: on its cluster, or on the one that LeastUsed names; false if there is none.
func (m *Model) start(i int) bool {
	x := &m.tasks[i]
	best := LeastUsed(m.world.Clusters(i), func(c int) (float64, bool) {
		if x.Cluster >= 0 && c != x.Cluster || !m.fits(i, c, x.starts()) {
			return 0, false
		}
		return m.ledger.Share(m.inLedger[c], x.Need, m.now), true
	}, func(c int) int { return m.clusters[c].Starts })
	if best < 0 {
		return false
	}
	m.clusters[best].Starts++
	first := len(x.runs) == 0 && !x.restarted
	x.Done, x.Starting = 0, m.world.Start(i, best, first, m.now)
	if first {
		x.Work = m.world.FirstRun(i, best, m.now)
	}
	m.open(i, best, m.room(i, best, x.starts(), x.Want))
	return true
}

// starts is the number of workers that a task needs room for to start.
func (x *task) starts() int {
	if x.Restarts {
		return x.Want
	}
	return x.Least
}

// LeastUsed returns where the queue of several clusters starts a task: of those that have room for it, the one with the least share
// in use; among equals the one with the fewest starts, then the first. It returns -1 if no cluster has room.
func LeastUsed(clusters []int, used func(cluster int) (share float64, hasRoom bool), starts func(cluster int) int) int {
	best, least := -1, math.Inf(1)
	for _, c := range clusters {
		share, hasRoom := used(c)
		if hasRoom && (share < least || share == least && starts(c) < starts(best)) {
			best, least = c, share
		}
	}
	return best
}

func (m *Model) fits(i, cluster, workers int) bool {
	return m.ledger.Fits(m.inLedger[cluster], m.tasks[i].Need, float64(workers), m.now, m.now.Add(time.Microsecond))
}

// room is the largest scale up to most that fits beside what runs, at least the given one.
func (m *Model) room(i, cluster, least, most int) int {
	for n := most; n > least; n-- {
		if m.fits(i, cluster, n) {
			return n
		}
	}
	return least
}

// raise adds the workers that are asked for and fit, after what waits has been served.
func (m *Model) raise() {
	m.raises = slices.DeleteFunc(m.raises, func(i int) bool {
		x := &m.tasks[i]
		if x.Workers == 0 || x.Workers >= x.Want {
			return true
		}
		have := x.Workers
		m.take(i, -1)
		n := m.room(i, x.Cluster, have, x.Want)
		m.take(i, 1)
		if n > have {
			m.scale(i, n)
		}
		return n == x.Want
	})
	m.freed = false
}

// advance goes to the next moment at which something happens. It returns the tasks whose intent changes then; false if
// nothing happens any more.
func (m *Model) advance() (due []int, more bool) {
	for len(m.moments) > 0 && !m.holds(m.moments[0]) {
		heap.Pop(&m.moments)
	}
	next := time.Time{}
	if len(m.moments) > 0 {
		next = time.Unix(0, m.moments[0].at).In(m.now.Location())
	}
	if len(m.pending)+len(m.raises) > 0 {
		for _, c := range m.inLedger {
			at, ok := m.ledger.NextChange(c, m.now, m.forever().Add(-1))
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
		case x.version == intentChanges:
			due = append(due, x.task)
		default:
			m.close(x.task)
			m.tasks[x.task].done, m.tasks[x.task].Released = true, false
		}
	}
	return due, true
}

// inOrder sorts tasks by the order of release, each once. It forgets which have begun.
func (m *Model) inOrder(tasks []int) []int {
	m.begun = m.begun[:0]
	slices.SortFunc(tasks, func(a, b int) int { return m.rank[a] - m.rank[b] })
	return slices.Compact(tasks)
}

// holds reports whether what a moment is for is still so.
func (m *Model) holds(x moment) bool {
	t := &m.tasks[x.task]
	if x.version == intentChanges {
		return !t.done && !t.next.IsZero() && t.next.UnixNano() == x.at
	}
	return t.Workers > 0 && x.version == t.version
}

// moment is when a task ends, if its version is that of the present run, or when its intent changes.
type moment struct {
	at            int64 // Unix time in ns
	task, version int
}

// intentChanges is the version of moments at which an intent changes.
const intentChanges = -1

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
