package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// away is an API server that cannot be reached.
type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// onePod is an API server that has one pod. Its watches send no events.
type onePod struct{}

func (onePod) RoundTrip(req *http.Request) (*http.Response, error) {
	body := io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","namespace":"b"}}]}`))
	if req.URL.Query().Has("watch") {
		if req.URL.Query().Has("sendInitialEvents") {
			return &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: http.NoBody, Request: req}, nil
		}
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
		body = r
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}, nil
}

func managerOf(t *testing.T, ctx context.Context, server http.RoundTripper) ctrl.Manager {
	t.Helper()
	mgr, err := New(ctx, &rest.Config{Host: "http://server.invalid", Transport: server}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			m := meta.NewDefaultRESTMapper(nil)
			m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			return m, nil
		},
		Scheme: scheme.Scheme,
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// removeHandler adds a handler and removes it.
func removeHandler(t *testing.T, ctx context.Context, mgr ctrl.Manager) {
	t.Helper()
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	registration, err := informer.AddEventHandlerWithOptions(toolscache.ResourceEventHandlerFuncs{}, toolscache.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := informer.RemoveEventHandler(registration); err != nil {
		t.Error(err)
	}
}

func TestMain(m *testing.M) {
	// The second handler waits until after the time of the last error in the process, which is not the time of a bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// TestStartsWithItsObjects: a controller starts when its handler has had the objects that are there, not when somebody next
// looks whether it has.
func TestStartsWithItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mgr := managerOf(t, ctx, onePod{})
		const handling = 30 * time.Millisecond
		var handled time.Time
		slow := predicate.NewPredicateFuncs(func(client.Object) bool {
			time.Sleep(handling)
			handled = time.Now()
			return true
		})
		reconciled := make(chan time.Time, 1)
		if err := ctrl.NewControllerManagedBy(mgr).Named("pods").WithOptions(controller.Options{SkipNameValidation: new(true)}).For(&corev1.Pod{}, builder.WithPredicates(slow)).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				reconciled <- time.Now()
				return reconcile.Result{}, nil
			})); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		if at := <-reconciled; !at.Equal(handled) {
			t.Errorf("reconciled %v after the handler had all objects", at.Sub(handled))
		}
		removeHandler(t, ctx, mgr)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // for timers of client-go that no context ends
	})
}

// TestEndsWhileCachesFill: a manager returns when its context ends, though its caches are not filled, and leaves nothing
// running. A manager of ctrl.NewManager would run until the test's time is over.
func TestEndsWhileCachesFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mgr := managerOf(t, ctx, away{})
		if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("ended while the API server was away: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // for timers of client-go that no context ends
	})
}

// forbidding is an API server that has not read its roles yet: it forbids everything.
type forbidding struct{}

func (forbidding) RoundTrip(req *http.Request) (*http.Response, error) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden: cannot get path","reason":"Forbidden","code":403}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

// The client says no more than "unknown" when the list of API groups is forbidden.
func TestNewExplainsForbiddenDiscovery(t *testing.T) {
	_, err := New(t.Context(), &rest.Config{Host: "http://server.invalid", Transport: forbidding{}}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Scheme: scheme.Scheme,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {}}},
	})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("New returned %v; want an error that says that it is forbidden", err)
	}
	for _, want := range []string{"forbids", "system:discovery", "has just started"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
