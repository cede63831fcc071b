package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// Marks finds everything that carries a mark of Lull, on its object or on its Workload of Kueue: what is held,
// what was released by halves, and what somebody has opened by hand.
type Marks struct {
	// Reader is a cache, or the API server, from which Page objects are read at a time.
	Reader client.Reader
	Page   int64
	// Governed finds also what carries no mark, as it runs, but names a policy.
	Governed bool

	queued map[types.UID]*kueue.Workload // by what they are of
	found  map[types.UID]bool            // Workloads whose owner has been found
	// ownerless are the Workloads that carry a mark and have no owner.
	ownerless []*kueue.Workload
}

// ReadQueues reads the Workloads of Kueue, of one namespace or of all.
func (m *Marks) ReadQueues(ctx context.Context, namespace string) error {
	m.queued, m.found = map[types.UID]*kueue.Workload{}, map[types.UID]bool{}
	m.ownerless = nil
	var unreadable error // keeps the others from nothing
	err := m.each(ctx, kueue.GroupVersion.WithKind("Workload"), namespace, func(u *unstructured.Unstructured) {
		if !marked(u) && !slices.Contains(kueue.Gates(u.GetAnnotations()[kueue.AnnotationGates]), v1alpha1.Gate) {
			return
		}
		q, err := kueue.Read(u)
		if err != nil {
			unreadable = cmp.Or(unreadable, err)
			return
		}
		if q.Finished || q.OfHub { // a hub sees to its copies
			return
		}
		if len(q.OwnedBy) == 0 {
			m.ownerless = append(m.ownerless, &q)
		}
		for _, owner := range q.OwnedBy {
			if before := m.queued[owner.UID]; before == nil || q.After(before) {
				m.queued[owner.UID] = &q
			}
		}
	})
	return cmp.Or(err, unreadable)
}

// Queued returns how many Workloads of Kueue carry a mark. They are known after ReadQueues.
func (m *Marks) Queued() int { return len(m.queued) + len(m.ownerless) }

// Of returns the workloads of a kind that carry any mark, or that are governed if those are asked for. Those of queues are known after ReadQueues.
func (m *Marks) Of(ctx context.Context, k *kinds.Kind, namespace string) ([]*Workload, error) {
	var out []*Workload
	err := m.each(ctx, k.GVK(), namespace, func(u *unstructured.Unstructured) {
		governed := m.Governed && u.GetAnnotations()[v1alpha1.AnnotationPolicy] != ""
		if !marked(u) && m.queued[u.GetUID()] == nil && !governed {
			return
		}
		w := NewWorkload(k, u).WithQueued(m.queued)
		if w.Queued != nil {
			m.found[w.Queued.UID] = true
		}
		if w.Marked() || governed && !w.Facts.Finished {
			out = append(out, w)
		}
	})
	return Group(out), err
}

// Orphans are the Workloads of Kueue with no owner and any mark of Lull, and those that Lull has set inactive and whose
// owner was not found. They are known when all kinds have been read.
func (m *Marks) Orphans() []*kueue.Workload {
	out := slices.Clone(m.ownerless)
	seen := map[types.UID]bool{}
	for _, q := range m.queued {
		if Parked(q) && !m.found[q.UID] && !seen[q.UID] {
			seen[q.UID] = true // another owner has it too
			out = append(out, q)
		}
	}
	return out
}

func (m *Marks) each(ctx context.Context, gvk schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured)) error {
	more := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		options := &client.ListOptions{Namespace: namespace, Limit: m.Page, Continue: more, UnsafeDisableDeepCopy: new(true)} // nothing is modified
		if err := m.Reader.List(ctx, list, options); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if more = list.GetContinue(); more == "" || m.Page == 0 {
			return nil
		}
	}
}
