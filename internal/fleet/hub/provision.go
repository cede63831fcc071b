package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/fleet/spoke"
)

// A cluster that is provisioned is made when a service wants to go there, and removed when none
// has been there for a while. What to do next stands in the status before it is done, and what
// is done may be done again. A cluster that is there without having been made by this is never removed.

const (
	// hookTimeout bounds a run of a hook, hookAgain is the pause after one that has failed.
	hookTimeout, hookAgain = time.Hour, 30 * time.Second
	// provisionAgain is how often it is looked at what is under way.
	provisionAgain = time.Second
	// provisionOwner is the annotation by which Cluster API's objects name the ComputeCluster.
	provisionOwner = "lull.dev/provisioned-for"
)

// hookRun is a run of a hook beside the reconciler.
type hookRun struct {
	verb  string
	ended time.Time // zero while it runs
	err   error
}

// provision takes the provisioning of a cluster one step on; answers says whether the cluster is
// there. It returns whether something is under way.
func (r *Reconciler) provision(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster, answers bool, now time.Time) (bool, error) {
	spec := cc.Spec.Provision
	if spec == nil {
		cc.Status.Provision = nil
		return false, nil
	}
	if cc.Status.Provision == nil {
		cc.Status.Provision = &v1alpha1.ProvisionStatus{State: v1alpha1.ProvisionAbsent}
	}
	p := cc.Status.Provision
	var from client.Reader = r.Client
	if p.State == v1alpha1.ProvisionReleasing {
		// Since the step before this one no service sets out for it: whoever has is seen now.
		from = r.Reader
	}
	wanted, err := wanted(ctx, from, cc.Name)
	if err != nil {
		return false, err
	}
	switch p.State {
	case v1alpha1.ProvisionCreating, v1alpha1.ProvisionDeleting:
		verb, next := "create", v1alpha1.Provisioned
		if p.State == v1alpha1.ProvisionDeleting {
			verb, next = "delete", v1alpha1.ProvisionAbsent
		}
		done, err := r.carryOut(ctx, k, cc, verb, now)
		p.Message = text(err)
		if done {
			p.State = next
			log.FromContext(ctx).Info("Provision", "cluster", cc.Name, "state", next)
		}
		return true, nil
	case v1alpha1.Provisioned:
		if wanted {
			p.UnusedSince = nil
			return false, nil
		}
		if p.UnusedSince == nil {
			at := metav1.NewTime(now)
			p.UnusedSince = &at
		}
		if now.Sub(p.UnusedSince.Time) >= kube.DurationOf(spec.Keep, 5*time.Minute) {
			p.State, p.UnusedSince = v1alpha1.ProvisionReleasing, nil
		}
		return true, nil
	case v1alpha1.ProvisionReleasing:
		p.State = v1alpha1.ProvisionDeleting
		if wanted {
			p.State = v1alpha1.Provisioned
		}
		return true, nil
	}
	if wanted && !answers {
		p.State = v1alpha1.ProvisionCreating
		return true, nil
	}
	return false, nil
}

// leaves reports whether a cluster is on its way out.
func leaves(cc *v1alpha1.ComputeCluster) bool {
	p := cc.Status.Provision
	return p != nil && (p.State == v1alpha1.ProvisionReleasing || p.State == v1alpha1.ProvisionDeleting)
}

// wanted reports whether a service is on the cluster or goes there.
func wanted(ctx context.Context, reader client.Reader, name string) (bool, error) {
	var follows v1alpha1.FollowList
	if err := reader.List(ctx, &follows); err != nil {
		return false, fmt.Errorf("list Follows: %w", err)
	}
	return slices.ContainsFunc(follows.Items, func(f v1alpha1.Follow) bool { return slices.Contains(clustersOf(&f), name) }), nil
}

// clustersOf are the clusters on which a service is or to which it goes.
func clustersOf(f *v1alpha1.Follow) []string {
	var out []string
	if f.Status.Next != "" {
		out = append(out, f.Status.Next)
	}
	for _, p := range f.Status.Placements {
		out = append(out, p.Cluster)
	}
	return out
}

// carryOut creates or deletes the cluster and reports whether that is done.
func (r *Reconciler) carryOut(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster, verb string, now time.Time) (bool, error) {
	if cc.Spec.Provision.ClusterAPI != nil {
		return r.clusterAPI(ctx, cc, verb)
	}
	return r.hook(ctx, k, cc, verb, now)
}

