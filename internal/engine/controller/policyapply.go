package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/pkg/decide"
)

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
	for _, x := range view.Excluded {
		wrote, err := r.Applier.ReleaseExcluded(ctx, x, c.Timeline.ToGrid(c.Now))
		note(decide.Release, kube.CodeExcluded, wrote, err)
	}
	for _, w := range view.Stale {
		note("", "", false, r.Applier.Clear(ctx, w))
	}
	type done struct {
		wrote bool
		err   error
	}
	var group errgroup.Group
	group.SetLimit(atATime)
	results := make([]done, len(d.Actions))
	carryOut := func(i int) {
		results[i].wrote, results[i].err = r.Applier.Apply(ctx, view.Workloads[i], d.Actions[i], view.Progress[i], c)
	}
	ordered := inOrder(&view.Snapshot, d)
	waitsForOthers := make([]bool, len(d.Actions))
	for _, i := range ordered {
		waitsForOthers[i] = true
	}
	group.Go(func() error {
		for _, i := range ordered {
			carryOut(i)
		}
		return nil
	})
	for _, i := range d.Order {
		a, w := &d.Actions[i], view.Workloads[i]
		tell := writeKey{writeTell, w.Namespace(), w.UID()}
		if a.Verb == decide.Wait && w.Facts.Suspended && !w.GateIgnored() {
			if kube.Tells(w, a, view.Progress[i].StatedStart) {
				r.writer.put(tell, r.tell(c, w, *a, view.Progress[i]))
			}
			continue
		}
		r.writer.drop(tell)
		if waitsForOthers[i] {
			continue
		}
		group.Go(func() error {
			carryOut(i)
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
			log.FromContext(ctx).Info(string(a.Verb), "kind", w.Kind.Name, "workload", w.Name(), "reason", a.Reason.Code, "workers", a.Workers, "message", view.Progress[i].Message(a.Reason))
			memory.Applied(w, a)
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
			log.FromContext(ctx).V(1).Info(string(a.Verb), "kind", w.Kind.Name, "workload", w.Name(), "reason", a.Reason.Code, "message", p.Message(a.Reason))
		}
		return err
	}
}

// policyGone releases what a deleted policy holds, unless the policy may be about to come back. Workloads whose
// latest safe start has come do not wait for that.
func (r *CarbonPolicyReconciler) policyGone(ctx context.Context, req ctrl.Request, workloads []*kube.Workload) (ctrl.Result, error) {
	now := r.Clock.Now()
	r.mu.Lock()
	since, seen := r.gone[req.NamespacedName]
	if !seen {
		since = now
		r.gone[req.NamespacedName] = now
	}
	r.mu.Unlock()
	grace := replaceGrace - now.Sub(since)
	if grace <= 0 {
		if err := r.releaseOrphans(ctx, req, workloads); err != nil {
			return ctrl.Result{}, err
		}
		r.mu.Lock()
		delete(r.gone, req.NamespacedName)
		r.mu.Unlock()
		r.turns.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	var due []*kube.Workload
	for _, w := range workloads {
		latest, err := time.Parse(time.RFC3339, w.LatestStart())
		switch {
		case err != nil: // no controller has seen it yet
		case !latest.After(now):
			due = append(due, w)
		default:
			grace = min(grace, latest.Sub(now))
		}
	}
	return ctrl.Result{RequeueAfter: grace}, r.releaseGone(ctx, req, due)
}

// releaseOrphans forgets a deleted policy and releases what it holds.
func (r *CarbonPolicyReconciler) releaseOrphans(ctx context.Context, req ctrl.Request, workloads []*kube.Workload) error {
	r.mu.Lock()
	delete(r.planners, req.NamespacedName)
	delete(r.memories, req.NamespacedName)
	delete(r.uses, req.NamespacedName)
	r.mu.Unlock()
	r.Curves.Forget(req.NamespacedName)
	if r.Meter != nil {
		r.Meter.Want(req.NamespacedName, nil)
	}
	for _, state := range []string{"waiting", "running", "finished"} {
		metrics.Jobs.DeleteLabelValues(req.Namespace, req.Name, state)
	}
	metrics.Reserve.DeleteLabelValues(req.Namespace, req.Name)
	metrics.LastDecision.DeleteLabelValues(req.Namespace, req.Name)
	if r.Prober != nil {
		r.Prober.forget(req.NamespacedName)
	}
	of := prometheus.Labels{"namespace": req.Namespace, "policy": req.Name}
	metrics.Energy.DeletePartialMatch(of)
	metrics.Violations.DeletePartialMatch(of)
	metrics.Emissions.DeletePartialMatch(of)
	return r.releaseGone(ctx, req, workloads)
}

// releaseGone releases workloads that a deleted policy holds.
func (r *CarbonPolicyReconciler) releaseGone(ctx context.Context, req ctrl.Request, workloads []*kube.Workload) error {
	if len(workloads) == 0 {
		return nil
	}
	queued, err := r.Queues.Of(ctx, req.Namespace, queuesOf(workloads))
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range workloads {
		message := fmt.Sprintf("runs at once: the CarbonPolicy %s has been deleted", req.Name)
		wrote, err := r.Applier.ReleaseHeld(ctx, w.WithQueued(queued), kube.CodePolicyGone, message, r.Clock.Now())
		if wrote {
			metrics.Actions.WithLabelValues(string(decide.Release), string(kube.CodePolicyGone)).Inc()
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}
