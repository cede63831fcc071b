package decide_test

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// counting notes how many jobs it was asked to plan.
type counting struct {
	plan.Planner
	jobs []int
}

func (c *counting) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	c.jobs = append(c.jobs, len(p.Jobs))
	return c.Planner.Plan(ctx, p)
}

// elastic is a task of four hours at one worker, of up to four.
func elastic(id string, submitted, deadline time.Time) decide.Task {
	t := task(id, submitted, deadline, 4*time.Hour)
	t.Kind, t.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 0.9, 0.8, 0.7}}
	return t
}

func must(t *testing.T, s decide.Snapshot, p plan.Planner) decide.Decision {
	t.Helper()
	d, err := decide.Decide(context.Background(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStandingPlanIsFollowed: decided once and followed slot by slot, a plan gives the same
// actions as its segments say, without the planner being asked again.
func TestStandingPlanIsFollowed(t *testing.T) {
	s := snapshot(t, at(0), elastic("a", at(0), at(24)))
	d := must(t, s, carbonscaler.Planner{})
	phases := d.Actions[0].Phases
	if len(phases) == 0 || phases[0].From.Before(at(10)) || phases[len(phases)-1].To.After(at(16)) {
		t.Fatalf("phases %+v, want some in the clean hours 10 to 16", phases)
	}
	if phases[0].Intensity != 100 {
		t.Errorf("intensity %v, want 100", phases[0].Intensity)
	}
	standing := &decide.Standing{Phases: phases, Reason: d.Actions[0].Reason}
	p := &counting{Planner: carbonscaler.Planner{}}
	running, workers, left := false, 0, s.Tasks[0].Remaining
	for q := 0; q < 4*16; q++ {
		now := at(float64(q) / 4)
		x := s
		x.Now, x.Tasks = now, []decide.Task{s.Tasks[0]}
		x.Tasks[0].Standing, x.Tasks[0].Remaining = standing, left
		if running {
			x.Tasks[0].State, x.Tasks[0].Workers, x.Tasks[0].Cluster = decide.Running, workers, "c"
		}
		ph, next, done := standing.At(now)
		if done {
			break
		}
		d := must(t, x, p)
		a := d.Actions[0]
		want := decide.Wait
		switch {
		case ph != nil && !running:
			want = decide.Release
		case ph != nil && ph.Workers == workers:
			want = decide.Continue
		case ph != nil:
			want = decide.Scale
		case running:
			want = decide.Pause
		}
		if a.Verb != want || (ph != nil && a.Workers != ph.Workers) {
			t.Fatalf("at %v: %s to %d workers, want %s of %+v", now, a.Verb, a.Workers, want, ph)
		}
		if d.Wake.After(next) {
			t.Fatalf("at %v: wakes at %v, after the next change %v", now, d.Wake, next)
		}
		if running, workers = ph != nil, a.Workers; running {
			left -= time.Duration(float64(s.Slot) * x.Tasks[0].Scaling.Rate(workers))
		}
	}
	if len(p.jobs) != 0 {
		t.Errorf("the planner was asked %v times", p.jobs)
	}
}

// TestOthersArePlannedAroundStandingPlans: a further task finds the room that a plan leaves.
func TestOthersArePlannedAroundStandingPlans(t *testing.T) {
	first := task("a", at(0), at(24), 6*time.Hour)
	first.Request = map[string]float64{"cpu": 8}
	first.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(16), Cluster: "c", Workers: 1}}}
	second := task("b", at(0), at(24), 2*time.Hour)
	second.Request = map[string]float64{"cpu": 4}
	p := &counting{Planner: cheapest.Planner{}}
	d := must(t, snapshot(t, at(0), first, second), p)
	if start := d.Actions[1].Reason.PlannedStart; !start.Before(at(8.01)) && start.Before(at(16)) {
		t.Errorf("starts at %v, among the hours that are taken", start)
	}
	if len(p.jobs) != 1 || p.jobs[0] != 1 {
		t.Errorf("planned %v jobs, want one alone", p.jobs)
	}
}

