package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"lull.dev/lull/internal/cluster/kube"
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

// watchLoads feeds loads with the pods and nodes of a cache. filled reports whether it has taken in those that there were first.
func watchLoads(ctx context.Context, in cache.Cache, loads *kube.Loads) (filled func() bool, err error) {
	watch := func(obj client.Object, set func(obj any), deleted func(namespace, name string)) (toolscache.ResourceEventHandlerRegistration, error) {
		informer, err := in.GetInformer(ctx, obj)
		if err != nil {
			return nil, err
		}
		return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: set, UpdateFunc: func(_, obj any) { set(obj) },
			DeleteFunc: func(obj any) {
				// The last state of what was deleted while the watch was down may not be known.
				if key, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
					deleted(key.Namespace, key.Name)
				}
			},
		})
	}
	pods, err := watch(&corev1.Pod{}, func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			loads.SetPod(pod)
		}
	}, loads.DeletePod)
	if err != nil {
		return nil, err
	}
	nodes, err := watch(&corev1.Node{}, func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			loads.SetNode(node)
		}
	}, func(_, name string) { loads.DeleteNode(name) })
	return func() bool { return pods.HasSynced() && nodes.HasSynced() }, err
}
