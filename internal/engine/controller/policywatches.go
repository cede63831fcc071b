package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/internal/fleet/dispatch"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
)

// policyIndex finds the workloads of a policy in the cache.
const policyIndex = "lull.dev/policy"

// initialize makes what the reconciler keeps in memory. It is empty at first.
func (r *CarbonPolicyReconciler) initialize() {
	r.planners = planners{}
	r.memories, r.uses = map[types.NamespacedName]*feedback.Memory{}, map[types.NamespacedName]kube.Use{}
	r.started, r.slow = r.Clock.Now(), slowness{}
	r.substitute = sync.OnceValues(func() (plan.Planner, error) { return r.Planner(substitute, nil, nil) })
	r.gone = map[types.NamespacedName]time.Time{}
	r.habits = map[timegrid.Timeline]*hub.Habit{}
	r.loads = kube.NewLoads()
	r.writer, r.turns = newWriter(), newTurns(policiesAtOnce, policiesOfNamespace)
	// An API that often fails must not keep a policy from deciding for minutes.
	r.failures = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestRetry, longestRetry)
}

// SetupWithManager registers the reconciler.
func (r *CarbonPolicyReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	r.initialize()
	if err := mgr.Add(r.writer); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, policyIndex, policyNameOf); err != nil {
		return err
	}
	// The cache watches Nodes, ResourceQuotas and CarbonPlans from the start. Otherwise it would begin with the first decision that reads them,
	// and that decision would wait for it.
	for _, read := range []client.Object{&corev1.Node{}, &corev1.ResourceQuota{}, &v1alpha1.CarbonPlan{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, read); err != nil {
			return err
		}
	}
	var err error
	if r.filled, err = watchLoads(ctx, mgr.GetCache(), r.loads); err != nil {
		return err
	}
	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CarbonPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, soon(policyOf)).
		// The condition Overlaps of a policy depends on the others of its namespace.
		Watches(&v1alpha1.CarbonPolicy{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.GridZone{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfZone)).
		Watches(&v1alpha1.CapacityCurve{}, handler.EnqueueRequestsFromMapFunc(policiesOfCurve)).
		Watches(&v1alpha1.ScalingProfile{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace), builder.WithPredicates(predicate.Funcs{UpdateFunc: newLimits})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: policiesAtOnce, RateLimiter: untilDecided{r.failures},
		}).
		WatchesRawSource(source.Func(func(_ context.Context, q requests) error {
			r.turns.enqueue = func(policy types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: policy}) }
			if r.Prober != nil {
				r.Prober.enqueue = r.turns.enqueue
			}
			return nil
		})).
		Build(r)
	if err != nil {
		return err
	}
	added, err := watchesOf(c, mgr.GetCache())
	if err != nil {
		return err
	}
	existing, err := r.watchExisting(mgr)
	if err != nil {
		return err
	}
	r.Kinds.use(mgr, r.Live, func(ctx context.Context, obj client.Object) error {
		return errors.Join(added.add(ctx, obj, soon(policyOf)), existing.add(ctx, obj, handler.EnqueueRequestsFromMapFunc(unheld)))
	})
	dispatcher, err := controller.New("dispatcher", mgr, controller.Options{MaxConcurrentReconciles: atATime, Reconciler: &DispatchReconciler{
		Cache: mgr.GetCache(), Clusters: r.Clusters, Dispatcher: dispatch.Dispatcher{Reader: mgr.GetCache(), Live: r.Live, Client: r.Client, Kind: r.Kinds.Of},
	}})
	if err != nil {
		return err
	}
	dispatched, err := watchesOf(dispatcher, mgr.GetCache())
	if err != nil {
		return err
	}
	r.Queues.use(mgr, r.Live, func(ctx context.Context, obj client.Object) error {
		return added.add(ctx, obj, soon(r.policiesOfQueue))
	}, func(ctx context.Context, obj client.Object) error {
		return dispatched.add(ctx, obj, &handler.EnqueueRequestForObject{})
	})
	return errors.Join(mgr.Add(r.Kinds), mgr.Add(r.Queues))
}

