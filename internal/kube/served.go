package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/internal/kueue"
)

// Served reports whether the API server serves a kind and its objects may be listed, by
// listing one. What may not be listed is not governed: "lull manifests --kinds" grants it.
// live must read from the API server.
func Served(ctx context.Context, live client.Reader, k *kinds.Kind) (bool, error) {
	served, err := isServed(ctx, live, MetadataList(k))
	if err != nil {
		err = fmt.Errorf("look for kind %s: %w", k.Name, err)
	}
	return served, err
}

// QueuesServed reports whether Kueue is there, in a version that Lull knows, and may be read.
func QueuesServed(ctx context.Context, live client.Reader) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	return isServed(ctx, live, list)
}

func isServed(ctx context.Context, live client.Reader, list client.ObjectList) (bool, error) {
	err := live.List(ctx, list, client.Limit(1))
	switch {
	case err == nil:
		return true, nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	}
	return false, err
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
	w := NewWorkload(k, obj)
	if w.Facts.Queue == "" {
		return w, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	err := c.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{kueue.LabelJobUID: string(w.UID())})
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return w, nil // without Kueue, or rights to it, the gate can be taken away all the same
	case err != nil:
		return nil, fmt.Errorf("list the Workloads of Kueue: %w", err)
	}
	of := map[types.UID]*kueue.Workload{}
	for i := range list.Items {
		q, err := kueue.Read(&list.Items[i])
		if err != nil {
			return nil, err
		}
		if before := of[w.UID()]; before == nil || q.After(before) {
			of[w.UID()] = &q
		}
	}
	return w.queued(of), nil
}
