package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
)

// Served reports whether the API server serves a kind and its objects may be listed, by
// listing one. What may not be listed is not governed: "lull manifests --kinds" grants it.
// live must read from the API server.
func Served(ctx context.Context, live client.Reader, k *kinds.Kind) (bool, error) {
	err := live.List(ctx, MetadataList(k), client.Limit(1))
	switch {
	case err == nil:
		return true, nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	}
	return false, fmt.Errorf("look for kind %s: %w", k.Name, err)
}

// Kinds returns the built-in kinds and those of WorkloadKinds, which replace built-in ones
// of the same kind. Invalid ones are left out, with the first error.
func Kinds(ctx context.Context, c client.Reader) ([]*kinds.Kind, error) {
	var list v1alpha1.WorkloadKindList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list WorkloadKinds: %w", err)
	}
	var further []*kinds.Kind
	var first error
	for i := range list.Items {
		k, err := kinds.New(list.Items[i].Name, &list.Items[i].Spec)
		if err == nil {
			further = append(further, k)
		} else if first == nil {
			first = err
		}
	}
	return kinds.With(further), first
}

// MetadataList is an empty list of the metadata of a kind.
func MetadataList(k *kinds.Kind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	gvk := k.GVK()
	gvk.Kind += "List"
	list.SetGroupVersionKind(gvk)
	return list
}

// Fetch reads one object of a kind.
func Fetch(ctx context.Context, c client.Reader, k *kinds.Kind, key client.ObjectKey) (*Workload, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.GVK())
	if err := c.Get(ctx, key, obj); err != nil {
		return nil, err
	}
	return NewWorkload(k, obj), nil
}
