package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/curve"
	"lull.dev/lull/internal/dispatch"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/fleet"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/internal/meter"
	"lull.dev/lull/internal/metrics"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into charts/lull/files/rbac/controller.yaml; those to workloads come with their
// kinds.
//
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies;workloadkinds,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=lull.dev,resources=carbonplans,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=lull.dev,resources=carbonplans/status,verbs=patch
// +kubebuilder:rbac:groups=lull.dev,resources=scalingprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=scalingprofiles/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// PlannerFactory builds a planner by name; it keeps this package from knowing
// planners.
type PlannerFactory func(name string, parameters map[string]string, criticalClasses []string) (plan.Planner, error)

// CarbonPolicyReconciler decides for all workloads of a policy at a time.
type CarbonPolicyReconciler struct {
	Client client.Client
	Zones  *Zones
	Kinds  *KindSet
	// Queues are those of Kueue, Clusters those to which they lead.
	Queues   *Queues
	Clusters *fleet.Clusters
	// Applier starts, stops and scales; Statements writes what is only told.
	Applier, Statements *kube.Applier
	// Curves bound what policies may plan with.
	Curves  *curve.Store
	Planner PlannerFactory
	Clock   clock.Clock
	// Meter measures power and progress; nil where there is none.
	Meter *meter.Meter
	// Books keep the ledger; nil where there is none.
	Books *books

	writer *writer
	// planners of the policies.
	planners planners
	// memories of the policies. One policy is decided at a time.
	memories map[types.NamespacedName]*feedback.Memory
	// uses are what their workloads take, as of their last decisions.
	uses map[types.NamespacedName]kube.Use
	// habits are the usual loads of this cluster by what no policy governs, by the hours of each timeline: the real
	// one, and those of replays.
	habits map[timegrid.Timeline]*fleet.Habit
}

// policyIndex finds the workloads of a policy in the cache.
const policyIndex = "lull.dev/policy"

const (
	// zoneWait is how long to wait for a zone that is known to the API but has
	// not been looked at yet, right after a start.
	zoneWait = 100 * time.Millisecond
	// shortest keeps a fast replay from deciding all the time.
	shortest = 200 * time.Millisecond
	// shortestRetry and longestRetry bound the pause after a failure.
	shortestRetry, longestRetry = 50 * time.Millisecond, 2 * time.Second
	// atATime is how many workloads are started, stopped or scaled at once.
	atATime = 8
	// curvePatience is how long a policy waits for its curve at the beginning of a slot.
	curvePatience = 3 * time.Second
	// attention is how often what runs is looked at, for what its object does not tell:
	// pods that find no node, progress.
	attention = 30 * time.Second
)

// SetupWithManager registers the reconciler. One policy is decided at a time,
// so that two never count the same free capacity.
func (r *CarbonPolicyReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	r.planners = planners{}
	r.memories, r.uses = map[types.NamespacedName]*feedback.Memory{}, map[types.NamespacedName]kube.Use{}
	r.habits = map[timegrid.Timeline]*fleet.Habit{}
	r.writer = newWriter()
	if err := mgr.Add(r.writer); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, policyIndex, policyNameOf); err != nil {
		return err
	}
	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CarbonPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, soon(policyOf)).
		Watches(&v1alpha1.GridZone{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfZone)).
		Watches(&v1alpha1.CapacityCurve{}, handler.EnqueueRequestsFromMapFunc(policiesOfCurve)).
		Watches(&v1alpha1.ScalingProfile{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			// An API that often fails must not keep a policy from deciding for minutes.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestRetry, longestRetry),
		}).
		Build(r)
	if err != nil {
		return err
	}
	r.Kinds.use(c, mgr)
	dispatcher, err := controller.New("dispatcher", mgr, controller.Options{MaxConcurrentReconciles: atATime, Reconciler: &DispatchReconciler{
		Cache: mgr.GetCache(), Clusters: r.Clusters, Dispatcher: dispatch.Dispatcher{Reader: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: r.Client, Kind: r.Kinds.Of},
	}})
	if err != nil {
		return err
	}
	r.Queues.use(mgr, func(obj client.Object) error {
		return c.Watch(ctrlsource.Kind(mgr.GetCache(), obj, soon(r.policiesOfQueue)))
	}, func(obj client.Object) error {
		return dispatcher.Watch(ctrlsource.Kind(mgr.GetCache(), obj, &handler.EnqueueRequestForObject{}))
	})
	return errors.Join(mgr.Add(r.Kinds), mgr.Add(r.Queues))
}

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

