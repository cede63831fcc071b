package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// TestPauseJustShortOfACheckpoint: the plan of a running task pauses it now, and it is some hundred nanoseconds short of its
// checkpoint, as the run began so much later than the plan expected. It goes on for that long: the pause would lose the
// last hour. What a checkpoint that does not come has at risk is not taken for saved.
func TestPauseJustShortOfACheckpoint(t *testing.T) {
	at700 := at(1).Add(691)
	for _, x := range []struct {
		now    time.Time
		atRisk time.Duration
		want   decide.Verb
	}{
		{at700, time.Hour - 700, decide.Continue},
		{at700.Add(700 + time.Microsecond), time.Microsecond, decide.Pause},
		{at700, 0, decide.Pause},
	} {
		saves := task("saves", at(0), at(9), time.Hour+x.atRisk)
		saves.Kind, saves.State, saves.Cluster, saves.Changed = workload.Interruptible, decide.Running, "c", at(0)
		saves.Request["cpu"], saves.Checkpoint, saves.AtRisk = 10, time.Hour, x.atRisk
		saves.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(0), To: at700, Cluster: "c", Workers: 1}, {From: at(4), To: at(5), Cluster: "c", Workers: 1}}}
		due := task("due", at(0), at700.Add(time.Hour+10*time.Minute), time.Hour)
		due.Request["cpu"] = 10
		due.Standing = &decide.Standing{Phases: []decide.Phase{{From: at700, To: at700.Add(time.Hour), Cluster: "c", Workers: 1}}}
		s := snapshot(t, x.now, saves, due)
		d := must(t, s, asap.Planner{})
		a := d.Actions[0]
		if a.Verb != x.want {
			t.Errorf("%v at risk: %s (%s) with %+v; want %s", x.atRisk, a.Verb, a.Reason.Code, a.Phases, x.want)
		}
		if a.Verb == decide.Continue && d.Wake.Sub(x.now) > 2*time.Microsecond {
			t.Errorf("%v at risk: the next decision is at %v; want it at the checkpoint", x.atRisk, d.Wake)
		}
		for _, v := range decide.Verify(s, d) {
			t.Error(v)
		}
	}
	saves := task("saves", at(0), at(9), 2*time.Hour)
	saves.State, saves.Kind, saves.Cluster, saves.Checkpoint, saves.AtRisk = decide.Running, workload.Interruptible, "c", time.Hour, time.Hour
	if !saves.PauseLoses() {
		t.Error("an hour is at risk, as the checkpoint did not come; want a pause to lose it")
	}
}
