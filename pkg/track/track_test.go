package track_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

var t0 = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func at(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }

func flat(t *testing.T, value float64) *carbon.Series {
	t.Helper()
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, []carbon.Sample{{From: at(-24), To: at(48), Value: units.CarbonIntensity(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// snapshot is a task of eight hours with some of them done, running with two workers.
func snapshot(t *testing.T, now time.Time, done time.Duration) *decide.Snapshot {
	t.Helper()
	model, err := power.NewPerUnit(map[string]float64{"cpu": 100}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &decide.Snapshot{
		Now: now, Slot: 15 * time.Minute,
		Clusters: []decide.Cluster{{Name: "local", Power: model, Carbon: flat(t, 200)}},
		Tasks: []decide.Task{{
			ID: "a", Kind: workload.Elastic, State: decide.Running, Workers: 2, Deadline: at(24), Remaining: 8*time.Hour - done,
			Request: map[string]float64{"cpu": 1}, Scaling: &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}},
		}},
	}
}

func seen(done time.Duration) track.Observation {
	return track.Observation{Done: done, Source: "model", Running: 2, Wanted: 2, Since: at(0), Speed: 1}
}

var rules = track.Rules{Forecast: "f", Threshold: 0.05}

// standing is a record with two workers for four hours from 0 on, or with the phases given.
func standing(t *testing.T, phases ...decide.Phase) *track.Record {
	t.Helper()
	if phases == nil {
		phases = []decide.Phase{{From: at(0), To: at(4), Cluster: "local", Workers: 2}}
	}
	s, o := snapshot(t, at(0), 0), seen(0)
	r := track.Restore(&decide.Standing{Phases: phases}, &s.Tasks[0], &o, rules, at(0))
	return &r
}

func round(s *decide.Snapshot, o track.Observation, r *track.Record) *track.Round {
	return &track.Round{Snapshot: s, Rules: rules, Records: []*track.Record{r}, Seen: []track.Observation{o}}
}

// TestTriggers: a plan stands while all goes as it says; each thing that does not has its own reason.
func TestTriggers(t *testing.T) {
	gap := []decide.Phase{{From: at(0), To: at(1), Cluster: "local", Workers: 2}, {From: at(6), To: at(9), Cluster: "local", Workers: 2}}
	moves := []decide.Phase{gap[0], {From: at(3), To: at(6), Cluster: "other", Workers: 2}}
	for name, tc := range map[string]struct {
		now    time.Time
		done   time.Duration
		change func(s *decide.Snapshot, o *track.Observation, r *track.Rules)
		phases []decide.Phase
		want   track.Reason
	}{
		"as planned":                     {now: at(2), done: 4 * time.Hour},
		"within the threshold":           {now: at(2), done: 4*time.Hour - 8*time.Minute},
		"behind":                         {now: at(2), done: 3 * time.Hour, want: track.ProgressDeviates},
		"ahead":                          {now: at(2), done: 5 * time.Hour, want: track.ProgressDeviates},
		"behind in the slot of the plan": {now: at(0.2), done: 0},
		"while it changes":               {now: at(2), done: 3 * time.Hour, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) { s.Tasks[0].Changing = true }},
		"another forecast":               {now: at(2), done: 4 * time.Hour, want: track.NewForecast, change: func(_ *decide.Snapshot, _ *track.Observation, r *track.Rules) { r.Forecast = "g" }},
		"another deadline":               {now: at(2), done: 4 * time.Hour, want: track.ObjectChanged, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) { s.Tasks[0].Deadline = at(30) }},
		"a deadline that moves with the estimate": {now: at(2), done: 4 * time.Hour, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Deadline, s.Tasks[0].LatestStart = at(24.1), at(16)
		}},
		"a deadline that moves with the run time": {now: at(2), done: 4 * time.Hour, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Deadline, s.Tasks[0].Remaining = at(24.2), s.Tasks[0].Remaining+12*time.Minute
		}},
		"a deadline that moves otherwise than the run time": {now: at(2), done: 4 * time.Hour, want: track.ObjectChanged, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Deadline, s.Tasks[0].Remaining = at(23.8), s.Tasks[0].Remaining+12*time.Minute
		}},
		"another request": {now: at(2), done: 4 * time.Hour, want: track.ObjectChanged, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Request = map[string]float64{"cpu": 2}
		}},
		"a longer run time": {now: at(2), done: 4 * time.Hour, want: track.ObjectChanged, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Remaining += 30 * time.Minute
		}},
		"a worker without a node": {now: at(2), done: 4 * time.Hour, want: track.ScaleUpDenied, change: func(_ *decide.Snapshot, o *track.Observation, _ *track.Rules) {
			o.Denied, o.Running = 1, 1
		}},
		"the plan has ended": {now: at(4), done: 8*time.Hour - time.Minute, want: track.PlanEnded},
		"the plan has ended while the task waits in a queue": {now: at(4), change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Unscheduled = true
		}},
		"no progress while the task waits in a queue": {now: at(2), change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Unscheduled = true
		}},
		"another forecast while the task waits in a queue": {now: at(2), want: track.NewForecast, change: func(s *decide.Snapshot, _ *track.Observation, r *track.Rules) {
			s.Tasks[0].Unscheduled, r.Forecast = true, "g"
		}},
		"a pause": {now: at(3), done: 2 * time.Hour, phases: gap},
		"a pause that loses work": {now: at(3), done: 2 * time.Hour, phases: gap, want: track.PauseWouldLose, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].AtRisk = time.Hour
		}},
		"a move": {now: at(3), done: 2 * time.Hour, phases: moves, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) { s.Tasks[0].Cluster = "local" }},
		"a move that costs": {now: at(3), done: 2 * time.Hour, phases: moves, want: track.MoveWouldCost, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) {
			s.Tasks[0].Cluster, s.Tasks[0].TransferKWh = "local", 0.1
		}},
		"a new slot, planned in every slot":         {now: at(0.25), done: 30 * time.Minute, want: track.NewPeriod, change: func(_ *decide.Snapshot, _ *track.Observation, r *track.Rules) { r.EverySlot = true }},
		"the same slot, planned in every slot":      {now: at(0.2), done: 24 * time.Minute, change: func(_ *decide.Snapshot, _ *track.Observation, r *track.Rules) { r.EverySlot = true }},
		"a new slot, Caspian's objective":           {now: at(0.25), done: 30 * time.Minute, want: track.NewPeriod, change: func(s *decide.Snapshot, _ *track.Observation, _ *track.Rules) { s.Objective.Kind = plan.MOSP }},
		"rigid, running, behind, in every new slot": {now: at(2), done: 0, change: func(_ *decide.Snapshot, _ *track.Observation, r *track.Rules) { r.EverySlot = true }},
	} {
		rec := standing(t, tc.phases...)
		s, o := snapshot(t, tc.now, tc.done), seen(tc.done)
		rd := round(s, o, rec)
		if strings.HasPrefix(name, "rigid") {
			s.Tasks[0].Kind, s.Tasks[0].Scaling = workload.Rigid, nil
			r := track.Restore(&decide.Standing{Phases: []decide.Phase{{From: at(0), To: at(1)}}}, &s.Tasks[0], &o, rules, at(0))
			rd.Records[0] = &r
		}
		if tc.change != nil {
			tc.change(s, &rd.Seen[0], &rd.Rules)
		}
		rd.Prepare()
		if got := rd.Triggers[0]; got.Reason != tc.want {
			t.Errorf("%s: %q (%s), want %q", name, got.Reason, got.Message, tc.want)
		}
	}
}