// Update implements handler.EventHandler.
func (g *gather) Update(ctx context.Context, e event.UpdateEvent, q requests) {
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
		log.FromContext(ctx).Error(err, "List policies")
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

// Reconcile observes, decides and applies for one policy.
func (r *CarbonPolicyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.Kinds.ready() || !r.Queues.settled() {
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	}
	workloads, err := r.Kinds.Workloads(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	var policy v1alpha1.CarbonPolicy
	if err := r.Client.Get(ctx, req.NamespacedName, &policy); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.releaseOrphans(ctx, req, workloads)
		}
		return ctrl.Result{}, err
	}
	if policy.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // its end arrives as an event of its own
	}
	zone, problem, wait := r.zone(ctx, policy.Spec.Zone)
	if wait {
		if problem != nil {
			return ctrl.Result{}, problem // tried again with back-off; nothing is released for it
		}
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	}
	c := kube.Context{Policy: &policy, Timeline: zone.Timeline, Now: r.Clock.Now()}
	if now, bounded := r.curve(&policy); bounded {
		// What may be used in a slot that has just begun is about to be known.
		if end := zone.Timeline.ToWall(now.End()); !c.Now.Before(end) && c.Now.Sub(end) < curvePatience {
			return ctrl.Result{RequeueAfter: zoneWait / 4}, nil
		}
	}
	memory := r.memory(req.NamespacedName)
	pods := sight{}
	view, nowhere, err := r.observe(ctx, c, zone, workloads, memory, pods)
	switch {
	case errors.Is(err, errNotYet):
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	decision, due, err := r.decide(ctx, c, zone, &view, memory)
	if err = errors.Join(nowhere, err); err != nil {
		// A policy that cannot decide must not hold: its workloads run.
		problem = errors.Join(problem, err)
		decision = decide.RunAll(view.Snapshot, decide.CodePlannerFailed)
	}
	kube.Place(&view, &decision)
	r.report(req.NamespacedName, &view, memory)
	r.uses[req.NamespacedName] = use(c, &view, memory)
	// A workload that cannot be written must not keep the others' plans from being stated.
	wrote, conflicted, failed := r.apply(ctx, c, &view, &decision, memory)
	if r.Books != nil {
		r.Books.record(ctx, c, workloads, &view, &decision, due, wrote, memory.Phases, pods)
	}
	after := min(max(shortest, zone.Timeline.ToWall(decision.Wake).Sub(c.Now)), attention)
	if !view.DeniedAt.IsZero() {
		after = min(after, max(shortest, view.DeniedAt.Sub(c.Now)))
	}
	if conflicted {
		after = shortest
	}
	r.statePlans(c, &view, &decision, memory)
	failed = errors.Join(failed, r.writeProfiles(ctx, c, &view, memory))
	memory.Forget(&view)
	if err := r.writeStatus(ctx, &policy, &view, memory, problem, zone.Timeline.ToWall(decision.Wake)); err != nil {
		return ctrl.Result{}, err
	}
	if failed != nil {
		return ctrl.Result{}, failed
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

func (r *CarbonPolicyReconciler) memory(policy types.NamespacedName) *feedback.Memory {
	m := r.memories[policy]
	if m == nil {
		m = feedback.New()
		r.memories[policy] = m
	}
	return m
}

// zone returns what is known of the policy's zone. wait says that the zone has
// not been looked at yet or, with a problem, that the API could not be asked;
// without wait, problem says why there is no data.
func (r *CarbonPolicyReconciler) zone(ctx context.Context, name string) (zone Zone, problem error, wait bool) {
	zone, looked := r.Zones.Get(name)
	if looked {
		if zone.Outlook.Expected == nil {
			return zone, fmt.Errorf("GridZone %s has no data", name), false
		}
		return zone, nil, false
	}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.GridZone{})
	switch {
	case err == nil:
		return Zone{}, nil, true
	case apierrors.IsNotFound(err):
		return Zone{}, fmt.Errorf("spec.zone: there is no GridZone %q", name), false
	}
	return Zone{}, err, true
}

// observe looks at the workloads of a policy. nowhere says why nothing can be planned for them.
func (r *CarbonPolicyReconciler) observe(ctx context.Context, c kube.Context, zone Zone, workloads []*kube.Workload, memory *feedback.Memory, saw sight) (view kube.View, nowhere, err error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return view, nil, err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return view, nil, err
	}
	var profiles v1alpha1.ScalingProfileList
	if err := r.Client.List(ctx, &profiles, client.InNamespace(c.Policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return view, nil, err
	}
	byName := make(map[string]*v1alpha1.ScalingProfile, len(profiles.Items))
	for i := range profiles.Items {
		byName[profiles.Items[i].Name] = &profiles.Items[i]
	}
	for _, w := range workloads {
		if memory.Known(w.UID()) || w.Facts.Finished {
			continue
		}
		var p v1alpha1.CarbonPlan
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace(), Name: kube.PlanName(w)}, &p)
		if err == nil {
			memory.Load(w, &p)
		} else if !apierrors.IsNotFound(err) {
			return view, nil, err
		}
	}
	in := kube.Input{
		Now: c.Now, Timeline: c.Timeline, Policy: c.Policy, Paused: c.Policy.Spec.Paused || zone.Paused, Carbon: zone.Outlook,
		Workloads: workloads, Nodes: nodes.Items, Pods: pods.Items, Profiles: byName, Learned: memory,
	}
	in.Others = r.others(client.ObjectKeyFromObject(c.Policy))
	if r.Books != nil {
		in.Saw = saw.saw
	}
	if r.Meter != nil {
		r.Meter.Want(client.ObjectKeyFromObject(c.Policy), workloads)
		in.Measured = r.Meter
	}
	if queues := c.Policy.Spec.Queues; len(queues) > 0 {
		switch err := r.observeQueues(ctx, c, &in); {
		case errors.Is(err, errClusters):
			in.Clusters, nowhere = nil, err
		case err != nil:
			return view, nil, err
		}
	}
	now, bounded := r.curve(c.Policy)
	if bounded {
		in.Beside = now.Beside
	}
	view, err = kube.Observe(in)
	memory.Ended(&view, c)
	s := &view.Snapshot
	switch {
	case err != nil:
	case bounded:
		s.Clusters[0].CapacityAt = now.Capacity(timegrid.Align(s.Now, s.Slot), s.Slot)
	case len(in.Clusters) == 0:
		if r.habits[c.Timeline] == nil {
			r.habits[c.Timeline] = &fleet.Habit{}
		}
		expect(s, r.habits[c.Timeline], in.Others, c.Timeline)
	}
	return view, nowhere, err
}

