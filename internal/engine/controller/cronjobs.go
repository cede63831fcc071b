package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"lull.dev/lull/internal/cluster/kube"
)

// cronWatch watches CronJobs: their next runs bound how long Jobs may be held.
type cronWatch struct {
	// informer is nil while CronJobs are not watched, and problem says why.
	informer cache.Informer
	problem  error
	// known says that it is known whether they may be listed; since is when that was first asked, or when the
	// informer was started.
	known bool
	since time.Time
}

// ready reports whether CronJobs have been listed once, or do not let themselves be listed.
func (c *cronWatch) ready() bool {
	settled := c.known && (c.informer == nil || c.informer.HasSynced())
	return settled || !c.since.IsZero() && time.Since(c.since) >= listed
}

// syncCronJobs begins to watch CronJobs if they may be listed, and stops if they may not any more. An API server
// that does not answer changes nothing.
func (s *KindSet) syncCronJobs(ctx context.Context) {
	service, err := kube.CronJobsServed(ctx, s.live)
	obj := empty(kube.CronJobGVK)
	s.mu.RLock()
	now := s.crons
	s.mu.RUnlock()
	if now.since.IsZero() {
		now.since = time.Now()
	}
	switch {
	case err != nil:
		if now.informer == nil {
			now.problem = err
		}
	case service == kube.Served && now.informer == nil:
		if now.informer, err = s.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false)); err != nil {
			now.informer, now.problem = nil, fmt.Errorf("watch CronJobs: %w", err)
			break
		}
		now.problem, now.known, now.since = nil, true, time.Now()
	case service == kube.Served:
	default:
		now.problem, now.known = kube.CronJobsForbidden("controller"), true
		if now.informer != nil {
			now.informer, err = nil, s.cache.RemoveInformer(ctx, obj)
		}
		err = errors.Join(now.problem, err)
	}
	s.mu.Lock()
	s.crons = now
	s.mu.Unlock()
	s.tell(ctx, "CronJob", err)
}

// cronJobs are the CronJobs of a namespace.
func (s *KindSet) cronJobs(ctx context.Context, namespace string) kube.CronJobs {
	s.mu.RLock()
	informer, problem := s.crons.informer, s.crons.problem
	s.mu.RUnlock()
	switch {
	case informer == nil && problem == nil:
		problem = errors.New("not known yet whether Lull may list them")
	case informer != nil && !informer.HasSynced():
		problem = errors.New("not listed by Lull yet")
	}
	if problem != nil {
		return kube.CronJobs{Err: problem}
	}
	out, err := kube.ListCronJobs(ctx, s.cache, namespace)
	out.Err = err
	return out
}
