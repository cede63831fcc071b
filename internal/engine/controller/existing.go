package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/mutate"
)

// existingReconciler is the second line behind admission: it suspends workloads that a policy would have held at creation and nobody did, if nothing of them has
// started and the policy asks for it. Others are left alone, and an Event says why. What it suspends is as if it had been held at
// creation: everything else follows from that.
//
// Whether a policy would have held a workload is decided by the admission policy of the kind, as at creation. Where neither that policy is bound nor a
// webhook is there, as after "lull release --kinds", nothing is held.
type existingReconciler struct {
	cache     client.Reader
	live      client.Reader
	kinds     *KindSet
	zones     *Zones
	applier   *kube.Applier
	clock     clock.Clock
	namespace string        // Lull's own
	longest   time.Duration // the longest delay that policies may ask for

	mu      sync.Mutex
	holders map[*kinds.Kind]*mutate.Holder
	// left is why workloads are left alone, as their Events say.
	left map[types.NamespacedName]missed
}

// missed is why a workload is left alone.
type missed struct {
	uid types.UID
	why string
	// started says that it stays so.
	started bool
}

const (
	// eventsFor bounds the age of a workload for which an Event says why it is left alone. API servers keep Events for as long by default.
	eventsFor = time.Hour
	// existingRoom is what must be left until the latest start (wall time) for a workload to be suspended at all.
	existingRoom = 10 * time.Second
)

// watchExisting registers the reconciler, and returns what adds kinds to it.
func (r *CarbonPolicyReconciler) watchExisting(mgr ctrl.Manager) (*watches, error) {
	x := &existingReconciler{
		cache: mgr.GetCache(), live: r.Live, kinds: r.Kinds, zones: r.Zones, applier: r.Applier, clock: r.Clock, namespace: r.Namespace, longest: r.Limits.MaxDelay,
		holders: map[*kinds.Kind]*mutate.Holder{}, left: map[types.NamespacedName]missed{},
	}
	c, err := ctrl.NewControllerManagedBy(mgr).Named("existing").
		Watches(&v1alpha1.CarbonPolicy{}, handler.EnqueueRequestsFromMapFunc(x.ofNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: atATime}).
		Build(x)
	if err != nil {
		return nil, err
	}
	return watchesOf(c, mgr.GetCache())
}

// unheld returns a request for an object that no policy has ever governed, and none for others. An object with a recorded decision was governed until an
// operator ran lull release. The name of the request starts with the kind. A deleted object gets a last request, so that the reconciler forgets it.
func unheld(_ context.Context, o client.Object) []reconcile.Request {
	a := o.GetAnnotations()
	if a[v1alpha1.AnnotationPolicy] != "" || a[v1alpha1.AnnotationDecision] != "" {
		return nil
	}
	group := o.GetObjectKind().GroupVersionKind().GroupKind()
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: group.String() + "/" + o.GetName()}}}
}

// ofNamespace are the requests for the objects of a policy's namespace.
func (x *existingReconciler) ofNamespace(ctx context.Context, policy client.Object) (out []reconcile.Request) {
	for _, k := range x.kinds.holdable() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GVK().GroupVersion().WithKind(k.Spec.Kind + "List"))
		if err := x.cache.List(ctx, list, client.InNamespace(policy.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "Failed to list existing workloads", "kind", k.Name)
			continue
		}
		for i := range list.Items {
			out = append(out, unheld(ctx, &list.Items[i])...)
		}
	}
	return out
}

// Reconcile implements reconcile.Reconciler for one object.
func (x *existingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	of, name, _ := strings.Cut(req.Name, "/")
	kind := x.kind(schema.ParseGroupKind(of))
	if kind == nil {
		return ctrl.Result{}, nil // not watched any more
	}
	key := types.NamespacedName{Namespace: req.Namespace, Name: name}
	u := empty(kind.GVK())
	if err := x.cache.Get(ctx, key, u); err != nil {
		x.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if u.GetDeletionTimestamp() != nil {
		x.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	w := kube.NewWorkload(kind, u)
	if x.started(req.NamespacedName, w) {
		return ctrl.Result{}, nil
	}
	policy, err := x.missedBy(ctx, x.cache, w)
	if policy == nil {
		return ctrl.Result{}, err
	}
	if policy.Spec.HoldExisting != v1alpha1.HoldExistingUnstarted {
		x.leave(req.NamespacedName, w, policy, kube.NotAsked, false)
		return ctrl.Result{}, nil
	}
	zone, again, err := x.zone(ctx, policy.Spec.Zone)
	if err != nil || again > 0 {
		return ctrl.Result{RequeueAfter: again}, err
	}
	why, started, err := x.hold(ctx, kind, key, zone)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // the cache has it in a moment
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	case err != nil:
		return ctrl.Result{}, err
	case why != "":
		x.leave(req.NamespacedName, w, policy, why, started)
		if why == kube.NotBound {
			return ctrl.Result{RequeueAfter: resyncPeriod}, nil
		}
	default:
		x.forget(req.NamespacedName)
	}
	return ctrl.Result{}, nil
}

// zone is that of a policy, or after how long to look for it again: soon only if it is there, and has not been looked at since the start.
func (x *existingReconciler) zone(ctx context.Context, name string) (zone Zone, again time.Duration, err error) {
	zone, looked := x.zones.Get(name)
	switch {
	case looked && zone.Outlook.Expected != nil && !zone.Paused:
		return zone, 0, nil
	case looked: // what is held would be released at once
		return zone, resyncPeriod, nil
	}
	err = x.cache.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.GridZone{})
	if apierrors.IsNotFound(err) {
		return zone, resyncPeriod, nil
	}
	return zone, zoneWait, err
}

