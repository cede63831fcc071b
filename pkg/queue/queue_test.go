package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/queue"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// world has tasks that are released from the beginning, unless they have an intent of their own, that run everywhere with the work
// they have, and lose nothing by a pause.
type world struct {
	clusters []int
	intents  map[int]func(at time.Time) queue.Intent
	first    float64
	loses    bool // a pause loses all that the run has done
	restart  time.Duration
}

func (w world) Intent(i int, at time.Time) queue.Intent {
	if f := w.intents[i]; f != nil {
		return f(at)
	}
	return queue.Intent{Released: true, Cluster: -1, Workers: 1}
}
func (w world) Clusters(int) []int                   { return w.clusters }
func (w world) Rate(_, workers int) float64          { return float64(workers) }
func (w world) FirstRun(int, int, time.Time) float64 { return w.first }

func (w world) Start(_, _ int, first bool, _ time.Time) time.Duration {
	if first {
		return 0
	}
	return w.restart
}

func (w world) AfterPause(_ int, left, done float64, _ time.Time) float64 {
	if w.loses {
		return left + done
	}
	return left
}

// places returns a ledger of clusters with some CPUs each.
func places(cpus ...float64) (*capacity.Ledger, []queue.Cluster) {
	l, out := &capacity.Ledger{Tick: time.Microsecond}, []queue.Cluster(nil)
	for c, n := range cpus {
		name := string(rune('a' + c))
		l.Offer(name, start, map[string]float64{"cpu": n})
		out = append(out, queue.Cluster{Name: name})
	}
	return l, out
}

func waiting(l *capacity.Ledger, cpu float64) queue.Task {
	return queue.Task{Need: l.Demand(map[string]float64{"cpu": cpu}), Least: 1, Want: 1, Work: float64(time.Hour), Cluster: -1}
}

func hours(h float64) time.Time { return start.Add(time.Duration(h * float64(time.Hour))) }

// TestOrderOfRelease: what is released first starts first; what fits beside it starts before what does not.
func TestOrderOfRelease(t *testing.T) {
	l, clusters := places(4)
	tasks := []queue.Task{waiting(l, 3), waiting(l, 3), waiting(l, 1)}
	w := world{clusters: []int{0}, first: float64(time.Hour)}
	got := queue.New(w, l, clusters, start, tasks, []int{1, 0, 2}, nil).Run()
	for i, want := range []float64{1, 0, 0} {
		if len(got[i]) != 1 || !got[i][0].From.Equal(hours(want)) || !got[i][0].To.Equal(hours(want+1)) {
			t.Errorf("task %d runs %v; want from %gh on for 1h", i, got[i], want)
		}
	}
}

// TestPendingTasksStartBeforeReleasedOnes: what waits in the queue already starts before what is released now, whatever the order of release.
func TestPendingTasksStartBeforeReleasedOnes(t *testing.T) {
	l, clusters := places(1)
	tasks := []queue.Task{waiting(l, 1), waiting(l, 1)}
	tasks[1].Released = true
	got := queue.New(world{clusters: []int{0}, first: float64(time.Hour)}, l, clusters, start, tasks, []int{0, 1}, []int{1}).Run()
	if !got[1][0].From.Equal(start) || !got[0][0].From.Equal(hours(1)) {
		t.Errorf("runs %v; want the second task first", got)
	}
}

// TestLeastUsedClusterIsChosen: the least share, then the fewest starts, then the first; none without room.
func TestLeastUsedClusterIsChosen(t *testing.T) {
	for name, x := range map[string]struct {
		shares []float64 // negative: no room
		starts []int
		want   int
	}{
		"least share":   {[]float64{0.5, 0.25, 0.75}, []int{0, 9, 0}, 1},
		"fewest starts": {[]float64{0.5, 0.5, 0.5}, []int{3, 2, 2}, 1},
		"the first":     {[]float64{0, 0}, []int{0, 0}, 0},
		"with room":     {[]float64{-1, 0.9}, []int{0, 5}, 1},
		"none":          {[]float64{-1, -1}, []int{0, 0}, -1},
	} {
		var clusters []int
		for c := range x.shares {
			clusters = append(clusters, c)
		}
		got := queue.LeastUsed(clusters, func(c int) (float64, bool) { return x.shares[c], x.shares[c] >= 0 }, func(c int) int { return x.starts[c] })
		if got != x.want {
			t.Errorf("%s: %d; want %d", name, got, x.want)
		}
	}
}

