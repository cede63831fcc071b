// Package manager makes the managers of Lull's programs.
package manager

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/base/metrics"
)

// New returns a manager as ctrl.NewManager does. It must be started with ctx. Start returns when ctx ends, also if the caches
// are not filled yet, as while the API server is away. A manager of ctrl.NewManager keeps a CPU busy until they are filled
// (https://github.com/kubernetes-sigs/controller-runtime/pull/3440), so that its process must be killed.
//
// A controller starts as soon as its handlers have received the objects that exist. With ctrl.NewManager it checks that every
// 100 ms, and the load of the machine decides whether the first check comes too early.
func New(ctx context.Context, config *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	return newManager(ctx, config, o, false)
}

// NewCertain is New for a program that takes what is not in its cache for gone. For a bound namespace in which it may not list a kind, it
// starts only when that has been forbidden for its first ten seconds: of several API servers, one may learn of a right some seconds later than the others.
func NewCertain(ctx context.Context, config *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	return newManager(ctx, config, o, true)
}

func newManager(ctx context.Context, config *rest.Config, o ctrl.Options, certain bool) (ctrl.Manager, error) {
	o.NewCache = func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		c, err := newCache(config, o, certain)
		if err != nil {
			return nil, err
		}
		return &endingCache{Cache: c, program: ctx}, nil
	}
	mgr, err := ctrl.NewManager(config, o)
	if apierrors.IsForbidden(err) { // the client says no more than "unknown"
		return nil, fmt.Errorf("the API server forbids this account to read the list of API groups: an API server that has just started does so until "+
			"it has read its roles; if it lasts, check the ClusterRoleBinding system:discovery: %w", err)
	}
	return mgr, err
}

// ReportLeader keeps the metric lull_leader of a program, controller or failsafe, while the manager runs.
func ReportLeader(mgr ctrl.Manager, program string) error {
	return mgr.Add(leader{elected: mgr.Elected(), program: program})
}

// leader is a runnable that does not wait for leadership.
type leader struct {
	elected <-chan struct{}
	program string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leader) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (l leader) Start(ctx context.Context) error {
	defer metrics.Leader.DeleteLabelValues(l.program)
	metrics.Leader.WithLabelValues(l.program).Set(0)
	select {
	case <-ctx.Done():
		return nil
	case <-l.elected:
		metrics.Leader.WithLabelValues(l.program).Set(1)
	}
	<-ctx.Done()
	return nil
}

// endingCache is a cache for which nobody waits when the program ends.
type endingCache struct {
	cache.Cache
	program context.Context //nolint:containedctx // the manager waits for its cache with a context that does not end with the program
}

// WaitForCacheSync implements cache.Informers. It returns true if the program ends: the manager waits until it does.
func (c *endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.program, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.program.Err() != nil
}

// GetInformer implements cache.Informers. It is what sources of controllers call.
func (c *endingCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, o, opts...)
	if err != nil {
		return nil, err
	}
	return &waitingInformer{informer, c.program}, nil
}

// waitingInformer waits for the handlers that are added with options. Sources of controllers add theirs so.
type waitingInformer struct {
	cache.Informer
	program context.Context //nolint:containedctx // HasSynced has none
}

// AddEventHandlerWithOptions implements cache.Informer. HasSynced of the registration waits until the handler has
// received the objects that exist, or the program ends.
func (i *waitingInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	registration, err := i.Informer.AddEventHandlerWithOptions(h, o)
	if err != nil {
		return nil, err
	}
	return &waitingRegistration{registration, i.program}, nil
}

// RemoveEventHandler implements cache.Informer.
func (i *waitingInformer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if w, ok := r.(*waitingRegistration); ok {
		r = w.ResourceEventHandlerRegistration
	}
	return i.Informer.RemoveEventHandler(r)
}

type waitingRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	program context.Context //nolint:containedctx // HasSynced has none
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r *waitingRegistration) HasSynced() bool {
	select {
	case <-r.HasSyncedChecker().Done():
		return true
	case <-r.program.Done():
		return false
	}
}
