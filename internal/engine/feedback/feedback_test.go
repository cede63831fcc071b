package feedback

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
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

func job(t *testing.T, text string) *kube.Workload {
	t.Helper()
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return kube.NewWorkload(named[0], &unstructured.Unstructured{Object: obj})
}

func flat(t *testing.T, value float64) *carbon.Series {
	t.Helper()
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, []carbon.Sample{{From: at(-24), To: at(48), Value: units.CarbonIntensity(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// view is a running elastic task of up to four workers, at the given time.
func view(t *testing.T, now time.Time, workers int, done time.Duration) *kube.View {
	t.Helper()
	model, err := power.NewPerUnit(map[string]float64{"cpu": 100}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := job(t, `{metadata: {name: a, namespace: ns, uid: u1, labels: {team: x}}, spec: {parallelism: 1}}`)
	return &kube.View{
		Snapshot: decide.Snapshot{
			Now: now, Slot: 15 * time.Minute,
			Clusters: []decide.Cluster{{Name: "local", Power: model, Carbon: flat(t, 200)}},
			Tasks: []decide.Task{{
				ID: "u1", Kind: workload.Elastic, State: decide.Running, Workers: workers, Deadline: at(24), Remaining: 8*time.Hour - done,
				Request: map[string]float64{"cpu": 1}, Scaling: &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}},
			}},
		},
		Workloads: []*kube.Workload{w},
		Progress: []kube.Progress{{
			Share: float64(done) / float64(8*time.Hour), Source: kube.FromAnnotation, Done: done, Runtime: 8 * time.Hour, Speed: 1,
			Running: workers, Wanted: workers, Since: at(0), Up: at(0), Watts: 100 * float64(workers),
		}},
	}
}

// planned keeps a plan of four hours at two workers from now on.
func planned(t *testing.T, m *Memory, v *kube.View, forecast string) {
	t.Helper()
	due := m.Prepare(v, forecast, 0.05, kube.Context{Now: v.Snapshot.Now})
	if len(due) != 1 {
		t.Fatalf("due %v, want the task", due)
	}
	stand(m, v, forecast, decide.Phase{From: v.Snapshot.Now, To: v.Snapshot.Now.Add(4 * time.Hour), Cluster: "local", Workers: 2, Intensity: 200})
}

// stand keeps a plan that is made at the time of the view.
func stand(m *Memory, v *kube.View, forecast string, phases ...decide.Phase) {
	seen := observed(&v.Progress[0])
	m.record(v.Workloads[0]).track = track.Restore(&decide.Standing{Phases: phases}, &v.Snapshot.Tasks[0], &seen, track.Rules{Forecast: forecast}, v.Snapshot.Now)
}

// TestTriggers: a plan stands while all goes as it says, and each thing that does not is
// told by its name.
func TestTriggers(t *testing.T) {
	const f = "as known at first"
	for name, tc := range map[string]struct {
		now    time.Time
		done   time.Duration
		change func(v *kube.View)
		fc     string
		want   string
	}{
		"as planned":            {at(2), 4 * time.Hour, nil, f, ""},
		"within the threshold":  {at(2), 4*time.Hour - 8*time.Minute, nil, f, ""},
		"behind":                {at(2), 3 * time.Hour, nil, f, string(track.ProgressDeviates)},
		"ahead":                 {at(2), 5 * time.Hour, nil, f, string(track.ProgressDeviates)},
		"while it changes":      {at(2), 3 * time.Hour, func(v *kube.View) { v.Snapshot.Tasks[0].Changing = true }, f, ""},
		"another forecast":      {at(2), 4 * time.Hour, nil, "issued later", string(track.NewForecast)},
		"another deadline":      {at(2), 4 * time.Hour, func(v *kube.View) { v.Snapshot.Tasks[0].Deadline = at(30) }, f, string(track.ObjectChanged)},
		"a worker without node": {at(2), 4 * time.Hour, func(v *kube.View) { v.Progress[0].Denied, v.Progress[0].Running = 1, 1 }, f, string(track.ScaleUpDenied)},
		"the plan is over":      {at(4), 8 * time.Hour, nil, f, string(track.PlanEnded)},
		"a pause would lose work": {at(2), 4 * time.Hour, func(v *kube.View) {
			v.Snapshot.Tasks[0].AtRisk = time.Hour
		}, f, ""}, // no pause is planned
	} {
		m := New()
		planned(t, m, view(t, at(0), 2, 0), f)
		v := view(t, tc.now, 2, tc.done)
		if tc.change != nil {
			tc.change(v)
		}
		due := m.Prepare(v, tc.fc, 0.05, kube.Context{Now: tc.now})
		if got := due[0].Reason; got != tc.want {
			t.Errorf("%s: %q (%s), want %q", name, got, due[0].Message, tc.want)
		}
		if x := &v.Snapshot.Tasks[0]; x.Replan != (tc.want != "") || (x.Standing == nil) != (tc.want == string(track.ObjectChanged)) {
			t.Errorf("%s: planned anew %v, standing %v", name, x.Replan, x.Standing)
		}
	}
}

// TestThroughputIsLearned: what a scale is seen to do replaces what its profile says.
func TestThroughputIsLearned(t *testing.T) {
	m := New()
	planned(t, m, view(t, at(0), 2, 0), "f")
	c := kube.Context{}
	m.Prepare(view(t, at(0.4), 2, 48*time.Minute), "f", 0.05, c)
	m.Prepare(view(t, at(0.5), 2, time.Hour), "f", 0.05, c) // more is done: the measurement begins
	// In half an hour at two workers, 48 minutes of work instead of an hour.
	due := m.Prepare(view(t, at(1), 2, time.Hour+48*time.Minute), "f", 0.05, c)
	if due[0].Reason != string(track.ThroughputDeviates) || !strings.Contains(due[0].Message, "1.60") {
		t.Fatalf("due %+v", due)
	}
	seen := m.Observed(view(t, at(1), 2, 0).Workloads[0])
	if len(seen) != 1 || seen[0].Workers != 2 || seen[0].Throughput < 1.59 || seen[0].Throughput > 1.61 {
		t.Errorf("observed %+v", seen)
	}
	// What comes in steps is not measured by less than a slot.
	m = New()
	planned(t, m, view(t, at(0), 2, 0), "f")
	m.Prepare(view(t, at(0.4), 2, 48*time.Minute), "f", 0.05, c)
	m.Prepare(view(t, at(0.5), 2, time.Hour), "f", 0.05, c)
	if due := m.Prepare(view(t, at(0.6), 2, time.Hour+12*time.Minute), "f", 0.05, c); len(due) != 0 {
		t.Errorf("due %+v", due)
	}
}

// TestCounting: energy and emissions add up over any cut of the time.
func TestCounting(t *testing.T) {
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
		if tc.unpriced > 0 && (status.ExpectedG != 0 || status.BaselineG != 0) {
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
// is let go at once saves nothing; what was paused, and may have done work twice, is compared with what was expected.
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

// TestRuntimeOfAFamily: the stated prior counts as three runs; what has outlived all that is
// known is expected to go on.
func TestRuntimeOfAFamily(t *testing.T) {
	m := New()
	w := job(t, `{metadata: {name: next, namespace: ns, uid: u9, labels: {team: x, job-name: next}}}`)
	if got := m.Runtime(w, time.Hour, 0); got != time.Hour {
		t.Errorf("nothing known: %v, want the prior", got)
	}
	for i, hours := range []string{"02", "02", "02"} {
		ended := job(t, `{metadata: {name: a, namespace: ns, uid: e`+string(rune('0'+i))+`, labels: {team: x, job-name: a}}, spec: {}, status: {startTime: "2026-03-01T00:00:00Z", completionTime: "2026-03-01T`+hours+`:00:00Z", conditions: [{type: Complete, status: "True"}]}}`)
		if !ended.Facts.Finished {
			t.Fatal("not finished")
		}
		v := &kube.View{Finished: []*kube.Workload{ended}}
		m.Ended(v, kube.Context{})
		m.Ended(v, kube.Context{}) // seen again: counts once
	}
	about := func(got, want time.Duration) bool {
		return math.Abs(float64(got)/float64(want)-1) < 0.03 // steps of 5 %
	}
	if got := m.Runtime(w, time.Hour, 0); !about(got, 90*time.Minute) {
		t.Errorf("three runs of two hours and a prior of one: %v, want 1h30m", got)
	}
	if got := m.Runtime(w, time.Hour, 90*time.Minute); !about(got, 2*time.Hour) {
		t.Errorf("after an hour and a half: %v, want 2h", got)
	}
	if got := m.Runtime(w, time.Hour, 4*time.Hour); got != 6*time.Hour {
		t.Errorf("after four hours: %v, want 6h", got)
	}
	other := job(t, `{metadata: {name: next, namespace: ns, uid: u8, labels: {team: y}}}`)
	if got := m.Runtime(other, time.Hour, 0); got != time.Hour {
		t.Errorf("another family: %v, want the prior", got)
	}
	called := job(t, `{metadata: {name: next, namespace: ns, uid: u7, annotations: {lull.dev/family: nightly}}}`)
	if Family(called) != "ns/nightly" {
		t.Errorf("family %q", Family(called))
	}
}

// TestForecastChanges: a forecast counts as new when a provider issued it, or when the day
// ahead differs by more than the threshold.
// one is a cluster alone.
func one(series *carbon.Series) []decide.Cluster {
	return []decide.Cluster{{Name: "local", Carbon: series}}
}

func TestForecastChanges(t *testing.T) {
	m := New()
	first := m.Forecast(one(flat(t, 200)), at(0), 0.05)
	if got := m.Forecast(one(flat(t, 206)), at(0), 0.05); got != first {
		t.Errorf("3 %% off: %q, want the same", got)
	}
	second := m.Forecast(one(flat(t, 230)), at(0), 0.05)
	if second == first || !strings.Contains(second, "15 %") {
		t.Errorf("15 %% off: %q", second)
	}
	issued := carbon.Provenance{Zone: "X", Basis: carbon.LiveForecast, IssuedAt: at(1)}
	s, err := carbon.NewSeries(issued, []carbon.Sample{{From: at(0), To: at(48), Value: 230}})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Forecast(one(s), at(1), 0.05); got == second || !strings.Contains(got, "2026-03-01T01:00:00Z") {
		t.Errorf("issued anew: %q", got)
	}
	if got := m.Forecast(one(nil), at(1), 0.05); got != "none" {
		t.Errorf("nothing known: %q", got)
	}
}

// TestPlansAreWrittenWhenTheyDiffer: phases that have passed, or small progress, are no
// reason to write.
func TestPlansAreWrittenWhenTheyDiffer(t *testing.T) {
	m := New()
	v := view(t, at(0), 2, 0)
	planned(t, m, v, "f")
	a := &decide.Action{Verb: decide.Continue, Reason: decide.Reason{Code: decide.CodeCleanNow}}
	s := m.Status(v, 0, a)
	w := v.Workloads[0]
	if !m.ToWrite(w, &s, at(0)) {
		t.Error("a first plan is not written")
	}
	if s.Shown.Next != "Mar 1 04:00 done" || s.Workers != 2 || diff(s.ExpectedG, 160) {
		t.Errorf("status %+v", s)
	}
	m.Wrote(w, &s, at(0))
	later := m.Status(view(t, at(0.001), 2, 0), 0, a)
	if m.ToWrite(w, &later, at(0.001)) {
		t.Error("the same plan is written again")
	}
	paused := later
	paused.State = v1alpha1.PlanPaused
	if !m.ToWrite(w, &paused, at(0.001)) {
		t.Error("a pause is not written")
	}
}

// TestPauseThatWouldLoseWork: a planned pause in the middle of something is judged anew, and
// told so.
func TestPauseThatWouldLoseWork(t *testing.T) {
	m := New()
	stand(m, view(t, at(0), 2, 0), "f", decide.Phase{From: at(0), To: at(2), Cluster: "local", Workers: 2}, decide.Phase{From: at(6), To: at(8), Cluster: "local", Workers: 2})
	v := view(t, at(3), 2, 4*time.Hour)
	if due := m.Prepare(v, "f", 0.05, kube.Context{}); len(due) != 0 {
		t.Fatalf("nothing at risk: due %+v", due)
	}
	v = view(t, at(3), 2, 4*time.Hour)
	v.Snapshot.Tasks[0].AtRisk = 30 * time.Minute
	if due := m.Prepare(v, "f", 0.05, kube.Context{}); due[0].Reason != string(track.PauseWouldLose) || !strings.Contains(due[0].Message, "30m") {
		t.Fatalf("due %+v", due)
	}
}

// TestProfilesLearn: what two scales of one workload do relative to each other corrects the
// profile; what both have in common, a misstated run time, does not.
func TestProfilesLearn(t *testing.T) {
	m := New()
	v := view(t, at(0), 2, 0)
	v.Workloads[0].Objects[0].SetAnnotations(map[string]string{v1alpha1.AnnotationProfile: "p"})
	planned(t, m, v, "f")
	r := m.record(v.Workloads[0])
	profile := &v1alpha1.ScalingProfile{Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 50}, {Workers: 4, Throughput: 200}}}}
	r.measured(1, 0.5, at(1)) // half as fast as its run time says
	if got := m.Shapes(v); len(got) != 0 {
		t.Fatalf("one scale says nothing of the profile: %+v", got)
	}
	r.measured(4, 2, at(2)) // four times as fast: as the profile says
	shapes := m.Shapes(v)
	if len(shapes) != 1 || shapes[0].Profile != "p" || Learn(profile, shapes[0], 0.05) || len(profile.Status.Observed) > 0 {
		t.Fatalf("as declared: %+v, learned %+v", shapes, profile.Status.Observed)
	}
	r.measured(3, 1, at(3)) // twice as fast: the profile says three times
	shapes = m.Shapes(v)
	if len(shapes) != 1 || !Learn(profile, shapes[0], 0.05) {
		t.Fatalf("nothing learned from %+v", shapes)
	}
	seen := profile.Status.Observed
	if len(seen) != 1 || seen[0].Workers != 3 || seen[0].Samples != 1 || diff(seen[0].Throughput, 2) {
		t.Errorf("learned %+v, want twice at three workers", seen)
	}
	if len(m.Shapes(v)) != 0 {
		t.Error("a measurement counts twice")
	}
}

// TestMeasuredEnergy: measured power counts in place of the model, and is told apart.
func TestMeasuredEnergy(t *testing.T) {
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

// TestAwaitsThePeriod: by Caspian's objective what came during a slot is not planned before the
// next, and what waits is planned anew in each.
func TestAwaitsThePeriod(t *testing.T) {
	m := New()
	of := func(now time.Time) *kube.View {
		v := view(t, now, 0, 0)
		task := &v.Snapshot.Tasks[0]
		task.State, task.Submitted = decide.Waiting, at(0).Add(time.Minute)
		v.Snapshot.Objective.Kind = plan.MOSP
		return v
	}
	for range 2 {
		v := of(at(0).Add(5 * time.Minute))
		if due := m.Prepare(v, "f", 0.05, kube.Context{}); len(due) != 0 || v.Snapshot.Tasks[0].Standing != nil {
			t.Fatalf("due %+v", due)
		}
		m.Keep(v, &decide.Decision{Actions: []decide.Action{{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeNextPeriod}}}}, nil)
	}
	if n := m.record(of(at(0)).Workloads[0]).plans; n != 0 {
		t.Errorf("%d plans of what awaits its first", n)
	}
	next := of(at(0.25))
	if due := m.Prepare(next, "f", 0.05, kube.Context{}); due[0].Reason != string(track.Submitted) {
		t.Errorf("in the next slot: %+v", due)
	}
	planned(t, m, next, "f")
	if due := m.Prepare(of(at(0.3)), "f", 0.05, kube.Context{}); len(due) != 0 {
		t.Errorf("in the same slot: %+v", due)
	}
	if due := m.Prepare(of(at(0.5)), "f", 0.05, kube.Context{}); due[0].Reason != string(track.NewPeriod) {
		t.Errorf("in the slot after it: %+v", due)
	}
}

// TestRenewedPlanIsDue: a plan that stood and that the decision renews is stated, and counted with those that were due.
func TestRenewedPlanIsDue(t *testing.T) {
	m := New()
	waits := func(now time.Time) *kube.View {
		v := view(t, now, 0, 0)
		v.Snapshot.Tasks[0].State = decide.Waiting
		return v
	}
	planned(t, m, waits(at(0)), "f")
	v := waits(at(0).Add(time.Minute))
	due := m.Prepare(v, "f", 0.05, kube.Context{})
	if len(due) != 0 {
		t.Fatalf("due %+v, the plan stands", due)
	}
	a := decide.Action{
		Verb: decide.Wait, Planned: true, Renewed: true, Reason: decide.Reason{Code: decide.CodeCleanerLater},
		Phases: []decide.Phase{{From: at(20), To: at(22), Cluster: v.Snapshot.Clusters[0].Name, Workers: 2}},
	}
	m.Keep(v, &decide.Decision{Wake: at(24), Actions: []decide.Action{a}}, due)
	s := m.Status(v, 0, &a)
	if due[0].Reason != string(track.Competes) || due[0].Message == "" || s.Trigger == nil || s.Trigger.Reason != due[0].Reason || s.Plans != 1 {
		t.Errorf("due %+v, stated %+v, %d plans made by decisions", due, s.Trigger, s.Plans)
	}
}
