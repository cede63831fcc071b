package hub

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

// A cluster that comes back after its workloads were sent elsewhere still has its old copies,
// and MultiKueue would keep those and delete the newer ones. So a lost cluster is taken out of
// MultiKueue's configuration, and comes back into it once its copies have been removed.

// again is the pause before what met a conflict is tried again.
const again = time.Second

// hub names this hub.
func (r *Reconciler) hub(ctx context.Context) (string, error) {
	r.mu.Lock()
	self := r.self
	r.mu.Unlock()
	if self != "" {
		return self, nil
	}
	var ns corev1.Namespace
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read the namespace kube-system, whose UID names this hub: %w", err)
	}
	r.mu.Lock()
	r.self = string(ns.UID)
	r.mu.Unlock()
	return string(ns.UID), nil
}

// keep takes a cluster that is lost out of MultiKueue, and one that is back into it again.
func (r *Reconciler) keep(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster, answers bool, now time.Time) error {
	last := k.cluster.Look.At
	if last.IsZero() && cc.Status.LookedAt != nil {
		last = cc.Status.LookedAt.Time // as the controller before this one knew it
	}
	lost := !answers && !last.IsZero() && now.Sub(last) > kube.DurationOf(cc.Spec.StaleAfter, time.Minute)
	switch {
	case lost:
		return r.remove(ctx, cc)
	case answers && len(cc.Status.RemovedFrom) > 0:
		return r.bringBack(ctx, k, cc)
	}
	return nil
}

// remove takes the cluster out of each MultiKueueConfig that has others too. What is removed is
// noted first, and whatever is noted and still there is removed at the next look.
func (r *Reconciler) remove(ctx context.Context, cc *v1alpha1.ComputeCluster) error {
	name := cc.Spec.Access.MultiKueueCluster
	configs, err := r.configs(ctx)
	if err != nil {
		return err
	}
	configs = slices.DeleteFunc(configs, func(config unstructured.Unstructured) bool {
		clusters, _, _ := unstructured.NestedStringSlice(config.Object, "spec", "clusters")
		return !slices.Contains(clusters, name) || len(clusters) < 2 // Kueue accepts no empty list
	})
	if len(configs) == 0 {
		return nil
	}
	before := cc.DeepCopy()
	for i := range configs {
		if !slices.Contains(cc.Status.RemovedFrom, configs[i].GetName()) {
			cc.Status.RemovedFrom = append(cc.Status.RemovedFrom, configs[i].GetName())
		}
	}
	if _, err := kube.PatchStatus(ctx, r.Client, cc, before); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Lost a cluster: removed it from MultiKueue", "cluster", cc.Name, "configs", cc.Status.RemovedFrom)
	for i := range configs {
		if err := r.setClusters(ctx, &configs[i], func(clusters []string) []string {
			return slices.DeleteFunc(clusters, func(c string) bool { return c == name })
		}); err != nil {
			return err
		}
	}
	return nil
}

// bringBack removes what was left on a cluster that answers again, and lets work go there.
func (r *Reconciler) bringBack(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster) error {
	name := cc.Spec.Access.MultiKueueCluster
	configs, err := r.configs(ctx)
	if err != nil {
		return err
	}
	// It may have been lost for so short a time, or the controller killed so soon, that it is
	// still in use: then MultiKueue itself knows its copies.
	out := 0
	for i := range configs {
		clusters, _, _ := unstructured.NestedStringSlice(configs[i].Object, "spec", "clusters")
		if slices.Contains(cc.Status.RemovedFrom, configs[i].GetName()) && !slices.Contains(clusters, name) {
			out++
		}
	}
	if out > 0 {
		copies, err := k.reach.Copies(ctx)
		if err != nil {
			return err
		}
		for _, c := range copies {
			here, err := r.isHere(ctx, c, name)
			if err != nil {
				return err
			}
			if here {
				continue
			}
			if err := k.reach.Purge(ctx, c); err != nil {
				return err
			}
			log.FromContext(ctx).Info("Removed the workloads left on a lost cluster", "cluster", cc.Name, "workload", c)
		}
	}
	for i := range configs {
		if !slices.Contains(cc.Status.RemovedFrom, configs[i].GetName()) {
			continue
		}
		if err := r.setClusters(ctx, &configs[i], func(clusters []string) []string {
			if slices.Contains(clusters, name) {
				return clusters
			}
			return append(clusters, name)
		}); err != nil {
			return err
		}
	}
	before := cc.DeepCopy()
	cc.Status.RemovedFrom = nil
	if err := r.Client.Status().Patch(ctx, cc, client.MergeFrom(before)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Added a cluster to MultiKueue again", "cluster", cc.Name)
	return nil
}

// isHere reports whether the hub still counts on the copy of a Workload on a cluster.
func (r *Reconciler) isHere(ctx context.Context, name types.NamespacedName, cluster string) (bool, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	if err := r.Reader.Get(ctx, name, u); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	w, err := kueue.Read(u)
	return err == nil && w.Cluster == cluster && w.Reserved && !w.Evicted && !w.Finished, err
}

func (r *Reconciler) configs(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("MultiKueueConfigList"))
	if err := r.Reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list MultiKueueConfigs: %w", err)
	}
	return list.Items, nil
}

// setClusters changes the clusters of a MultiKueueConfig; nobody else's change is lost.
func (r *Reconciler) setClusters(ctx context.Context, config *unstructured.Unstructured, change func([]string) []string) error {
	clusters, _, err := unstructured.NestedStringSlice(config.Object, "spec", "clusters")
	if err != nil {
		return err
	}
	next := change(slices.Clone(clusters))
	if slices.Equal(clusters, next) {
		return nil
	}
	if err := unstructured.SetNestedStringSlice(config.Object, next, "spec", "clusters"); err != nil {
		return err
	}
	if err := r.Client.Update(ctx, config); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("MultiKueueConfig %s: %w", config.GetName(), err)
	}
	return nil
}
