package controller

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
)

// TestPlannersKeepTheirMemory: each policy has one planner that remembers its plans, until the
// policy is another one or asks for something else.
func TestPlannersKeepTheirMemory(t *testing.T) {
	built := 0
	build := func(name string, _ map[string]string, _ []string) (plan.Planner, error) {
		if name == "unknown" {
			return nil, errors.New("unknown planner")
		}
		built++
		return plan.Guarded{Planner: joint.Planner{}, Probability: 0.95}, nil
	}
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "1"}}
	policy.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint", Parameters: map[string]string{"effort": "1"}}
	held := planners{}
	of := func() *joint.Warm {
		t.Helper()
		pl, err := held.of(policy, build)
		if err != nil {
			t.Fatal(err)
		}
		warm, ok := pl.(plan.Guarded).Planner.(*joint.Warm)
		if !ok {
			t.Fatalf("%#v remembers nothing", pl)
		}
		return warm
	}
	last := of()
	if of() != last || built != 1 {
		t.Fatalf("planner built %d times for two decisions", built)
	}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"a parameter in place", func() { policy.Spec.Planner.Parameters["effort"] = "2" }},
		{"the planner", func() { policy.Spec.Planner.Name = "cheapest" }},
		{"a critical class", func() { policy.Spec.CriticalPriorityClasses = []string{"high"} }},
		{"the policy of that name", func() { policy.UID = "2" }},
		{"the namespace", func() { policy.Namespace = "b" }},
	} {
		c.change()
		next := of()
		if next == last {
			t.Errorf("%s changed, and the planner stayed", c.what)
		}
		if of() != next {
			t.Errorf("%s changed, and the new planner did not stay", c.what)
		}
		last = next
	}
	if len(held) != 2 {
		t.Errorf("%d planners held for 2 policies", len(held))
	}
	policy.Spec.Planner.Name = "unknown"
	if _, err := held.of(policy, build); err == nil || len(held) != 1 {
		t.Errorf("an unknown planner: %v, %d planners held", err, len(held))
	}
}
