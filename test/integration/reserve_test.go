//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/reserve"
)

// TestReserveIsLearned: a policy that names no planner keeps a reserve that is learned from the work that
// comes and may not wait. Its status says how much, and a controller that starts goes on from there.
func TestReserveIsLearned(t *testing.T) {
	first := startController(t)
	b := newBed(t, dirtyThenClean(), nil)
	policy := func() *v1alpha1.CarbonPolicy {
		var p v1alpha1.CarbonPolicy
		must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &p))
		return &p
	}
	if name := policy().Spec.Planner.Name; name != "joint" {
		t.Fatalf("the planner of a policy that names none is %q; want joint", name)
	}
	b.eventually("a reserve in the status, observed for an hour of the series", func() bool {
		r := policy().Status.Reserve
		return r != nil && r.Share == reserve.Default().Start && r.ObservedUntil != nil && len(r.HourlyPeaks) > 1
	})
	now := b.job("now", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"})
	now.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
	b.submit(now)
	peak := func() int32 { return slices.Max(policy().Status.Reserve.HourlyPeaks) }
	b.eventually("the peak of what came", func() bool { return peak() > 0 })
	before, hours := peak(), len(policy().Status.Reserve.HourlyPeaks)

	must(t, first.Process.Kill())
	_ = first.Wait()
	startController(t)
	b.eventually("more hours, observed by the next controller", func() bool { return len(policy().Status.Reserve.HourlyPeaks) > hours })
	if got := policy().Status.Reserve.HourlyPeaks; !slices.Contains(got, before) {
		t.Errorf("peaks %v after a restart; want the %d of before among them", got, before)
	}

	change := func(reserve string) {
		p := policy()
		patch := client.MergeFrom(p.DeepCopy())
		p.Spec.Planner.Parameters = map[string]string{"reserve": reserve}
		must(t, env.client.Patch(context.Background(), p, patch))
	}
	change("0.2")
	b.eventually("the reserve that is stated", func() bool {
		r := policy().Status.Reserve
		return r != nil && r.Share == 0.2 && r.ObservedUntil == nil && len(r.HourlyPeaks) == 0
	})
	change("much")
	b.eventually("an error that names the parameter", func() bool {
		c := meta.FindStatusCondition(policy().Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && strings.Contains(c.Message, `parameter reserve of planner joint: "much"; accepted: a number of 0 to below 1, or learned`)
	})
}
