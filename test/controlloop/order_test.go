package controlloop

import (
	"fmt"
	"slices"
	"testing"

	"lull.dev/lull/api/v1alpha1"
)

// TestReleasesInOrder: where not all has room that is released, what is to start first is released first: here what was
// submitted first, as the policy is paused. The calls of the controller take times of their own, so that calls at the same time arrive in any order.
func TestReleasesInOrder(t *testing.T) {
	onBed(t, dirtyThenClean(), noReserve, func(b *bed) {
		b.Controller()
		const jobs = 8
		var want []string
		for i := range jobs {
			name := fmt.Sprintf("job-%d", i)
			b.Create(b.large(name, map[string]string{v1alpha1.AnnotationMaxDelay: "60h", v1alpha1.AnnotationRuntime: "1h"}))
			want = append(want, name)
		}
		for _, name := range want {
			b.untilDecided(name, "CleanerLater")
		}
		p := b.policy()
		p.Spec.Paused = true
		b.must(b.Client.Update(b.Context(), p))
		b.Until("all to be released", func() bool {
			return !slices.ContainsFunc(want, b.suspended)
		})
		var got []string
		for _, e := range b.Store.Since(0) {
			if e.Resource.Kind == "Job" && e.Before != nil && isSuspended(e.Before) && !isSuspended(e.Object) {
				got = append(got, e.Object.GetName())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("released in the order %v; want %v", got, want)
		}
	})
}
