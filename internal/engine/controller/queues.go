package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// Queues watches the Workloads of Kueue, where the API server serves them. It is safe for
// concurrent use.
type Queues struct {
	cache cache.Cache
	live  client.Reader
	watch []func(ctx context.Context, obj client.Object) error

	mu       sync.RWMutex
	looked   bool // whether Kueue is there
	informer cache.Informer
	since    time.Time
	// read are the Workloads as they were last read.
	read map[types.UID]*kueue.Workload
}

// NewQueues returns one that watches nothing yet.
func NewQueues() *Queues { return &Queues{read: map[types.UID]*kueue.Workload{}} }

// emptyWorkload names the kind.
func emptyWorkload() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	return u
}

// use connects the queues to controllers that are woken by their Workloads.
func (q *Queues) use(mgr manager.Manager, live client.Reader, watch ...func(ctx context.Context, obj client.Object) error) {
	q.cache, q.live, q.watch = mgr.GetCache(), live, watch
}

// Start implements manager.Runnable: it waits until Kueue is there.
func (q *Queues) Start(ctx context.Context) error {
	for {
		served, err := kube.QueuesServed(ctx, q.live)
		if err == nil && served == kube.Served {
			if err = q.begin(ctx); err == nil {
				log.FromContext(ctx).Info("Watch the queues of Kueue")
				return nil
			}
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to detect Kueue")
		} else {
			q.mu.Lock()
			q.looked = true
			q.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookForKinds):
		}
	}
}

func (q *Queues) begin(ctx context.Context) error {
	informer, err := q.cache.GetInformer(ctx, emptyWorkload(), cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	for _, watch := range q.watch {
		if err := watch(ctx, emptyWorkload()); err != nil {
			return err
		}
	}
	q.mu.Lock()
	q.informer, q.since, q.looked = informer, time.Now(), true
	q.mu.Unlock()
	return nil
}

// settled reports whether it is known if Kueue is there, and its Workloads have been listed
// once, or do not let themselves be listed.
func (q *Queues) settled() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.looked && (q.informer == nil || q.informer.HasSynced() || time.Since(q.since) > listed)
}

// ready reports whether the Workloads have been listed once.
func (q *Queues) ready() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.informer != nil && q.informer.HasSynced()
}

// all returns the Workloads of a namespace, "" for all of them. What has not changed since is
// not read again.
func (q *Queues) all(ctx context.Context, namespace string) ([]*kueue.Workload, error) {
	if !q.ready() {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	if err := q.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]*kueue.Workload, 0, len(list.Items))
	seen := make(map[types.UID]*kueue.Workload, len(list.Items))
	for i := range list.Items {
		u := &list.Items[i]
		w := q.read[u.GetUID()]
		if w == nil || w.Version != u.GetResourceVersion() {
			one, err := kueue.Read(u)
			if err != nil {
				return nil, err
			}
			w = &one
		}
		seen[w.UID] = w
		out = append(out, w)
	}
	for uid, w := range q.read { // those that are gone are forgotten
		if seen[uid] == nil && (namespace == "" || w.Namespace == namespace) {
			delete(q.read, uid)
		}
	}
	maps.Copy(q.read, seen)
	return out, nil
}

// Of returns the Workloads of some queues of a namespace by the UID of what they are of; of
// several slices of one the newest.
func (q *Queues) Of(ctx context.Context, namespace string, queues []string) (map[types.UID]*kueue.Workload, error) {
	list, err := q.all(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make(map[types.UID]*kueue.Workload, len(list))
	for _, w := range list {
		if w.OfHub || !slices.Contains(queues, w.Queue) {
			continue
		}
		for _, owner := range w.OwnedBy {
			if before := out[owner.UID]; before == nil || w.After(before) {
				out[owner.UID] = w
			}
		}
	}
	return out, nil
}

// queuesOf are the queues in which workloads wait.
func queuesOf(workloads []*kube.Workload) []string {
	var out []string
	for _, w := range workloads {
		if w.Facts.Queue != "" && !slices.Contains(out, w.Facts.Queue) {
			out = append(out, w.Facts.Queue)
		}
	}
	return out
}

// errNotYet says that a cluster, or what autoscales this one, has not been read yet, right after a start.
var errNotYet = errors.New("not read yet")

// errClusters marks clusters that cannot be planned for.
var errClusters = errors.New("spec.clusters")

// observeQueues adds what is known of the queues of a policy, and of the clusters to which they
// lead. No work goes to a cluster that has not been seen lately; what is there already stays.
func (r *CarbonPolicyReconciler) observeQueues(ctx context.Context, c kube.Context, in *kube.Input) error {
	spec := &c.Policy.Spec
	var err error
	if in.Queued, err = r.Queues.Of(ctx, c.Policy.Namespace, spec.Queues); err != nil || len(spec.Clusters) == 0 {
		return err
	}
	known := make(map[types.UID]bool, len(in.Workloads)) // ours, and those whose policies say how long they take it
	for _, w := range in.Workloads {
		known[w.UID()] = true
	}
	for i := range in.Others {
		maps.Copy(known, in.Others[i].Workloads)
	}
	all, err := r.Queues.all(ctx, "")
	if err != nil {
		return err
	}
	others := map[string]map[string]float64{}
	for _, w := range all {
		if w.OfHub || w.Finished || w.Cluster == "" || slices.ContainsFunc(w.OwnedBy, func(o metav1.OwnerReference) bool { return known[o.UID] }) {
			continue
		}
		if others[w.Cluster] == nil {
			others[w.Cluster] = map[string]float64{}
		}
		for res, q := range w.Usage {
			others[w.Cluster][res] += q
		}
	}
	for uid, w := range in.Queued { // by the names of ours
		if name := r.Clusters.Of(w.Cluster); w.Cluster != "" && name != w.Cluster {
			renamed := *w
			renamed.Cluster = name
			in.Queued[uid] = &renamed
		}
	}
	now := c.Timeline.ToGrid(c.Now)
	slot := 15 * time.Minute
	if spec.Slot != nil {
		slot = spec.Slot.Duration
	}
	for _, name := range spec.Clusters {
		cluster, ok := r.Clusters.Get(name)
		if !ok {
			err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.ComputeCluster{})
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return err
			}
			return errNotYet
		}
		zone, _ := r.Zones.Get(cluster.Zone)
		if zone.Timeline != c.Timeline {
			return fmt.Errorf("%w: ComputeCluster %s: its GridZone %s replays at another time than %s", errClusters, name, cluster.Zone, spec.Zone)
		}
		place := decide.Cluster{
			Name: name, Zone: cluster.Zone, Power: cluster.Power, Load: others[cluster.MultiKueue],
			Carbon: zone.Outlook.Expected, CarbonLow: zone.Outlook.Low, CarbonHigh: zone.Outlook.High, CarbonPaths: zone.Outlook.Paths,
		}
		if cluster.Usable {
			from := timegrid.Align(now, slot)
			place.Capacity = cluster.Look.Capacity
			place.LoadAt = kube.Expected(cluster.Load(from, slot, int(kube.LoadAhead/slot)), in.Others, name, c.Timeline, from, slot)
		}
		in.Clusters = append(in.Clusters, place)
	}
	if len(in.Clusters) == 0 {
		return fmt.Errorf("%w: %s: none of them is known", errClusters, strings.Join(spec.Clusters, ", "))
	}
	return nil
}
