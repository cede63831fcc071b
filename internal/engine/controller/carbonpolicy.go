package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/meter"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/autoscale"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into charts/lull/files/rbac/controller.yaml; those to workloads come with their
// kinds.
//
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies;workloadkinds,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=lull.dev,resources=workloadkinds/status,verbs=patch
// +kubebuilder:rbac:groups=lull.dev,resources=carbonplans,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=lull.dev,resources=carbonplans/status,verbs=patch
// +kubebuilder:rbac:groups=lull.dev,resources=scalingprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=scalingprofiles/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;pods;resourcequotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// PlannerFactory builds a planner by name; it keeps this package from knowing
// planners.
type PlannerFactory func(name string, parameters map[string]string, criticalClasses []string) (plan.Planner, error)

// CarbonPolicyReconciler decides for all workloads of a policy at a time. Policies that share capacity are decided one after
// the other, others at the same time.
type CarbonPolicyReconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Zones *Zones
	Kinds *KindSet
	// Queues are those of Kueue, Clusters those to which they lead.
	Queues   *Queues
	Clusters *hub.Clusters
	// Applier starts, stops and scales; Statements writes what is only told.
	Applier, Statements *kube.Applier
	// Curves bound what policies may plan with, Autoscaling says what nodes can become.
	Curves      *curve.Store
	Autoscaling *autoscale.Store
	Planner     PlannerFactory
	Clock       clock.Clock
	// Limits are what policies may ask for.
	Limits Limits
	// Namespace is the controller's own, in which nothing is governed.
	Namespace string
	// Meter measures power and progress; nil where there is none.
	Meter *meter.Meter
	// Ledger records what policies observe; nil without a ledger.
	Ledger *ledgerRecorder
	// Prober proves that work is held at creation; nil proves nothing.
	Prober *prober
	// Rounds learns of each decision; it may be nil.
	Rounds *manager.Rounds

	writer *writer
	turns  *turns
	// loads is what pods ask for and nodes offer; filled reports whether all that there are are known.
	loads  *kube.Loads
	filled func() bool
	// failures delay the next decision of policies that fail.
	failures workqueue.TypedRateLimiter[reconcile.Request]

	// mu guards all that follows. A memory is used only by the turn of its policy.
	mu sync.Mutex
	// planners of the policies.
	planners planners
	memories map[types.NamespacedName]*feedback.Memory
	// uses are what their workloads take, as of their last decisions.
	uses map[types.NamespacedName]kube.Use
	// gone is since when (wall time) policies are deleted that held something.
	gone map[types.NamespacedName]time.Time
	// slow is until when the substitute plans for policies whose planners took too long; substitute builds it.
	slow       slowness
	substitute func() (plan.Planner, error)
	// started is when the controller started (wall time).
	started time.Time
	// habits are the usual loads of this cluster by what no policy governs, by the hours of each timeline: the real
	// one, and those of replays.
	habits map[timegrid.Timeline]*hub.Habit
}

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
	// replaceGrace is how long (wall time) after its deletion an object may come back, as "kubectl replace --force"
	// has it, before holds are opened.
	replaceGrace = 10 * time.Second
	// curvePatience is how long a policy waits for its curve at the beginning of a slot.
	curvePatience = 3 * time.Second
	// resyncPeriod is how often what runs is looked at, for what its object does not tell:
	// pods that find no node, progress.
	resyncPeriod = 30 * time.Second
)