// newLimits reports whether a ResourceQuota allows something else than before. Its status changes with each pod.
func newLimits(e event.UpdateEvent) bool {
	a, was := e.ObjectOld.(*corev1.ResourceQuota)
	b, is := e.ObjectNew.(*corev1.ResourceQuota)
	return !was || !is || !equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// untilDecided is a rate limiter of policies that remembers their failures until they are decided: a policy whose turn it is not
// yet has not succeeded.
type untilDecided struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// Forget implements workqueue.TypedRateLimiter.
func (untilDecided) Forget(reconcile.Request) {}

// together is how long events are gathered before a policy is looked at: thousands of Jobs
// that are submitted at once are one look each tenth of a second, not one each.
const together = 100 * time.Millisecond

// soon asks for a look at the policies that an object concerns, with what else happens until then.
func soon(policies handler.MapFunc) handler.EventHandler { return &gather{policies} }

type gather struct{ policies handler.MapFunc }

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (g *gather) ask(ctx context.Context, o client.Object, q requests) {
	for _, req := range g.policies(ctx, o) {
		q.AddAfter(req, together)
	}
}

// Create implements handler.EventHandler.
func (g *gather) Create(ctx context.Context, e event.CreateEvent, q requests) {
	g.ask(ctx, e.Object, q)
}

// Update implements handler.EventHandler. A decision that the controller has stated is no reason for another one.
func (g *gather) Update(ctx context.Context, e event.UpdateEvent, q requests) {
	if onlyDecisionChanged(e.ObjectOld, e.ObjectNew) {
		return
	}
	g.ask(ctx, e.ObjectOld, q)
	g.ask(ctx, e.ObjectNew, q)
}

// Delete implements handler.EventHandler.
func (g *gather) Delete(ctx context.Context, e event.DeleteEvent, q requests) {
	g.ask(ctx, e.Object, q)
}

// Generic implements handler.EventHandler.
func (g *gather) Generic(ctx context.Context, e event.GenericEvent, q requests) {
	g.ask(ctx, e.Object, q)
}

// onlyDecisionChanged reports whether an update changes nothing but the annotations in which Lull states its decision. If a user puts older ones
// back, the next look at the policy does, which comes within resyncPeriod.
func onlyDecisionChanged(before, after client.Object) bool {
	if before.GetAnnotations()[v1alpha1.AnnotationDecision] == after.GetAnnotations()[v1alpha1.AnnotationDecision] {
		return false
	}
	without := func(o client.Object) client.Object {
		x, is := o.DeepCopyObject().(client.Object)
		if !is {
			return o
		}
		annotations := x.GetAnnotations()
		for _, told := range []string{v1alpha1.AnnotationDecision, v1alpha1.AnnotationLatestStart, v1alpha1.AnnotationStatedStart} {
			delete(annotations, told)
		}
		x.SetAnnotations(annotations)
		x.SetResourceVersion("")
		x.SetManagedFields(nil)
		return x
	}
	return equality.Semantic.DeepEqual(without(before), without(after))
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetAnnotations()[v1alpha1.AnnotationPolicy]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

func (r *CarbonPolicyReconciler) policiesOfZone(ctx context.Context, zone client.Object) []reconcile.Request {
	return r.policies(ctx, func(p *v1alpha1.CarbonPolicy) bool { return p.Spec.Zone == zone.GetName() })
}

func (r *CarbonPolicyReconciler) policiesOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.policies(ctx, func(p *v1alpha1.CarbonPolicy) bool { return p.Namespace == o.GetNamespace() })
}

func policiesOfCurve(_ context.Context, o client.Object) []reconcile.Request {
	c, ok := o.(*v1alpha1.CapacityCurve)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, p := range c.Spec.Policies {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}})
	}
	return out
}

func (r *CarbonPolicyReconciler) policiesOfQueue(ctx context.Context, o client.Object) []reconcile.Request {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	queue, _, _ := unstructured.NestedString(u.Object, "spec", "queueName")
	return r.policies(ctx, func(p *v1alpha1.CarbonPolicy) bool {
		return p.Namespace == o.GetNamespace() && slices.Contains(p.Spec.Queues, queue)
	})
}

func (r *CarbonPolicyReconciler) policies(ctx context.Context, concerned func(*v1alpha1.CarbonPolicy) bool) []reconcile.Request {
	var policies v1alpha1.CarbonPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list policies")
		return nil
	}
	var out []reconcile.Request
	for i := range policies.Items {
		if concerned(&policies.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
		}
	}
	return out
}
