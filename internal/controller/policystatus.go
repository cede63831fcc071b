package controller

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/internal/kueue"
	"lull.dev/lull/internal/metrics"
)

// writeStatus states what a look has found of a policy.
func (r *CarbonPolicyReconciler) writeStatus(ctx context.Context, policy *v1alpha1.CarbonPolicy, view *kube.View, memory *feedback.Memory, problem error, wake time.Time) error {
	for state, n := range map[string]int{"waiting": view.Waiting, "running": view.Running, "finished": len(view.Finished)} {
		metrics.Jobs.WithLabelValues(policy.Namespace, policy.Name, state).Set(float64(n))
	}
	before := policy.DeepCopy()
	s := &policy.Status
	s.ObservedGeneration = policy.Generation
	s.Waiting, s.Running, s.Finished = int32(view.Waiting), int32(view.Running), int32(len(view.Finished))
	next := metav1.NewTime(wake.Truncate(time.Second))
	s.NextDecision = &next
	condition(&s.Conditions, v1alpha1.ConditionReady, problem == nil, "Deciding", "NotDeciding", errText(problem), policy.Generation)
	memory.GatesIgnored = view.GatesHonoured == 0 && (memory.GatesIgnored || view.GatesIgnored > 0)
	switch {
	case view.GatesHonoured > 0:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionDegraded)
	case memory.GatesIgnored:
		condition(&s.Conditions, v1alpha1.ConditionDegraded, true, "GatesIgnored", "",
			"Kueue goes on with what is gated by "+kueue.AnnotationGates+" (its feature AdmissionGatedBy, on by default since v0.19): workloads may start for a moment before they are held", policy.Generation)
	}
	if view.Waiting == 0 {
		s.NextDecision = nil
	}
	if reflect.DeepEqual(before.Status, *s) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, policy, client.MergeFrom(before)))
}