// TestQueueFollowsIntents: a task is paused and goes on by its intents, is not interrupted if it is rigid, and gets the workers that it asks for when
// there is room for them, after what waits.
func TestQueueFollowsIntents(t *testing.T) {
	pausedBetween := func(from, to float64) func(time.Time) queue.Intent {
		return func(at time.Time) queue.Intent {
			switch {
			case at.Before(hours(from)):
				return queue.Intent{Released: true, Cluster: -1, Workers: 1, Next: hours(from)}
			case at.Before(hours(to)):
				return queue.Intent{Next: hours(to)}
			}
			return queue.Intent{Released: true, Cluster: -1, Workers: 1}
		}
	}
	l, clusters := places(2)
	tasks := []queue.Task{waiting(l, 1), waiting(l, 1)}
	tasks[1].Rigid = true
	got := queue.New(world{clusters: []int{0}, first: float64(time.Hour), intents: map[int]func(time.Time) queue.Intent{
		0: pausedBetween(0.5, 2), 1: pausedBetween(0.5, 2),
	}}, l, clusters, start, tasks, []int{0, 1}, nil).Run()
	if len(got[0]) != 2 || !got[0][0].To.Equal(hours(0.5)) || !got[0][1].From.Equal(hours(2)) || !got[0][1].To.Equal(hours(2.5)) {
		t.Errorf("paused from 0.5h to 2h, it runs %v", got[0])
	}
	if len(got[1]) != 1 || !got[1][0].To.Equal(hours(1)) {
		t.Errorf("it cannot be interrupted, and runs %v", got[1])
	}

	l, clusters = places(3)
	tasks = []queue.Task{waiting(l, 1), waiting(l, 2), waiting(l, 1)}
	tasks[0].Released, tasks[0].Workers, tasks[0].Want, tasks[0].Cluster, tasks[0].Work = true, 1, 3, 0, float64(4*time.Hour)
	three := func(time.Time) queue.Intent { return queue.Intent{Released: true, Cluster: 0, Workers: 3} }
	got = queue.New(world{clusters: []int{0}, first: float64(time.Hour), intents: map[int]func(time.Time) queue.Intent{0: three}}, l, clusters, start, tasks, []int{0, 1, 2}, nil).Run()
	// 1h with one worker, then the third task has one CPU for an hour, so two workers, then three: 1 + 2 + 1/3 x 3.
	want := []queue.Run{{From: start, To: hours(1), Workers: 1}, {From: hours(1), To: hours(2), Workers: 2}, {From: hours(2), To: hours(2 + 1.0/3), Workers: 3}}
	if len(got[0]) != len(want) {
		t.Fatalf("it asks for three workers, and runs %v; want %v", got[0], want)
	}
	for k, r := range got[0] {
		if !r.From.Equal(want[k].From) || r.To.Sub(want[k].To).Abs() > time.Second || r.Workers != want[k].Workers {
			t.Errorf("run %d is %v; want %v", k, r, want[k])
		}
	}
}

// TestStartedTasksRunOnWhenCapacityFalls: what has started runs on when the capacity falls, and nothing starts in room that is not there.
func TestStartedTasksRunOnWhenCapacityFalls(t *testing.T) {
	l, clusters := places(2)
	l.Offer("a", hours(0.5), map[string]float64{"cpu": 1})
	tasks := []queue.Task{waiting(l, 1), waiting(l, 1), waiting(l, 1)}
	got := queue.New(world{clusters: []int{0}, first: float64(time.Hour)}, l, clusters, start, tasks, []int{0, 1, 2}, nil).Run()
	for i, want := range []float64{0, 0, 1} {
		if len(got[i]) != 1 || !got[i][0].From.Equal(hours(want)) {
			t.Errorf("task %d runs %v; want from %gh on", i, got[i], want)
		}
	}
}

