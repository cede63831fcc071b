package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/fleet/dispatch"
	"lull.dev/lull/internal/fleet/hub"
)

// DispatchReconciler sends each Workload of Kueue to its cluster, and lets it leave again.
type DispatchReconciler struct {
	Cache    cache.Cache
	Clusters *hub.Clusters
	dispatch.Dispatcher
}

// askAgain is how often a Workload is looked at that no cluster has taken yet.
const askAgain = 5 * time.Second

// Reconcile names a cluster for a Workload, where one is to be named.
func (d *DispatchReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := emptyWorkload()
	if err := d.Cache.Get(ctx, req.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	w, err := kueue.Read(u)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case dispatch.Leaves(&w):
		wrote, wait, err := d.LetGo(ctx, &w, d.Clusters.HasCopy)
		if wrote && err == nil {
			log.FromContext(ctx).Info("The workload is no longer on its cluster")
		}
		return after(err, wait)
	case !dispatch.Awaits(&w):
		return ctrl.Result{}, nil
	}
	nominated, err := d.Nominate(ctx, &w, false)
	if len(nominated) > 0 {
		told := "any"
		if len(nominated) == 1 {
			told = nominated[0]
		}
		metrics.Nominations.WithLabelValues(told).Inc()
		log.FromContext(ctx).Info("Nominate", "clusters", nominated)
	}
	return after(err, false)
}

// after is when to look again: at once where the object was not as read, or something is still
// to go; in a while in any case.
func after(err error, wait bool) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err) || err == nil && wait:
		return ctrl.Result{RequeueAfter: shortest}, nil
	case err != nil && !apierrors.IsNotFound(err):
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: askAgain}, nil
}
