package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// cleanerAt is a day at 300 g, and two hours of another intensity from an hour on.
func cleanerAt(t *testing.T, hour int, then units.CarbonIntensity) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		v := units.CarbonIntensity(300)
		if h == hour || h == hour+1 {
			v = then
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: v})
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// threeTasks are tasks of two hours that may wait for a day: one that waits, one that runs and may pause, and one that waits and scales.
func threeTasks() (waits, running, elastic decide.Task) {
	waits = task("a", at(0), at(24), 2*time.Hour)
	running = waits
	running.Kind, running.State, running.Cluster = workload.Interruptible, decide.Running, "c"
	elastic = waits
	elastic.Kind, elastic.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}
	elastic.Request = map[string]float64{"cpu": 1}
	return waits, running, elastic
}

// TestTaskWaitsOnlyForTheLeastSaving: a task waits, pauses or moves only for the least saving, if there is room for it now.
func TestTaskWaitsOnlyForTheLeastSaving(t *testing.T) {
	waits, running, elastic := threeTasks()
	paused := waits
	paused.Kind, paused.Paused, paused.Changed = workload.Interruptible, true, at(0)
	for name, tc := range map[string]struct {
		task     decide.Task
		then     units.CarbonIntensity
		least    float64
		capacity float64
		now      bool
		code     decide.Code
	}{
		"no least saving":               {waits, 299.9, 0, 8, false, decide.CodeCleanerLater},
		"little to save":                {waits, 299.9, 0.01, 8, true, decide.CodeSavingTooSmall},
		"enough to save":                {waits, 290, 0.01, 8, false, decide.CodeCleanerLater},
		"exactly the least saving":      {waits, 285, 0.05, 8, false, decide.CodeCleanerLater},
		"just below":                    {waits, 285.1, 0.05, 8, true, decide.CodeSavingTooSmall},
		"elastic":                       {elastic, 299.9, 0.01, 8, true, decide.CodeSavingTooSmall},
		"runs, a pause saves little":    {running, 299.9, 0.01, 8, true, decide.CodeSavingTooSmall},
		"runs, a pause saves enough":    {running, 200, 0.01, 8, false, decide.CodeCleanerLater},
		"paused for the least time":     {paused, 299.9, 0.01, 8, false, decide.CodeCleanerLater},
		"no room now, little to save":   {waits, 299.9, 0.01, -1, false, decide.CodeCleanerLater},
		"reserve taken, little to save": {waits, 299.9, 0.01, -2, false, decide.CodeCleanerLater},
	} {
		for planned, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "cheapest": cheapest.Planner{}} {
			s := snapshot(t, at(0), tc.task)
			s.Slot, s.MinSaving, s.MinPause = time.Hour, tc.least, 30*time.Minute
			s.Clusters[0].Carbon = cleanerAt(t, 10, tc.then)
			s.Clusters[0].Capacity = map[string]float64{"cpu": max(8, tc.capacity)}
			switch tc.capacity {
			case -1:
				s.Clusters[0].LoadAt = map[string][]float64{"cpu": {8, 8, 0}}
			case -2:
				s.Clusters[0].LoadAt = map[string][]float64{"cpu": {5, 5, 0}}
				s.Reserve = 0.3
			}
			d, err := decide.Decide(t.Context(), s, planner)
			if err != nil {
				t.Fatal(err)
			}
			a := d.Actions[0]
			if now := len(a.Phases) > 0 && !a.Phases[0].From.After(s.Now); now != tc.now || a.Reason.Code != tc.code {
				t.Errorf("%s, %s: %s (%s), %v; want it to run now: %v, %s", name, planned, a.Verb, a.Reason.Code, a.Phases, tc.now, tc.code)
			}
			for _, v := range decide.Verify(s, d) {
				t.Errorf("%s, %s: %v", name, planned, v)
			}
		}
	}
	s := snapshot(t, at(0), waits)
	for _, bad := range []float64{-0.1, 1} {
		if s.MinSaving = bad; true {
			if _, err := decide.Decide(t.Context(), s, joint.Planner{}); err == nil {
				t.Errorf("a least saving of %v is accepted", bad)
			}
		}
	}
}

// TestLeastSavingKeepsDeadlines: with a least saving no deadline is lost that is kept as submitted, and no invariant is broken.
func TestLeastSavingKeepsDeadlines(t *testing.T) {
	all := []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}
	early := 0
	for seed := range uint64(3) {
		reference := randomWorld(seed, 0.6, true, all)
		reference.run(t, nil)
		w := randomWorld(seed, 0.6, true, all)
		w.least = 0.2
		w.decided = func(_ decide.Snapshot, d decide.Decision) {
			for _, a := range d.Actions {
				if a.Reason.Code == decide.CodeSavingTooSmall {
					early++
				}
			}
		}
		for _, v := range w.run(t, joint.Planner{Effort: 0.02}) {
			t.Errorf("seed %d: %s", seed, v)
		}
		for k, x := range w.jobs {
			if due := x.task.Deadline; !due.IsZero() && !reference.jobs[k].finish.After(due) && x.finish.After(due.Add(time.Millisecond)) {
				t.Errorf("seed %d: %s ends %v after its deadline", seed, x.task.ID, x.finish.Sub(due))
			}
		}
	}
	if early == 0 {
		t.Error("no task ran early for the least saving")
	}
}