// TestRisingCapacityStartsWhatWaits: what waits starts when the capacity rises, though nothing else happens then.
func TestRisingCapacityStartsWhatWaits(t *testing.T) {
	l, clusters := places(1)
	l.Offer("a", hours(3), map[string]float64{"cpu": 2})
	got := queue.New(world{clusters: []int{0}, first: float64(time.Hour)}, l, clusters, start, []queue.Task{waiting(l, 2)}, []int{0}, nil).Run()
	if len(got[0]) != 1 || !got[0][0].From.Equal(hours(3)) {
		t.Errorf("it runs %v; want from 3h on", got[0])
	}
}

// TestStartsSpreadOverEmptyClusters: tasks that come one after another to empty clusters go to them in turn.
func TestStartsSpreadOverEmptyClusters(t *testing.T) {
	l, clusters := places(1, 1)
	clusters[0].Starts = 1
	intents, tasks, want := map[int]func(time.Time) queue.Intent{}, []queue.Task(nil), []int{1, 0, 1, 0}
	for i := range want {
		from := hours(float64(2 * i))
		intents[i] = func(at time.Time) queue.Intent {
			if at.Before(from) {
				return queue.Intent{Next: from}
			}
			return queue.Intent{Released: true, Cluster: -1, Workers: 1}
		}
		tasks = append(tasks, waiting(l, 1))
	}
	got := queue.New(world{clusters: []int{0, 1}, first: float64(time.Hour), intents: intents}, l, clusters, start, tasks, []int{0, 1, 2, 3}, nil).Run()
	for i, c := range want {
		if len(got[i]) != 1 || got[i][0].Cluster != c {
			t.Errorf("task %d runs %v; want on cluster %d", i, got[i], c)
		}
	}
}

// TestMoveAndLoss: a task moves when its intent names another cluster, and twice loses what its run, and only that run, has done.
func TestMoveAndLoss(t *testing.T) {
	intent := func(at time.Time) queue.Intent {
		switch {
		case at.Before(hours(1)):
			return queue.Intent{Released: true, Cluster: 0, Workers: 1, Next: hours(1)}
		case at.Before(hours(1.5)):
			return queue.Intent{Released: true, Cluster: 1, Workers: 1, Next: hours(1.5)}
		}
		return queue.Intent{Released: true, Cluster: 0, Workers: 1}
	}
	for loses, end := range map[bool]float64{false: 2, true: 3.5} {
		l, clusters := places(1, 1)
		task := waiting(l, 1)
		task.Work = float64(2 * time.Hour)
		got := queue.New(world{[]int{0, 1}, map[int]func(time.Time) queue.Intent{0: intent}, float64(2 * time.Hour), loses, 0}, l, clusters, start, []queue.Task{task}, []int{0}, nil).Run()
		want := []queue.Run{{start, hours(1), 0, 1}, {hours(1), hours(1.5), 1, 1}, {hours(1.5), hours(end), 0, 1}}
		if !slices.Equal(got[0], want) {
			t.Errorf("a pause loses its work: %v; it runs %v; want %v", loses, got[0], want)
		}
	}
}

