package decide_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// phase is a time at a cluster with one worker.
func phase(from, to float64, cluster string) decide.Phase {
	return decide.Phase{From: at(from), To: at(to), Cluster: cluster, Workers: 1}
}

// TestVerifyFindsWrongDecisions: Verify reports each invariant that a decision made by hand breaks, and
// nothing about the same decision without the fault.
func TestVerifyFindsWrongDecisions(t *testing.T) {
	type edit func(*decide.Task, *decide.Action)
	running := func(x *decide.Task, a *decide.Action) {
		x.State, x.Cluster = decide.Running, "c"
		a.Verb = decide.Continue
	}
	interruptible := func(x *decide.Task, a *decide.Action) {
		running(x, a)
		x.Kind = workload.Interruptible
	}
	followed := func(x *decide.Task, a *decide.Action) {
		a.Verb, a.Phases, a.Planned = decide.Wait, []decide.Phase{phase(5, 9, "c")}, false
		x.Standing = &decide.Standing{Phases: a.Phases}
	}
	for name, x := range map[string]struct {
		right, wrong edit
		rule         decide.Rule
	}{
		"a rigid task is paused": {running, func(_ *decide.Task, a *decide.Action) {
			a.Verb, a.Phases = decide.Pause, []decide.Phase{phase(5, 9, "c")}
			a.Reason.LatestStart = at(6)
		}, decide.RuleInterrupted},
		"a rigid task moves": {func(x *decide.Task, a *decide.Action) {
			running(x, a)
			x.Migratable = true
		}, func(_ *decide.Task, a *decide.Action) {
			a.Verb, a.Cluster, a.Phases = decide.Move, "d", []decide.Phase{phase(1, 5, "d")}
		}, decide.RuleInterrupted},
		"a rigid task has two runs": {nil, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 3, "c"), phase(4, 6, "c")}
		}, decide.RuleInterrupted},
		"a cluster is not among those of the task": {func(x *decide.Task, _ *decide.Action) {
			x.Clusters = []string{"c"}
		}, func(_ *decide.Task, a *decide.Action) {
			a.Cluster, a.Phases = "d", []decide.Phase{phase(1, 5, "d")}
		}, decide.RuleCluster},
		"only a later phase is on another cluster": {func(x *decide.Task, a *decide.Action) {
			interruptible(x, a)
			x.Clusters, x.Migratable = []string{"c"}, true
		}, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 3, "c"), phase(3, 5, "d")}
		}, decide.RuleCluster},
		"a cluster is not in the snapshot": {nil, func(_ *decide.Task, a *decide.Action) {
			a.Cluster, a.Phases = "e", []decide.Phase{phase(1, 5, "e")}
		}, decide.RuleCluster},
		"an action without phases names a cluster that is not in the snapshot": {func(x *decide.Task, a *decide.Action) {
			a.Phases, a.Planned, a.Reason.Code = nil, false, decide.CodeDeadlineAtRisk
			x.Request = map[string]float64{"cpu": 100}
		}, func(_ *decide.Task, a *decide.Action) {
			a.Cluster = "e"
		}, decide.RuleCluster},
		"a task that cannot migrate moves": {interruptible, func(_ *decide.Task, a *decide.Action) {
			a.Verb, a.Cluster, a.Phases = decide.Move, "d", []decide.Phase{phase(1, 5, "d")}
		}, decide.RuleCluster},
		"a task that cannot migrate changes cluster between phases": {func(x *decide.Task, _ *decide.Action) {
			x.Kind = workload.Interruptible
		}, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 3, "c"), phase(4, 6, "d")}
		}, decide.RuleCluster},
		"a task is released before it is submitted": {func(x *decide.Task, a *decide.Action) {
			x.NotBefore, a.Verb, a.Phases = at(2), decide.Wait, []decide.Phase{phase(2, 6, "c")}
		}, func(_ *decide.Task, a *decide.Action) {
			a.Verb = decide.Release
		}, decide.RuleNotBefore},
		"a plan begins before the task is submitted": {func(x *decide.Task, a *decide.Action) {
			x.NotBefore, a.Verb, a.Phases = at(2), decide.Wait, []decide.Phase{phase(2, 6, "c")}
		}, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1.5, 5.5, "c")}
		}, decide.RuleNotBefore},
		"a plan does too little": {nil, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 4, "c")}
		}, decide.RuleWork},
		"a standing plan does too little": {followed, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(5, 8, "c")}
		}, decide.RuleWork},
		"a plan ends late": {nil, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(7, 11, "c")}
		}, decide.RuleDeadline},
		"a standing plan ends late": {followed, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(7, 11, "c")}
		}, decide.RuleDeadline},
		"what a standing plan does not do ends late": {followed, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(6.1, 10, "c")}
		}, decide.RuleDeadline},
		"phases overlap": {interruptible, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 4, "c"), phase(3, 5, "c")}
		}, decide.RulePhases},
		"phases are out of order": {interruptible, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(4, 6, "c"), phase(1, 3, "c")}
		}, decide.RulePhases},
		"a phase ends before it begins": {interruptible, func(_ *decide.Task, a *decide.Action) {
			a.Phases = []decide.Phase{phase(1, 6, "c"), phase(7, 6, "c")}
		}, decide.RulePhases},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, at(1), task("a", at(0), at(10), 4*time.Hour))
			d := s.Clusters[0]
			d.Name = "d"
			s.Clusters = append(s.Clusters, d)
			decision := decide.Decision{Actions: []decide.Action{{
				Task: "a", Verb: decide.Release, Planned: true, Phases: []decide.Phase{phase(1, 5, "c")},
				Reason: decide.Reason{Code: decide.CodeCleanNow, LatestStart: at(5.9)},
			}}, Order: []int{0}, Wake: at(2)}
			a := &decision.Actions[0]
			if x.right != nil {
				x.right(&s.Tasks[0], a)
			}
			if held := len(a.Phases) > 0 && a.Phases[0].From.After(s.Now); len(a.Phases) > 0 {
				a.Cluster = a.Phases[0].Cluster
				switch {
				case held:
					a.Reason.Code, a.Reason.PlannedStart = decide.CodeCleanerLater, a.Phases[0].From
				case s.Tasks[0].State == decide.Running && s.Tasks[0].Kind == workload.Rigid:
					a.Reason.Code = decide.CodeRunning
				}
			}
			for _, v := range decide.Verify(s, decision) {
				t.Errorf("without the fault: %v", v)
			}
			x.wrong(&s.Tasks[0], &decision.Actions[0])
			found := decide.Verify(s, decision)
			for _, v := range found {
				if v.Rule == x.rule {
					return
				}
			}
			t.Errorf("found: %v; want %s", found, x.rule)
		})
	}
}