// TestStandingPlansMakeRoom: where a further task finds no place in time, all plans are made
// anew.
func TestStandingPlansMakeRoom(t *testing.T) {
	first := task("a", at(0), at(24), 6*time.Hour)
	first.Request = map[string]float64{"cpu": 8}
	first.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(16), Cluster: "c", Workers: 1}}}
	second := task("b", at(9), at(15), 4*time.Hour)
	second.Request = map[string]float64{"cpu": 4}
	p := &counting{Planner: cheapest.Planner{}}
	d := must(t, snapshot(t, at(9), first, second), p)
	if len(p.jobs) != 2 || p.jobs[1] != 2 {
		t.Fatalf("planned %v jobs, want one and then both", p.jobs)
	}
	if d.Actions[1].Reason.Code == decide.CodeDeadlineAtRisk || !d.Actions[0].Planned {
		t.Errorf("actions %+v", d.Actions)
	}
}

// TestLatestStartOutranksStandingPlans: a plan that would start too late is not followed.
func TestLatestStartOutranksStandingPlans(t *testing.T) {
	x := task("a", at(0), at(12), 4*time.Hour)
	x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(14), Cluster: "c", Workers: 1}}}
	d := must(t, snapshot(t, at(8), x), cheapest.Planner{})
	if a := d.Actions[0]; a.Verb != decide.Release || a.Reason.Code != decide.CodeLatestStart {
		t.Errorf("action %+v, want release at the latest start", a)
	}
}

// TestLatePlansAreNotFollowed: a running task whose standing plan pauses it past its deadline is
// planned anew, also while its latest safe start is ahead.
func TestLatePlansAreNotFollowed(t *testing.T) {
	x := task("a", at(0), at(12), 4*time.Hour)
	x.Kind, x.State, x.Cluster = workload.Interruptible, decide.Running, "c"
	x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(14), Cluster: "c", Workers: 1}}}
	s := snapshot(t, at(2), x)
	d := must(t, s, cheapest.Planner{})
	a := d.Actions[0]
	if end := a.Phases[len(a.Phases)-1].To; end.After(at(12)) {
		t.Errorf("action %+v ends at %v, after the deadline", a, end)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestWhatRunsOnComesFirst: a running task that changes its scale gets what those leave that run on as
// they are. Otherwise both take the same room when more workers were asked for than run.
func TestWhatRunsOnComesFirst(t *testing.T) {
	rigid := task("rigid", at(0), at(12), 4*time.Hour)
	rigid.Kind, rigid.State, rigid.Cluster, rigid.Request = workload.Rigid, decide.Running, "c", map[string]float64{"cpu": 4}
	scales, on := elastic("scales", at(0), at(12)), elastic("on", at(0), at(20))
	for x, workers := range map[*decide.Task][2]int{&scales: {3, 2}, &on: {1, 1}} {
		x.State, x.Cluster, x.Workers = decide.Running, "c", workers[0]
		x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(1), To: at(8), Cluster: "c", Workers: workers[1]}}}
	}
	s := snapshot(t, at(2), rigid, scales, on)
	s.Clusters[0].Capacity = map[string]float64{"cpu": 8}
	for _, v := range decide.Verify(s, must(t, s, carbonscaler.Planner{})) {
		t.Error(v)
	}
}