// TestRandomQueuesKeepCapacityAndWork: whatever is released, nothing starts without room, each task does its work once, and no task waits beside room for it.
func TestRandomQueuesKeepCapacityAndWork(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, clusters := places(float64(1+r.IntN(4)), float64(1+r.IntN(4)))
		var tasks []queue.Task
		var order []int
		intents := map[int]func(time.Time) queue.Intent{}
		for i := range 2 + r.IntN(20) {
			tasks, order = append(tasks, waiting(l, float64(1+r.IntN(4)))), append(order, i)
			from := hours(float64(r.IntN(5)))
			intents[i] = func(at time.Time) queue.Intent {
				if at.Before(from) {
					return queue.Intent{Next: from}
				}
				return queue.Intent{Released: true, Cluster: -1, Workers: 1}
			}
		}
		used := l.Clone()
		got := queue.New(world{clusters: []int{0, 1}, first: float64(time.Hour), intents: intents}, l, clusters, start, tasks, order, nil).Run()
		for i, runs := range got {
			fitsSomewhere := used.Fits(0, tasks[i].Need, 1, hours(99), hours(100)) || used.Fits(1, tasks[i].Need, 1, hours(99), hours(100))
			if fitsSomewhere != (len(runs) == 1) {
				t.Fatalf("seed %d: task %d runs %v; fits an empty cluster: %v", seed, i, runs, fitsSomewhere)
			}
			for _, x := range runs {
				if x.To.Sub(x.From) != time.Hour {
					t.Errorf("seed %d: task %d runs for %v; want 1h", seed, i, x.To.Sub(x.From))
				}
				used.Take(x.Cluster, tasks[i].Need, 1, x.From, x.To)
			}
		}
		if over := used.Excesses(start); len(over) > 0 {
			t.Errorf("seed %d: more runs than there is room for: %+v", seed, over)
		}
		for i, runs := range got {
			if len(runs) == 0 {
				continue
			}
			released := hours(0)
			if next := intents[i](start).Next; !next.IsZero() {
				released = next
			}
			for at := released; at.Before(runs[0].From); at = at.Add(time.Hour) {
				for c := range clusters {
					if used.Fits(c, tasks[i].Need, 1, at, at.Add(time.Hour)) {
						t.Errorf("seed %d: task %d waits at %v until %v, although cluster %d has room", seed, i, at, runs[0].From, c)
					}
				}
			}
		}
	}
}

// BenchmarkRun runs 5,000 tasks through the queues of four clusters that are always full.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l, clusters := places(100, 100, 100, 100)
		var tasks []queue.Task
		var order []int
		for i := range 5000 {
			tasks, order = append(tasks, waiting(l, float64(1+i%8))), append(order, i)
		}
		m := queue.New(world{clusters: []int{0, 1, 2, 3}, first: float64(time.Hour)}, l, clusters, start, tasks, order, nil)
		b.StartTimer()
		m.Run()
	}
}

// TestRestartsTakeTime: a task that is paused for an hour starts anew for ten minutes in which it does no work, also where its scale changes
// meanwhile. What still starts when the model begins works once it has started.
func TestRestartsTakeTime(t *testing.T) {
	intent := func(at time.Time) queue.Intent {
		switch {
		case at.Before(hours(1)):
			return queue.Intent{Released: true, Cluster: 0, Workers: 1, Next: hours(1)}
		case at.Before(hours(2)):
			return queue.Intent{Next: hours(2)}
		case at.Before(hours(2 + 1.0/12)):
			return queue.Intent{Released: true, Cluster: 0, Workers: 1, Next: hours(2 + 1.0/12)}
		}
		return queue.Intent{Released: true, Cluster: 0, Workers: 2}
	}
	const restart = 10 * time.Minute
	for begun, end := range map[bool]time.Time{false: hours(2).Add(restart + 30*time.Minute), true: hours(2).Add(restart + 35*time.Minute)} {
		l, clusters := places(2)
		task := waiting(l, 1)
		task.Work = float64(2 * time.Hour)
		if begun {
			task.Released, task.Workers, task.Cluster, task.Starting = true, 1, 0, restart
		}
		got := queue.New(world{[]int{0}, map[int]func(time.Time) queue.Intent{0: intent}, float64(2 * time.Hour), false, restart}, l, clusters, start, []queue.Task{task}, []int{0}, nil).Run()
		if n := len(got[0]); n != 3 || !got[0][n-1].To.Equal(end) {
			t.Errorf("still starting: %v; it runs %v, want three times, until %v", begun, got[0], end)
		}
	}
}
