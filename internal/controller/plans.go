package controller

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/decide"
)

// mostFigures is how many plans are written at a time that differ in figures only.
const mostFigures = 8

// writePlans states the plan of each workload, where it differs from what was last stated.
// more says that some are left.
func (r *CarbonPolicyReconciler) writePlans(ctx context.Context, c kube.Context, view *kube.View, d *decide.Decision, memory *feedback.Memory) (more bool, _ error) {
	type write struct {
		workload *kube.Workload
		status   v1alpha1.CarbonPlanStatus
	}
	var writes []write
	figures, n := 0, len(view.Workloads)
	begin := memory.Turn
	for k := range n {
		i := (begin + k) % n
		w := view.Workloads[i]
		if len(writes) >= mostWrites {
			more = true
			break
		}
		if memory.Settled(view, i, &d.Actions[i]) {
			continue
		}
		status := memory.Status(view, i, &d.Actions[i])
		if !memory.ToWrite(w, &status, c.Now) {
			continue
		}
		if !memory.Urgent(w, &status) {
			if figures++; figures > mostFigures {
				if figures == mostFigures+1 {
					memory.Turn = i
				}
				continue // at the next look, from here on
			}
		}
		writes = append(writes, write{w, status})
	}
	for _, w := range view.Finished {
		if len(writes) >= mostWrites {
			more = true
			break
		}
		if status, tell := memory.FinishedStatus(w); tell {
			writes = append(writes, write{w, status})
		}
	}
	var group errgroup.Group
	group.SetLimit(atATime)
	written, errs := make([]bool, len(writes)), make([]error, len(writes))
	befores := make([]v1alpha1.CarbonPlanStatus, len(writes))
	for i, x := range writes {
		befores[i] = memory.Written(x.workload)
		group.Go(func() error {
			written[i], errs[i] = r.writePlan(ctx, c, x.workload, befores[i], x.status)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for i, x := range writes {
		switch {
		case written[i]:
			memory.Wrote(x.workload, &x.status, c.Now)
		case errs[i] == nil && befores[i].State != "":
			memory.Unwritten(x.workload) // deleted: made anew next time
		}
	}
	return more, errors.Join(errs...)
}

// writePlan writes one plan, over what was written before; false where it is not there (any
// more), or another of its name is.
func (r *CarbonPolicyReconciler) writePlan(ctx context.Context, c kube.Context, w *kube.Workload, before, status v1alpha1.CarbonPlanStatus) (bool, error) {
	p := &v1alpha1.CarbonPlan{
		ObjectMeta: metav1.ObjectMeta{Name: kube.PlanName(w), Namespace: w.Namespace(), OwnerReferences: w.Owners()},
		Spec:       v1alpha1.CarbonPlanSpec{Workload: w.Reference(), Policy: c.Policy.Name},
	}
	if before.State == "" {
		if err := r.Client.Create(ctx, p); err != nil {
			// Not found: the namespace is going. Already there: the plan of an earlier
			// workload of the same name, which goes with its owner; or this workload's own,
			// which the cache has not seen yet. Both are tried again.
			if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
				err = nil
			}
			return false, err
		}
	}
	base := p.DeepCopy()
	base.Status, p.Status = before, status
	if err := r.Client.Status().Patch(ctx, p, client.MergeFrom(base)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
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
