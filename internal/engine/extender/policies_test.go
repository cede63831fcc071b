package extender

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestNoPodWaitsLongerThanAllowed: no Pod waits for longer than the administrator allows, whatever its policy says.
func TestNoPodWaitsLongerThanAllowed(t *testing.T) {
	for _, tc := range []struct {
		limit, now time.Duration
		want       Code
	}{
		{0, 3 * time.Hour, OutsideWindow},
		{2 * time.Hour, 2*time.Hour - time.Second, OutsideWindow},
		{2 * time.Hour, 2 * time.Hour, Stale},
		{1000 * time.Hour, 9 * time.Hour, OutsideWindow},
		{1000 * time.Hour, 24 * time.Hour, Stale}, // as its policy says
	} {
		b := newBed(t, "")
		b.MaxDelay = tc.limit
		b.clock.SetTime(midnight.Add(tc.now))
		a := b.ask(t, testPod("a", "1", midnight, nil))
		if a.Code != tc.want {
			t.Errorf("limit %v, after %v: %+v, want %s", tc.limit, tc.now, a, tc.want)
		}
		if until := midnight.Add(2 * time.Hour).Format(time.RFC3339); tc.limit == 2*time.Hour && a.Code == OutsideWindow && !strings.Contains(a.Message, until) {
			t.Errorf("limit %v: %q, want until %s", tc.limit, a.Message, until)
		}
	}
}

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