// TestTightTaskIsComparedWithinItsSlot: in the slot of its plan a task is compared with it only if it cannot wait for the next slot.
func TestTightTaskIsComparedWithinItsSlot(t *testing.T) {
	for _, deadline := range []float64{24, 2.2} {
		s, o := snapshot(t, at(0), 0), seen(0)
		s.Tasks[0].Deadline = at(deadline)
		r := track.Restore(&decide.Standing{Phases: []decide.Phase{{From: at(0), To: at(4), Cluster: "local", Workers: 2}}}, &s.Tasks[0], &o, rules, at(0))
		s = snapshot(t, at(0.2), 0)
		s.Tasks[0].Deadline = at(deadline)
		rd := round(s, o, &r)
		rd.Prepare()
		if got := rd.Triggers[0].Reason == track.ProgressDeviates; got != (deadline < 3) {
			t.Errorf("due in %v hours: %+v", deadline, rd.Triggers[0])
		}
	}
}

// TestKeptPlanIsFollowed: a plan that the decision made is followed from then on; one that does what stands already is not a
// new one; the next change of a plan is when to decide again at the latest.
func TestKeptPlanIsFollowed(t *testing.T) {
	later := []decide.Phase{{From: at(3), To: at(5), Cluster: "local", Workers: 4}}
	on := []decide.Phase{{From: at(1), To: at(4), Cluster: "local", Workers: 2}}
	for name, tc := range map[string]struct {
		planned bool
		verb    decide.Verb
		phases  []decide.Phase
		made    track.Reason
		next    time.Time
	}{
		"followed":               {false, decide.Continue, on, "", at(4)},
		"planned as it stands":   {true, decide.Continue, on, "", at(4)},
		"planned otherwise":      {true, decide.Pause, later, track.NoRoom, at(3)},
		"kept where none is":     {false, decide.Continue, nil, "", at(4)},
		"planned at its fastest": {true, decide.Scale, []decide.Phase{{From: at(1), To: at(2.5), Cluster: "local", Workers: 4}}, track.NoRoom, at(2.5)},
	} {
		rec := standing(t)
		s := snapshot(t, at(1), 2*time.Hour)
		rd := round(s, seen(2*time.Hour), rec)
		rd.Prepare()
		var made track.Reason
		wake := rd.Keep(&decide.Decision{Wake: at(24), Actions: []decide.Action{{Task: "a", Verb: tc.verb, Planned: tc.planned, Phases: tc.phases, Workers: 2}}}, func(_ int, tr track.Trigger) { made = tr.Reason })
		if made != tc.made || !wake.Equal(tc.next) {
			t.Errorf("%s: made %q, wake %v; want %q, %v", name, made, wake, tc.made, tc.next)
		}
	}
	// A wake-up of the decision that is earlier is obeyed.
	rd := round(snapshot(t, at(1), 2*time.Hour), seen(2*time.Hour), standing(t))
	rd.Prepare()
	if wake := rd.Keep(&decide.Decision{Wake: at(1.1), Actions: []decide.Action{{Verb: decide.Continue, Phases: on}}}, nil); !wake.Equal(at(1.1)) {
		t.Errorf("wake %v, the decision says %v", wake, at(1.1))
	}
}

