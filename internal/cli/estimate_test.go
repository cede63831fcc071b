package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestTotalsLeaveOutPlansWithoutEstimate: a plan that has a baseline, but no estimate, is part of neither sum, and states no saving.
func TestTotalsLeaveOutPlansWithoutEstimate(t *testing.T) {
	plan := func(name string, expected *float64) v1alpha1.CarbonPlan {
		return v1alpha1.CarbonPlan{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "job-" + name},
			Spec:       v1alpha1.CarbonPlanSpec{Policy: "clean", Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: name}},
			Status:     v1alpha1.CarbonPlanStatus{State: v1alpha1.PlanRunning, ExpectedG: expected, BaselineG: 100, EmittedG: 5},
		}
	}
	plans := []v1alpha1.CarbonPlan{plan("known", new(60.0)), plan("unknown", nil)}

	policies := []v1alpha1.CarbonPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "clean"}}}
	if r := policyRows(policies, plans)[0]; r.ExpectedG != 60 || r.BaselineG != 100 || *r.Saving != 0.4 {
		t.Errorf("the policy expects %v of %v g", r.ExpectedG, r.BaselineG)
	}
	for _, r := range workloadRows(plans) {
		if known := r.Name == "known"; (r.ExpectedG != nil) != known || (r.Saving != nil) != known || r.BaselineG != 100 {
			t.Errorf("%+v", r)
		}
	}
	for by, rows := range map[string]int{"policy": 1, "namespace": 1, "kind": 1, "workload": 2} {
		var out bytes.Buffer
		if err := top(&out, plans, by, "json"); err != nil {
			t.Fatal(err)
		}
		var got struct{ Items []topRow }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		expected, baseline, emitted, savings := 0.0, 0.0, 0.0, 0
		for _, r := range got.Items {
			expected, baseline, emitted = expected+r.ExpectedG, baseline+r.BaselineG, emitted+r.EmittedG
			if r.Saving != nil && *r.Saving == 0.4 {
				savings++
			}
		}
		if len(got.Items) != rows || expected != 60 || baseline != 100 || emitted != 10 || savings != 1 {
			t.Errorf("by %s: %s", by, out.Bytes())
		}
	}
}
