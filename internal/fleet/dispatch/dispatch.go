// Package dispatch names the cluster for each Workload that holds quota on a hub: it is
// MultiKueue's external dispatcher (multiKueue.dispatcherName: lull.dev/dispatcher in Kueue's
// configuration). The controller runs it for everything; the watchdog for what the controller
// has not sent anywhere in time.
package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

// multiKueue is the controller of the admission checks that lead to other clusters.
const multiKueue = "kueue.x-k8s.io/multikueue"

// Dispatcher names clusters. What Lull has planned goes where it is planned; what Lull does not
// govern, and what starts without a plan, may go to any cluster that is allowed, and Kueue takes
// the first with quota.
type Dispatcher struct {
	// Reader reads Kueue's configuration, policies and ComputeClusters; Live the owners of
	// Workloads, where a cache may be behind; Client writes.
	Reader, Live client.Reader
	Client       client.Client
	// Kind knows the kinds of workloads, for LetGo; nil for one that Lull does not know.
	Kind func(gvk schema.GroupVersionKind) *kinds.Kind
}

// Awaits reports whether a Workload is to be sent to a cluster.
func Awaits(w *kueue.Workload) bool {
	return !w.OfHub && !w.Finished && !w.Evicted && w.Active && w.Reserved && !w.Admitted && w.Cluster == ""
}

// Leaves reports whether a Workload is on its way out of a cluster and still holds quota.
func Leaves(w *kueue.Workload) bool {
	return !w.OfHub && !w.Finished && w.Reserved && (w.Evicted || !w.Active)
}

// Nominate names the clusters for a Workload that awaits it; free leaves the choice to Kueue,
// among those that are allowed, wherever it was to go. It returns the clusters that it has named,
// none where that has been done already, or there is none to name.
func (d *Dispatcher) Nominate(ctx context.Context, w *kueue.Workload, free bool) ([]string, error) {
	there, err := d.Led(ctx, w, kueue.CheckPending)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	target, open, err := d.target(ctx, w, free)
	if err != nil {
		return nil, err
	}
	if w.Annotations[kueue.AnnotationElastic] == "true" && !w.Replaces {
		return nil, d.markSlice(ctx, w)
	}
	nominated := slices.DeleteFunc(slices.Clone(there), func(name string) bool { return !open && !slices.Contains(target, name) })
	if len(nominated) == 0 || slices.Equal(nominated, w.Nominated) {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.Version},
		"status":   map[string]any{"nominatedClusterNames": nominated},
	})
	if err != nil {
		return nil, err
	}
	if err := d.Client.Status().Patch(ctx, Object(w), client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, fmt.Errorf("nominate clusters: %w", err)
	}
	return nominated, nil
}

// firstSlice stands for what the first slice of an elastic object replaces: nothing.
const firstSlice = "lull.dev/none"

// markSlice makes the first slice of an elastic object look like one that has replaced another,
// before it is copied to a cluster. Kueue there (as of v0.19.2) takes only those for in order while
// MultiKueue shrinks first the copy and then the Job; any other it ends as out of sync, and the Job
// starts anew with a start time that the hub's may not take over: it is stuck for good.
func (d *Dispatcher) markSlice(ctx context.Context, w *kueue.Workload) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": w.Version, "annotations": map[string]any{kueue.AnnotationReplaces: firstSlice},
	}})
	if err != nil {
		return err
	}
	return d.Client.Patch(ctx, Object(w), client.RawPatch(types.MergePatchType, body))
}

// Object is a Workload as it is patched.
func Object(w *kueue.Workload) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	u.SetNamespace(w.Namespace)
	u.SetName(w.Name)
	return u
}

// Led are the clusters to which the Workload's check of MultiKueue leads that is in a state, ""
// for any; none where it has no such check.
func (d *Dispatcher) Led(ctx context.Context, w *kueue.Workload, in string) ([]string, error) {
	for name, state := range w.Checks {
		if in != "" && state != in {
			continue
		}
		check, err := d.get(ctx, "AdmissionCheck", name)
		if err != nil {
			return nil, err
		}
		if by, _, _ := unstructured.NestedString(check.Object, "spec", "controllerName"); by != multiKueue {
			continue
		}
		config, _, _ := unstructured.NestedString(check.Object, "spec", "parameters", "name")
		list, err := d.get(ctx, "MultiKueueConfig", config)
		if err != nil {
			return nil, err
		}
		clusters, _, _ := unstructured.NestedStringSlice(list.Object, "spec", "clusters")
		return clusters, nil
	}
	return nil, nil
}

