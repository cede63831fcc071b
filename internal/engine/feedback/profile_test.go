package feedback

import (
	"maps"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
)

// TestReplacedProfileIsKept: a ScalingProfile that is gone counts for a moment, as it may be about to come back, and not for longer.
func TestReplacedProfileIsKept(t *testing.T) {
	m, t0 := New(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	profile := func(name string) v1alpha1.ScalingProfile {
		var p v1alpha1.ScalingProfile
		p.Name = name
		return p
	}
	for _, step := range []struct {
		after time.Duration
		there []v1alpha1.ScalingProfile
		want  []string
	}{
		{0, []v1alpha1.ScalingProfile{profile("a"), profile("b")}, []string{"a", "b"}},
		{5 * time.Second, []v1alpha1.ScalingProfile{profile("b")}, []string{"a", "b"}},
		{9 * time.Second, []v1alpha1.ScalingProfile{profile("b")}, []string{"a", "b"}},
		{10 * time.Second, []v1alpha1.ScalingProfile{profile("b")}, []string{"b"}},
		{11 * time.Second, []v1alpha1.ScalingProfile{profile("a"), profile("b")}, []string{"a", "b"}},
	} {
		got := slices.Sorted(maps.Keys(m.Profiles(step.there, t0.Add(step.after), 10*time.Second)))
		if !slices.Equal(got, step.want) {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}
