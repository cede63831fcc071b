package kube

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
)

// TestForeignFinalizersAreKept: a finalizer of others that came after the object was read is neither wiped nor brought back.
func TestForeignFinalizersAreKept(t *testing.T) {
	ctx := context.Background()
	for _, set := range []bool{true, false} {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		curve := &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"x.dev/first"}}}
		if !set {
			curve.Finalizers = append(curve.Finalizers, v1alpha1.CapacityFinalizer)
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(curve).Build()
		var stale v1alpha1.CapacityCurve
		key := client.ObjectKeyFromObject(curve)
		if err := c.Get(ctx, key, &stale); err != nil {
			t.Fatal(err)
		}
		fresh := stale.DeepCopy()
		fresh.Finalizers = append(fresh.Finalizers, "x.dev/second")
		if err := c.Update(ctx, fresh); err != nil {
			t.Fatal(err)
		}
		if _, err := SetFinalizer(ctx, c, &stale, v1alpha1.CapacityFinalizer, set); !apierrors.IsConflict(err) {
			t.Errorf("set %v: a patch of what has changed ends with %v", set, err)
		}
		for _, want := range []bool{true, false} { // the second time there is nothing to do
			if err := c.Get(ctx, key, &stale); err != nil {
				t.Fatal(err)
			}
			if changed, err := SetFinalizer(ctx, c, &stale, v1alpha1.CapacityFinalizer, set); changed != want || err != nil {
				t.Errorf("set %v: changed %v, %v", set, changed, err)
			}
		}
		if err := c.Get(ctx, key, &stale); err != nil {
			t.Fatal(err)
		}
		if f := stale.Finalizers; slices.Contains(f, v1alpha1.CapacityFinalizer) != set || !slices.Contains(f, "x.dev/first") || !slices.Contains(f, "x.dev/second") {
			t.Errorf("set %v: finalizers %v", set, f)
		}
	}
}
