package kube

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// TestStatedAtMost: what a tenant states is bounded, also in objects that are older than the maxima of the schema.
func TestStatedAtMost(t *testing.T) {
	forever := &metav1.Duration{Duration: 290 * maxStated}
	spec := &v1alpha1.CarbonPolicySpec{
		DefaultRuntime: forever, MaxDelay: forever, StartMargin: forever, MinRun: forever, MinPause: forever, ScaleUpPatience: forever,
		Autoscaling: &v1alpha1.AutoscalingSpec{ProvisioningDelay: forever},
	}
	o, err := ReadOptions(nil, spec, nil)
	if err != nil || o.Runtime != maxStated || o.MaxDelay != maxStated {
		t.Errorf("run time %v, longest delay %v, %v", o.Runtime, o.MaxDelay, err)
	}
	var s decide.Snapshot
	settings(&s, spec)
	if s.MinRun != maxGuard || s.MinPause != maxGuard || margin(spec) != maxGuard+maxDelays {
		t.Errorf("least run %v, least pause %v, margin %v", s.MinRun, s.MinPause, margin(spec))
	}
	for _, name := range []string{v1alpha1.AnnotationRuntime, v1alpha1.AnnotationRuntimeP95, v1alpha1.AnnotationMaxDelay} {
		if _, err := ReadOptions(map[string]string{name: "8760h"}, &v1alpha1.CarbonPolicySpec{}, nil); err != nil {
			t.Error(err)
		}
		for _, text := range []string{"8760h0m1s", "2000000h", "P400D"} {
			if _, err := ReadOptions(map[string]string{name: text}, &v1alpha1.CarbonPolicySpec{}, nil); !errors.Is(err, ErrAnnotation) {
				t.Errorf("%s %s: %v", name, text, err)
			}
		}
	}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	far := map[string]string{v1alpha1.AnnotationDeadline: "9999-12-31T00:00:00Z"}
	if o, err = ReadOptions(far, &v1alpha1.CarbonPolicySpec{}, nil); err != nil || o.deadline(created).After(created.Add(maxStated+o.Runtime)) {
		t.Errorf("deadline %v, %v", o.deadline(created), err)
	}
}