// Reconcile decides for one policy, if it is its turn. If it is not, the policy is enqueued again when it is.
func (r *CarbonPolicyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.Kinds.ready() || !r.Queues.settled() || !r.filled() || r.Ledger != nil && r.Ledger.Loading() {
		r.turns.end(req.NamespacedName)
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	}
	policy := &v1alpha1.CarbonPolicy{}
	err := r.Client.Get(ctx, req.NamespacedName, policy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && policy.DeletionTimestamp != nil:
		policy = nil
	case err != nil:
		r.turns.end(req.NamespacedName)
		return ctrl.Result{}, err
	}
	if policy != nil {
		r.known(req.NamespacedName) // so that its metrics tell also of a turn that does not come
	}
	if !r.turns.begin(req.NamespacedName, r.claims(req.NamespacedName, policy)) {
		return ctrl.Result{}, nil
	}
	defer r.turns.end(req.NamespacedName)
	workloads, err := r.Kinds.Workloads(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	var result ctrl.Result
	if policy == nil {
		result, err = r.policyGone(ctx, req, workloads)
	} else {
		result, err = r.reconcile(ctx, policy, workloads)
	}
	if err == nil {
		r.failures.Forget(req)
	}
	return result, err
}

// reconcile observes, decides and applies for one policy. It holds the claims of the policy until it is known what the decision takes.
func (r *CarbonPolicyReconciler) reconcile(ctx context.Context, policy *v1alpha1.CarbonPolicy, workloads []*kube.Workload) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(policy)
	memory := r.known(key)
	r.Ledger.remember(memory, key)
	zone, problem, wait := r.zone(ctx, policy.Spec.Zone)
	if wait {
		if problem != nil {
			return ctrl.Result{}, problem // tried again with back-off; nothing is released for it
		}
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	}
	c := kube.Context{Policy: policy, Timeline: zone.Timeline, Now: r.Clock.Now()}
	if now, bounded := r.curve(policy); bounded {
		// What may be used in a slot that has just begun is about to be known.
		if end := zone.Timeline.ToWall(now.End()); !c.Now.Before(end) && c.Now.Sub(end) < curvePatience {
			return ctrl.Result{RequeueAfter: zoneWait / 4}, nil
		}
	}
	pods := observation{}
	view, unplannable, err := r.observe(ctx, c, zone, workloads, memory, pods)
	switch {
	case errors.Is(err, errNotYet):
		return ctrl.Result{RequeueAfter: zoneWait}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	decision, due, err := r.decide(ctx, c, zone, &view, memory)
	if err = errors.Join(unplannable, err); err != nil {
		// A policy that cannot decide must not hold: its workloads run.
		problem = errors.Join(problem, err)
		decision = runAll(&view, err)
	}
	kube.Place(&view, &decision)
	r.report(key, &view, memory)
	r.takes(key, use(c, &view, memory))
	r.turns.release(key)
	// A workload that cannot be written must not keep the others' plans from being stated.
	wrote, conflicted, failed := r.apply(ctx, c, &view, &decision, memory)
	if r.Ledger != nil {
		r.Ledger.record(c, workloads, &view, &decision, due, wrote, memory.Phases, pods)
	}
	after := min(max(shortest, zone.Timeline.ToWall(decision.Wake).Sub(c.Now)), resyncPeriod)
	if !view.DeniedAt.IsZero() {
		after = min(after, max(shortest, view.DeniedAt.Sub(c.Now)))
	}
	if conflicted {
		after = shortest
	}
	r.statePlans(c, &view, &decision, memory)
	r.reportUnknownAnnotations(&view, memory)
	profiles := r.writeProfiles(ctx, c, &view, memory)
	memory.Forget(&view)
	if err := r.writeStatus(ctx, policy, &view, memory, problem, failed, zone.Timeline.ToWall(decision.Wake)); err != nil {
		return ctrl.Result{}, err
	}
	metrics.LastDecision.WithLabelValues(key.Namespace, key.Name).Set(float64(r.Clock.Now().Unix()))
	r.Rounds.Done()
	if err := errors.Join(failed, profiles); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// mostCause bounds the text of an error in the Event of a workload, in bytes. An Event holds at most 1024.
const mostCause = 300

// runAll is the decision of a policy that cannot decide: its workloads run, and the Event of each says why.
func runAll(view *kube.View, cause error) decide.Decision {
	note := strings.ReplaceAll(clipped(cause.Error(), mostCause), "\n", "; ")
	for i := range view.Progress {
		view.Progress[i].Note = note
	}
	return decide.RunAll(view.Snapshot, decide.CodePlannerFailed)
}

// known returns the memory of a policy that is there.
func (r *CarbonPolicyReconciler) known(policy types.NamespacedName) *feedback.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, policy)
	m := r.memories[policy]
	if m == nil {
		metrics.LastDecision.WithLabelValues(policy.Namespace, policy.Name).Set(float64(r.started.Unix()))
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

// observe reads the workloads of a policy. unplannable is why nothing can be planned for them.
func (r *CarbonPolicyReconciler) observe(ctx context.Context, c kube.Context, zone Zone, workloads []*kube.Workload, memory *feedback.Memory, saw observation) (view kube.View, unplannable, err error) {
	var profiles v1alpha1.ScalingProfileList
	if err := r.Client.List(ctx, &profiles, client.InNamespace(c.Policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return view, nil, err
	}
	for _, w := range workloads {
		if memory.Known(w.UID()) || memory.SawEnd(w.UID()) {
			continue
		}
		var p v1alpha1.CarbonPlan
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace(), Name: kube.PlanName(w)}, &p)
		if err == nil {
			memory.Load(w, &p) // also of one that has ended while no controller ran: its plan is closed
		} else if !apierrors.IsNotFound(err) {
			return view, nil, err
		}
	}
	in := kube.Input{
		Now: c.Now, Timeline: c.Timeline, Policy: c.Policy, System: r.Namespace, Longest: r.Limits.MaxDelay, LongestRuntime: r.Limits.MaxRuntime, MostWorkers: r.Limits.MaxWorkers, Paused: c.Policy.Spec.Paused || zone.Paused, Carbon: zone.Outlook,
		Workloads: workloads, Profiles: memory.Profiles(profiles.Items, c.Now, replaceGrace), Learned: memory,
	}
	in.Others = r.others(client.ObjectKeyFromObject(c.Policy))
	if r.Ledger != nil {
		in.Saw = saw.saw
	}
	if r.Meter != nil {
		r.Meter.Want(client.ObjectKeyFromObject(c.Policy), workloads)
		in.Measured = r.Meter
	}
	if queues := c.Policy.Spec.Queues; len(queues) > 0 {
		switch err := r.observeQueues(ctx, c, &in); {
		case errors.Is(err, errClusters):
			in.Clusters, unplannable = nil, err
		case err != nil:
			return view, nil, err
		}
	}
	now, bounded := r.curve(c.Policy)
	if bounded {
		in.Beside = now.Beside
	}
	if err := r.observeCluster(ctx, c.Policy, &in); err != nil {
		return view, nil, err
	}
	if _, invalid := kube.PowerModel(&c.Policy.Spec.Power); invalid != nil {
		// Stored before the API server refused it: the policy cannot decide, and releases what it holds.
		unplannable = errors.Join(unplannable, fmt.Errorf("spec.power: %w", invalid))
		in.Policy = c.Policy.DeepCopy()
		in.Policy.Spec.Power = v1alpha1.PowerSpec{}
	}
	view, err = kube.Observe(in)
	memory.Ended(&view, c)
	s := &view.Snapshot
	switch {
	case err != nil:
	case bounded:
		s.Clusters[0].CapacityAt = now.Capacity(timegrid.Align(s.Now, s.Slot), s.Slot)
	case len(in.Clusters) == 0:
		r.expect(s, in.Others, c.Timeline)
	}
	if err == nil && len(in.Clusters) == 0 {
		view.WithinQuota(in.Quota, in.Others, c.Timeline)
	}
	return view, unplannable, err
}

// observeCluster adds what the nodes of this cluster offer, and its pods. It reads the pods of other namespaces only if a CapacityCurve
// bounds the policy: else their sum will do.
func (r *CarbonPolicyReconciler) observeCluster(ctx context.Context, policy *v1alpha1.CarbonPolicy, in *kube.Input) error {
	if a := policy.Spec.Autoscaling; a != nil {
		known, ready := r.Autoscaling.Get(a)
		if !ready {
			return errNotYet
		}
		var nodes corev1.NodeList
		if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		in.Ceiling, in.NotCounted = autoscale.Ceiling(nodes.Items, a, known)
	} else {
		in.Ceiling = r.loads.Capacity(in.Now)
	}
	if len(in.Clusters) > 0 {
		return nil // its pods run on other clusters
	}
	var quotas corev1.ResourceQuotaList
	if err := r.Client.List(ctx, &quotas, client.InNamespace(policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	in.Quota = kube.Quota(quotas.Items)
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if in.Beside == nil {
		options = append(options, client.InNamespace(policy.Namespace))
		in.Outside = r.loads.Outside(policy.Namespace, in.Others)
	}
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, options...)
	in.Pods = pods.Items
	return err
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

// planner returns the planner of a policy, or that of its CapacityCurve.
func (r *CarbonPolicyReconciler) planner(policy *v1alpha1.CarbonPolicy) (plan.Planner, error) {
	build := func() (plan.Planner, error) {
		r.mu.Lock()
		defer r.mu.Unlock() // also after a panic, which ends one decision and not all others
		return r.planners.of(policy, r.Planner)
	}
	planner, err := build()
	if err != nil {
		return nil, fmt.Errorf("spec.planner: %w", err)
	}
	if now, bounded := r.curve(policy); bounded && now.Planner != nil && policy.Spec.Planner.Name == flexPlanner {
		planner = now.Planner
	}
	return planner, nil
}

func (r *CarbonPolicyReconciler) decide(ctx context.Context, c kube.Context, zone Zone, view *kube.View, memory *feedback.Memory) (d decide.Decision, due map[int]v1alpha1.PlanTrigger, err error) {
	spec := &c.Policy.Spec
	threshold := thresholdOf(c.Policy)
	s := &view.Snapshot
	planner, invalid := r.planner(c.Policy)
	// While the policy is paused nothing may wait, so what comes says nothing of what cannot wait.
	_, learned := plan.KeptReserve(planner)
	if err := memory.LearnReserve(learned && !spec.Paused && !zone.Paused, c.Policy.Status.Reserve); err != nil {
		log.FromContext(ctx).Info("Learn the reserve again", "error", err.Error())
	}
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
	if invalid != nil {
		return decide.Decision{}, nil, invalid
	}
	begin := time.Now()
	d, err = r.decideWithin(ctx, *s, planner, client.ObjectKeyFromObject(c.Policy))
	metrics.DecisionSeconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		return d, nil, err
	}
	for _, v := range decide.Verify(*s, d) {
		metrics.Violations.WithLabelValues(c.Policy.Namespace, c.Policy.Name, string(v.Rule)).Inc()
		log.FromContext(ctx).Info("A decision breaks an invariant", "rule", v.Rule, "task", v.Task, "message", v.Message)
	}
	d.Wake = memory.Keep(view, &d, due)
	for _, trigger := range due {
		metrics.Plans.WithLabelValues(trigger.Reason).Inc()
	}
	return d, due, nil
}