// curve is the CapacityCurve that a policy follows; one that sends its workloads to other clusters
// follows none.
func (r *CarbonPolicyReconciler) curve(policy *v1alpha1.CarbonPolicy) (curve.Now, bool) {
	if len(policy.Spec.Clusters) > 0 {
		return curve.Now{}, false
	}
	return r.Curves.Of(client.ObjectKeyFromObject(policy))
}

// report tells what the workloads of a policy ask for, for the curve that it follows, if any.
func (r *CarbonPolicyReconciler) report(policy types.NamespacedName, view *kube.View, memory *feedback.Memory) {
	s := &view.Snapshot
	d := curve.Demand{Tasks: s.Tasks, Margin: s.Margin, Power: s.Clusters[0].Power, Runtime: make([]time.Duration, len(s.Tasks)), Phases: make([][]decide.Phase, len(s.Tasks))}
	for i, w := range view.Workloads {
		d.Runtime[i], d.Phases[i] = view.Progress[i].Runtime, memory.Phases(w)
	}
	r.Curves.Report(policy, d)
}

// flexPlanner is the planner whose scales a CapacityCurve of method carbonFlex sets.
const flexPlanner = "carbonflex"

// defaultThreshold is that of a policy that was created without the API server's defaults.
const defaultThreshold = 0.05

