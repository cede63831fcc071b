package decide_test

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// queueSnapshot is a cluster of 4 CPUs on which all is used: by an interruptible task, and by one that
// Lull does not decide on. A released task waits in the queue and fits in the room of either.
func queueSnapshot(t *testing.T) decide.Snapshot {
	t.Helper()
	runs := task("runs", at(0), at(6), 4*time.Hour)
	runs.Kind, runs.State, runs.Cluster, runs.Changed = workload.Interruptible, decide.Running, "c", at(0)
	other := task("other", at(0), time.Time{}, 3*time.Hour)
	other.State, other.Cluster, other.Changed = decide.Running, "c", at(0)
	queued := task("queued", at(0), time.Time{}, 5*time.Hour)
	queued.State, queued.Unscheduled, queued.Changed = decide.Running, true, at(0.5)
	return decide.Snapshot{
		Now: at(1), Slot: 15 * time.Minute,
		Clusters: []decide.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: sunny(t, 48)}},
		Tasks:    []decide.Task{runs, other, queued},
	}
}

// TestQueueTakesTheRoomOfAPause: a waiting task would be in time if the one that runs were paused for it.
// But the queue would start the task that waits in it, and both would be late. The running task goes on.
func TestQueueTakesTheRoomOfAPause(t *testing.T) {
	s := queueSnapshot(t)
	late := task("late", at(1), at(1.6), 30*time.Minute)
	s.Tasks = append(s.Tasks, late)
	d, err := decide.Decide(context.Background(), s, asap.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	if a := d.Actions[0]; a.Verb != decide.Continue {
		t.Errorf("the running task: %s (%s); want Continue: the queue would take the room of its pause", a.Verb, a.Reason.Code)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestQueuedTaskKeepsItsScale: an elastic task that waits in the queue still asks for the workers that it
// asked for, although only its least scale has room now.
func TestQueuedTaskKeepsItsScale(t *testing.T) {
	s := queueSnapshot(t)
	s.Clusters[0].Capacity["cpu"] = 6
	x := &s.Tasks[2]
	x.Kind, x.Deadline, x.Workers, x.Request = workload.Elastic, at(4), 3, map[string]float64{"cpu": 1}
	x.Scaling = &decide.Scaling{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 1, 1}}
	d, err := decide.Decide(context.Background(), s, asap.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	if a := d.Actions[2]; a.Verb != decide.Continue || a.Workers != 3 {
		t.Errorf("%s with %d workers; want Continue with 3", a.Verb, a.Workers)
	}
}

// TestRunningTaskKeepsItsRoom: what runs beyond the capacity of its cluster goes on, and nothing else is
// started beside it.
func TestRunningTaskKeepsItsRoom(t *testing.T) {
	s := queueSnapshot(t)
	big := task("big", at(0), at(7), time.Hour)
	big.Kind, big.State, big.Cluster, big.Request = workload.Interruptible, decide.Running, "c", map[string]float64{"cpu": 5}
	s.Tasks = []decide.Task{big, task("small", at(1), at(1.7), 30*time.Minute)}
	d := must(t, s, asap.Planner{})
	if a := d.Actions[0]; a.Verb != decide.Continue || len(a.Phases) != 1 {
		t.Errorf("the running task: %s with %+v; want Continue with one phase", a.Verb, a.Phases)
	}
	if a := d.Actions[1]; a.Verb == decide.Release {
		t.Errorf("a task is released into the room of one that runs: %+v", a.Phases)
	}
}

// TestPlanForAnotherCluster: a task waited in the queue with a plan for one cluster and was started on
// another. That room is not free for the next task in the queue.
func TestPlanForAnotherCluster(t *testing.T) {
	s := queueSnapshot(t)
	d := s.Clusters[0]
	d.Name, d.Capacity = "d", map[string]float64{"cpu": 2}
	s.Clusters[0].Capacity = map[string]float64{"cpu": 2}
	s.Clusters = append(s.Clusters, d)
	started := task("started", at(0), at(2.75), 105*time.Minute)
	started.Kind, started.State, started.Cluster, started.Changed = workload.Interruptible, decide.Running, "d", at(0)
	started.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(0.95), To: at(2.7), Cluster: "c", Workers: 1}}}
	s.Tasks = []decide.Task{s.Tasks[1], started, s.Tasks[2]}
	if a := must(t, s, asap.Planner{}).Actions[1]; a.Verb != decide.Continue {
		t.Errorf("the started task: %s (%s); want Continue", a.Verb, a.Reason.Code)
	}
}

// TestLeastPauseLosesNoDeadline: a paused task resumes before its least pause is over where it or another
// would be late otherwise, and always if it may not wait.
func TestLeastPauseLosesNoDeadline(t *testing.T) {
	s := queueSnapshot(t)
	s.Clusters[0].Capacity, s.MinPause = map[string]float64{"cpu": 2}, 30*time.Minute
	paused := task("paused", at(0), at(1).Add(40*time.Minute), 30*time.Minute)
	paused.Kind, paused.Paused, paused.Cluster, paused.Changed = workload.Interruptible, true, "c", at(0.75)
	paused.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(1), To: at(1.5), Cluster: "c", Workers: 1}}}
	other := task("other", at(0), at(1).Add(50*time.Minute), 20*time.Minute)
	other.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(1.5), To: at(1.5).Add(20 * time.Minute), Cluster: "c", Workers: 1}}}
	s.Tasks = []decide.Task{paused, other}
	d := must(t, s, asap.Planner{})
	if a := d.Actions[0]; a.Verb != decide.Resume {
		t.Errorf("the paused task: %s (%s) with %+v; want Resume", a.Verb, a.Reason.Code, a.Phases)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	s.Tasks = s.Tasks[:1]
	s.Tasks[0].Deadline, s.Tasks[0].Standing = time.Time{}, nil
	if a := must(t, s, asap.Planner{}).Actions[0]; a.Verb != decide.Resume {
		t.Errorf("a paused task that may not wait: %s; want Resume", a.Verb)
	}
}