// TestFallenCapacityPausesOnlyWhoMakesRoom: two tasks of 3 CPUs run where only 4 are left. Both
// are planned anew for a reason of their own. Those that go on regardless are not paused.
func TestFallenCapacityPausesOnlyWhoMakesRoom(t *testing.T) {
	runs := &decide.Standing{Phases: []decide.Phase{{From: at(1), To: at(6), Cluster: "c", Workers: 1}}}
	for name, tc := range map[string]struct {
		goesOn   [2]bool
		standing *decide.Standing
		follows  bool
		paused   int
	}{
		"both may be paused":           {[2]bool{false, false}, runs, false, 1},
		"the first goes on":            {[2]bool{true, false}, runs, false, 1},
		"both go on":                   {[2]bool{true, true}, runs, false, 0},
		"both go on as planned":        {[2]bool{true, true}, runs, true, 0},
		"both go on though they lag":   {[2]bool{true, true}, &decide.Standing{Phases: []decide.Phase{{From: at(1), To: at(3), Cluster: "c", Workers: 1}}}, true, 0},
		"both go on, without a plan":   {[2]bool{true, true}, nil, false, 0},
		"both go on after their plans": {[2]bool{true, true}, &decide.Standing{Phases: []decide.Phase{{From: at(0), To: at(1), Cluster: "c", Workers: 1}}}, false, 0},
	} {
		var tasks []decide.Task
		for k, id := range []string{"first", "second"} {
			x := task(id, at(0), at(40), 4*time.Hour)
			x.Kind, x.State, x.Cluster, x.Request = workload.Interruptible, decide.Running, "c", map[string]float64{"cpu": 3}
			x.Standing, x.Replan, x.KeepsRoom = tc.standing, !tc.follows, tc.goesOn[k]
			tasks = append(tasks, x)
		}
		for _, offset := range []time.Duration{0, 900 * time.Nanosecond} { // the ledger counts microseconds
			s := snapshot(t, at(2).Add(offset), tasks...)
			s.Clusters[0].Capacity = map[string]float64{"cpu": 4}
			d := must(t, s, asap.Planner{})
			paused := 0
			for k, a := range d.Actions {
				if a.Verb == decide.Pause {
					paused++
					if tc.goesOn[k] {
						t.Errorf("%s, %v later: %s is paused", name, offset, s.Tasks[k].ID)
					}
				}
			}
			if paused != tc.paused {
				t.Errorf("%s, %v later: %d paused, want %d", name, offset, paused, tc.paused)
			}
		}
	}
}

// TestEqualHoursDoNotPause: a running task that is planned anew at any moment of clean hours of equal
// intensity runs on.
func TestEqualHoursDoNotPause(t *testing.T) {
	var samples []carbon.Sample
	for h := range 48 {
		value := units.CarbonIntensity(100)
		if h%24 >= 6 && h%24 < 11 {
			value = 900
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: value})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	for minute := 1; minute < 5*60; minute++ {
		x := task("a", at(0), at(28), 8*time.Hour-time.Duration(minute)*time.Minute)
		x.Kind, x.State, x.Cluster, x.Replan = workload.Interruptible, decide.Running, "c", true
		s := snapshot(t, at(float64(minute)/60), x)
		s.Clusters[0].Carbon = series
		a := must(t, s, cheapest.Planner{}).Actions[0]
		if a.Verb != decide.Continue || len(a.Phases) > 2 {
			t.Errorf("after %d minutes: %s, phases %v", minute, a.Verb, a.Phases)
		}
	}
}

// TestChangesKeepTheirDistance: a change too soon after another, or while one is under way,
// is withheld; a deadline outranks that.
func TestChangesKeepTheirDistance(t *testing.T) {
	base := elastic("a", at(0), at(24))
	base.State, base.Workers, base.Cluster = decide.Running, 2, "c"
	base.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(16), Cluster: "c", Workers: 4}}}
	for name, tc := range map[string]struct {
		change  func(*decide.Task)
		verb    decide.Verb
		workers int
	}{
		"long ago":     {func(x *decide.Task) { x.Changed = at(9) }, decide.Scale, 4},
		"a moment ago": {func(x *decide.Task) { x.Changed = at(10.9) }, decide.Continue, 2},
		"under way":    {func(x *decide.Task) { x.Changed, x.Changing = at(9), true }, decide.Continue, 2},
		"paused a moment ago": {func(x *decide.Task) {
			x.State, x.Paused, x.Workers, x.Changed = decide.Waiting, true, 0, at(10.9)
		}, decide.Wait, 0},
		// Four were asked for a moment ago, and two found nodes.
		"denied": {func(x *decide.Task) {
			x.Changed, x.Workers, x.Scaling, x.Replan = at(10.9), 4, x.Scaling.UpTo(2), true
		}, decide.Scale, 1},
		"deadline": {func(x *decide.Task) { x.Changed, x.Deadline = at(10.9), at(12); x.Standing = nil }, decide.Scale, 4},
	} {
		x := base
		tc.change(&x)
		s := snapshot(t, at(11), x)
		s.MinRun, s.MinPause = 30*time.Minute, 30*time.Minute
		d := must(t, s, carbonscaler.Planner{})
		if a := d.Actions[0]; a.Verb != tc.verb || a.Workers != tc.workers {
			t.Errorf("%s: %s to %d (%s), want %s to %d", name, a.Verb, a.Workers, a.Reason.Code, tc.verb, tc.workers)
		}
		if tc.verb != decide.Scale && name != "under way" && d.Wake.After(at(11.5)) {
			t.Errorf("%s: wakes at %v", name, d.Wake)
		}
	}
}