func thresholdOf(policy *v1alpha1.CarbonPolicy) float64 {
	if t := policy.Spec.ReplanThreshold; t != nil {
		return *t
	}
	return defaultThreshold
}

func (r *CarbonPolicyReconciler) decide(ctx context.Context, c kube.Context, zone Zone, view *kube.View, memory *feedback.Memory) (d decide.Decision, due map[int]v1alpha1.PlanTrigger, err error) {
	spec := &c.Policy.Spec
	threshold := thresholdOf(c.Policy)
	s := &view.Snapshot
	forecast := memory.Forecast(s.Clusters, s.Now, threshold)
	due = memory.Prepare(view, forecast, threshold, c)
	now, bounded := r.curve(c.Policy)
	if bounded {
		memory.NewCapacity(view, due, now.Revision, now.Replans)
		for i := range s.Tasks {
			s.Tasks[i].KeepsRoom = !now.Replans(&s.Tasks[i])
		}
	}
	used := memory.Used()
	for source, kwh := range used.EnergyKWh {
		metrics.Energy.WithLabelValues(c.Policy.Namespace, c.Policy.Name, source).Add(max(0, kwh))
	}
	metrics.Emissions.WithLabelValues(c.Policy.Namespace, c.Policy.Name).Add(max(0, used.EmittedG))
	if spec.Paused || zone.Paused {
		return decide.RunAll(*s, decide.CodePaused), nil, nil
	}
	planner, err := r.planners.of(c.Policy, r.Planner)
	if err != nil {
		return decide.Decision{}, nil, fmt.Errorf("spec.planner: %w", err)
	}
	if bounded && now.Planner != nil && spec.Planner.Name == flexPlanner {
		planner = now.Planner
	}
	begin := time.Now()
	d, err = decide.Decide(ctx, *s, planner)
	metrics.DecisionSeconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		return d, nil, err
	}
	for _, v := range decide.Verify(*s, d) {
		metrics.Violations.WithLabelValues(c.Policy.Namespace, c.Policy.Name, string(v.Rule)).Inc()
		log.FromContext(ctx).Info("A decision breaks an invariant", "rule", v.Rule, "task", v.Task, "message", v.Message)
	}
	for _, trigger := range due {
		metrics.Plans.WithLabelValues(trigger.Reason).Inc()
	}
	d.Wake = memory.Keep(view, &d, due)
	return d, due, nil
}

