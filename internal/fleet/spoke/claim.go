package spoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/cluster/kueue"
)

// ErrClaimed says that another hub sends work to the cluster.
var ErrClaimed = errors.New("another hub has claimed it")

const (
	// claimName is that of the lease by which a hub claims a cluster, in the namespace of Kueue there.
	claimName = "lull-hub"
	// claimFor is how long a claim lasts that is not renewed.
	claimFor = 5 * time.Minute
)

// Claim claims the cluster for a hub, or renews its claim: two hubs would each remove the
// other's work, as MultiKueue tells what is its own by a label that is the same for both. The
// error wraps ErrClaimed while another hub's claim lasts.
func (c *Cluster) Claim(ctx context.Context, namespace, hub string, now time.Time) error {
	key := client.ObjectKey{Namespace: namespace, Name: claimName}
	seconds, micro := int32(claimFor/time.Second), metav1.NewMicroTime(now)
	var lease coordinationv1.Lease
	err := c.client.Get(ctx, key, &lease)
	if apierrors.IsNotFound(err) {
		lease = coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &hub, LeaseDurationSeconds: &seconds, AcquireTime: &micro, RenewTime: &micro},
		}
		if err = c.client.Create(ctx, &lease); err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("claim it by the Lease %s/%s: %w", namespace, claimName, err)
	}
	s := &lease.Spec
	held := s.HolderIdentity != nil && *s.HolderIdentity == hub
	renewed := time.Time{}
	if s.RenewTime != nil {
		renewed = s.RenewTime.Time
	}
	switch {
	case !held && now.Sub(renewed) < claimFor:
		return fmt.Errorf("%w: Lease %s/%s, renewed %s", ErrClaimed, namespace, claimName, renewed.UTC().Format(time.RFC3339))
	case held && now.Sub(renewed) < claimFor/4:
		return nil
	case !held:
		s.AcquireTime = &micro
	}
	s.HolderIdentity, s.LeaseDurationSeconds, s.RenewTime = &hub, &seconds, &micro
	if err := c.client.Update(ctx, &lease); err != nil {
		return fmt.Errorf("claim it by the Lease %s/%s: %w", namespace, claimName, err)
	}
	return nil
}

// Copies lists the Workloads that MultiKueue has made on the cluster for a hub.
func (c *Cluster) Copies(ctx context.Context) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	err := pages(func(more string) (string, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
		if err := c.client.List(ctx, list, client.HasLabels{kueue.LabelOrigin}, client.Limit(page), client.Continue(more)); err != nil {
			return "", err
		}
		for i := range list.Items {
			out = append(out, types.NamespacedName{Namespace: list.Items[i].GetNamespace(), Name: list.Items[i].GetName()})
		}
		return list.GetContinue(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the copies of Workloads: %w", err)
	}
	return out, nil
}

// HasCopy reports whether there is a copy of a Workload.
func (c *Cluster) HasCopy(ctx context.Context, name types.NamespacedName) (bool, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	err := c.client.Get(ctx, name, u)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Purge removes a copy of a Workload with the Job that runs it.
func (c *Cluster) Purge(ctx context.Context, name types.NamespacedName) error {
	// The Job first: without its Workload it would be taken for a new one.
	var jobs batchv1.JobList
	if err := c.client.List(ctx, &jobs, client.InNamespace(name.Namespace), client.HasLabels{kueue.LabelOrigin}); err != nil {
		return fmt.Errorf("list the Jobs of the hub: %w", err)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if j.Labels[kueue.Prebuilt] != name.Name && j.Annotations[kueue.Prebuilt] != name.Name {
			continue
		}
		if err := client.IgnoreNotFound(c.client.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
			return fmt.Errorf("delete the Job %s/%s: %w", j.Namespace, j.Name, err)
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	u.SetNamespace(name.Namespace)
	u.SetName(name.Name)
	if err := client.IgnoreNotFound(c.client.Delete(ctx, u)); err != nil {
		return fmt.Errorf("delete the Workload %s: %w", name, err)
	}
	return nil
}

// mapper knows the kinds that are read: nothing is discovered of hundreds of others.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, kueue.GroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	m.Add(kueue.GroupVersion.WithKind("ClusterQueue"), meta.RESTScopeRoot)
	m.Add(kueue.GroupVersion.WithKind("Workload"), meta.RESTScopeNamespace)
	return m
}
