package controller

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/decide"
)

// writePlans states the plan of each workload, where it differs from what was last stated.
func (r *CarbonPolicyReconciler) writePlans(ctx context.Context, c kube.Context, view *kube.View, d *decide.Decision, memory *feedback.Memory) error {
	var errs []error
	for i := range view.Workloads {
		w := view.Workloads[i]
		status := memory.Status(view, i, &d.Actions[i])
		if memory.ToWrite(w, &status, c.Now) {
			errs = append(errs, r.writePlan(ctx, c, w, &status, memory))
		}
	}
	for _, w := range view.Finished {
		if status, tell := memory.FinishedStatus(w); tell {
			errs = append(errs, r.writePlan(ctx, c, w, &status, memory))
		}
	}
	return errors.Join(errs...)
}

func (r *CarbonPolicyReconciler) writePlan(ctx context.Context, c kube.Context, w *kube.Workload, status *v1alpha1.CarbonPlanStatus, memory *feedback.Memory) error {
	p := &v1alpha1.CarbonPlan{
		ObjectMeta: metav1.ObjectMeta{Name: kube.PlanName(w), Namespace: w.Namespace(), OwnerReferences: w.Owners()},
		Spec:       v1alpha1.CarbonPlanSpec{Workload: w.Reference(), Policy: c.Policy.Name},
	}
	before := memory.Written(w)
	if before.State == "" {
		if err := r.Client.Create(ctx, p); err != nil {
			// Not found: the namespace is going. Already there: the plan of an earlier
			// workload of the same name, which goes with its owner; or this workload's own,
			// which the cache has not seen yet. Both are tried again.
			if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
				err = nil
			}
			return err
		}
	}
	base := p.DeepCopy()
	base.Status, p.Status = before, *status
	err := r.Client.Status().Patch(ctx, p, client.MergeFrom(base))
	if apierrors.IsNotFound(err) { // deleted: made anew next time
		memory.Unwritten(w)
		return nil
	}
	if err != nil {
		return err
	}
	memory.Wrote(w, status, c.Now)
	return nil
}

// writeProfiles corrects the profiles that running workloads were seen not to follow.
func (r *CarbonPolicyReconciler) writeProfiles(ctx context.Context, c kube.Context, view *kube.View, memory *feedback.Memory) error {
	var errs []error
	for _, shape := range memory.Shapes(view) {
		var p v1alpha1.ScalingProfile
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: c.Policy.Namespace, Name: shape.Profile}, &p); err != nil {
			errs = append(errs, client.IgnoreNotFound(err))
			continue
		}
		before := p.DeepCopy()
		if !feedback.Learn(&p, shape, thresholdOf(c.Policy)) {
			continue
		}
		err := r.Client.Status().Patch(ctx, &p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) { // somebody else has learned meanwhile; the next measurement counts
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}
