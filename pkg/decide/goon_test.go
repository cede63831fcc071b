package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// hourly has one intensity an hour from t0 on, the last one for the rest of two days.
func hourly(t *testing.T, values ...units.CarbonIntensity) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: values[min(h, len(values)-1)]})
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheCostOfAPauseIsPartOfThePlan: a running task has an hour left, and would do three again after a
// pause. Another task fits into the next two hours only. The cleanest hours, which a rule would
// compare with, are taken; in those that are free the running task would emit more than by going on. Both
// run one after the other: planned without the cost of the pause, the other task would take the present hour.
func TestTheCostOfAPauseIsPartOfThePlan(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"exact": exact.Planner{}, "joint": joint.Planner{}, "carbonscaler": carbonscaler.Planner{}} {
		run := task("run", at(0), at(12), 3*time.Hour)
		run.Kind, run.State, run.Cluster, run.AtRisk = workload.Interruptible, decide.Running, "c", 2*time.Hour
		s := snapshot(t, at(0), run, task("other", at(0), at(2.1), time.Hour))
		s.Slot = time.Hour
		c := &s.Clusters[0]
		c.Capacity, c.Carbon = map[string]float64{"cpu": 2}, hourly(t, 200, 210, 500, 10, 10, 10, 100)
		c.LoadAt = map[string][]float64{"cpu": {0, 0, 0, 2, 2, 2}}
		d := must(t, s, planner)
		if a := d.Actions[0]; a.Verb != decide.Continue || len(a.Phases) != 1 || !a.Phases[0].To.Equal(at(1)) {
			t.Errorf("%s: the running task: %s (%s) with %+v, want it to go on until 1:00", name, a.Verb, a.Reason.Code, a.Phases)
		}
		if a := d.Actions[1]; a.Verb != decide.Wait || !a.Phases[0].From.Equal(at(1)) {
			t.Errorf("%s: the other task: %s with %+v, want it at 1:00", name, a.Verb, a.Phases)
		}
	}
}

// TestRestartsArePartOfThePlan: a pause that saves less than the restart takes is left out by planners
// that count restarts and by those that do not; one that saves more is made. The reason says so.
func TestRestartsArePartOfThePlan(t *testing.T) {
	for name, planner := range map[string]plan.Planner{
		"exact": exact.Planner{}, "joint": joint.Planner{}, "cheapest": cheapest.Planner{}, "carbonscaler": carbonscaler.Planner{},
	} {
		for kWh, want := range map[float64]decide.Verb{0.01: decide.Pause, 0.1: decide.Continue} {
			run := task("run", at(0), at(12), 2*time.Hour) // 40 Wh
			run.Kind, run.State, run.Cluster, run.RestartKWh = workload.Interruptible, decide.Running, "c", kWh
			s := snapshot(t, at(0), run)
			s.Slot, s.Clusters[0].Carbon = time.Hour, hourly(t, 400, 400, 200, 200, 400)
			a := must(t, s, planner).Actions[0]
			if a.Verb != want || want == decide.Continue && a.Reason.Code != decide.CodePauseDoesNotPay {
				t.Errorf("%s, %v kWh: %s (%s), want %s", name, kWh, a.Verb, a.Reason.Code, want)
			}
		}
	}
}

// TestAPausedTaskStaysWhereItsTransferCosts: where a paused task goes on is chosen with its transfer.
func TestAPausedTaskStaysWhereItsTransferCosts(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "cheapest": cheapest.Planner{}} {
		for kWh, want := range map[float64]string{0: "cleaner", 0.5: "c"} {
			x := task("a", at(0), at(12), 2*time.Hour)
			x.Kind, x.Paused, x.Cluster, x.Migratable, x.TransferKWh = workload.Interruptible, true, "c", true, kWh
			s := snapshot(t, at(0), x)
			s.Clusters[0].Carbon = steady(t, 300)
			cleaner := s.Clusters[0]
			cleaner.Name, cleaner.Carbon = "cleaner", steady(t, 100)
			s.Clusters = append(s.Clusters, cleaner)
			if a := must(t, s, planner).Actions[0]; a.Verb != decide.Resume || a.Cluster != want {
				t.Errorf("%s, %v kWh: %s at %q, want Resume at %q", name, kWh, a.Verb, a.Cluster, want)
			}
		}
	}
}