// TestPausesThatLoseWorkAreJudgedAnew: where a plan would pause a task in the middle of
// something, what that loses is weighed against what the cleaner hours save.
func TestPausesThatLoseWorkAreJudgedAnew(t *testing.T) {
	x := task("a", at(0), at(40), 2*time.Hour)
	x.Kind, x.State, x.Cluster = workload.Interruptible, decide.Running, "c"
	// A pause now, for the clean hours from 10 on.
	x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(12), Cluster: "c", Workers: 1}}}
	for risk, want := range map[time.Duration]decide.Verb{0: decide.Pause, 30 * time.Minute: decide.Pause, 119 * time.Minute: decide.Continue} {
		x.AtRisk = risk
		if a := must(t, snapshot(t, at(8), x), cheapest.Planner{}).Actions[0]; a.Verb != want {
			t.Errorf("%v at risk: %s (%s), want %s", risk, a.Verb, a.Reason.Code, want)
		}
	}
}

// TestMovesKeepTheirDistance: a running task goes on at a cleaner cluster, but neither right
// after it has started nor for less than a slot of work.
func TestMovesKeepTheirDistance(t *testing.T) {
	s := snapshot(t, at(1), task("a", at(0), at(24), 4*time.Hour))
	cleaner := s.Clusters[0]
	cleaner.Name, cleaner.Carbon = "cleaner", steady(t, 10)
	s.Clusters[0].Carbon = steady(t, 300) // a pause alone saves nothing
	s.Clusters = append(s.Clusters, cleaner)
	s.MinRun = time.Hour
	move := func(changed time.Time, remaining time.Duration) decide.Verb {
		x := &s.Tasks[0]
		x.Kind, x.Migratable, x.State, x.Cluster = workload.Interruptible, true, decide.Running, s.Clusters[0].Name
		x.Changed, x.Remaining = changed, remaining
		a := must(t, s, cheapest.Planner{}).Actions[0]
		if a.Verb == decide.Move && a.Cluster != "cleaner" || a.Verb == decide.Continue && a.Cluster != x.Cluster {
			t.Errorf("%s at %q", a.Verb, a.Cluster)
		}
		return a.Verb
	}
	if got := move(at(-1), 3*time.Hour); got != decide.Move {
		t.Errorf("%s, want Move", got)
	}
	// Three hours of two CPUs of 10 W are 60 Wh, at some hundred grams a kWh here and ten there.
	s.Tasks[0].TransferKWh = 0.5
	if got := move(at(-1), 3*time.Hour); got != decide.Continue {
		t.Errorf("%s, where the transfer takes more than the work; want Continue", got)
	}
	s.Tasks[0].TransferKWh = 0
	s.Tasks[0].AtRisk = 179 * time.Minute
	if got := move(at(-1), 3*time.Hour); got != decide.Continue {
		t.Errorf("%s, where all but a minute would be done again; want Continue", got)
	}
	s.Tasks[0].AtRisk = 0
	if got := move(at(0.5), 3*time.Hour); got != decide.Continue {
		t.Errorf("%s right after its start, want Continue", got)
	}
	if got := move(at(-1), s.Slot/2); got != decide.Continue {
		t.Errorf("%s with next to nothing left, want Continue", got)
	}
}

// steady has the same intensity from a day ago for three days.
func steady(t *testing.T, v units.CarbonIntensity) *carbon.Series {
	t.Helper()
	s, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: at(-24), To: at(48), Value: v}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPauseAndGoOnElsewhere: a plan that pauses a task and goes on later at another cluster is judged
