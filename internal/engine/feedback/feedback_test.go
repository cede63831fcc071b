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
			Running: workers, Wanted: workers, Since: at(0), Started: workers, Watts: 100 * float64(workers),
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

// TestStartupIsLearned: what a start takes is the time from a node until containers run, of the last of its pods, once for each start. Six
// hours in a queue before that are no part of it. A family has what its members took.
func TestStartupIsLearned(t *testing.T) {
	m := New()
	v := view(t, at(0), 2, 0)
	w, p := v.Workloads[0], &v.Progress[0]
	for i, step := range []struct {
		hours            float64
		running, started int
		startup, want    time.Duration
	}{
		{hours: 0}, {hours: 6, running: 1, started: 1, startup: 4 * time.Minute}, {hours: 6.05, running: 2, started: 1, startup: 4 * time.Minute},
		{hours: 6.1, running: 2, started: 2, startup: 5 * time.Minute, want: 5 * time.Minute}, {hours: 7, running: 2, started: 2, startup: time.Hour, want: 5 * time.Minute},
	} {
		if i == 0 {
			m.Applied(w, &decide.Action{Verb: decide.Release})
		}
		v.Snapshot.Now, p.Running, p.Started, p.Startup = at(step.hours), step.running, step.started, step.startup
		m.Prepare(v, "", 0.05, kube.Context{Now: v.Snapshot.Now})
		if got := m.Startup(w); got != step.want {
			t.Errorf("after %v h: %v, want %v", step.hours, got, step.want)
		}
	}
	if got := m.Startup(job(t, `{metadata: {name: b, namespace: ns, uid: u2, labels: {team: x}}}`)); got != 5*time.Minute {
		t.Errorf("another one of its family: %v, want 5m", got)
	}
}

// one is a cluster alone.
func one(series *carbon.Series) []decide.Cluster {
	return []decide.Cluster{{Name: "local", Carbon: series}}
}

// TestForecastChanges: a forecast counts as new when a provider issued it, or when the day ahead differs by more than the threshold.
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
	if s.Shown.Next != "2026-03-01 04:00 done" || s.Workers != 2 || s.ExpectedG == nil || diff(*s.ExpectedG, 160) {
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

// TestObservedScalesCorrectTheProfile: what two scales of one workload do relative to each other corrects the
// profile; what both have in common, a misstated run time, does not.
func TestObservedScalesCorrectTheProfile(t *testing.T) {
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

// TestTimeWithoutAPodCounts: the time without a pod counts from the first look that found none, and begins anew after each pod.
func TestTimeWithoutAPodCounts(t *testing.T) {
	m, w := New(), job(t, `metadata: {name: a, uid: a}`)
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, look := range []struct {
		after   time.Duration
		podless bool
		since   time.Duration
	}{
		{0, false, -1},
		{time.Minute, true, time.Minute}, // the only pod was deleted an instant ago
		{9 * time.Minute, true, time.Minute},
		{10 * time.Minute, false, -1}, // it has one again
		{11 * time.Minute, true, 11 * time.Minute},
	} {
		got := m.PodlessSince(w, look.podless, t0.Add(look.after))
		want := time.Time{}
		if look.since >= 0 {
			want = t0.Add(look.since)
		}
		if !got.Equal(want) {
			t.Errorf("after %v: %v, want %v", look.after, got, want)
		}
	}
	m.Forget(&kube.View{})
	if len(m.podless) > 0 {
		t.Error("a workload that is gone is remembered")
	}
}
