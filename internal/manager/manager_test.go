package manager

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// away is an API server that cannot be reached.
type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// TestEndsWhileCachesFill: a manager returns when its context ends, though its caches are not filled, and leaves nothing
// running. A manager of ctrl.NewManager would run until the test's time is over.
func TestEndsWhileCachesFill(t *testing.T) {
	// The second handler waits until after the time of the last error in the process, which is not the time of the bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mgr, err := New(ctx, &rest.Config{Host: "http://away.invalid", Transport: away{}}, ctrl.Options{
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