// apply carries the decision out. A conflict means that the cache was behind;
// the next decision, moments later, sees the workload as it is. What waits is told so beside
// the reconciliation.
func (r *CarbonPolicyReconciler) apply(ctx context.Context, c kube.Context, view *kube.View, d *decide.Decision, memory *feedback.Memory) (wrote []bool, conflicted bool, err error) {
	var errs []error
	note := func(verb decide.Verb, reason decide.Code, wrote bool, err error) {
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			conflicted = true
		case err != nil:
			errs = append(errs, err)
		case wrote:
			metrics.Actions.WithLabelValues(string(verb), string(reason)).Inc()
		}
	}
	for _, bad := range view.Invalid {
		wrote, err := r.Applier.ReleaseInvalid(ctx, bad.Workload, bad.Err, c.Timeline.ToGrid(c.Now))
		note(decide.Release, kube.CodeInvalid, wrote, err)
	}
	for _, w := range view.Finished {
		note("", "", false, r.Applier.ClearHold(ctx, w))
	}
	type done struct {
		wrote bool
		err   error
	}
	var group errgroup.Group
	group.SetLimit(atATime)
	results := make([]done, len(d.Actions))
	// What is to start first is released first, in the queue of Kueue too.
	for _, i := range d.Order {
		a, w := &d.Actions[i], view.Workloads[i]
		tell := writeKey{writeTell, w.UID()}
		if a.Verb == decide.Wait && w.Facts.Suspended && !w.GateIgnored() {
			if kube.Tells(w, a) {
				r.writer.put(tell, r.tell(c, w, *a, view.Progress[i]))
			}
			continue
		}
		r.writer.drop(tell)
		group.Go(func() error {
			results[i].wrote, results[i].err = r.Applier.Apply(ctx, w, *a, view.Progress[i], c)
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
	wrote = make([]bool, len(d.Actions))
	for i := range d.Actions {
		a := &d.Actions[i]
		err := results[i].err
		note(a.Verb, a.Reason.Code, results[i].wrote, err)
		wrote[i] = results[i].wrote && err == nil
		if wrote[i] {
			w := view.Workloads[i]
			log.FromContext(ctx).Info(string(a.Verb), "kind", w.Kind.Name, "workload", w.Name(), "reason", a.Reason.Code, "workers", a.Workers, "message", a.Reason.Message())
			memory.Applied(w, a, &view.Snapshot)
		}
	}
	return wrote, conflicted, errors.Join(errs...)
}

// tell is the write that tells a workload that it waits, and for what.
func (r *CarbonPolicyReconciler) tell(c kube.Context, w *kube.Workload, a decide.Action, p kube.Progress) func(context.Context) error {
	return func(ctx context.Context) error {
		wrote, err := r.Statements.Apply(ctx, w, a, p, c)
		if wrote && err == nil {
			metrics.Actions.WithLabelValues(string(a.Verb), string(a.Reason.Code)).Inc()
			log.FromContext(ctx).V(1).Info(string(a.Verb), "kind", w.Kind.Name, "workload", w.Name(), "reason", a.Reason.Code, "message", a.Reason.Message())
		}
		return err
	}
}

// releaseOrphans opens what a deleted policy holds.
func (r *CarbonPolicyReconciler) releaseOrphans(ctx context.Context, req ctrl.Request, workloads []*kube.Workload) error {
	delete(r.planners, req.NamespacedName)
	delete(r.memories, req.NamespacedName)
	delete(r.uses, req.NamespacedName)
	r.Curves.Forget(req.NamespacedName)
	if r.Meter != nil {
		r.Meter.Want(req.NamespacedName, nil)
	}
	var errs []error
	for _, w := range workloads {
		message := fmt.Sprintf("the CarbonPolicy %s is gone, runs at once", req.Name)
		wrote, err := r.Applier.ReleaseHeld(ctx, w, kube.CodePolicyGone, message, r.Clock.Now())
		if wrote {
			metrics.Actions.WithLabelValues(string(decide.Release), string(kube.CodePolicyGone)).Inc()
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	for _, state := range []string{"waiting", "running", "finished"} {
		metrics.Jobs.DeleteLabelValues(req.Namespace, req.Name, state)
	}
	of := prometheus.Labels{"namespace": req.Namespace, "policy": req.Name}
	metrics.Energy.DeletePartialMatch(of)
	metrics.Violations.DeletePartialMatch(of)
	metrics.Emissions.DeletePartialMatch(of)
	return errors.Join(errs...)
}