func (d *Dispatcher) get(ctx context.Context, kind, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind(kind))
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: name}, u); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return u, nil
}

// target are the clusters to which the Workload is to go; open says that none is to be
// preferred. A Workload that its policy holds goes to no cluster. The first owner that Lull governs decides.
func (d *Dispatcher) target(ctx context.Context, w *kueue.Workload, free bool) (target []string, open bool, err error) {
	replaced := 0
	for _, owner := range w.OwnedBy {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
		if err := d.Live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: owner.Name}, u); err != nil {
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
				continue // not of a kind that Lull governs
			}
			return nil, false, err
		}
		if u.GetUID() != owner.UID {
			replaced++ // the owner is gone, and another object has its name
			continue
		}
		annotations := u.GetAnnotations()
		name := annotations[v1alpha1.AnnotationPolicy]
		if name == "" {
			continue
		}
		if annotations[v1alpha1.AnnotationHold] != "" {
			return nil, false, nil
		}
		var list v1alpha1.ComputeClusterList
		if err := d.Reader.List(ctx, &list); err != nil {
			return nil, false, err
		}
		if at := annotations[v1alpha1.AnnotationCluster]; at != "" && !free {
			return []string{multiKueueOf(&list, at)}, false, nil
		}
		var policy v1alpha1.CarbonPolicy
		if err := d.Reader.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, &policy); err != nil {
			return nil, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return Allowed(&list, policy.Spec.Clusters, annotations), false, nil
	}
	// If all owners of a Workload are gone, the garbage collector deletes it.
	return nil, len(w.OwnedBy) == 0 || replaced < len(w.OwnedBy), nil
}

// multiKueueOf is the MultiKueueCluster of a ComputeCluster; its own name where there is none.
func multiKueueOf(list *v1alpha1.ComputeClusterList, name string) string {
	for i := range list.Items {
		if c := &list.Items[i]; c.Name == name && c.Spec.Access.MultiKueueCluster != "" {
			return c.Spec.Access.MultiKueueCluster
		}
	}
	return name
}

// Allowed are the MultiKueueClusters to which a workload with some annotations may go, of the
// ComputeClusters named.
func Allowed(list *v1alpha1.ComputeClusterList, of []string, annotations map[string]string) []string {
	clusters, zones := kube.Names(annotations[v1alpha1.AnnotationClusters]), kube.Names(annotations[v1alpha1.AnnotationZones])
	var out []string
	for i := range list.Items {
		c := &list.Items[i]
		if !slices.Contains(of, c.Name) || len(clusters) > 0 && !slices.Contains(clusters, c.Name) || len(zones) > 0 && !slices.Contains(zones, c.Spec.Zone) {
			continue
		}
		out = append(out, c.Spec.Access.MultiKueueCluster)
	}
	return out
}

// HasCopy asks a MultiKueueCluster whether it has a copy of a Workload; known is false for one
// that cannot be asked.
type HasCopy func(ctx context.Context, cluster string, name types.NamespacedName) (there, known bool, err error)

// LetGo sees to it that a Workload which leaves a cluster gives its quota back. Kueue waits for
// the object's own status to say that nothing of it is active; on a hub that is a copy of what the
// cluster said last, and once the copy there is gone nobody says more. The cluster is asked; one
// that is lost is waited for no longer, and what it has left is removed when it comes back.
// wait says that a copy is still there.
func (d *Dispatcher) LetGo(ctx context.Context, w *kueue.Workload, ask HasCopy) (wrote, wait bool, err error) {
	led, err := d.Led(ctx, w, "")
	if err != nil || len(led) == 0 {
		return false, false, err // not on another cluster
	}
	var u *unstructured.Unstructured
	var patch map[string]any
	for _, o := range w.OwnedBy {
		k := d.Kind(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		if k == nil {
			continue
		}
		u = &unstructured.Unstructured{}
		u.SetGroupVersionKind(k.GVK())
		if err := d.Live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: o.Name}, u); err != nil {
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
				continue
			}
			return false, false, err
		}
		if u.GetUID() == o.UID {
			patch = k.Quieten(u.Object)
			break
		}
	}
	if patch == nil {
		return false, false, nil
	}
	for _, name := range led {
		there, known, err := ask(ctx, name, types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
		switch {
		case err != nil:
			return false, false, fmt.Errorf("%s: %w", name, err)
		case known && there:
			return false, true, nil
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": u.GetResourceVersion()}, "status": patch})
	if err != nil {
		return false, false, err
	}
	return true, false, d.Client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, body))
}
