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

// TestEnergyAddsUpOverAnyCut: energy and emissions add up over any cut of the time.
func TestEnergyAddsUpOverAnyCut(t *testing.T) {
	total := func(steps ...float64) (kwh, grams float64) {
		m := New()
		planned(t, m, view(t, at(0), 2, 0), "f")
		for _, h := range steps {
			m.Prepare(view(t, at(h), 2, time.Duration(2*h*float64(time.Hour))), "f", 0.05, kube.Context{})
		}
		r := m.record(view(t, at(0), 2, 0).Workloads[0])
		return r.energyKWh, r.emittedG
	}
	for _, steps := range [][]float64{{3}, {1, 2, 3}, {0.1, 2.7, 3}} {
		kwh, grams := total(steps...)
		if diff(kwh, 0.6) || diff(grams, 120) { // 200 W for three hours at 200 g/kWh
			t.Errorf("steps %v: %v kWh, %v g, want 0.6 and 120", steps, kwh, grams)
		}
	}
}

// TestCountingWithoutIntensities: the series may begin after what is counted began, or after a controller was down.
func TestCountingWithoutIntensities(t *testing.T) {
	for _, begins := range []float64{2, 3} {
		m := New()
		planned(t, m, view(t, at(0), 2, 0), "f")
		v := view(t, at(3), 2, 6*time.Hour)
		s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, []carbon.Sample{{From: at(begins), To: at(48), Value: 200}})
		if err != nil {
			t.Fatal(err)
		}
		v.Snapshot.Clusters[0].Carbon = s
		m.Prepare(v, "f", 0.05, kube.Context{})
		if got := m.record(v.Workloads[0]).emittedG; diff(got, 120) {
			t.Errorf("a series from hour %v on: %v g for 0.6 kWh at 200 g/kWh, want 120", begins, got)
		}
	}
}

// TestCountingFillsOrWithholds counts two hours, the second without an intensity. The
// same hour of the day before stands in; without one, no emissions and no saving are stated,
// also by a controller that starts later.
func TestCountingFillsOrWithholds(t *testing.T) {
	for name, tc := range map[string]struct {
		samples  []carbon.Sample
		grams    float64
		unpriced float64
	}{
		"the day before": {[]carbon.Sample{{From: at(-23), To: at(-22), Value: 500}, {From: at(0), To: at(1), Value: 200}}, 40 + 100, 0},
		"none":           {[]carbon.Sample{{From: at(0), To: at(1), Value: 200}}, 0, 0.2},
	} {
		m := New()
		planned(t, m, view(t, at(0), 2, 0), "f")
		v := view(t, at(2), 2, 4*time.Hour)
		s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, tc.samples)
		if err != nil {
			t.Fatal(err)
		}
		v.Snapshot.Clusters[0].Carbon = s
		m.Prepare(v, "f", 0.05, kube.Context{})
		status := m.Status(v, 0, &decide.Action{})
		if diff(status.EmittedG, tc.grams) || diff(status.UnpricedKWh, tc.unpriced) || diff(status.EnergyKWh, 0.4) || (status.Shown.Saves == "withheld") != (tc.unpriced > 0) {
			t.Errorf("%s: %+v; want %v g, %v kWh without a price", name, status, tc.grams, tc.unpriced)
		}
		if tc.unpriced > 0 && (status.ExpectedG != nil || status.BaselineG != 0) {
			t.Errorf("%s: %v g expected, %v g at once; want none stated", name, status.ExpectedG, status.BaselineG)
		}
		later := New()
		later.Load(v.Workloads[0], &v1alpha1.CarbonPlan{Spec: v1alpha1.CarbonPlanSpec{Workload: v1alpha1.WorkloadReference{UID: v.Workloads[0].UID()}}, Status: status})
		if got := later.record(v.Workloads[0]); diff(got.unpricedKWh, tc.unpriced) || diff(got.emittedG, tc.grams) {
			t.Errorf("%s: loaded %v g and %v kWh", name, got.emittedG, got.unpricedKWh)
		}
	}
}