// by what it emits then, not by the intensity of the other cluster now.
func TestPauseAndGoOnElsewhere(t *testing.T) {
	s := snapshot(t, at(1), task("a", at(0), at(24), 4*time.Hour))
	later, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: at(-24), To: at(6), Value: 2000}, {From: at(6), To: at(48), Value: 10}})
	if err != nil {
		t.Fatal(err)
	}
	other := s.Clusters[0]
	other.Name, other.Carbon = "later", later
	sunny := s.Clusters[0].Carbon
	s.Clusters[0].Carbon = steady(t, 300) // a pause alone saves nothing
	s.Clusters = append(s.Clusters, other)
	x := &s.Tasks[0]
	x.Kind, x.Migratable, x.State, x.Cluster = workload.Interruptible, true, decide.Running, s.Clusters[0].Name
	x.Changed = at(-1)
	x.Remaining = 3 * time.Hour
	first := must(t, s, cheapest.Planner{}).Actions[0]
	if first.Verb != decide.Pause || first.Phases[0].Cluster != "later" {
		t.Fatalf("placed: %s for %s with %+v, want Pause and to go on later elsewhere", first.Verb, first.Reason.Code, first.Phases)
	}
	followed := &decide.Standing{Phases: first.Phases, Reason: first.Reason}
	for name, standing := range map[string]*decide.Standing{"placed": nil, "followed": followed} {
		x.Standing, x.TransferKWh = standing, 0
		if got := must(t, s, cheapest.Planner{}).Actions[0]; got.Verb != decide.Pause {
			t.Errorf("%s: %s for %s, want Pause", name, got.Verb, got.Reason.Code)
		}
		x.TransferKWh = 0.5 // more than the work takes
		if got := must(t, s, cheapest.Planner{}).Actions[0]; got.Verb != decide.Continue || got.Reason.Code != decide.CodeMoveDoesNotPay {
			t.Errorf("%s: %s for %s, where the transfer takes more than the work; want Continue", name, got.Verb, got.Reason.Code)
		}
	}
	s.Clusters[0].Carbon = sunny // now a pause here saves more than going on, without a transfer
	if got := must(t, s, cheapest.Planner{}).Actions[0]; got.Verb != decide.Pause || got.Phases[0].Cluster != s.Clusters[0].Name {
		t.Errorf("%s for %s with %+v, want a pause and to go on here", got.Verb, got.Reason.Code, got.Phases)
	}
}

// TestStandingPlanForLostRoom: a cluster has lost capacity for good, and the standing plan of a task that waits in its queue has more
// workers than there will ever be room for. The plan does not go on.
func TestStandingPlanForLostRoom(t *testing.T) {
	a := elastic("a", at(0), at(24))
	a.State, a.Unscheduled, a.Cluster, a.Workers = decide.Running, true, "c", 1
	a.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(2), To: at(3.5), Cluster: "c", Workers: 4}}}
	s := snapshot(t, at(1), a)
	s.Clusters[0].Capacity = map[string]float64{"cpu": 5} // for two workers
	d := must(t, s, asap.Planner{})
	for _, p := range append(d.Actions[0].Phases, d.Actions[0].Plan...) {
		if p.Workers > 2 {
			t.Errorf("%d workers, room for 2: %+v", p.Workers, d.Actions[0])
		}
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}

// TestLatePlanWithRoom: a plan was late when it was made, or does too little of the work. There is room in time by now: the task is
// planned anew, though nobody asks for it.
func TestLatePlanWithRoom(t *testing.T) {
	for name, phases := range map[string][]decide.Phase{
		"late":      {{From: at(2), To: at(3.5), Cluster: "c", Workers: 4}},
		"too short": {{From: at(1), To: at(1.5), Cluster: "c", Workers: 1}, {From: at(2), To: at(3), Cluster: "c", Workers: 4}},
	} {
		a := elastic("a", at(0), at(3))
		a.Standing = &decide.Standing{Phases: phases, Reason: decide.Reason{Code: decide.CodeDeadlineAtRisk}}
		s := snapshot(t, at(1), a)
		d := must(t, s, asap.Planner{})
		if x := d.Actions[0].Phases; x[len(x)-1].To.After(at(3)) || d.Actions[0].Reason.Code == decide.CodeDeadlineAtRisk {
			t.Errorf("%s: %s with %+v; want a plan that ends by 3:00", name, d.Actions[0].Reason.Code, x)
		}
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%s: %v", name, v)
		}
	}
}
