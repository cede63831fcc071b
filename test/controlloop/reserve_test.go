package controlloop

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/reserve"
)

// TestReserveIsLearned: a policy that names no planner keeps a reserve that is learned from the work that comes and may not
// wait. Its status says how much, and a controller that starts goes on from there.
func TestReserveIsLearned(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		first := b.Controller()
		if name := b.policy().Spec.Planner.Name; name != "joint" {
			t.Fatalf("the planner of a policy that names none is %q; want joint", name)
		}
		// observed waits for the peaks of so many hours, and checks them and the hour that they end with.
		observed := func(want ...int32) {
			t.Helper()
			b.Until("the peaks of the hours", func() bool {
				r := b.policy().Status.Reserve
				return r != nil && (len(r.HourlyPeaks) > len(want) || slices.Equal(r.HourlyPeaks, want))
			})
			r := b.policy().Status.Reserve
			if !slices.Equal(r.HourlyPeaks, want) || r.ObservedUntil == nil || r.ObservedUntil.Time.Before(at(len(want)-1)) || !r.ObservedUntil.Time.Before(at(len(want))) {
				t.Errorf("peaks %v until %v, want %v until hour %d", r.HourlyPeaks, r.ObservedUntil, want, len(want)-1)
			}
			if r.Share != reserve.Default().Start {
				t.Errorf("reserve %v, want %v while most hours are unknown", r.Share, reserve.Default().Start)
			}
		}
		observed(0, 0)
		now := b.job("now", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"})
		now.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
		b.Create(now)
		observed(0, 250) // 8 of 32 CPUs
		first.Kill()
		b.Controller()
		observed(0, 250, 0)
		observed(0, 250, 0, 0)

		change := func(reserve string) {
			b.Patch(b.policy(), `{"spec":{"planner":{"parameters":{"reserve":"`+reserve+`"}}}}`)
		}
		change("0.2")
		b.Until("the reserve that is stated", func() bool {
			r := b.policy().Status.Reserve
			return r != nil && r.Share == 0.2 && r.ObservedUntil == nil && len(r.HourlyPeaks) == 0
		})
		change("much")
		b.Until("an error that names the parameter", func() bool {
			c := meta.FindStatusCondition(b.policy().Status.Conditions, v1alpha1.ConditionReady)
			return c != nil && strings.Contains(c.Message, `parameter reserve of planner joint: "much"; accepted: a number of 0 to below 1, or learned`)
		})
	})
}