// TestLoadRefusesImpossibleFigures: what a plan states beyond what a workload can use counts as nothing.
func TestLoadRefusesImpossibleFigures(t *testing.T) {
	m, v := New(), view(t, at(0), 2, 0)
	w := v.Workloads[0]
	m.Load(w, &v1alpha1.CarbonPlan{Spec: v1alpha1.CarbonPlanSpec{Workload: v1alpha1.WorkloadReference{UID: w.UID()}}, Status: v1alpha1.CarbonPlanStatus{EnergyKWh: 1e305, EmittedG: 1e308, MeasuredKWh: 2}})
	if r := m.record(w); r.energyKWh != 0 || r.emittedG != 0 || r.measuredKWh != 2 {
		t.Errorf("loaded %v kWh, %v g, %v kWh measured", r.energyKWh, r.emittedG, r.measuredKWh)
	}
}

// TestCountingWithoutPods: a Job whose pods a ResourceQuota refuses uses no energy.
func TestCountingWithoutPods(t *testing.T) {
	m := New()
	planned(t, m, view(t, at(0), 2, 0), "f")
	v := view(t, at(3), 2, 0)
	v.Progress[0].Running, v.Progress[0].Idle = 0, true
	m.Prepare(v, "f", 0.05, kube.Context{})
	r := m.record(v.Workloads[0])
	if r.energyKWh != 0 || m.Used().EmittedG != 0 {
		t.Errorf("without a pod: %v kWh", r.energyKWh)
	}
	// What runs later counts from then on.
	m.Prepare(view(t, at(4), 2, 0), "f", 0.05, kube.Context{})
	if diff(r.energyKWh, 0.2) {
		t.Errorf("an hour of 200 W: %v kWh", r.energyKWh)
	}
}

// TestCountingWithoutNodes: pods that have no node draw nothing, whatever the kind.
func TestCountingWithoutNodes(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Elastic, workload.Rigid} {
		m := New()
		planned(t, m, view(t, at(0), 2, 0), "f")
		for running, kwh := range []float64{0, 0.3, 0.6} { // of 200 W for three hours
			v := view(t, at(float64(3*(running+1))), 2, 0)
			p, task := &v.Progress[0], &v.Snapshot.Tasks[0]
			if p.Running, p.Pending, task.Kind = running, 2-running, kind; kind == workload.Rigid {
				task.Scaling = nil
			}
			r := m.record(v.Workloads[0])
			r.energyKWh = 0
			m.Prepare(v, "f", 0.05, kube.Context{})
			if diff(r.energyKWh, kwh) {
				t.Errorf("%s, %d of 2 pods run: %v kWh, want %v", kind, running, r.energyKWh, kwh)
			}
		}
	}
}

// TestBaselineFollowsTheWork: work that takes twice as long as was expected would have done so as submitted too; what
// is released at once saves nothing; what was paused, and may have done work twice, is compared with what was expected.
func TestBaselineFollowsTheWork(t *testing.T) {
	for name, tc := range map[string]struct {
		kind               workload.Kind
		starts             int32
		immediate          float64
		planned, over      float64 // baselineG
		expected, finished string  // what it saves
	}{
		"in one piece":   {workload.Rigid, 1, 320, 320, 640, "50%", "50%"},
		"let go at once": {workload.Rigid, 1, 0, 160, 320, "0%", "0%"},
		"never paused":   {workload.Interruptible, 1, 320, 320, 640, "50%", "50%"},
		"paused":         {workload.Interruptible, 2, 320, 320, 320, "50%", "0%"},
	} {
		m := New()
		see := func(h float64) *kube.View {
			v := view(t, at(h), 2, 0) // 200 W, 200 g/kWh
			task := &v.Snapshot.Tasks[0]
			task.Kind, task.Scaling, task.Cluster = tc.kind, nil, "local"
			return v
		}
		v := see(0)
		a := decide.Action{Verb: decide.Release, Reason: decide.Reason{Code: decide.CodeCleanNow, ImmediateG: units.Emissions(tc.immediate)}}
		a.Planned, a.Phases = true, []decide.Phase{{From: at(0), To: at(4), Cluster: "local", Workers: 1, Intensity: 200}}
		m.Keep(v, &decide.Decision{Actions: []decide.Action{a}}, m.Prepare(v, "f", 0.05, kube.Context{}))
		m.record(v.Workloads[0]).starts = tc.starts
		s := m.Status(v, 0, &a)
		if diff(s.BaselineG, tc.planned) || s.Shown.Saves != tc.expected {
			t.Errorf("%s: planned against %v g, saves %s; want %+v", name, s.BaselineG, s.Shown.Saves, tc)
		}
		m.Prepare(see(4), "f", 0.05, kube.Context{})
		v = see(8)
		m.Prepare(v, "f", 0.05, kube.Context{})
		s = m.Status(v, 0, &a)
		m.Wrote(v.Workloads[0], &s, at(8))
		f, ended := m.FinishedStatus(v.Workloads[0])
		if !ended || diff(f.EmittedG, 320) || diff(f.BaselineG, tc.over) || f.Shown.Saves != tc.finished {
			t.Errorf("%s: ended with %v g against %v g, saves %s; want %+v", name, f.EmittedG, f.BaselineG, f.Shown.Saves, tc)
		}
	}
}

