package feedback

import (
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// TestNoSavingWithoutZone: the zone of a waiting workload that has a plan goes, and the workload is released. Its plan states no
// saving, also after a restart of the controller, but keeps its baseline. The zone comes back, and the saving is stated against the same
// baseline.
func TestNoSavingWithoutZone(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		m := New()
		see := func(h float64) *kube.View {
			v := view(t, at(h), 1, 0)
			task := &v.Snapshot.Tasks[0]
			task.Kind, task.State, task.Cluster = kind, decide.Waiting, "local"
			if kind != workload.Elastic {
				task.Scaling = nil
			}
			return v
		}
		waits := decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeCleanerLater, ImmediateG: units.Emissions(960)}}
		waits.Planned = true
		plan := func(h float64) v1alpha1.CarbonPlanStatus {
			v := see(h)
			waits.Phases = []decide.Phase{{From: at(h + 4), To: at(h + 12), Cluster: "local", Workers: 1, Intensity: 100}}
			m.Keep(v, &decide.Decision{Actions: []decide.Action{waits}}, m.Prepare(v, "f", 0.05, kube.Context{Now: at(h)}))
			return m.Status(v, 0, &waits)
		}
		first := plan(0)
		if first.BaselineG != 960 || first.ExpectedG == nil || first.Shown.Saves == "" {
			t.Fatalf("%v: planned with %+v", kind, first)
		}
		for _, restart := range []bool{false, true} {
			for _, h := range []float64{1, 5, 9} {
				v := see(h)
				v.Snapshot.Clusters[0].Carbon = nil
				due := m.Prepare(v, "", 0.05, kube.Context{Now: at(h)})
				d := decide.RunAll(v.Snapshot, decide.CodeNoCarbonData)
				m.Keep(v, &d, due)
				s := m.Status(v, 0, &d.Actions[0])
				if s.Shown.Saves != "" || s.ExpectedG != nil || s.BaselineG == 0 {
					t.Errorf("%v, after %v, restart %v: %v g at once, saves %q", kind, time.Duration(h)*time.Hour, restart, s.BaselineG, s.Shown.Saves)
				}
				if restart {
					m = restarted(v, s)
				}
			}
		}
		if s := plan(9); s.ExpectedG == nil || *s.ExpectedG != *first.ExpectedG || s.BaselineG != first.BaselineG || s.Shown.Saves != first.Shown.Saves {
			t.Errorf("%v, the zone is back: %+v, want %+v", kind, s.Shown, first.Shown)
		}
	}
}

// restarted is the memory of a controller that starts after another one has written s.
func restarted(v *kube.View, s v1alpha1.CarbonPlanStatus) *Memory {
	m := New()
	m.Load(v.Workloads[0], &v1alpha1.CarbonPlan{Spec: v1alpha1.CarbonPlanSpec{Workload: v1alpha1.WorkloadReference{UID: v.Workloads[0].UID()}}, Status: s})
	return m
}

// TestPlanWithoutDataIsNotClean: a workload begins to run while the series of its zone has ended, so its plan has no intensity. The series goes on, and
// the plan stands: it emits what the series says, not nothing.
func TestPlanWithoutDataIsNotClean(t *testing.T) {
	m, v := New(), view(t, at(0), 1, 0)
	ended, err := carbon.NewSeries(carbon.Provenance{Zone: "Z"}, []carbon.Sample{{From: at(-2), To: at(-1), Value: 200}})
	if err != nil {
		t.Fatal(err)
	}
	v.Snapshot.Clusters[0].Carbon = ended
	due := m.Prepare(v, "f", 0.05, kube.Context{Now: at(0)})
	d := decide.RunAll(v.Snapshot, decide.CodeNoCarbonData)
	m.Keep(v, &d, due)
	if s := m.Status(v, 0, &d.Actions[0]); s.ExpectedG != nil {
		t.Errorf("the series has ended: %v g", *s.ExpectedG)
	}
	v = view(t, at(0), 1, 0)
	if due := m.Prepare(v, "f", 0.05, kube.Context{Now: at(0)}); len(due) > 0 {
		t.Errorf("planned anew: %v", due)
	}
	if s := m.Status(v, 0, &d.Actions[0]); s.ExpectedG == nil || diff(*s.ExpectedG, 160) {
		t.Errorf("the series goes on: %+v", s)
	}
}

