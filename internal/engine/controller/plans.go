package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/pkg/decide"
)

// mostFigures is how many plans are written at a time that differ in figures only.
const mostFigures = 8

// statePlans states the plan of each workload, where it differs from what was last stated.
func (r *CarbonPolicyReconciler) statePlans(c kube.Context, view *kube.View, d *decide.Decision, memory *feedback.Memory) {
	state := func(w *kube.Workload, status *v1alpha1.CarbonPlanStatus) {
		p := &v1alpha1.CarbonPlan{
			ObjectMeta: metav1.ObjectMeta{Name: kube.PlanName(w), Namespace: w.Namespace(), OwnerReferences: w.Owners()},
			Spec:       v1alpha1.CarbonPlanSpec{Workload: w.Reference(), Policy: c.Policy.Name},
			Status:     *status,
		}
		fresh := memory.Written(w).State == ""
		r.writer.put(writeKey{writePlan, w.Namespace(), w.UID()}, func(ctx context.Context) error {
			return statePlan(ctx, r.Statements.Client, p, fresh)
		})
		memory.Wrote(w, status, c.Now)
	}
	figures, n := 0, len(view.Workloads)
	begin := memory.Turn
	for k := range n {
		i := (begin + k) % n
		w := view.Workloads[i]
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
		state(w, &status)
	}
	for _, w := range view.Finished {
		if status, tell := memory.FinishedStatus(w); tell {
			state(w, &status)
		}
	}
}

// statePlan writes a plan with its status, over whatever was written before. fresh says that
// it is not there yet, as far as is known. An error that says Invalid means that the plan of
// an earlier workload of the same name is still there; it goes with its owner.
func statePlan(ctx context.Context, c client.Client, p *v1alpha1.CarbonPlan, fresh bool) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/workload/uid", "value": p.Spec.Workload.UID},
		{"op": "add", "path": "/status", "value": p.Status},
	})
	if err != nil {
		return err
	}
	state := func() error {
		err := c.Status().Patch(ctx, p.DeepCopy(), client.RawPatch(types.JSONPatchType, body))
		if apierrors.IsInvalid(err) {
			err = fmt.Errorf("CarbonPlan %s states the plan of another workload than the one with UID %s; if that one is gone, delete the CarbonPlan: %w", p.Name, p.Spec.Workload.UID, err)
		}
		return err
	}
	if !fresh {
		if err := state(); !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			return err
		}
	}
	// Without a namespace there is nothing to state; a plan that is there already may be the
	// one of an attempt whose answer was lost.
	create := func() error {
		if err := c.Create(ctx, p.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return state()
	}
	err = create()
	if !apierrors.IsInvalid(err) {
		return err
	}
	if deleted, failed := deleteOrphan(ctx, c, p); failed != nil || !deleted {
		return errors.Join(err, failed)
	}
	return create()
}

// deleteOrphan deletes the plan that has the place of another one, if no object owns it: the garbage collector never deletes such a plan. A deletion that
// orphans the dependents of a workload leaves one, as the API does by default for Jobs.
func deleteOrphan(ctx context.Context, c client.Client, p *v1alpha1.CarbonPlan) (bool, error) {
	var there v1alpha1.CarbonPlan
	if err := c.Get(ctx, client.ObjectKeyFromObject(p), &there); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if len(there.OwnerReferences) > 0 || there.Spec.Workload.UID == p.Spec.Workload.UID {
		return false, nil
	}
	err := c.Delete(ctx, &there, client.Preconditions{UID: &there.UID, ResourceVersion: &there.ResourceVersion})
	return err == nil, client.IgnoreNotFound(err)
}

// writeProfiles corrects the profiles that running workloads were seen not to follow.
func (r *CarbonPolicyReconciler) writeProfiles(ctx context.Context, c kube.Context, view *kube.View, memory *feedback.Memory) error {
	var errs []error
	for _, shape := range memory.Shapes(view) {
		errs = append(errs, writeProfile(ctx, r.Client, c.Policy.Namespace, shape, thresholdOf(c.Policy)))
	}
	return errors.Join(errs...)
}

// writeProfile corrects the profile of a shape. A patch states the whole list of observed points: the resource version keeps
// it from undoing what another policy has learned since the profile was read.
func writeProfile(ctx context.Context, cl client.Client, namespace string, shape feedback.Shape, threshold float64) error {
	var p v1alpha1.ScalingProfile
	if err := cl.Get(ctx, client.ObjectKey{Namespace: namespace, Name: shape.Profile}, &p); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := p.DeepCopy()
	if !feedback.Learn(&p, shape, threshold) {
		return nil
	}
	err := cl.Status().Patch(ctx, &p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // the next measurement counts
	}
	return client.IgnoreNotFound(err)
}