// TestTimesFarAhead: times that no clock counts in nanoseconds end no decision in an endless loop.
func TestTimesFarAhead(t *testing.T) {
	s := queueSnapshot(t)
	far := task("far", at(0), time.Time{}, time.Hour)
	far.NotBefore = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Tasks[2].Remaining = 250 * 365 * 24 * time.Hour
	s.Tasks = append(s.Tasks, far)
	d := must(t, s, asap.Planner{})
	if a := d.Actions[3]; a.Verb != decide.Wait {
		t.Errorf("a task of 2300: %s; want Wait", a.Verb)
	}
}

// TestAnnouncedTaskThatNeverFits: a task that is yet to come and asks for more than there is ends no decision.
func TestAnnouncedTaskThatNeverFits(t *testing.T) {
	s := queueSnapshot(t)
	huge := task("huge", at(2), at(9), time.Hour)
	huge.NotBefore, huge.Request = at(2), map[string]float64{"cpu": 100}
	s.Tasks = append(s.Tasks, huge)
	if a := must(t, s, asap.Planner{}).Actions[3]; a.Verb != decide.Wait {
		t.Errorf("%s; want Wait until it comes", a.Verb)
	}
}

// TestCapacityThatFalls: a cluster has room for the next quarter of an hour only. A task that takes longer, and that has no other
// place in time, is released to the queue of the cluster, which starts it and lets it run on. One that can run later waits for that.
func TestCapacityThatFalls(t *testing.T) {
	s := queueSnapshot(t)
	s.Clusters[0].CapacityAt = map[string][]float64{"cpu": {2, 0}}
	s.Tasks = []decide.Task{task("longer", at(1), at(4), time.Hour)}
	d := must(t, s, asap.Planner{})
	if a := d.Actions[0]; a.Verb != decide.Release || a.Reason.Code != decide.CodeNoRoom || !a.Phases[0].From.Equal(s.Now) {
		t.Errorf("%s (%s) with %+v; want it released as submitted", a.Verb, a.Reason.Code, a.Phases)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	s.Clusters[0].CapacityAt = map[string][]float64{"cpu": {2, 0, 0, 0, 2}}
	d = must(t, s, asap.Planner{})
	if a := d.Actions[0]; a.Verb != decide.Wait || !a.Phases[0].From.Equal(s.Now.Add(time.Hour)) {
		t.Errorf("%s (%s) with %+v; want it to wait for its room", a.Verb, a.Reason.Code, a.Phases)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestRunningOnNoNamedCluster: a running task whose cluster is not named counts on the first one, also beside a queue.
func TestRunningOnNoNamedCluster(t *testing.T) {
	s := queueSnapshot(t)
	s.Tasks[1].Cluster = ""
	if a := must(t, s, asap.Planner{}).Actions[2]; a.Verb != decide.Continue || a.Reason.Code != decide.CodeUnscheduled {
		t.Errorf("the task in the queue: %s (%s); want Continue (Unscheduled)", a.Verb, a.Reason.Code)
	}
}

// TestUrgentBesideQueue: a task runs on a full cluster and can wait. Another one must start now to be in time, and a
// third one may not wait, which has the running task go on. The decision does not count the room twice.
func TestUrgentBesideQueue(t *testing.T) {
	for _, p := range []plan.Planner{asap.Planner{}, cheapest.Planner{}, joint.Planner{}} {
		running := task("running", at(0), at(9), time.Hour)
		running.Kind, running.State, running.Cluster, running.AtRisk, running.Changed = workload.Interruptible, decide.Running, "c", 30*time.Minute, at(0)
		urgent, noWait := task("urgent", at(1), at(1.5), 30*time.Minute), task("no wait", at(1), time.Time{}, time.Hour)
		s := queueSnapshot(t)
		s.Now, s.Margin, s.Clusters[0].Capacity = at(1), 0, map[string]float64{"cpu": 3}
		s.Tasks = []decide.Task{running, urgent, noWait}
		d := must(t, s, p)
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%T: %v", p, v)
		}
		if a := d.Actions[1]; a.Verb != decide.Release || len(a.Phases) != 1 || a.Phases[0].To.After(at(1.5)) {
			t.Errorf("%T: urgent: %s (%s) with %+v; want it in time", p, a.Verb, a.Reason.Code, a.Phases)
		}
	}
}

// TestRunningWithoutCluster: a task that runs while others wait in a queue is taken to be on the first cluster if it
// names none.
func TestRunningWithoutCluster(t *testing.T) {
	s := queueSnapshot(t)
	s.Tasks[0].Cluster = ""
	d := must(t, s, asap.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	if a := d.Actions[0]; a.Verb != decide.Continue || len(a.Phases) == 0 || a.Phases[0].Cluster != "c" {
		t.Errorf("%s (%s) with %+v; want Continue on c", a.Verb, a.Reason.Code, a.Phases)
	}
}