// hold suspends an object, as the API server has it now, or says why it is left alone, and whether that is as it has started.
func (x *existingReconciler) hold(ctx context.Context, kind *kinds.Kind, key types.NamespacedName, zone Zone) (why string, started bool, err error) {
	u := empty(kind.GVK())
	if err := x.live.Get(ctx, key, u); err != nil {
		return "", false, err
	}
	w := kube.NewWorkload(kind, u)
	policy, err := x.missedBy(ctx, x.live, w) // it may have been paused just now: lull release --all, lull retire
	if policy == nil || policy.Spec.HoldExisting != v1alpha1.HoldExistingUnstarted {
		return "", false, err
	}
	w = kube.WithCronJobs([]*kube.Workload{w}, func() kube.CronJobs { return x.kinds.cronJobs(ctx, key.Namespace) })[0]
	if why := kube.CanHold(w); why != "" {
		return why, false, nil
	}
	if w.Next.Err != nil {
		return w.Next.Err.Error(), false, nil //nolint:nilerr // what nobody can read is not held
	}
	latest, err := kube.LatestStart(w, &policy.Spec, x.longest, zone.Timeline)
	if err != nil {
		return err.Error(), false, nil //nolint:nilerr // nor is this
	}
	wall := zone.Timeline.ToWall(latest)
	if wall.Before(x.clock.Now().Add(existingRoom)) {
		return fmt.Sprintf("its latest safe start is %s", wall.UTC().Format(time.RFC3339)), false, nil
	}
	if kube.HeldOut(w, &policy.Spec) {
		return "it is in the share that runs as submitted", false, nil
	}
	if bound, err := kube.BoundAtAdmission(ctx, x.live, kind); err != nil {
		return "", false, err
	} else if !bound { // Lull may be about to lose the rights to the kind
		return kube.NotBound, false, nil
	}
	pods, err := kube.PodsOf(ctx, x.live, w) // last, so that little time passes until the object is suspended
	if err != nil {
		return "", false, err
	}
	if why := kube.Begun(w, pods); why != "" {
		return why, true, nil
	}
	switch err := x.applier.HoldExisting(ctx, w, policy, wall.UTC().Format(time.RFC3339)); {
	case kube.NoRoom(err):
		return "its annotations or its size leave no room for Lull's annotations", true, nil
	case err != nil:
		return "", false, err
	}
	metrics.Actions.WithLabelValues(string(kube.VerbHold), string(kube.CodeMissedAdmission)).Inc()
	log.FromContext(ctx).Info(string(kube.VerbHold), "kind", kind.Name, "workload", key.String(), "reason", kube.CodeMissedAdmission, "policy", policy.Name)
	return "", false, nil
}

// missedBy is the policy, of those that a reader lists, that would have held a workload at creation; nil if none would, or if it is held or has ended.
func (x *existingReconciler) missedBy(ctx context.Context, policies client.Reader, w *kube.Workload) (*v1alpha1.CarbonPolicy, error) {
	u := w.Objects[0]
	if len(unheld(ctx, u)) == 0 || u.GetDeletionTimestamp() != nil || w.Facts.Suspended || w.Facts.Finished || !kinds.Asked(x.namespace, w.Namespace()) {
		return nil, nil //nolint:nilnil // none
	}
	var list v1alpha1.CarbonPolicyList
	if err := policies.List(ctx, &list, client.InNamespace(w.Namespace())); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	holder, err := x.holder(w.Kind)
	if err != nil {
		return nil, err
	}
	policy, err := holder.HeldBy(ctx, w.Namespace(), u.Object, list.Items)
	if policy == nil {
		return nil, err
	}
	return policy, nil // an error is of another policy, which says so itself
}

// kind is the kind that can be suspended of a group and kind; nil for none.
func (x *existingReconciler) kind(of schema.GroupKind) *kinds.Kind {
	all := x.kinds.holdable()
	if i := slices.IndexFunc(all, func(k *kinds.Kind) bool { return k.GroupKind() == of }); i >= 0 {
		return all[i]
	}
	return nil
}

// holder is what decides for a kind.
func (x *existingReconciler) holder(k *kinds.Kind) (*mutate.Holder, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.holders[k]
	if h == nil {
		var err error
		if h, err = mutate.NewHolder(k, x.namespace); err != nil {
			return nil, err
		}
		x.holders[k] = h
	}
	return h, nil
}

// leave records once why a workload is left alone.
func (x *existingReconciler) leave(key types.NamespacedName, w *kube.Workload, policy *v1alpha1.CarbonPolicy, why string, started bool) {
	now := missed{w.UID(), why, started}
	x.mu.Lock()
	was := x.left[key]
	x.left[key] = now
	x.mu.Unlock()
	if was != now && x.clock.Now().Sub(w.Created()) < eventsFor {
		x.applier.RecordMissed(w, policy, why)
	}
}

// started reports whether a workload is known to have started.
func (x *existingReconciler) started(key types.NamespacedName, w *kube.Workload) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.left[key]
	return was.started && was.uid == w.UID()
}

// forget drops what is known of an object that is gone.
func (x *existingReconciler) forget(key types.NamespacedName) {
	x.mu.Lock()
	delete(x.left, key)
	x.mu.Unlock()
}
