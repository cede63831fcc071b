package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/vcc"
	"lull.dev/lull/pkg/workload"
)

// minute is a time in minutes after t0.
func minute(m int) time.Time { return t0.Add(time.Duration(m) * time.Minute) }

// announced is a task that asks for some CPUs and will be submitted at a time.
func announced(id string, submitted, deadline time.Time, runs time.Duration, cpu float64) decide.Task {
	x := task(id, submitted, deadline, runs)
	x.NotBefore, x.Request = submitted, map[string]float64{"cpu": cpu}
	return x
}

// TestAnnouncedTaskKeepsItsPlace: a cluster is full until 2:12. A task that is due then and submitted at 1:35
// is in time only if it stands in the queue of the cluster before one that is submitted at 1:50 and may not
// wait. So it is not held until its planned start, but released when it comes.
func TestAnnouncedTaskKeepsItsPlace(t *testing.T) {
	due := announced("due", minute(95), minute(160), 28*time.Minute, 2)
	due.Kind, due.Migratable = workload.Interruptible, true
	first := announced("first", minute(90), time.Time{}, 42*time.Minute, 1)
	last := announced("last", minute(110), time.Time{}, 126*time.Minute, 2)
	s := queueSnapshot(t)
	s.Now, s.Margin, s.Clusters[0].Capacity = minute(90), 5*time.Minute, map[string]float64{"cpu": 2}
	first.NotBefore = time.Time{}
	s.Tasks = []decide.Task{first, due, last}
	d := must(t, s, asap.Planner{})
	a := d.Actions[1]
	if a.Verb != decide.Wait || a.Reason.Code != decide.CodeClusterQueue || len(a.Phases) != 1 || !a.Phases[0].From.Equal(minute(132)) {
		t.Fatalf("before it is submitted: %s (%s) with %+v; want Wait (ClusterQueue), to start at 2:12", a.Verb, a.Reason.Code, a.Phases)
	}
	if !d.Wake.Equal(minute(95)) {
		t.Errorf("the next decision is at %v; want its submission, %v", d.Wake, minute(95))
	}
	s.Now = minute(95)
	for i := range s.Tasks {
		x := &s.Tasks[i]
		x.Standing = &decide.Standing{Phases: d.Actions[i].Phases, Reason: d.Actions[i].Reason}
	}
	s.Tasks[0].State, s.Tasks[0].Cluster, s.Tasks[0].Changed, s.Tasks[0].Remaining = decide.Running, "c", minute(90), 37*time.Minute
	s.Tasks[1].NotBefore = time.Time{}
	d = must(t, s, asap.Planner{})
	if a := d.Actions[1]; a.Verb != decide.Release || a.Reason.Code != decide.CodeClusterQueue {
		t.Errorf("when it is submitted: %s (%s); want Release (ClusterQueue)", a.Verb, a.Reason.Code)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestEqualClustersAreToldApartByTheirStarts: of two empty clusters, the one on which fewer runs have begun
// starts what is to come. The other one is free for the task after it.
func TestEqualClustersAreToldApartByTheirStarts(t *testing.T) {
	s := queueSnapshot(t)
	other := s.Clusters[0]
	other.Name = "d"
	s.Clusters = append(s.Clusters, other)
	s.Clusters[0].Starts = 1
	s.Tasks = []decide.Task{announced("next", at(2), time.Time{}, time.Hour, 4)}
	if a := must(t, s, asap.Planner{}).Actions[0]; len(a.Phases) != 1 || a.Phases[0].Cluster != "d" {
		t.Errorf("it is expected to run as %+v; want it on d", a.Phases)
	}
}

// TestAnnouncedBoundedTaskIsPlanned: an announced elastic task whose delay is bounded is planned from when it may start.
func TestAnnouncedBoundedTaskIsPlanned(t *testing.T) {
	may := at(0).Add(10 * time.Minute)
	s := snapshot(t, at(0), decide.Task{
		ID: "announced", Kind: workload.Elastic, Submitted: may, NotBefore: may, State: decide.Waiting, Request: map[string]float64{"cpu": 1}, Remaining: time.Hour,
		Scaling: &decide.Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}}, LatestStart: may, Deadline: may.Add(time.Hour),
	})
	s.Margin = 30 * time.Minute
	for _, v := range decide.Verify(s, must(t, s, asap.Planner{})) {
		t.Error(v)
	}
}

// TestAnnouncedWithoutRoomKeepsItsPlace: the load of others leaves an announced task no room that keeps its margin, so it is left to the queue of
// its cluster. It is released when it comes, and is in time.
func TestAnnouncedWithoutRoomKeepsItsPlace(t *testing.T) {
	a, b := task("a", at(1), at(4), 2*time.Hour), task("b", at(1), at(8), 3*time.Hour)
	for _, x := range []*decide.Task{&a, &b} {
		x.Kind, x.NotBefore = workload.Interruptible, at(1)
	}
	a.Request = map[string]float64{"cpu": 1}
	s := snapshot(t, at(0), a, b)
	s.Slot, s.Margin = time.Hour, 20*time.Minute
	s.Clusters[0].Capacity = map[string]float64{"cpu": 2}
	load := []float64{2, 2, 0, 0, 2, 0, 1}
	s.Clusters[0].LoadAt = map[string][]float64{"cpu": load}
	d := must(t, s, vcc.Planner{})
	expectValid(t, s, d)
	if got := d.Actions[0].Reason.Code; got != decide.CodeNoRoom {
		t.Fatalf("%s; want NoRoom, or the test shows nothing", brief(&d.Actions[0]))
	}
	for i := range s.Tasks {
		s.Tasks[i].Standing, s.Tasks[i].NotBefore = d.Actions[i].Stands(&s.Tasks[i]), time.Time{}
	}
	s.Now, s.Clusters[0].LoadAt = at(1), map[string][]float64{"cpu": load[1:]}
	for _, replan := range []bool{false, true} {
		s.Tasks[0].Replan = replan
		d = must(t, s, vcc.Planner{})
		expectValid(t, s, d)
		if x := &d.Actions[0]; x.Verb != decide.Release || len(x.Phases) != 1 || x.Phases[0].To.After(at(4)) {
			t.Errorf("replan %v: %s; want it released, and done by 04:00", replan, brief(x))
		}
	}
}