// TestQueueIsNoPlan: when the queue of a cluster is expected to start a released task is no plan of
// Lull's. A task that the queue starts sooner runs on; it is not paused until the expected time.
func TestQueueIsNoPlan(t *testing.T) {
	s := snapshot(t, at(1), 0)
	s.Tasks[0].Unscheduled = true
	rec := &track.Record{}
	rd := round(s, seen(0), rec)
	rd.Prepare()
	rd.Keep(&decide.Decision{Wake: at(24), Actions: []decide.Action{{
		Task: "a", Verb: decide.Continue, Workers: 2, Reason: decide.Reason{Code: decide.CodeUnscheduled},
		Phases: []decide.Phase{{From: at(20), To: at(28), Cluster: "local", Workers: 1}},
	}}}, nil)
	if phase, _, _ := rec.Standing().At(at(1.5)); phase == nil {
		t.Errorf("the plan is %+v, want one that runs now", rec.Standing())
	}
}

// TestQueueKeepsThePlan: a task that its plan has released waits for room. Its plan is kept, with the reason for which it was made,
// however often the task is observed. A decision that plans it at another scale is a new plan.
func TestQueueKeepsThePlan(t *testing.T) {
	rec := standing(t, decide.Phase{From: at(0), To: at(4), Cluster: "local", Workers: 2})
	planned := rec.Standing().Phases
	for _, now := range []float64{1, 3, 5} {
		s := snapshot(t, at(now), 0)
		s.Tasks[0].Unscheduled = true
		rd := round(s, seen(0), rec)
		rd.Prepare()
		rd.Keep(&decide.Decision{Wake: at(24), Actions: []decide.Action{{
			Task: "a", Verb: decide.Continue, Workers: 2, Reason: decide.Reason{Code: decide.CodeUnscheduled}, Plan: planned,
			Phases: []decide.Phase{{From: at(20), To: at(24), Cluster: "local", Workers: 2}},
		}}}, func(_ int, tr track.Trigger) { t.Errorf("at %v: a new plan (%s)", at(now), tr.Reason) })
		if got := rec.Standing(); len(got.Phases) != 1 || got.Phases[0] != planned[0] {
			t.Errorf("at %v: the plan is %+v, want %+v", at(now), got.Phases, planned)
		}
	}
	s := snapshot(t, at(1), 2*time.Hour)
	rd, made := round(s, seen(2*time.Hour), rec), 0
	rd.Prepare()
	rd.Keep(&decide.Decision{Wake: at(24), Actions: []decide.Action{{
		Task: "a", Verb: decide.Scale, Workers: 3, Planned: true, Phases: []decide.Phase{{From: at(0), To: at(4), Cluster: "local", Workers: 3}},
	}}}, func(int, track.Trigger) { made++ })
	if made != 1 || rec.Standing().Phases[0].Workers != 3 {
		t.Errorf("%d new plans, and %+v is kept; want the one with 3 workers", made, rec.Standing().Phases)
	}
}

