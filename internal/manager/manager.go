// Package manager makes the managers of Lull's programs.
package manager

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// New returns a manager as ctrl.NewManager does. It must be started with ctx. Start returns when ctx ends, also if the caches
// are not filled yet, as while the API server is away. A manager of ctrl.NewManager keeps a CPU busy until they are filled
// (https://github.com/kubernetes-sigs/controller-runtime/pull/3440), so that its process must be killed.
func New(ctx context.Context, config *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	o.NewCache = func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, o)
		if err != nil {
			return nil, err
		}
		return &endingCache{Cache: c, program: ctx}, nil
	}
	return ctrl.NewManager(config, o)
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
