package controller

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// TestOrphanedPlanIsReplaced: a Job is deleted, its dependents are orphaned, and another Job of the same name is created. The plan without an owner makes way for
// the plan of the new Job. A plan that has an owner is left to the garbage collector.
func TestOrphanedPlanIsReplaced(t *testing.T) {
	plan := func(uid types.UID, owned bool) *v1alpha1.CarbonPlan {
		p := &v1alpha1.CarbonPlan{
			ObjectMeta: metav1.ObjectMeta{Name: "job-a", Namespace: "n", UID: "plan of " + uid},
			Spec:       v1alpha1.CarbonPlanSpec{Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: "a", UID: uid}, Policy: "p"},
			Status:     v1alpha1.CarbonPlanStatus{State: v1alpha1.PlanWaiting},
		}
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "a", UID: uid}}
		}
		return p
	}
	for name, x := range map[string]struct {
		owned, fresh, replaced bool
	}{
		"orphaned":                   {false, true, true},
		"orphaned, not known so yet": {false, false, true},
		"owned":                      {true, true, false},
	} {
		scheme, err := NewScheme()
		if err != nil {
			t.Fatal(err)
		}
		old := plan("old", x.owned)
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(old).WithObjects(old).Build(), interceptor.Funcs{
			// A test of a JSON patch that fails is invalid to the API server.
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				var there v1alpha1.CarbonPlan
				if err := c.Get(ctx, client.ObjectKeyFromObject(obj), &there); err != nil {
					return err
				}
				if there.Spec.Workload.UID != "new" {
					return apierrors.NewInvalid(schema.GroupKind{Group: "lull.dev", Kind: "CarbonPlan"}, obj.GetName(), nil)
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		})
		err = statePlan(t.Context(), c, plan("new", true), x.fresh)
		if (err == nil) != x.replaced {
			t.Errorf("%s: %v", name, err)
		}
		var after v1alpha1.CarbonPlan
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(old), &after); err != nil {
			t.Fatal(err)
		}
		if got := after.Spec.Workload.UID == "new" && len(after.OwnerReferences) == 1; got != x.replaced {
			t.Errorf("%s: the plan is that of %s, owned by %v", name, after.Spec.Workload.UID, after.OwnerReferences)
		}
	}
}
