package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// Service is whether objects of a kind can be listed.
type Service int

const (
	// NotServed says that the API server does not know the kind.
	NotServed Service = iota
	// Forbidden says that the API server serves the kind to others.
	Forbidden
	// Served says that its objects can be listed.
	Served
)

// ServiceOf asks the API server for one object of a kind. What may not be listed is not governed: "lull
// manifests --kinds" grants it. live must read from the API server. The options may name a namespace, for who may list no other.
func ServiceOf(ctx context.Context, live client.Reader, k *kinds.Kind, o ...client.ListOption) (Service, error) {
	service, err := serviceOf(ctx, live, MetadataList(k), o...)
	if err != nil {
		err = fmt.Errorf("look for kind %s: %w", k.Name, err)
	}
	return service, err
}

// HeldAtAdmission is Forbidden for a kind whose objects are held at creation though they may not be listed, and
// NotServed for one that nothing holds: neither an admission policy nor a webhook.
func HeldAtAdmission(ctx context.Context, live client.Reader, k *kinds.Kind) (Service, error) {
	err := live.Get(ctx, client.ObjectKey{Name: k.AdmissionName()}, AdmissionPolicy(k))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return heldByWebhook(ctx, live, k)
	}
	if err == nil || apierrors.IsForbidden(err) {
		return Forbidden, nil
	}
	return Forbidden, fmt.Errorf("look for the admission policy of %s: %w", k.Name, err)
}

// BoundAtAdmission reports whether objects of a kind are to be held at creation: the admission policy of the kind is bound, or "lull admission" asks for
// them. They are not once "lull release --kinds" has taken the kind from Lull.
func BoundAtAdmission(ctx context.Context, live client.Reader, k *kinds.Kind) (bool, error) {
	binding := AdmissionPolicy(k)
	binding.SetKind("MutatingAdmissionPolicyBinding")
	err := live.Get(ctx, client.ObjectKeyFromObject(binding), binding)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		service, err := heldByWebhook(ctx, live, k)
		return service != NotServed, err
	}
	return false, fmt.Errorf("look for the binding of the admission policy of %s: %w", k.Name, err)
}

// heldByWebhook is HeldAtAdmission for "lull admission".
func heldByWebhook(ctx context.Context, live client.Reader, k *kinds.Kind) (Service, error) {
	configuration := WebhookConfiguration()
	err := live.Get(ctx, client.ObjectKeyFromObject(configuration), configuration)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return NotServed, nil
	case apierrors.IsForbidden(err):
		return Forbidden, nil
	case err != nil:
		return Forbidden, fmt.Errorf("look for the webhook of %s: %w", k.Name, err)
	case slices.Contains(webhookNames(configuration), k.AdmissionName()):
		return Forbidden, nil
	}
	return NotServed, nil
}

// WebhookConfiguration is the MutatingWebhookConfiguration of "lull admission", without its content.
func WebhookConfiguration() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"})
	u.SetName(kinds.WebhookConfiguration)
	return u
}

func webhookNames(configuration *unstructured.Unstructured) (out []string) {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, w := range webhooks {
		if m, ok := w.(map[string]any); ok {
			name, _ := m["name"].(string)
			out = append(out, name)
		}
	}
	return out
}

// RemoveWebhooks has "lull admission" hold no more objects of some kinds, and of no others: kinds that were removed before are held again. It reports
// whether a webhook was removed. Where there is no configuration nothing is to be done.
func RemoveWebhooks(ctx context.Context, c client.Client, of []*kinds.Kind) (bool, error) {
	configuration := WebhookConfiguration()
	err := c.Get(ctx, client.ObjectKeyFromObject(configuration), configuration)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", configuration.GetName(), err)
	}
	var names []string
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	before := len(webhooks)
	for _, k := range of {
		names = append(names, k.Name)
		webhooks = slices.DeleteFunc(webhooks, func(w any) bool {
			m, ok := w.(map[string]any)
			return ok && m["name"] == k.AdmissionName()
		})
	}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		return false, err
	}
	a := configuration.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[kinds.AnnotationRemovedKinds] = strings.Join(names, ",")
	configuration.SetAnnotations(a)
	if err := c.Update(ctx, configuration); err != nil {
		return false, fmt.Errorf("write MutatingWebhookConfiguration %s: %w", configuration.GetName(), err)
	}
	return len(webhooks) < before, nil
}

// AdmissionPolicy is the one that holds objects of a kind at creation.
func AdmissionPolicy(k *kinds.Kind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"})
	u.SetName(k.AdmissionName())
	return u
}

// QueuesServed reports whether Kueue is there, in a version that Lull knows, and may be read.
func QueuesServed(ctx context.Context, live client.Reader, o ...client.ListOption) (Service, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	return serviceOf(ctx, live, list, o...)
}

func serviceOf(ctx context.Context, live client.Reader, list client.ObjectList, o ...client.ListOption) (Service, error) {
	err := live.List(ctx, list, append(o, client.Limit(1))...)
	switch {
	case err == nil:
		return Served, nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return NotServed, nil
	case apierrors.IsForbidden(err):
		return Forbidden, nil
	}
	return NotServed, err
}

// Kinds returns the built-in kinds and those of WorkloadKinds, which replace built-in ones of the same group
// and kind. Refused ones are left out, with the first error.
func Kinds(ctx context.Context, c client.Reader) ([]*kinds.Kind, error) {
	all, _, err := readKinds(ctx, c)
	return all, err
}

// HeldKinds returns all kinds whose objects may be held, for those who release them: also kinds that are refused
// as policies cannot tell them from others, as their admission policies do not know that.
func HeldKinds(ctx context.Context, c client.Reader) ([]*kinds.Kind, error) {
	all, refused, err := readKinds(ctx, c)
	for _, k := range refused {
		if !slices.ContainsFunc(all, func(x *kinds.Kind) bool { return x.GroupKind() == k.GroupKind() }) {
			all = append(all, k)
		}
	}
	return all, err
}

func readKinds(ctx context.Context, c client.Reader) (all, refused []*kinds.Kind, err error) {
	var list v1alpha1.WorkloadKindList
	if err := c.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list WorkloadKinds: %w", err)
	}
	SortKinds(list.Items)
	var further []*kinds.Kind
	var errs []error
	for i := range list.Items {
		k, err := kinds.New(list.Items[i].Name, &list.Items[i].Spec)
		if err == nil {
			further = append(further, k)
		}
		errs = append(errs, err)
	}
	all, problems := kinds.With(further)
	for _, k := range further {
		if problem := problems[k.From]; problem != nil {
			refused, errs = append(refused, k), append(errs, problem)
		}
	}
	return all, refused, cmp.Or(errs...)
}

// SortKinds puts WorkloadKinds into the order in which they count: the older one where two collide.
func SortKinds(items []v1alpha1.WorkloadKind) {
	slices.SortFunc(items, func(a, b v1alpha1.WorkloadKind) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
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
	return w.WithQueued(of), nil
}
