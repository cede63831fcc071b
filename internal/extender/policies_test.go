package extender

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestOverlappingPolicies: of several policies that select a Pod, one that has it wait decides rather than one that does
// not, then the first by name, as at admission.
func TestOverlappingPolicies(t *testing.T) {
	named := func(name string, change func(*v1alpha1.CarbonPolicySpec)) *v1alpha1.CarbonPolicy {
		p := testPolicy(change)
		p.Name = name
		return p
	}
	shadow := func(p *v1alpha1.CarbonPolicySpec) { p.Mode = v1alpha1.ModeShadow }
	paused := func(p *v1alpha1.CarbonPolicySpec) { p.Paused = true }
	spares := func(p *v1alpha1.CarbonPolicySpec) { p.CriticalPriorityClasses = []string{"urgent"} }
	urgent := func(p *corev1.Pod) { p.Spec.PriorityClassName = "urgent" }
	for _, tc := range []struct {
		name   string
		before func(*v1alpha1.CarbonPolicySpec) // of policy "a"; "p" has Pods wait
		after  func(*v1alpha1.CarbonPolicySpec) // of policy "z"
		pod    func(*corev1.Pod)
		want   Code
	}{
		{"Shadow", shadow, nil, nil, OutsideWindow},
		{"paused", paused, paused, nil, OutsideWindow},
		{"critical for the first", spares, nil, urgent, OutsideWindow},
		{"no zone for the first", func(p *v1alpha1.CarbonPolicySpec) { p.Zone = "unknown" }, nil, nil, NoCarbonData},
		{"no zone for the last", nil, func(p *v1alpha1.CarbonPolicySpec) { p.Zone = "unknown" }, nil, OutsideWindow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, "")
			b.clock.SetTime(midnight.Add(time.Hour))
			for _, p := range []*v1alpha1.CarbonPolicy{named("z", tc.after), named("a", tc.before)} {
				if err := b.SetPolicy(p); err != nil {
					t.Fatal(err)
				}
			}
			if a := b.ask(t, testPod("a", "1", midnight, tc.pod)); a.Code != tc.want {
				t.Errorf("%+v, want %s", a, tc.want)
			}
		})
	}
}