// TestEnergyUpToTheEnd: the plan of a workload that has ended has the energy up to its end, by the time of the object, not
// up to the last reconciliation before, as the ledger has it. What did not run then draws nothing.
func TestEnergyUpToTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end  string
		idle bool
		kWh  float64
	}{
		"after the last look":      {"2026-03-01T02:30:00Z", false, 0.5},
		"at the last look":         {"2026-03-01T02:00:00Z", false, 0.4},
		"before it, seen late":     {"2026-03-01T01:59:00Z", false, 0.4},
		"after a look at idleness": {"2026-03-01T02:30:00Z", true, 0.2},
	} {
		m := New()
		v := view(t, at(0), 2, 0) // 200 W
		planned(t, m, v, "f")
		m.Prepare(view(t, at(1), 2, 0), "f", 0.05, kube.Context{})
		v = view(t, at(2), 2, 0)
		v.Progress[0].Idle = tc.idle
		m.Prepare(v, "f", 0.05, kube.Context{})
		w := v.Workloads[0]
		s := m.Status(v, 0, &decide.Action{Verb: decide.Release})
		m.Wrote(w, &s, at(2))
		ended := job(t, `{metadata: {name: a, namespace: ns, uid: u1, labels: {team: x}}, spec: {parallelism: 1}, status: {startTime: "2026-03-01T00:00:00Z", completionTime: "`+tc.end+`", conditions: [{type: Complete, status: "True"}]}}`)
		last := &kube.View{Snapshot: v.Snapshot, Finished: []*kube.Workload{ended}}
		last.Snapshot.Now = at(3)
		m.Ended(last, kube.Context{})
		m.Ended(last, kube.Context{}) // seen again: counts once
		f, ok := m.FinishedStatus(ended)
		if !ok || diff(f.EnergyKWh, tc.kWh) || diff(f.EmittedG, 200*tc.kWh) || m.Used().EnergyKWh[kube.FromModel] > tc.kWh+1e-9 {
			t.Errorf("%s: %v kWh, %v g; want %v kWh", name, f.EnergyKWh, f.EmittedG, tc.kWh)
		}
	}
}

func diff(a, b float64) bool { return a-b > 1e-9 || b-a > 1e-9 }

// TestMeasuredPowerReplacesTheModel: measured power counts in place of the model, and is told apart.
func TestMeasuredPowerReplacesTheModel(t *testing.T) {
	m := New()
	planned(t, m, view(t, at(0), 2, 0), "f")
	m.Prepare(view(t, at(1), 2, 2*time.Hour), "f", 0.05, kube.Context{}) // 200 W by the model
	v := view(t, at(3), 2, 6*time.Hour)
	v.Progress[0].Drawn, v.Progress[0].DrawnFrom = 50, "kepler"
	m.Prepare(v, "f", 0.05, kube.Context{})
	s := m.Status(v, 0, &decide.Action{Verb: decide.Continue})
	if diff(s.EnergyKWh, 0.3) || diff(s.MeasuredKWh, 0.1) || s.EnergySource != "kepler" || diff(s.EmittedG, 60) {
		t.Errorf("energy %v kWh, of it %v measured, by %s, %v g", s.EnergyKWh, s.MeasuredKWh, s.EnergySource, s.EmittedG)
	}
	v = view(t, at(5), 2, 4*time.Hour)
	v.Progress[0].Drawn, v.Progress[0].Modelled, v.Progress[0].DrawnFrom = 300, 240, "kepler+model"
	m.Prepare(v, "f", 0.05, kube.Context{})
	s = m.Status(v, 0, &decide.Action{Verb: decide.Continue})
	if diff(s.EnergyKWh, 0.9) || diff(s.MeasuredKWh, 0.22) || s.EnergySource != "kepler+model" {
		t.Errorf("energy %v kWh, of it %v measured, by %s; want 0.6 kWh more, of which 0.12 measured", s.EnergyKWh, s.MeasuredKWh, s.EnergySource)
	}
}
