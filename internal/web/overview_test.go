package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// difference says how two values differ as JSON, as the page gets them; "" if they do not.
func difference(want, got any) string {
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		return fmt.Sprintf("\nwant %s\ngot  %s", a, b)
	}
	return ""
}

func readerOf(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func zoneAtNoon(conditions ...metav1.Condition) *v1alpha1.GridZone {
	at, intensity := metav1.NewTime(noon), 300.0
	z := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "de"}, Status: v1alpha1.GridZoneStatus{Zone: "DE", Intensity: &intensity, GridTime: &at, Age: "3h", Basis: "CachedForecast", Conditions: conditions}}
	for hour := range 24 {
		z.Status.Forecast = append(z.Status.Forecast, v1alpha1.ForecastPoint{Time: metav1.NewTime(noon.Add(time.Duration(hour) * time.Hour)), Intensity: float64(300 - hour)})
	}
	return z
}

func policyClean(conditions ...metav1.Condition) *v1alpha1.CarbonPolicy {
	return &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "clean"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de"}, Status: v1alpha1.CarbonPolicyStatus{Conditions: conditions}}
}

func planOfJob(name string, state v1alpha1.PlanState, reason decide.Code, start, deadline time.Duration) *v1alpha1.CarbonPlan {
	end := metav1.NewTime(noon.Add(deadline))
	p := &v1alpha1.CarbonPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "job-" + name},
		Spec:       v1alpha1.CarbonPlanSpec{Policy: "clean", Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: name, UID: "uid-1"}},
		Status:     v1alpha1.CarbonPlanStatus{State: state, Reason: string(reason), Deadline: &end, ExpectedG: new(60.0), BaselineG: 100},
	}
	if start > 0 {
		p.Status.Phases = []v1alpha1.PlanPhase{{From: metav1.NewTime(noon.Add(start)), To: metav1.NewTime(noon.Add(start + time.Hour)), Workers: 2, Intensity: 200}}
	}
	return p
}

