package kube

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
)

// TestStoredValuesBeyondLimitsAreRefused: what was stored before the API server refused it is refused here, by field and value.
func TestStoredValuesBeyondLimitsAreRefused(t *testing.T) {
	if _, err := PowerModel(&v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": 1e308}}); !errors.Is(err, power.ErrModel) || !strings.Contains(err.Error(), `wattsPerUnit["cpu"]: 1e+308; accepted: 0 to 1e+06 W`) {
		t.Errorf("power: %v", err)
	}
	watts := 1e300
	for field, profile := range map[string]v1alpha1.ScalingProfile{
		"spec.points[1].throughput": {Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 1e-300}, {Workers: 2, Throughput: 1e300}}}},
		"spec.points[0].throughput": {Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1}}}},
		"spec.points[0].watts":      {Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 1, Watts: &watts}}}},
		"status.observed[0].throughput": {
			Spec:   v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 1}}},
			Status: v1alpha1.ScalingProfileStatus{Observed: []v1alpha1.ObservedPoint{{Workers: 2, Throughput: 1e300}}},
		},
	} {
		profile.Name = "wide"
		if _, err := Throughput(&profile, 2); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), "ScalingProfile wide: "+field+": ") || !strings.Contains(err.Error(), "accepted: ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestRefusedPodsLeaveAJobIdle: a Job that was released and whose pods a ResourceQuota refuses has none, by what it tells and
// by what is seen; one that tells of a pod which is not seen yet is not idle.
func TestRefusedPodsLeaveAJobIdle(t *testing.T) {
	for active, want := range map[int32]bool{0: true, 1: false} {
		v := observe(t, policy, timegrid.Timeline{}, newJob("a", running, func(j *batchv1.Job) { j.Status.Active = active }))
		if got := v.Progress[0].Idle; got != want {
			t.Errorf("%d active: idle %v, want %v", active, got, want)
		}
	}
}

// TestOldPolicyHasTheDefaultMinSaving: a policy that was stored before the field was there has the default; 0 is not a missing value.
func TestOldPolicyHasTheDefaultMinSaving(t *testing.T) {
	for name, tc := range map[string]struct {
		stated *float64
		want   float64
	}{"not stated": {nil, 0.01}, "none": {new(0.0), 0}, "stated": {new(0.2), 0.2}} {
		spec := policy
		spec.MinSaving = tc.stated
		if got := observe(t, spec, timegrid.Timeline{}, newJob("a")).Snapshot.MinSaving; got != tc.want {
			t.Errorf("%s: least saving %v, want %v", name, got, tc.want)
		}
	}
}

// TestPolicyStatesTheSavingConfidence: a policy states how sure a saving must be; without it the forecast alone counts.
func TestPolicyStatesTheSavingConfidence(t *testing.T) {
	for name, tc := range map[string]struct {
		stated *float64
		want   float64
	}{"not stated": {nil, 0}, "none": {new(0.0), 0}, "stated": {new(0.9), 0.9}} {
		spec := policy
		spec.SavingConfidence = tc.stated
		if got := observe(t, spec, timegrid.Timeline{}, newJob("a")).Snapshot.SavingConfidence; got != tc.want {
			t.Errorf("%s: confidence %v, want %v", name, got, tc.want)
		}
	}
}

// TestLimitsOfWorkloads: what states a longer run time or more workers than the administrator allows is not held, and the error names
// what it states and what is allowed.
func TestLimitsOfWorkloads(t *testing.T) {
	elastic := map[string]string{v1alpha1.AnnotationMinWorkers: "1", v1alpha1.AnnotationMaxWorkers: "9", v1alpha1.AnnotationRuntime: "1h"}
	for _, c := range []struct {
		stated map[string]string
		policy time.Duration
		want   string
	}{
		{stated: map[string]string{v1alpha1.AnnotationRuntime: "72h"}},
		{stated: map[string]string{v1alpha1.AnnotationRuntime: "72h1s"}, want: "annotation lull.dev/runtime is 72h0m1s; the administrator allows up to 72h0m0s"},
		{
			stated: map[string]string{v1alpha1.AnnotationRuntime: "1h", v1alpha1.AnnotationRuntimeP95: "73h"},
			want:   "annotation lull.dev/runtime-p95 is 73h0m0s; the administrator allows up to 72h0m0s",
		},
		{policy: 73 * time.Hour, want: "spec.defaultRuntime of CarbonPolicy clean is 73h0m0s; the administrator allows up to 72h0m0s"},
		{stated: elastic, want: "annotation lull.dev/max-workers is 9; the administrator allows up to 8"},
	} {
		p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean"}, Spec: *policy.DeepCopy()}
		if c.policy > 0 {
			p.Spec.DefaultRuntime = &metav1.Duration{Duration: c.policy}
		}
		job := newJob("a", func(j *batchv1.Job) {
			delete(j.Annotations, v1alpha1.AnnotationRuntime)
			maps.Copy(j.Annotations, c.stated)
		})
		v, err := Observe(Input{Now: now, Policy: p, Workloads: []*Workload{workloadOf(t, &job)}, LongestRuntime: 72 * time.Hour, MostWorkers: 8})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(v.Invalid) > 0 {
			got = v.Invalid[0].Err.Error()
		}
		if got != c.want || (got == "") != (len(v.Snapshot.Tasks) == 1) {
			t.Errorf("%v: %q, %d tasks; want %q", c.stated, got, len(v.Snapshot.Tasks), c.want)
		}
	}
}