// hook runs the hook beside the reconciler.
func (r *Reconciler) hook(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster, verb string, now time.Time) (bool, error) {
	if r.Hooks == "" {
		return false, fmt.Errorf("spec.provision.hook: %s: the controller has no folder of hooks (--provision-hooks)", cc.Spec.Provision.Hook)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	run := k.run
	switch {
	case run != nil && run.ended.IsZero():
		return false, nil
	case run != nil && run.verb == verb && run.err == nil:
		k.run = nil
		return true, nil
	case run != nil && run.verb == verb && now.Sub(run.ended) < hookAgain:
		return false, run.err
	}
	k.run = &hookRun{verb: verb}
	name, zone, hook := cc.Name, cc.Spec.Zone, cc.Spec.Provision.Hook
	go func(run *hookRun) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTimeout)
		defer cancel()
		var said tail
		cmd := exec.CommandContext(ctx, filepath.Join(r.Hooks, hook), verb, name)
		cmd.Stderr = &said
		cmd.WaitDelay = 5 * time.Second
		cmd.Env = []string{"LULL_CLUSTER=" + name, "LULL_ZONE=" + zone}
		for _, v := range []string{"PATH", "HOME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
			cmd.Env = append(cmd.Env, v+"="+os.Getenv(v))
		}
		err := cmd.Run()
		if err != nil {
			err = fmt.Errorf("%s %s %s: %w: %s", hook, verb, name, err, said.lastLine())
		}
		r.mu.Lock()
		run.ended, run.err = r.Clock.Now(), err
		r.mu.Unlock()
		r.fetched <- event.GenericEvent{Object: &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}(k.run)
	return false, nil
}

// tail keeps the end of what a program says.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 300
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(p), nil
}

func (t tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(string(t)), "\n")
	return lines[len(lines)-1]
}

// clusterAPI applies the objects until the Cluster is available, or deletes them until they are gone.
func (r *Reconciler) clusterAPI(ctx context.Context, cc *v1alpha1.ComputeCluster, verb string) (bool, error) {
	on := spoke.NewObjects(r.Client, provisionOwner, cc.UID)
	objects := make([]*unstructured.Unstructured, len(cc.Spec.Provision.ClusterAPI.Manifests))
	var cluster *unstructured.Unstructured
	for i, raw := range cc.Spec.Provision.ClusterAPI.Manifests {
		field := fmt.Sprintf("spec.provision.clusterAPI.manifests[%d]", i)
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw.Raw); err != nil {
			return false, fmt.Errorf("%s: %w", field, err)
		}
		if ns := obj.GetNamespace(); ns != "" && ns != r.Namespace {
			return false, fmt.Errorf("%s: metadata.namespace: %q; accepted: %q, that of the controller", field, ns, r.Namespace)
		}
		obj.SetNamespace(r.Namespace)
		objects[i] = obj
		if gvk := obj.GroupVersionKind(); gvk.Group == "cluster.x-k8s.io" && gvk.Kind == "Cluster" {
			cluster = obj
		}
	}
	if cluster == nil {
		return false, fmt.Errorf("spec.provision.clusterAPI.manifests: no Cluster of cluster.x-k8s.io; accepted: one")
	}
	if verb == "delete" {
		// The Cluster takes what belongs to it with it; what it needs for that goes last.
		gone, err := on.Remove(ctx, cluster)
		if err != nil || !gone {
			return false, err
		}
		for i := len(objects) - 1; i >= 0; i-- {
			if gone, err := on.Remove(ctx, objects[i]); err != nil || !gone {
				return false, err
			}
		}
		return true, nil
	}
	for _, obj := range objects {
		if _, err := on.Apply(ctx, obj); err != nil {
			return false, err
		}
	}
	return available(ctx, r.Client, cluster)
}

// available reports whether Cluster API says that a cluster is: by its condition Available (v1beta2)
// or, before that was there, Ready.
func available(ctx context.Context, reader client.Reader, cluster *unstructured.Unstructured) (bool, error) {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(cluster.GroupVersionKind())
	if err := reader.Get(ctx, client.ObjectKeyFromObject(cluster), there); err != nil {
		return false, err
	}
	conditions, _, err := unstructured.NestedSlice(there.Object, "status", "conditions")
	if err != nil {
		return false, err
	}
	var parsed []metav1.Condition
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok {
			kind, _ := m["type"].(string)
			status, _ := m["status"].(string)
			parsed = append(parsed, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status)})
		}
	}
	if meta.FindStatusCondition(parsed, "Available") != nil {
		return meta.IsStatusConditionTrue(parsed, "Available"), nil
	}
	return meta.IsStatusConditionTrue(parsed, "Ready"), nil
}
