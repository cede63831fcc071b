package slurm

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
)

// TestLongRestartSpoilsNoPlan: a start that takes more than a day is refused where it is stated. Other jobs are planned as ever.
func TestLongRestartSpoilsNoPlan(t *testing.T) {
	for _, restart := range []string{"24h", "25h", "366d"} {
		j, other := sizing(), waiting()
		j.Comment = "lull:max-delay=8h,runtime=2h,interruptible,min-tasks=2,restart=" + restart
		other.ID, other.Number = "99", 99
		v := Observe(inputAt(t, j, other))
		if _, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{}); err != nil {
			t.Errorf("%s: %v", restart, err)
		}
		_, err := ParseConfig([]byte("defaults: [{partition: low, maxDelay: 8h, interruptible: true, minTasks: 2, restart: " + restart + "}]"))
		if refused := restart != "24h"; (len(v.Left) == 1 && v.Left[0].Why == BadComment) != refused || (err != nil) != refused {
			t.Errorf("%s: left %+v, configuration: %v; want it to be refused: %v", restart, v.Left, err, refused)
		}
	}
}

// TestRefusedSizeKeepsTheDeadline: Slurm has refused to give a job that waits more tasks than the 2 of 8 that Lull has left it. With these, 2 hours of work take 8: it must
// begin by 10:00 to end by 18:00, and at once if that has passed.
func TestRefusedSizeKeepsTheDeadline(t *testing.T) {
	j := sized(2, Mark{Phase: Held, Begin: at("15:30:00"), Kept: RefusedSize})
	j.Begin = at("15:30:00")
	v := Observe(inputAt(t, j))
	if got := v.Jobs[0].Latest; !got.Equal(at("10:00:00")) {
		t.Errorf("latest start %v; want 10:00", got)
	}
	d, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range decide.Verify(v.Snapshot, d) {
		t.Error(x)
	}
	c := Plan(&v, &d)
	if len(c.Updates) != 1 || !c.Updates[0].Now && (c.Updates[0].Begin.IsZero() || c.Updates[0].Begin.After(at("10:00:00"))) {
		t.Errorf("%+v; want it to begin by 10:00", c.Updates)
	}
	paused := changed(j, func(j *Job) {
		j.Restarts, j.AdminComment = 1, Mark{Phase: Paused, Begin: j.Begin, Since: at("08:00:00"), Done: time.Hour, Size: 2, User: 8, Each: 2, Kept: RefusedSize}.String()
	})
	v = Observe(inputAt(t, paused))
	if d, err = decide.Decide(t.Context(), v.Snapshot, joint.Planner{}); err != nil || !v.Jobs[0].Latest.Equal(at("14:00:00")) || len(decide.Verify(v.Snapshot, d)) > 0 {
		t.Errorf("paused: %v, latest start %v; want 14:00", err, v.Jobs[0].Latest)
	}
	in := inputAt(t, j)
	in.Now = at("11:00:00")
	if c := planOf(in, decide.Action{Verb: decide.Wait, Reason: decide.Reason{PlannedStart: at("15:30:00")}}); len(c.Updates) != 1 || !c.Updates[0].Now {
		t.Errorf("%+v; want it to be released", c.Updates)
	}
}

// TestNoRequeueWhileAnotherStops: a job was requeued for more tasks, and saves its work (SIGTERM). Another one may not be requeued for the same room meanwhile.
func TestNoRequeueWhileAnotherStops(t *testing.T) {
	a, b := sizedSince(2, at("08:05:00"), 0), sizedSince(2, at("08:05:00"), 0)
	a.State = stateCompleting
	a.AdminComment = Mark{Phase: Pausing, Since: at("08:00:00"), Runs: 1, Size: 2, User: 8, Each: 2, To: 6}.String()
	b.ID, b.Number = "13", 13
	in := inputAt(t, a, b)
	in.Queue.Nodes = usedBy(&in.Queue)
	v := Observe(in)
	if len(v.Jobs) != 2 {
		t.Fatalf("%+v", v.Left)
	}
	d := decide.Decision{Actions: []decide.Action{{Verb: decide.Continue, Workers: 2}, {Verb: decide.Scale, Workers: 6}}, Order: []int{0, 1}}
	if c := Plan(&v, &d); len(c.Pauses) != 0 {
		t.Errorf("%+v; want no requeue while job 12 stops", c.Pauses)
	}
}

// TestCPUsOfAWholeNodeAreNotThoseOfTheTasks: --exclusive gives a job of 8 tasks of a CPU the 16 CPUs of its node. It has no mark yet, or that of job_submit.lua: what its
// user asked for is not known.
func TestCPUsOfAWholeNodeAreNotThoseOfTheTasks(t *testing.T) {
	for name, mark := range map[string]string{"no mark": "", "job_submit.lua": Mark{Phase: Held, Begin: at("08:02:00"), Text: textScript}.String()} {
		j := sizing()
		j.State, j.Node, j.Started, j.Begin, j.AdminComment = stateRunning, "n1", at("08:02:00"), at("08:02:00"), mark
		v := Observe(inputAt(t, j))
		if len(v.Jobs) != 1 || v.Jobs[0].Size != nil {
			t.Errorf("%s: %+v", name, v.Jobs)
		}
	}
}
