package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/fleet"
	"lull.dev/lull/internal/kueue"
	"lull.dev/lull/internal/metrics"
)

// Dispatcher is MultiKueue's external dispatcher (multiKueue.dispatcherName: lull.dev/dispatcher
// in Kueue's configuration): it names the cluster for each Workload that holds quota on the hub.
// What Lull has planned goes where it is planned; what Lull does not govern, and what starts
// without a plan, may go to any cluster that is allowed, and Kueue takes the first with quota.
type Dispatcher struct {
	// Cache reads Workloads and what they rest on, Live their owners where the cache may be
	// behind, Client writes nominations.
	Cache    cache.Cache
	Live     client.Reader
	Client   client.Client
	Clusters *fleet.Clusters
}

const (
	// multiKueue is the controller of the admission checks that lead to other clusters.
	multiKueue = "kueue.x-k8s.io/multikueue"
	// askAgain is how often a Workload is looked at that no cluster has taken yet.
	askAgain = 5 * time.Second
)

// Reconcile nominates a cluster for a Workload, where one is to be nominated.
func (d *Dispatcher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := emptyWorkload()
	if err := d.Cache.Get(ctx, req.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	w, err := kueue.Read(u)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !w.OfHub && !w.Finished && w.Reserved && (w.Evicted || !w.Active) {
		return d.letGo(ctx, &w)
	}
	if w.OfHub || w.Finished || w.Evicted || !w.Active || !w.Reserved || w.Cluster != "" {
		return ctrl.Result{}, nil
	}
	there, err := d.reachable(ctx, &w)
	if err != nil || len(there) == 0 {
		return ctrl.Result{}, err
	}
	target, free, err := d.target(ctx, &w)
	if err != nil {
		return ctrl.Result{}, err
	}
	nominated := slices.DeleteFunc(there, func(name string) bool { return !free && !slices.Contains(target, name) })
	if len(nominated) == 0 || slices.Equal(nominated, w.Nominated) {
		return ctrl.Result{RequeueAfter: askAgain}, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.Version},
		"status":   map[string]any{"nominatedClusterNames": nominated},
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	err = d.Client.Status().Patch(ctx, u.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: shortest}, nil // seen anew then
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("nominate clusters: %w", err)
	}
	told := "any"
	if len(nominated) == 1 {
		told = nominated[0]
	}
	metrics.Nominations.WithLabelValues(told).Inc()
	log.FromContext(ctx).Info("Nominate", "clusters", nominated)
	return ctrl.Result{RequeueAfter: askAgain}, nil
}

// letGo sees to it that a Workload which is on its way out of a cluster gives its quota back.
// Kueue waits for the Job's own status to say that nothing of it is active; on a hub that is a
// copy of what the cluster said last, and once the copy there is gone nobody says more. The cluster
// is asked; one that is lost is waited for no longer, and what it has left is removed when it
// comes back.
func (d *Dispatcher) letGo(ctx context.Context, w *kueue.Workload) (ctrl.Result, error) {
	led, err := d.led(ctx, w, "")
	if err != nil || len(led) == 0 {
		return ctrl.Result{}, err // not on another cluster
	}
	var job batchv1.Job
	found := false
	for _, o := range w.OwnedBy {
		if o.APIVersion != batchv1.SchemeGroupVersion.String() || o.Kind != "Job" {
			continue
		}
		if err := d.Live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: o.Name}, &job); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		found = job.UID == o.UID
	}
	if !found || job.Status.Active == 0 && (job.Status.Ready == nil || *job.Status.Ready == 0) {
		return ctrl.Result{}, nil
	}
	for _, name := range led {
		there, known, err := d.Clusters.HasCopy(ctx, name, types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
		switch {
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("%s: %w", name, err)
		case known && there:
			return ctrl.Result{RequeueAfter: shortest}, nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": job.ResourceVersion}, "status": map[string]any{"active": 0, "ready": 0},
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	err = d.Client.Status().Patch(ctx, &job, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: shortest}, nil
	}
	if err == nil {
		log.FromContext(ctx).Info("Gone from its cluster", "job", job.Name)
	}
	return ctrl.Result{RequeueAfter: askAgain}, err
}

// reachable are the clusters to which the Workload's check of MultiKueue leads; none where
// it has no such check that waits.
func (d *Dispatcher) reachable(ctx context.Context, w *kueue.Workload) ([]string, error) {
	return d.led(ctx, w, kueue.CheckPending)
}

// led are the clusters to which the Workload's check of MultiKueue leads that is in a state, ""
// for any.
func (d *Dispatcher) led(ctx context.Context, w *kueue.Workload, in string) ([]string, error) {
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
	if err := d.Cache.Get(ctx, client.ObjectKey{Name: name}, u); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return u, nil
}

// target are the clusters to which the Workload is to go; free says that none is to be
// preferred. What its policy holds goes nowhere. The owner is asked for live: what it is released to
// stands in it, and a cache that is behind would send it anywhere.
func (d *Dispatcher) target(ctx context.Context, w *kueue.Workload) (target []string, free bool, err error) {
	for _, owner := range w.OwnedBy {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
		if err := d.Live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: owner.Name}, u); err != nil {
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
				return nil, true, nil // not of a kind that Lull governs
			}
			return nil, false, err
		}
		annotations := u.GetAnnotations()
		name := annotations[v1alpha1.AnnotationPolicy]
		if name == "" {
			continue
		}
		if annotations[v1alpha1.AnnotationHold] != "" {
			return nil, false, nil
		}
		if at := annotations[v1alpha1.AnnotationCluster]; at != "" {
			return []string{d.Clusters.MultiKueue(at)}, false, nil
		}
		var policy v1alpha1.CarbonPolicy
		if err := d.Cache.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, &policy); err != nil {
			return nil, apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return d.Clusters.Allowed(policy.Spec.Clusters, annotations), false, nil
	}
	return nil, true, nil
}
