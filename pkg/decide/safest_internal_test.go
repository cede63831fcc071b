package decide

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/workload"
)

// standing is a waiting task of an hour and 2 CPUs with a plan that begins after some hours.
func standing(id string, t0 time.Time, after, due float64) Task {
	hours := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	return Task{
		ID: id, Kind: workload.Rigid, State: Waiting, Request: map[string]float64{"cpu": 2}, Remaining: time.Hour, Deadline: hours(due),
		Standing: &Standing{Phases: []Phase{{From: hours(after), To: hours(after + 1), Cluster: "c", Workers: 1}}, Reason: Reason{Code: CodeCleanerLater}},
	}
}

// goingOn is a snapshot of a cluster with some CPUs.
func goingOn(t *testing.T, t0 time.Time, cpu float64, tasks ...Task) *Snapshot {
	t.Helper()
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: t0, To: t0.Add(24 * time.Hour), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	return &Snapshot{Now: t0, Slot: time.Hour, Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": cpu}, Carbon: series}}, Tasks: tasks}
}

// TestGoOnDropsImpossiblePlans: a decision that makes no plan does not follow a plan that takes more than there
// is now, or that ends after a deadline that has changed.
func TestGoOnDropsImpossiblePlans(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	w := goingOn(t, t0, 2, standing("late", t0, 3, 2)).goOn(false)
	if p := w.items[0].phases; len(p) != 1 || !p[0].From.Equal(t0) {
		t.Errorf("a task with a late plan is to run as %+v; want it at once, in time", p)
	}
	w = goingOn(t, t0, 1, standing("big", t0, 3, 9)).goOn(false)
	if x := w.items[0]; x.state != unplaced || len(x.phases) > 0 {
		t.Errorf("a task that asks for more than there is: state %v with %+v; want it unplaced", x.state, x.phases)
	}
}

// TestGoOnStaysWhereAQueueHasStartedATask: a task waited in a queue and was expected to start on one cluster,
// but was started on another. A decision that makes no plan leaves it there.
func TestGoOnStaysWhereAQueueHasStartedATask(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	x := standing("started", t0, 0, 1)
	x.Kind, x.State, x.Cluster, x.Migratable, x.Replan = workload.Interruptible, Running, "d", true, true
	x.Standing.Reason.Code = CodeUnscheduled
	s := goingOn(t, t0, 2, x)
	other := s.Clusters[0]
	other.Name = "d"
	s.Clusters = append(s.Clusters, other)
	w := s.goOn(false)
	if p := w.items[0].phases; len(p) != 1 || p[0].Cluster != "d" {
		t.Errorf("it runs as %+v; want it to stay on d", p)
	}
}

// TestAQueuedTaskKeepsItsPlan: a task that was released by its plan waits for room. It is expected to pause when
// its plan says so, also by the decision that makes no plan.
func TestAQueuedTaskKeepsItsPlan(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	x := standing("queued", t0, 3, 9)
	x.Kind, x.State, x.Unscheduled, x.Cluster, x.Remaining = workload.Interruptible, Running, true, "c", 2*time.Hour
	first := Phase{From: t0, To: t0.Add(time.Hour), Cluster: "c", Workers: 1}
	x.Standing.Phases = []Phase{first, x.Standing.Phases[0]}
	w := goingOn(t, t0, 2, x).goOn(false)
	if seen := w.foresee()[0]; len(seen) != 2 || !seen[0].To.Equal(first.To) {
		t.Errorf("it is foreseen to run as %+v; want a pause at 1:00", seen)
	}
}

// TestLatePlansArePossible: a plan that was late when it was made is followed, whatever reason states that. One whose
// deadline has been brought forward since is not.
func TestLatePlansArePossible(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for code, want := range map[Code]bool{CodeDeadlineAtRisk: false, CodeLatestStart: false, CodeTooSoon: false, CodeCleanNow: true, CodeSharedCapacity: true} {
		s := &Snapshot{
			Now: start, Slot: time.Hour, Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}}},
			Tasks: []Task{{
				ID: "a", Kind: workload.Interruptible, State: Running, Cluster: "c", Remaining: 2 * time.Hour, Deadline: start.Add(time.Hour), Request: map[string]float64{"cpu": 1},
				Standing: &Standing{Phases: []Phase{{From: start.Add(time.Hour), To: start.Add(3 * time.Hour), Cluster: "c", Workers: 1}}, Reason: Reason{Code: code}},
			}},
		}
		if got := newDecider(s).impossible(0); got != want {
			t.Errorf("%s: impossible %v, want %v", code, got, want)
		}
	}
}