// TestAnnouncedReleaseIsRecorded: a task that was held until its plan starts is to be released when it is
// submitted, and expected to start at the same time. That is a plan of its own.
func TestAnnouncedReleaseIsRecorded(t *testing.T) {
	s := snapshot(t, at(1), 0)
	s.Tasks[0].State, s.Tasks[0].Workers, s.Tasks[0].NotBefore = decide.Waiting, 0, at(2)
	rec := standing(t, decide.Phase{From: at(3), To: at(7), Cluster: "local", Workers: 2})
	rd := round(s, track.Observation{Speed: 1}, rec)
	rd.Prepare()
	rd.Keep(&decide.Decision{Wake: at(2), Actions: []decide.Action{{
		Task: "a", Verb: decide.Wait, Planned: true, Reason: decide.Reason{Code: decide.CodeClusterQueue}, Phases: rec.Standing().Phases,
	}}}, nil)
	if code := rec.Standing().Reason.Code; code != decide.CodeClusterQueue {
		t.Errorf("the plan is kept for %q; want ClusterQueue", code)
	}
}

// TestExpectedProgressCountsFromThePlan: what a plan expects counts from when it was made, at the speed of each scale.
func TestExpectedProgressCountsFromThePlan(t *testing.T) {
	r := standing(t, decide.Phase{From: at(-1), To: at(1), Workers: 2}, decide.Phase{From: at(2), To: at(4), Workers: 4})
	for now, want := range map[float64]float64{0: 0, 0.5: 1, 1.5: 2, 3: 6, 9: 10} {
		if got := r.Expected(at(now)).Hours(); got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("hour %v: %v hours of work expected, want %v", now, got, want)
		}
	}
}

// TestThroughputOfSteps: a task states its progress every seven minutes, and decisions look every minute. Each measurement is right
// by a look, not by a step.
func TestThroughputOfSteps(t *testing.T) {
	for _, phase := range []time.Duration{0, time.Minute, 3 * time.Minute, 6 * time.Minute} {
		r, n := standing(t), 0
		for look := time.Duration(0); look < 3*time.Hour; look += time.Minute {
			done := (look + phase).Truncate(7*time.Minute) * 8 / 5 // 1.6 times the work of the least scale
			s, o := snapshot(t, at(0).Add(look), done), seen(done)
			o.Measured = true
			round(s, o, r).Prepare()
			rate, ok := r.Measured()
			if !ok {
				continue
			}
			n++
			if rate.Workers != 2 || math.Abs(rate.Value-1.6) > 1.6/15 {
				t.Errorf("first step after %v, at %v: measured %.2f with %d workers, want 1.60 with 2", 7*time.Minute-phase, look, rate.Value, rate.Workers)
			}
		}
		if n == 0 {
			t.Errorf("first step after %v: nothing was measured", 7*time.Minute-phase)
		}
	}
}

// TestNoMoreWorkersAreAskedForThanFoundNodes: no more workers are asked for than found a node, for an hour.
func TestNoMoreWorkersAreAskedForThanFoundNodes(t *testing.T) {
	r := standing(t)
	check := func(h float64, denied int) track.Reason {
		done := time.Duration(2 * h * float64(time.Hour))
		o := seen(done)
		o.Denied, o.Running = denied, 2-denied
		rd := round(snapshot(t, at(h), done), o, r)
		rd.Prepare()
		return rd.Triggers[0].Reason
	}
	if got := check(1, 1); got != track.ScaleUpDenied || r.MostWorkers() != 1 {
		t.Fatalf("%q, at most %d workers", got, r.MostWorkers())
	}
	if got := check(1.5, 1); got != "" || r.MostWorkers() != 1 {
		t.Errorf("half an hour later: %q, at most %d workers", got, r.MostWorkers())
	}
	if got := check(2, 0); got != track.ScaleUpDenied || r.MostWorkers() != 0 {
		t.Errorf("an hour later: %q, at most %d workers", got, r.MostWorkers())
	}
}

// TestNewcomerIsPlanned: a task without a plan is planned, but with Caspian's objective not before the next slot.
func TestNewcomerIsPlanned(t *testing.T) {
	for _, soft := range []bool{false, true} {
		s := snapshot(t, at(0.1), 0)
		s.Tasks[0].State, s.Tasks[0].Submitted = decide.Waiting, at(0.05)
		if soft {
			s.Objective.Kind = plan.MOSP
		}
		rd := round(s, seen(0), &track.Record{})
		rd.Prepare()
		if got := rd.Triggers[0].Reason; (got == track.Submitted) == soft {
			t.Errorf("Caspian's objective %v: %q", soft, got)
		}
	}
}
