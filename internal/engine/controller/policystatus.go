package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/pkg/plan"
)

// writeStatus states what a look has found of a policy: problem is why it could not decide, failed what came of carrying the decision out.
func (r *CarbonPolicyReconciler) writeStatus(ctx context.Context, policy *v1alpha1.CarbonPolicy, view *kube.View, memory *feedback.Memory, problem, failed error, wake time.Time) error {
	for state, n := range map[string]int{"waiting": view.Waiting, "running": view.Running, "finished": len(view.Finished)} {
		metrics.Jobs.WithLabelValues(policy.Namespace, policy.Name, state).Set(float64(n))
	}
	before := policy.DeepCopy()
	s := &policy.Status
	s.ObservedGeneration = policy.Generation
	s.Waiting, s.Running, s.Finished = int32(view.Waiting), int32(view.Running), int32(len(view.Finished))
	s.LongestDelay = nil
	if r.Limits.MaxDelay > 0 {
		s.LongestDelay = &metav1.Duration{Duration: r.Limits.MaxDelay}
	}
	next := metav1.NewTime(wake.Truncate(time.Second))
	s.NextDecision = &next
	if refused := refusals(append(r.writer.refusals(view.Workloads, view.Finished), failed)...); problem == nil && refused != "" {
		condition(&s.Conditions, v1alpha1.ConditionReady, false, "", "ChangesRefused", clipped(refused, mostMessage), policy.Generation)
	} else {
		condition(&s.Conditions, v1alpha1.ConditionReady, problem == nil, "Deciding", "NotDeciding", errText(problem), policy.Generation)
	}
	if r.Prober != nil {
		r.Prober.state(policy)
	}
	if r.Ledger == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRecorded)
	} else {
		reason, message := r.Ledger.Problem()
		condition(&s.Conditions, v1alpha1.ConditionRecorded, reason == "", "Recorded", reason, clipped(message, mostMessage), policy.Generation)
	}
	if planner, err := r.planner(policy); err == nil { // else what was learned stays as it is
		kept, learned := plan.KeptReserve(planner)
		s.Reserve = memory.Reserve(kept, learned, s.Reserve)
		share := 0.0
		if s.Reserve != nil {
			share = s.Reserve.Share
		}
		metrics.Reserve.WithLabelValues(policy.Namespace, policy.Name).Set(share)
	}
	memory.GatesIgnored = view.GatesHonoured == 0 && (memory.GatesIgnored || view.GatesIgnored > 0)
	switch slow := r.tooSlow(client.ObjectKeyFromObject(policy)); {
	case slow != "":
		condition(&s.Conditions, v1alpha1.ConditionDegraded, true, "PlannerTooSlow", "", slow, policy.Generation)
	case !memory.GatesIgnored:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionDegraded)
	default:
		condition(&s.Conditions, v1alpha1.ConditionDegraded, true, "GatesIgnored", "",
			"Kueue ignores "+kueue.AnnotationGates+" and admits gated workloads (feature AdmissionGatedBy of Kueue, on by default since v0.19): workloads may start for a moment before they are held", policy.Generation)
	}
	if message := unknownAnnotations(view); message != "" {
		condition(&s.Conditions, v1alpha1.ConditionMisspelt, true, "UnknownAnnotation", "", clipped(message, mostMessage), policy.Generation)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionMisspelt)
	}
	if policy.Spec.Autoscaling == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionAutoscaled)
	} else {
		condition(&s.Conditions, v1alpha1.ConditionAutoscaled, view.NotCounted == nil, "Read", "NotCounted", errText(view.NotCounted), policy.Generation)
	}
	overlaps, err := r.overlaps(ctx, policy)
	if err != nil {
		return err
	}
	if overlaps != "" {
		condition(&s.Conditions, v1alpha1.ConditionOverlaps, true, "SelectsTheSame", "", clipped(overlaps, mostMessage), policy.Generation)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionOverlaps)
	}
	if view.Waiting == 0 {
		s.NextDecision = nil
	}
	_, err = kube.PatchStatus(ctx, r.Client, policy, before)
	return client.IgnoreNotFound(err)
}

// overlaps names the policies of the namespace that select some of the workloads that a policy selects, and says which of
// them governs one; "" if there are none.
func (r *CarbonPolicyReconciler) overlaps(ctx context.Context, policy *v1alpha1.CarbonPolicy) (string, error) {
	var all v1alpha1.CarbonPolicyList
	if err := r.Client.List(ctx, &all, client.InNamespace(policy.Namespace)); err != nil {
		return "", fmt.Errorf("list the CarbonPolicies of namespace %s: %w", policy.Namespace, err)
	}
	var names []string
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != policy.Name && other.DeletionTimestamp.IsZero() && kube.Overlap(&policy.Spec, &other.Spec) {
			names = append(names, other.Name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	text := strings.Join(names, ", ") + " may select the same workloads. A policy that holds a workload governs it rather than one that does not, then the first by name"
	if policy.Spec.Via != v1alpha1.ViaExtender { // which does not learn the annotations of Pods
		text += "; a workload names another one in the annotation " + v1alpha1.AnnotationGovernBy
	}
	return text, nil
}

// refusals says how many changes of workloads and of their plans the API server refused for good, and why it refused the first; "" where it
// refused none.
func refusals(errs ...error) string {
	var all []error
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the errors that were joined are wanted, not what they wrap
			all = append(all, joined.Unwrap()...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	n, first := 0, ""
	for _, err := range all {
		if refusedForGood(err) {
			if n++; n == 1 {
				first = err.Error()
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the API server refuses %d changes of workloads or their plans; the watchdog releases held work at its latest safe start. The first: %s", n, first)
}

// unknownAnnotations names the workloads whose annotations are unknown, in the order of their names, and what is meant; "" where
// there are none.
func unknownAnnotations(view *kube.View) string {
	var parts []string
	for _, w := range view.Workloads {
		if text := w.UnknownAnnotations(); text != "" {
			parts = append(parts, fmt.Sprintf("%s %s: %s", w.Kind.Name, w.Name(), text))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// reportUnknownAnnotations writes an Event for each workload whose annotations are unknown, once.
func (r *CarbonPolicyReconciler) reportUnknownAnnotations(view *kube.View, memory *feedback.Memory) {
	for _, w := range view.Workloads {
		if text := w.UnknownAnnotations(); memory.UnknownIsNew(w, text) {
			r.Applier.Recorder.Eventf(w.Objects[0], nil, corev1.EventTypeWarning, "UnknownAnnotation", "Govern", "%s", clipped(text, mostMessage))
		}
	}
}
