package kube

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// TestStatusIsWrittenOnlyIfItDiffers: a status is written if it differs as the API server stores it, and not if only its form in memory
// does; nothing beside the status counts.
func TestStatusIsWrittenOnlyIfItDiffers(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	slot := func(at time.Time) *metav1.Time { return &metav1.Time{Time: at} }
	first := v1alpha1.CapacityCurveStatus{Slot: slot(at), Capacity: 5, Ahead: []v1alpha1.CapacityPoint{{From: *slot(at), Capacity: 3}}}
	for name, tc := range map[string]struct {
		change func(c *v1alpha1.CapacityCurve)
		writes bool
	}{
		"nothing":                    {func(*v1alpha1.CapacityCurve) {}, false},
		"the zone of a time":         {func(c *v1alpha1.CapacityCurve) { c.Status.Slot = slot(at.In(time.FixedZone("x", 3600))) }, false},
		"the zone of a time, inside": {func(c *v1alpha1.CapacityCurve) { c.Status.Ahead[0].From = *slot(at.UTC()) }, false},
		"a part of a second":         {func(c *v1alpha1.CapacityCurve) { c.Status.Slot = slot(at.Add(time.Millisecond)) }, false},
		"an empty list for none":     {func(c *v1alpha1.CapacityCurve) { c.Status.Conditions = []metav1.Condition{} }, false},
		"the specification":          {func(c *v1alpha1.CapacityCurve) { c.Spec.Maximum = "7" }, false},
		"an annotation":              {func(c *v1alpha1.CapacityCurve) { c.Annotations = map[string]string{"a": "b"} }, false},
		"a second":                   {func(c *v1alpha1.CapacityCurve) { c.Status.Slot = slot(at.Add(time.Second)) }, true},
		"a number":                   {func(c *v1alpha1.CapacityCurve) { c.Status.Capacity = 6 }, true},
		"a value that goes":          {func(c *v1alpha1.CapacityCurve) { c.Status.Ahead = nil }, true},
		"all of it goes":             {func(c *v1alpha1.CapacityCurve) { c.Status = v1alpha1.CapacityCurveStatus{} }, true},
	} {
		curve := &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: *first.DeepCopy()}
		patches := 0
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(curve).WithStatusSubresource(curve).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				patches++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
		var before v1alpha1.CapacityCurve
		key := client.ObjectKeyFromObject(curve)
		if err := c.Get(t.Context(), key, &before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		tc.change(after)
		want := after.Status.DeepCopy()
		wrote, err := PatchStatus(t.Context(), c, after, &before)
		if err != nil || wrote != tc.writes || (patches > 0) != tc.writes {
			t.Errorf("%s: wrote %v, %d patches, %v; want %v", name, wrote, patches, err, tc.writes)
		}
		var stored v1alpha1.CapacityCurve
		if err := c.Get(t.Context(), key, &stored); err != nil {
			t.Fatal(err)
		}
		if tc.writes && (stored.Status.Capacity != want.Capacity || len(stored.Status.Ahead) != len(want.Ahead) || !stored.Status.Slot.Equal(want.Slot)) {
			t.Errorf("%s: stored %+v, want %+v", name, stored.Status, *want)
		}
		if !tc.writes {
			continue
		}
		stale := before.DeepCopy()
		stale.Status.Capacity = 9
		if _, err := PatchStatus(t.Context(), c, stale, &before, client.MergeFromWithOptimisticLock{}); !apierrors.IsConflict(err) {
			t.Errorf("%s: the lock lets through what has changed since: %v", name, err)
		}
	}
}
