package decide

import (
	"context"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// TestPauseAmidAStartIsPriced: the planner is told that a pause of a task that starts, with 2 of 10 minutes left, costs the other 8 once more.
func TestPauseAmidAStartIsPriced(t *testing.T) {
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: now, To: now.Add(24 * time.Hour), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	s := Snapshot{
		Now: now, Slot: time.Hour,
		Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
		Tasks: []Task{{
			ID: "a", Kind: workload.Interruptible, Submitted: now.Add(-2 * time.Hour), Deadline: now.Add(20 * time.Hour), Remaining: 4 * time.Hour,
			Request: map[string]float64{"cpu": 2}, State: Running, Cluster: "c", Changed: now.Add(-2 * time.Hour), Restart: 10 * time.Minute, Starting: 2 * time.Minute,
		}},
	}
	planner := &sees{}
	if _, err := Decide(context.Background(), s, planner); err != nil {
		t.Fatal(err)
	}
	b := planner.p.Jobs[0].Begun
	if want := (8 * time.Minute).Hours(); b == nil || math.Abs(b.Lost-want) > 1e-9 {
		t.Errorf("the planner is told %+v; want %v slots of lost work", b, want)
	}
}

// restartsToScale is a snapshot with a task that runs at 4 workers, restarts to scale, and loses what it did in the last half hour then.
func restartsToScale(t *testing.T) Snapshot {
	t.Helper()
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: now, To: now.Add(24 * time.Hour), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	return Snapshot{
		Now: now, Slot: time.Hour,
		Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
		Tasks: []Task{{
			ID: "a", Kind: workload.Elastic, Submitted: now.Add(-2 * time.Hour), Deadline: now.Add(20 * time.Hour), Remaining: 8 * time.Hour,
			Request: map[string]float64{"cpu": 1}, State: Running, Cluster: "c", Changed: now.Add(-2 * time.Hour), Workers: 4,
			AtRisk: 2 * time.Hour, Checkpoint: 4 * time.Hour, Restart: 10 * time.Minute,
			Scaling: &Scaling{MinWorkers: 2, MaxWorkers: 4, Curve: []float64{2, 1, 1}, Restarts: true},
		}},
	}
}

// TestWhatRestartsToScaleKeepsItsScale: left to a queue, or after its plan, a running task keeps its scale if another one restarts it. Otherwise
// its phases would leave out the lost work.
func TestWhatRestartsToScaleKeepsItsScale(t *testing.T) {
	s := restartsToScale(t)
	s.Tasks[0].Standing = &Standing{Phases: []Phase{{From: s.Now.Add(-3 * time.Hour), To: s.Now.Add(-time.Hour), Cluster: "c", Workers: 3}}, Reason: Reason{Code: CodeCleanNow}}
	x, w := &s.Tasks[0], newDecider(&s)
	for what, phases := range map[string][]Phase{
		"left to a queue": w.asSubmitted(w.empty.Clone(), []int{0})[0],
		"after its plan":  {w.onAfterPlan(0)},
	} {
		if len(phases) != 1 || phases[0].Workers != x.Workers || x.lags(phases, s.Now) {
			t.Errorf("%s: %v, which lack %v of work; want one at %d workers that does all", what, phases, x.missing(phases, s.Now), x.Workers)
		}
	}
}

// TestWhatIsSavedFirstKeepsWhatIsForeseen: a change that waits for a checkpoint puts both off that which is foreseen and the plan, and mixes up neither.
func TestWhatIsSavedFirstKeepsWhatIsForeseen(t *testing.T) {
	s := restartsToScale(t)
	s.Tasks[0].AtRisk = s.Tasks[0].Checkpoint - time.Microsecond
	s = s.withSaved()
	w, now := newDecider(&s), s.Now
	from := func(h int) []Phase {
		return []Phase{{From: now, To: now.Add(time.Hour), Cluster: "c", Workers: 2}, {From: now.Add(time.Duration(h) * time.Hour), To: now.Add(9 * time.Hour), Cluster: "c", Workers: 2}}
	}
	a := Action{Verb: Scale, Cluster: "c", Workers: 2, Phases: from(5), Plan: from(3)}
	w.saveFirst(0, &a)
	until := now.Add(s.Tasks[0].savedIn)
	for what, phases := range map[string][]Phase{"Phases": a.Phases, "Plan": a.Plan} {
		second := from(map[string]int{"Phases": 5, "Plan": 3}[what])[1]
		if len(phases) != 3 || !phases[0].To.Equal(until) || phases[0].Workers != 4 || !phases[1].From.Equal(until) || !phases[2].From.Equal(second.From) || !phases[2].To.Equal(second.To) {
			t.Errorf("%s: %v; want a run at 4 workers until %v, then the others", what, phases, until)
		}
	}
	if a.Verb != Continue || a.Reason.Code != CodeTooSoon {
		t.Errorf("the action is %s, %s; want %s, %s", a.Verb, a.Reason.Code, Continue, CodeTooSoon)
	}
}

// TestAPauseLosesWhatWasPlanned: a decision that makes no plan goes through with a pause that loses work if the plan does that work again, and not otherwise.
func TestAPauseLosesWhatWasPlanned(t *testing.T) {
	s := restartsToScale(t)
	x := &s.Tasks[0]
	for _, tc := range []struct {
		hours float64
		want  bool
	}{{3, false}, {4.17, true}} {
		from := s.Now.Add(time.Hour)
		x.Standing = &Standing{Phases: []Phase{{From: from, To: from.Add(time.Duration(tc.hours * float64(time.Hour))), Cluster: "c", Workers: 4}}, Reason: Reason{Code: CodeTooSoon}}
		if got := newDecider(&s).followsStanding(0); got != tc.want {
			t.Errorf("a plan of %v h: followed %v; want %v", tc.hours, got, tc.want)
		}
	}
}

// TestNothingIsPutOffOfWhatIsLeftToAQueue: a task that runs on as submitted, and changed its scale a moment ago, is still said to be left to the queue: nothing changes.
func TestNothingIsPutOffOfWhatIsLeftToAQueue(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := restartsToScale(t)
		x := &s.Tasks[0]
		x.AtRisk, x.Checkpoint, x.Restart, x.Scaling.Restarts = 0, 0, 0, restarts
		x.Changed, s.MinRun = s.Now.Add(-10*time.Minute), time.Hour
		w := newDecider(&s)
		w.releaseAll([]int{0}, w.asSubmitted(w.ledger.Clone(), []int{0}))
		w.foreseen = w.foresee()
		protected := w.foreseenInTime()
		w.placeForeseenLate(protected)
		w.putOffForeseen(protected)
		w.judgeForeseen()
		if a := w.action(0); a.Reason.Code != CodeClusterQueue || a.Workers != x.Workers {
			t.Errorf("restarts to scale: %v: %s %s at %d workers; want %s at %d", restarts, a.Verb, a.Reason.Code, a.Workers, CodeClusterQueue, x.Workers)
		}
	}
}