// TestSavingOfCleanPower: emissions of zero are known, and save all.
func TestSavingOfCleanPower(t *testing.T) {
	m, v := New(), view(t, at(0), 1, 0)
	v.Snapshot.Clusters[0].Carbon = flat(t, 0)
	a := decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeCleanerLater, ImmediateG: 320}}
	a.Planned, a.Phases = true, []decide.Phase{{From: at(4), To: at(8), Cluster: "local", Workers: 1}}
	m.Keep(v, &decide.Decision{Actions: []decide.Action{a}}, m.Prepare(v, "f", 0.05, kube.Context{}))
	if s := m.Status(v, 0, &a); s.ExpectedG == nil || *s.ExpectedG != 0 || s.Shown.Saves != "100%" {
		t.Errorf("%+v", s)
	}
}

// TestNoSavingOfOverrun: work remains after the end of its plan, so what it will emit is not known.
func TestNoSavingOfOverrun(t *testing.T) {
	m, v := New(), view(t, at(0), 2, 0)
	planned(t, m, v, "f")
	m.record(v.Workloads[0]).baselineG = 320
	for _, tc := range []struct {
		done  time.Duration
		known bool
	}{{6 * time.Hour, false}, {8 * time.Hour, true}} {
		if s := m.Status(view(t, at(5), 2, tc.done), 0, &decide.Action{}); (s.ExpectedG != nil) != tc.known || (s.Shown.Saves != "") != tc.known || s.BaselineG != 320 {
			t.Errorf("%v of 8 h done at the end of the plan: %+v", tc.done, s)
		}
	}
}

// TestBaselineWaitsForIntensity: work that is first planned without a zone has no baseline until there is one.
func TestBaselineWaitsForIntensity(t *testing.T) {
	m, v := New(), view(t, at(0), 1, 0)
	v.Snapshot.Tasks[0].State = decide.Waiting
	v.Snapshot.Clusters[0].Carbon = nil
	due := m.Prepare(v, "", 0.05, kube.Context{})
	d := decide.RunAll(v.Snapshot, decide.CodeNoCarbonData)
	m.record(v.Workloads[0]).emittedG = 7
	m.Keep(v, &d, due)
	if s := m.Status(v, 0, &d.Actions[0]); s.BaselineG != 0 || s.ExpectedG != nil || s.Shown.Saves != "" {
		t.Errorf("%+v", s)
	}
}

// TestNoEnergyIsNoSaving: work that may pause ends before any of its energy is counted. Its plan keeps the baseline and states no saving.
func TestNoEnergyIsNoSaving(t *testing.T) {
	m, v := New(), view(t, at(0), 2, 0)
	task := &v.Snapshot.Tasks[0]
	task.Kind, task.Scaling, task.Cluster = workload.Interruptible, nil, "local"
	a := decide.Action{Verb: decide.Release, Planned: true, Reason: decide.Reason{Code: decide.CodeCleanNow, ImmediateG: 320}}
	a.Phases = []decide.Phase{{From: at(0), To: at(4), Cluster: "local", Workers: 1, Intensity: 200}}
	m.Keep(v, &decide.Decision{Actions: []decide.Action{a}}, m.Prepare(v, "f", 0.05, kube.Context{}))
	m.record(v.Workloads[0]).starts = 2
	s := m.Status(v, 0, &a)
	m.Wrote(v.Workloads[0], &s, at(0))
	f, ended := m.FinishedStatus(v.Workloads[0])
	if !ended || f.EnergyKWh != 0 || f.ExpectedG != nil || diff(f.BaselineG, 320) || f.Shown.Saves != "" {
		t.Errorf("ended: %v, with %v kWh, expected %v, against %v g, saves %q", ended, f.EnergyKWh, f.ExpectedG, f.BaselineG, f.Shown.Saves)
	}
}
