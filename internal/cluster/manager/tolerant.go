package manager

import (
	"context"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// forbiddenFor is how long a program that starts waits for the right to list objects of a namespace: an API server that starts
	// forbids what it allows a moment later. It does not wait if the API server has allowed another namespace in this time: then it
	// knows who has which rights.
	forbiddenFor = 10 * time.Second
	// A namespace that was left out is asked for again after listSoon, then after twice that, up to listOften; once it has been forbidden for longAway, every listAgain. Of several
	// API servers, one may learn of a right some seconds later than the others: a hold in the namespace that ends meanwhile must not end late.
	listSoon  = time.Second
	listOften = 5 * time.Second
	longAway  = 10 * time.Minute
	listAgain = 30 * time.Second
	// spread is by which share these times differ at random: many namespaces and kinds are not asked for at the same moment.
	spread = 0.3
)

// newInformer returns informers for which a namespace has no objects while the program may not list them, where tolerates says so.
// Else one namespace that is deleted, or whose administrator takes the rights away, would keep the program from all others.
//
// With certain, none is without objects in the first forbiddenFor of the program, whatever the API server allows elsewhere.
func newInformer(tolerates func(runtime.Object) bool, certain bool) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	allowed := &lastAllowed{}
	return func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if tolerates(o) {
			t := &tolerant{of: toolscache.ToListerWatcherWithContext(lw), allowed: allowed, certain: certain}
			lw = &toolscache.ListWatch{ListWithContextFunc: t.list, WatchFuncWithContext: t.watch}
		}
		return toolscache.NewSharedIndexInformer(lw, o, resync, indexers)
	}
}

// lastAllowed is when the API server has allowed a list or a watch in any namespace: from since to at, with no gap of forbiddenFor.
type lastAllowed struct {
	mu        sync.Mutex
	since, at time.Time
	first     time.Time // when the program has asked for the first list
}

// asks notes a request. It reports whether the program has asked for forbiddenFor before that: what was granted before it began is known everywhere by then.
func (l *lastAllowed) asks(request time.Time) (long bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first.IsZero() {
		l.first = request
	}
	return request.Sub(l.first) >= forbiddenFor
}

func (l *lastAllowed) record() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.at) >= forbiddenFor {
		l.since = now
	}
	l.at = now
}

// before reports whether it has done so in the last forbiddenFor before a request. Meanwhile it may have done so again.
func (l *lastAllowed) before(request time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since.Before(request) && request.Sub(l.at) < forbiddenFor
}

// tolerant lists and watches the objects of a namespace. Once they have been listed, it passes all errors on: what was
// listed counts for as long as it cannot be listed again.
type tolerant struct {
	of      toolscache.ListerWatcherWithContext
	allowed *lastAllowed
	certain bool

	mu    sync.Mutex
	since time.Time // when it was forbidden first
	ever  bool      // whether they have been listed
	away  bool      // whether none are there, as they may not be listed
}

func (t *tolerant) listed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ever, t.away = true, false
	t.allowed.record()
}

func (t *tolerant) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	asked := time.Now()
	long := t.allowed.asks(asked)
	out, err := t.of.ListWithContext(ctx, o)
	if err == nil {
		t.listed()
		return out, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ever || !apierrors.IsForbidden(err) {
		return nil, err
	}
	if t.since.IsZero() {
		t.since = asked
	}
	if time.Since(t.since) < forbiddenFor && (t.certain && !long || !t.allowed.before(asked)) {
		return nil, err
	}
	if !t.away {
		log.FromContext(ctx).Error(err, "Leave out a namespace in which a kind may not be listed: upgrade the chart, which grants the right")
	}
	t.away = true
	none := &unstructured.UnstructuredList{}
	none.SetResourceVersion("0")
	return none, nil
}

func (t *tolerant) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	t.mu.Lock()
	away, since := t.away, t.since
	t.mu.Unlock()
	if lists := o.SendInitialEvents != nil && *o.SendInitialEvents; lists || !away {
		w, err := t.of.WatchWithContext(ctx, o)
		if err == nil {
			t.listed()
		}
		return w, err
	}
	events := make(chan watch.Event, 1)
	w := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		if t.awaits(ctx, w.StopChan(), since) { // as if the version were too old: they are listed again
			events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "list again"}}
		}
	}()
	return w, nil
}

// awaits waits until they may be listed, or the API server fails in another way; it returns false if it is stopped before. It asks itself, as a reflector
// that lists again waits longer each time.
func (t *tolerant) awaits(ctx context.Context, stopped <-chan struct{}, since time.Time) bool {
	for again := listSoon; ; again = min(2*again, listOften) {
		if time.Since(since) >= longAway {
			again = listAgain
		}
		select {
		case <-ctx.Done():
			return false
		case <-stopped:
			return false
		case <-time.After(wait.Jitter(again, spread)):
		}
		if _, err := t.of.ListWithContext(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsForbidden(err) {
			return true
		}
	}
}
