package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/cluster/kube"
)

// writer carries out writes beside the reconcilers: what need not be in the API before the
// next decision, such as that a workload waits and what its plan is. Of the writes of one key
// the last counts; one that fails is tried again until it succeeds, until another takes its
// place, or until what it is about has changed or gone.
//
// Nothing is lost with it: what is not in the API when the controller ends is decided and
// written again by the next one.
type writer struct {
	// queue makes the queue at the first call: its goroutines end only if Start runs, and a controller that never leads does
	// not start the writer.
	queue func() workqueue.TypedRateLimitingInterface[writeKey]

	mu      sync.Mutex
	pending map[writeKey]func(context.Context) error
	spaces  map[string]*writeSpace
	// refused are the writes that the API server last refused for good, as a webhook or a lack of rights does.
	refused map[writeKey]error
}

// writeSpace has the writes of a namespace. waits says which of them wait for those that are in the queue or under way; waiting
// has these in their order.
type writeSpace struct {
	waits   map[writeKey]bool
	waiting []writeKey
}

// writeKey is what a write is about.
type writeKey struct {
	what      writeKind
	namespace string
	uid       types.UID // of the workload
}

type writeKind string

const (
	writeTell writeKind = "tell"
	writePlan writeKind = "plan"
)

const (
	// writersAtOnce is how many writes are under way at a time, writersOfNamespace how many of one namespace: slow admission
	// webhooks of one tenant do not keep what is written for others.
	writersAtOnce, writersOfNamespace = 16, 4
	// shortestRewrite and longestRewrite bound the pause after a write that failed.
	shortestRewrite, longestRewrite = 100 * time.Millisecond, 5 * time.Second
	// A write that is refused for good is tried again every refusedRewrite after refusedTries, about a minute.
	refusedTries   = 20
	refusedRewrite = time.Minute
)

func newWriter() *writer {
	return &writer{
		queue: sync.OnceValue(func() workqueue.TypedRateLimitingInterface[writeKey] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(
				workqueue.NewTypedItemExponentialFailureRateLimiter[writeKey](shortestRewrite, longestRewrite),
				workqueue.TypedRateLimitingQueueConfig[writeKey]{Name: "statements"})
		}),
		pending: map[writeKey]func(context.Context) error{}, spaces: map[string]*writeSpace{}, refused: map[writeKey]error{},
	}
}

// put asks for a write, in place of one of the same key that has not begun.
func (q *writer) put(key writeKey, write func(context.Context) error) {
	q.mu.Lock()
	q.pending[key] = write
	admitted := q.admit(key)
	q.mu.Unlock()
	if admitted {
		q.queue().Add(key)
	}
}

// drop takes a write back, if it has not begun.
func (q *writer) drop(key writeKey) {
	q.mu.Lock()
	delete(q.pending, key)
	delete(q.refused, key)
	q.mu.Unlock()
}

// refusals are the errors of the writes about some workloads that were refused for good when they were last tried.
func (q *writer) refusals(of ...[]*kube.Workload) (out []error) {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.refused) == 0 {
		return nil
	}
	for _, w := range slices.Concat(of...) {
		for _, what := range []writeKind{writeTell, writePlan} {
			if err := q.refused[writeKey{what, w.Namespace(), w.UID()}]; err != nil {
				out = append(out, err)
			}
		}
	}
	return out
}

// refusedForGood reports whether an error of a write is not one that passes by itself.
func refusedForGood(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// Start implements manager.Runnable. It is run by the leader alone.
func (q *writer) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for range writersAtOnce {
		group.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	q.queue().ShutDown()
	group.Wait()
	return nil
}

// next carries out one write; false at the end.
func (q *writer) next(ctx context.Context) bool {
	queue := q.queue()
	key, end := queue.Get()
	if end {
		return false
	}
	defer queue.Done(key)
	q.mu.Lock()
	if !q.admit(key) { // one that is tried again
		q.mu.Unlock()
		return true
	}
	write := q.pending[key]
	delete(q.pending, key)
	q.mu.Unlock()
	defer q.leave(key)
	if write == nil { // taken back
		queue.Forget(key)
		return true
	}
	err := write(ctx)
	// A workload that has changed is decided on anew. Nobody else writes plans: what conflicts is tried again.
	changed := apierrors.IsConflict(err) && key.what != writePlan
	if err == nil || changed || apierrors.IsNotFound(err) || ctx.Err() != nil {
		queue.Forget(key)
		q.mu.Lock()
		delete(q.refused, key)
		q.mu.Unlock()
		return true
	}
	if queue.NumRequeues(key) == 0 {
		log.FromContext(ctx).Error(err, "Failed to write, will retry", "what", key.what, "uid", key.uid)
	}
	q.mu.Lock()
	if _, newer := q.pending[key]; !newer {
		q.pending[key] = write
	}
	tries := queue.NumRequeues(key)
	switch {
	case !refusedForGood(err):
		delete(q.refused, key)
	case key.what != writePlan || apierrors.IsForbidden(err) || tries >= refusedTries: // the plan of an earlier workload of this name goes with it
		q.refused[key] = err
	}
	q.mu.Unlock()
	if refusedForGood(err) && tries >= refusedTries {
		queue.AddAfter(key, refusedRewrite)
	} else {
		queue.AddRateLimited(key)
	}
	return true
}

// admit reports whether a write may be in the queue. One that may not waits until others of its namespace have ended. The lock
// is held.
func (q *writer) admit(key writeKey) bool {
	s := q.spaces[key.namespace]
	if s == nil {
		s = &writeSpace{waits: map[writeKey]bool{}}
		q.spaces[key.namespace] = s
	}
	waits, known := s.waits[key]
	switch {
	case known:
		return !waits
	case len(s.waits)-len(s.waiting) < writersOfNamespace:
		s.waits[key] = false
		return true
	}
	s.waits[key] = true
	s.waiting = append(s.waiting, key)
	return false
}

// leave ends a write, and lets the next one of its namespace into the queue.
func (q *writer) leave(key writeKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.spaces[key.namespace]
	delete(s.waits, key)
	switch {
	case len(s.waiting) > 0:
		next := s.waiting[0]
		s.waiting, s.waits[next] = s.waiting[1:], false
		q.queue().Add(next)
	case len(s.waits) == 0:
		delete(q.spaces, key.namespace)
	}
}