// TestForeseesWorkersThatLackRoom: of three workers that a task asks for one runs. The others are expected when there is
// room, and not before.
func TestForeseesWorkersThatLackRoom(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	elastic := Task{
		ID: "elastic", Kind: workload.Elastic, State: Running, Cluster: "c", Request: map[string]float64{"cpu": 1}, Remaining: 5 * time.Hour, Deadline: t0.Add(4 * time.Hour),
		Scaling: &Scaling{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 1, 1}}, Workers: 3, Lacking: 2,
	}
	beside := Task{ID: "beside", Kind: workload.Rigid, State: Running, Cluster: "c", Request: map[string]float64{"cpu": 3}, Remaining: 2 * time.Hour, Deadline: t0.Add(2 * time.Hour)}
	w := goingOn(t, t0, 4, elastic, beside).goOn(false)
	want := []Phase{{From: t0, To: t0.Add(2 * time.Hour), Cluster: "c", Workers: 1}, {From: t0.Add(2 * time.Hour), To: t0.Add(3 * time.Hour), Cluster: "c", Workers: 3}}
	if got := w.foresee()[0]; !closePhases(got, want) {
		t.Errorf("it is foreseen to run as %+v, want %+v", got, want)
	}
	if w.overfull("c") {
		t.Error("workers that lack room count as running: the cluster is taken to be overfull")
	}
}

// TestALateStartDoesWhatWasForeseen: a task was released by a plan of one worker and then two, and waits in a queue until the plan is over.
// Once it has started with one worker, a decision that makes no plan has it do what was foreseen while it waited.
func TestALateStartDoesWhatWasForeseen(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	x := standing("late", t0, -3, 9)
	x.Kind, x.State, x.Cluster, x.Request = workload.Elastic, Running, "c", map[string]float64{"cpu": 1}
	x.Scaling, x.Workers, x.Unscheduled = &Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}}, 1, true
	x.Standing.Phases = append(x.Standing.Phases, Phase{From: t0.Add(-2 * time.Hour), To: t0.Add(-time.Hour), Cluster: "c", Workers: 2})
	waits := goingOn(t, t0, 2, x).goOn(false).foresee()[0]
	x.Unscheduled = false
	runs := goingOn(t, t0, 2, x).goOn(false).foresee()[0]
	if len(waits) != 1 || waits[0].Workers != 2 || !closePhases(waits, runs) {
		t.Errorf("foreseen while it waits: %+v; once it runs: %+v; want both to run with 2 workers", waits, runs)
	}
}

// TestQueueWaitsForTheLeastPause: a paused task that is left to the queue of a cluster is not resumed before its least pause is over.
func TestQueueWaitsForTheLeastPause(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	x := standing("paused", t0, 3, 9)
	x.Kind, x.Paused, x.Cluster, x.Changed, x.Standing = workload.Interruptible, true, "c", t0.Add(-time.Minute), nil
	s := goingOn(t, t0, 2, x)
	s.MinPause = time.Hour
	w := newDecider(s)
	if !w.leaveAsSubmitted(nil, 0) {
		t.Fatal("not left to the queue")
	}
	w.foreseen = w.foresee()
	w.judgeForeseen()
	over := t0.Add(59 * time.Minute)
	if a := w.action(0); a.Verb != Wait || len(a.Phases) != 1 || !a.Phases[0].From.Equal(over) {
		t.Errorf("%s, to run as %+v; want it to wait until 00:59", a.Verb, a.Phases)
	}
	w.items[0].phases = nil // the queue is not expected to find room
	if a := w.action(0); a.Verb != Wait || w.wake.After(over) {
		t.Errorf("%s, without room, and the next decision at %s; want it to wait until 00:59", a.Verb, w.wake)
	}
}

// TestPutOffsLeaveTriesForLateTasks: however many changes come too soon, a late task gets the place that there is for it.
func TestPutOffsLeaveTriesForLateTasks(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	var tasks []Task
	for range 1500 {
		x := standing("changes", t0, 1, 9)
		x.Kind, x.State, x.Cluster, x.Changed = workload.Interruptible, Running, "c", t0.Add(-time.Minute)
		tasks = append(tasks, x)
	}
	s := goingOn(t, t0, 4000, append(tasks, standing("late", t0, 1, 3))...)
	s.MinRun = 30 * time.Minute
	w := s.goOn(false)
	late := len(s.Tasks) - 1
	w.items[late].state, w.items[late].phases = unplaced, []Phase{{From: t0.Add(4 * time.Hour), To: t0.Add(5 * time.Hour), Cluster: "c", Workers: 1}}
	w.foreseen = w.foresee()
	protected := make([]bool, len(s.Tasks))
	protected[late] = true
	if n := w.foreseenLate(protected); n.lost != 1 {
		t.Fatalf("%+v; want the last task late", n)
	}
	w.placeForeseenLate(protected)
	w.putOffForeseen(protected)
	if n := w.foreseenLate(protected); n.late != 0 {
		t.Errorf("%+v; want none late", n)
	}
	if w.items[0].code != CodeTooSoon {
		t.Error("no change was put off")
	}
}