// TestVerifyAllowsALag: a standing plan that lags by less than a slot is followed as long as what it
// does not do can be done after it.
func TestVerifyAllowsALag(t *testing.T) {
	s := snapshot(t, at(1), task("a", at(0), at(10), 4*time.Hour))
	x := &s.Tasks[0]
	x.State, x.Cluster, x.Kind = decide.Running, "c", workload.Interruptible
	x.Standing = &decide.Standing{Phases: []decide.Phase{phase(0, 4.9, "c")}, Reason: decide.Reason{Code: decide.CodeCleanNow}}
	d := must(t, s, asap.Planner{})
	if d.Actions[0].Planned || d.Actions[0].Verb != decide.Continue {
		t.Errorf("%+v; want the standing plan followed", d.Actions[0])
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestImpossibleStandingPlansAreMadeAnew: a standing plan is not followed if it uses a cluster that the task
// may not use or that is not in the snapshot, does too little work, or begins before the task is submitted.
func TestImpossibleStandingPlansAreMadeAnew(t *testing.T) {
	for name, x := range map[string]struct {
		phases []decide.Phase
		edit   func(*decide.Task)
	}{
		"another cluster":                      {[]decide.Phase{phase(2, 6, "d")}, func(x *decide.Task) { x.Clusters = []string{"c"} }},
		"a cluster that is gone":               {[]decide.Phase{phase(2, 6, "e")}, nil},
		"a later phase on another":             {[]decide.Phase{phase(2, 4, "c"), phase(5, 7, "d")}, nil},
		"two runs of a rigid task":             {[]decide.Phase{phase(2, 4, "c"), phase(5, 7, "c")}, func(x *decide.Task) { x.Kind = workload.Rigid }},
		"too little work":                      {[]decide.Phase{phase(2, 4, "c")}, nil},
		"too little work, and runs now":        {[]decide.Phase{phase(1, 4, "c")}, nil},
		"runs now and ends late":               {[]decide.Phase{phase(1, 2, "c"), phase(8, 11, "c")}, nil},
		"too little work for another deadline": {[]decide.Phase{phase(1, 2, "c"), phase(7.1, 10, "c")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, at(1), task("a", at(0), at(10), 4*time.Hour))
			d := s.Clusters[0]
			d.Name = "d"
			s.Clusters = append(s.Clusters, d)
			task := &s.Tasks[0]
			task.Kind, task.Standing = workload.Interruptible, &decide.Standing{Phases: x.phases, Reason: decide.Reason{Code: decide.CodeCleanerLater}}
			if x.edit != nil {
				x.edit(task)
			}
			decision := must(t, s, asap.Planner{})
			for _, v := range decide.Verify(s, decision) {
				t.Error(v)
			}
			if a := decision.Actions[0]; !a.Planned {
				t.Errorf("%+v; want a new plan", a)
			}
			if len(task.Standing.Phases) != len(x.phases) {
				t.Error("the snapshot was changed")
			}
		})
	}
}

// TestUnknownClusterIsAnError: a task cannot be on a cluster that the snapshot does not have.
func TestUnknownClusterIsAnError(t *testing.T) {
	x := task("a", at(0), at(10), 4*time.Hour)
	x.State, x.Cluster = decide.Running, "gone"
	if _, err := decide.Decide(context.Background(), snapshot(t, at(1), x), asap.Planner{}); !errors.Is(err, decide.ErrSnapshot) {
		t.Errorf("error %v; want ErrSnapshot", err)
	}
}

// TestAnnouncedAfterItsLatestStart: a task whose latest safe start comes before it may start is planned from
// when it may.
func TestAnnouncedAfterItsLatestStart(t *testing.T) {
	x := task("a", at(1.5), at(5.55), 4*time.Hour)
	x.Kind, x.NotBefore = workload.Interruptible, at(1.5)
	s := snapshot(t, at(1.5).Add(-time.Minute), x)
	d := must(t, s, asap.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	if a := d.Actions[0]; a.Verb != decide.Wait || len(a.Phases) != 1 || !a.Phases[0].From.Equal(at(1.5)) {
		t.Errorf("%+v; want a run from 01:30 on", a)
	}
}

// TestRunningTaskMayRun: a rigid task that runs is not paused, whatever its first start was to be.
func TestRunningTaskMayRun(t *testing.T) {
	x := task("a", at(0), at(10), 4*time.Hour)
	x.State, x.Cluster, x.NotBefore = decide.Running, "c", at(2)
	s := snapshot(t, at(1), x)
	d := must(t, s, asap.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	if a := d.Actions[0]; a.Verb != decide.Continue {
		t.Errorf("%s; want Continue", a.Verb)
	}
}
