package kube

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// SetFinalizer adds a finalizer to an object, or removes it, and says whether there was anything to do. A patch
// states the whole list: with the resource version the API server refuses it where somebody else has changed the
// object meanwhile, so that the finalizers of others stay.
func SetFinalizer(ctx context.Context, c client.Writer, obj client.Object, name string, set bool) (bool, error) {
	before := obj.DeepCopyObject().(client.Object)
	change := controllerutil.RemoveFinalizer
	if set {
		change = controllerutil.AddFinalizer
	}
	if !change(obj, name) {
		return false, nil
	}
	return true, c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
