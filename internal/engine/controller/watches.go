package controller

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"
)

// watches adds watches to a controller that runs. Controller.Watch would wait for a lock that the controller
// holds until all its caches are filled, however long the API server is away.
type watches struct {
	cache   cache.Cache
	started chan struct{}   // closed when ctx and queue are set
	ctx     context.Context //nolint:containedctx // that of the controller, as controller-runtime keeps it
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// watchesOf returns the watches of a controller that has not started.
func watchesOf(c controller.Controller, in cache.Cache) (*watches, error) {
	w := &watches{cache: in, started: make(chan struct{})}
	return w, c.Watch(ctrlsource.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.ctx, w.queue = ctx, queue
		close(w.started)
		return nil
	}))
}

// add watches objects like obj. It waits until the controller has started, or returns the error of ctx if that
// ends before.
func (w *watches) add(ctx context.Context, obj client.Object, h handler.EventHandler) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.started:
	}
	return ctrlsource.Kind(w.cache, obj, h).Start(w.ctx, w.queue)
}
