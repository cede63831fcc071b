package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/internal/metrics"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into config/rbac/role.yaml.
//
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// PlannerFactory builds a planner by name; it keeps this package from knowing
// planners.
type PlannerFactory func(name string, parameters map[string]string, criticalClasses []string) (plan.Planner, error)

// CarbonPolicyReconciler decides for all Jobs of a policy at a time.
type CarbonPolicyReconciler struct {
	Client  client.Client
	Zones   *Zones
	Applier *kube.Applier
	Planner PlannerFactory
	Clock   clock.Clock
}

// policyIndex finds the Jobs of a policy in the cache.
const policyIndex = "lull.dev/policy"

const (
	// zoneWait is how long to wait for a zone that is known to the API but has
	// not been looked at yet, right after a start.
	zoneWait = 100 * time.Millisecond
	// shortest keeps a fast replay from deciding all the time.
	shortest = 200 * time.Millisecond
)

// SetupWithManager registers the reconciler. One policy is decided at a time,
// so that two never count the same free capacity.
func (r *CarbonPolicyReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &batchv1.Job{}, policyIndex, func(o client.Object) []string {
		if name := o.GetAnnotations()[v1alpha1.AnnotationPolicy]; name != "" {
			return []string{name}
		}
		return nil
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.CarbonPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(policyOfJob)).
		Watches(&v1alpha1.GridZone{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfZone)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

func policyOfJob(_ context.Context, job client.Object) []reconcile.Request {
	name := job.GetAnnotations()[v1alpha1.AnnotationPolicy]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: job.GetNamespace(), Name: name}}}
}

func (r *CarbonPolicyReconciler) policiesOfZone(ctx context.Context, zone client.Object) []reconcile.Request {
	var policies v1alpha1.CarbonPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		log.FromContext(ctx).Error(err, "List policies")
		return nil
	}
	var out []reconcile.Request
	for i := range policies.Items {
		if policies.Items[i].Spec.Zone == zone.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
		}
	}
	return out
}

// Reconcile observes, decides and applies for one policy.
func (r *CarbonPolicyReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(req.Namespace), client.MatchingFields{policyIndex: req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var policy v1alpha1.CarbonPolicy
	if err := r.Client.Get(ctx, req.NamespacedName, &policy); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.releaseOrphans(ctx, req, jobs.Items)
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
	now := r.Clock.Now()
	view, err := r.observe(ctx, &policy, zone, jobs.Items, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision, err := r.decide(ctx, &policy, view.Snapshot)
	if err != nil {
		// A policy that cannot decide must not hold: its Jobs run.
		problem = errors.Join(problem, err)
		decision = decide.RunAll(view.Snapshot, decide.CodePlannerFailed)
	}
	conflicted, err := r.apply(ctx, &policy, view, decision, zone.Timeline, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	after := max(shortest, zone.Timeline.ToWall(decision.Wake).Sub(now))
	if conflicted {
		after = shortest
	}
	if err := r.writeStatus(ctx, &policy, view, problem, now.Add(after)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
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

func (r *CarbonPolicyReconciler) observe(ctx context.Context, policy *v1alpha1.CarbonPolicy, zone Zone, jobs []batchv1.Job, now time.Time) (kube.View, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return kube.View{}, err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods); err != nil {
		return kube.View{}, err
	}
	return kube.Observe(kube.Input{
		Now: now, Timeline: zone.Timeline, Policy: policy, Carbon: zone.Outlook, Jobs: jobs, Nodes: nodes.Items, Pods: pods.Items,
	})
}

func (r *CarbonPolicyReconciler) decide(ctx context.Context, policy *v1alpha1.CarbonPolicy, s decide.Snapshot) (decide.Decision, error) {
	planner, err := r.Planner(policy.Spec.Planner.Name, policy.Spec.Planner.Parameters, policy.Spec.CriticalPriorityClasses)
	if err != nil {
		return decide.Decision{}, fmt.Errorf("spec.planner: %w", err)
	}
	begin := time.Now()
	d, err := decide.Decide(ctx, s, planner)
	metrics.DecisionSeconds.Observe(time.Since(begin).Seconds())
	return d, err
}

// apply carries the decision out. A conflict means that the cache was behind;
// the next decision, moments later, sees the Job as it is.
func (r *CarbonPolicyReconciler) apply(ctx context.Context, policy *v1alpha1.CarbonPolicy, view kube.View, d decide.Decision, tl timegrid.Timeline, now time.Time) (conflicted bool, err error) {
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
		wrote, err := r.Applier.ReleaseInvalid(ctx, bad.Job, bad.Err, tl.ToGrid(now))
		note(decide.Release, "InvalidAnnotation", wrote, err)
	}
	for i, a := range d.Actions {
		wrote, err := r.Applier.Apply(ctx, view.Jobs[i], a, view.Snapshot, policy, tl, now)
		note(a.Verb, a.Reason.Code, wrote, err)
	}
	return conflicted, errors.Join(errs...)
}

// releaseOrphans opens what a deleted policy holds.
func (r *CarbonPolicyReconciler) releaseOrphans(ctx context.Context, req ctrl.Request, jobs []batchv1.Job) error {
	var errs []error
	for i := range jobs {
		wrote, err := r.Applier.ReleaseOrphan(ctx, &jobs[i], r.Clock.Now())
		if wrote {
			metrics.Actions.WithLabelValues(string(decide.Release), "PolicyGone").Inc()
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	for _, state := range []string{"waiting", "running", "finished"} {
		metrics.Jobs.DeleteLabelValues(req.Namespace, req.Name, state)
	}
	return errors.Join(errs...)
}

func (r *CarbonPolicyReconciler) writeStatus(ctx context.Context, policy *v1alpha1.CarbonPolicy, view kube.View, problem error, wake time.Time) error {
	for state, n := range map[string]int{"waiting": view.Waiting, "running": view.Running, "finished": view.Finished} {
		metrics.Jobs.WithLabelValues(policy.Namespace, policy.Name, state).Set(float64(n))
	}
	before := policy.DeepCopy()
	s := &policy.Status
	s.ObservedGeneration = policy.Generation
	s.Waiting, s.Running, s.Finished = int32(view.Waiting), int32(view.Running), int32(view.Finished)
	next := metav1.NewTime(wake.Truncate(time.Second))
	s.NextDecision = &next
	condition(&s.Conditions, v1alpha1.ConditionReady, problem == nil, "Deciding", "NotDeciding", errText(problem), policy.Generation)
	if view.Waiting == 0 {
		s.NextDecision = nil
	}
	if reflect.DeepEqual(before.Status, *s) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, policy, client.MergeFrom(before)))
}
