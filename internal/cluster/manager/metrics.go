package manager

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"lull.dev/lull/internal/base/access"
)

// Metrics says how a program serves /metrics.
type Metrics struct {
	Address string // "0" serves none
	// Secure serves it by HTTPS, with a certificate made at the start, to bearer tokens whose users may get /metrics. The account
	// of the program must be allowed to create TokenReviews and SubjectAccessReviews.
	Secure bool
}

// Options are those of the metrics server of a manager.
func (m Metrics) Options() metricsserver.Options {
	o := metricsserver.Options{BindAddress: m.Address}
	if m.Secure {
		o.SecureServing, o.FilterProvider = true, onlyReaders
	}
	return o
}

// onlyReaders lets in whom the API server lets get /metrics.
func onlyReaders(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the types of reviews: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	tokens := &access.Tokens{Client: c, Now: time.Now, Get: "/metrics"}
	return func(_ logr.Logger, served http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status, why := tokens.Allowed(r); status != http.StatusOK {
				http.Error(w, why, status)
				return
			}
			served.ServeHTTP(w, r)
		}), nil
	}, nil
}