func overviewOf(t *testing.T, s *Server) Overview {
	t.Helper()
	o, err := s.overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestOverviewSaysWhatWaitsAndWhy: by reason, the most frequent first, with the next start and the earliest deadline; what has finished
// counts nowhere.
func TestOverviewSaysWhatWaitsAndWhy(t *testing.T) {
	o := overviewOf(t, &Server{Reader: readerOf(t, zoneAtNoon(), policyClean(),
		planOfJob("a", v1alpha1.PlanWaiting, decide.CodeCleanerLater, 3*time.Hour, 9*time.Hour),
		planOfJob("b", v1alpha1.PlanPaused, decide.CodeCleanerLater, 2*time.Hour, 10*time.Hour),
		planOfJob("c", v1alpha1.PlanWaiting, decide.CodeSharedCapacity, 0, 8*time.Hour),
		planOfJob("d", v1alpha1.PlanRunning, decide.CodeCleanNow, 0, 8*time.Hour),
		planOfJob("e", v1alpha1.PlanFinished, decide.CodeCleanNow, 0, -8*time.Hour),
	)})
	at := func(d time.Duration) *time.Time { v := noon.Add(d); return &v }
	want := Work{Waiting: 3, Running: 1, ExpectedG: 240, BaselineG: 400, Reasons: []WaitingReason{
		{Reason: "CleanerLater", Meaning: meanings["CleanerLater"], Workloads: 2, ExpectedG: 120, BaselineG: 200, NextStart: at(2 * time.Hour), Deadline: at(9 * time.Hour)},
		{Reason: "SharedCapacity", Meaning: meanings["SharedCapacity"], Workloads: 1, ExpectedG: 60, BaselineG: 100, Deadline: at(8 * time.Hour)},
	}}
	if d := difference(want, o.Work); d != "" {
		t.Error(d)
	}
	if !o.Now.Equal(noon) || len(o.Problems) != 0 {
		t.Errorf("at %v, problems %v; want noon, and none", o.Now, o.Problems)
	}
}

// TestOverviewLeavesOutPlansWithoutEstimate: a plan that has a baseline, but no estimate, is counted, and is part of no sum.
func TestOverviewLeavesOutPlansWithoutEstimate(t *testing.T) {
	waits, runs := planOfJob("b", v1alpha1.PlanWaiting, decide.CodeCleanerLater, 3*time.Hour, 9*time.Hour), planOfJob("c", v1alpha1.PlanRunning, decide.CodeNoCarbonData, 0, 8*time.Hour)
	waits.Status.ExpectedG, runs.Status.ExpectedG = nil, nil
	o := overviewOf(t, &Server{Reader: readerOf(t, zoneAtNoon(), policyClean(), planOfJob("a", v1alpha1.PlanWaiting, decide.CodeCleanerLater, 3*time.Hour, 9*time.Hour), waits, runs)})
	if w, p, r := o.Work, o.Policies[0], o.Reasons[0]; w.ExpectedG != 60 || w.BaselineG != 100 || w.Unpriced != 2 || p.ExpectedG != 60 || p.BaselineG != 100 ||
		r.Workloads != 2 || r.ExpectedG != 60 || r.BaselineG != 100 {
		t.Errorf("%+v, %+v", w, p)
	}
}

// TestOverviewSaysWhatIsWrong: each kind of trouble is named with its object, and nothing else is.
func TestOverviewSaysWhatIsWrong(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: message, LastTransitionTime: metav1.NewTime(noon)}
	}
	for name, tc := range map[string]struct {
		objects  []client.Object
		programs []Program
		want     []string
	}{
		"nothing there":         {want: nil},
		"all well":              {objects: []client.Object{zoneAtNoon(condition("Ready", "True", "fresh")), policyClean(condition("Ready", "True", ""), condition("Recorded", "True", ""))}},
		"no answer of the zone": {objects: []client.Object{zoneAtNoon(condition("Ready", "False", "no token"))}, want: []string{"GridZone de: no token"}},
		"stale":                 {objects: []client.Object{zoneAtNoon(condition("Ready", "True", ""), condition("Stale", "True", ""))}, want: []string{"GridZone de: its data is 3h old: Lull uses older values (CachedForecast)"}},
		"a policy": {
			objects: []client.Object{policyClean(condition("Ready", "False", "no such zone"), condition("Misspelt", "True", "lull.dev/x"), condition("Recorded", "False", "the disk is full"), condition("HeldAtCreation", "False", "nobody holds"))},
			want:    []string{"CarbonPolicy team/clean: no such zone", "CarbonPolicy team/clean: lull.dev/x", "CarbonPolicy team/clean: the disk is full", "CarbonPolicy team/clean: nobody holds"},
		},
		"a dead watchdog": {programs: []Program{{"controller", true, "at work"}, {"failsafe", false, "silent for 5m0s"}}, want: []string{"failsafe: silent for 5m0s"}},
		"late": {
			objects: []client.Object{zoneAtNoon(), policyClean(), planOfJob("late", v1alpha1.PlanRunning, decide.CodeLatestStart, 0, -time.Hour), planOfJob("done", v1alpha1.PlanFinished, decide.CodeLatestStart, 0, -time.Hour)},
			want:    []string{"1 workload: past the deadline, and not finished"},
		},
		"without data": {
			objects: []client.Object{zoneAtNoon(), policyClean(), planOfJob("a", v1alpha1.PlanRunning, decide.CodeNoCarbonData, 0, time.Hour), planOfJob("b", v1alpha1.PlanRunning, decide.CodeNoCarbonData, 0, time.Hour)},
			want:    []string{"2 workloads: " + meanings["NoCarbonData"]},
		},
	} {
		s := &Server{Reader: readerOf(t, tc.objects...)}
		if tc.programs != nil {
			s.Programs = func(context.Context) []Program { return tc.programs }
		}
		var got []string
		for _, p := range overviewOf(t, s).Problems {
			got = append(got, p.Object+": "+p.Message)
		}
		if d := difference(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestMeaningsAreThoseOfTheReference: the page and docs/reference.md explain a reason in the same words, and every reason of a decision.
func TestMeaningsAreThoseOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| reason | meaning |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	want, code := map[string]string{}, regexp.MustCompile("`(\\w+)`")
	for line := range strings.SplitSeq(table, "\n") {
		reasons, meaning, _ := strings.Cut(strings.Trim(line, "| "), " | ")
		for _, m := range code.FindAllStringSubmatch(reasons, -1) {
			want[m[1]] = strings.ReplaceAll(meaning, "`", "")
		}
	}
	if d := difference(want, meanings); d != "" {
		t.Error(d)
	}
}
