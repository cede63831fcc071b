// Package admission answers API servers that ask how objects are to be created, where they have no admission policies: Kubernetes before 1.36.
// It decides what the admission policies of internal/cluster/kinds decide (internal/cluster/mutate), from memory, and never refuses an object.
// On a hub it also clears nominations of Kueue's Workloads.
package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/manager"
)

// Access rights of lull admission are kept in charts/lull/templates/admission.yaml. It reads what decides and, by name, its own Secret and its own
// configuration, which the chart makes.

const (
	// ServiceName is that of the Service by which API servers reach the program.
	ServiceName = "lull-admission"
	// SecretName is that of the Secret with the certificate, unless the options say otherwise.
	SecretName = "lull-admission-tls"
)

// How the certificate is made.
const (
	CertificatesSelf   = "self"   // Lull makes and rotates it
	CertificatesSecret = "secret" // somebody else keeps tls.crt, tls.key and ca.crt in the Secret
)

// Options configure the program.
type Options struct {
	Metrics       manager.Metrics
	HealthAddress string // "0" serves none
	// Address is where it listens. API servers ask at URL, without a path, or by the Service if there is none.
	Address, URL string
	// Namespace is Lull's own. API servers never ask about it.
	Namespace string
	// Namespaces are those that Lull governs; none for all.
	Namespaces manager.Namespaces
	// Kinds are the kinds to hold, by the names that policies use.
	Kinds []string
	// Nominations has it clear the nominations of Workloads of Kueue: on a hub of MultiKueue.
	Nominations bool
	// Secret has the certificate. Certificates is CertificatesSelf or CertificatesSecret.
	Secret, Certificates string
	Clock                clock.Clock
}

// ErrOptions marks options that make no sense.
var ErrOptions = errors.New("invalid options of lull admission")

// Check returns an error, which wraps ErrOptions, that says what is wrong with the options.
func (o *Options) Check() error {
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("%w: --bind-address: %q; accepted: HOST:PORT", ErrOptions, o.Address)
	}
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return fmt.Errorf("%w: --url: %q; accepted: https://HOST:PORT", ErrOptions, o.URL)
		}
	}
	if !slices.Contains([]string{CertificatesSelf, CertificatesSecret}, o.Certificates) {
		return fmt.Errorf("%w: --certificates: %q; accepted: %s, %s", ErrOptions, o.Certificates, CertificatesSelf, CertificatesSecret)
	}
	if len(o.Kinds) == 0 {
		return fmt.Errorf("%w: --kinds: none; accepted: names of kinds, as in kinds of CarbonPolicies", ErrOptions)
	}
	return o.Namespaces.Check()
}

// hosts are the names by which API servers reach the program.
func (o *Options) hosts() []string {
	if u, err := url.Parse(o.URL); err == nil && o.URL != "" {
		return []string{u.Hostname()}
	}
	return []string{ServiceName + "." + o.Namespace + ".svc"}
}

// Run answers API servers until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	mgr, err := manager.New(ctx, config, ctrl.Options{
		Scheme: scheme, Metrics: o.Metrics.Options(), HealthProbeBindAddress: o.HealthAddress,
		Cache: o.Namespaces.Bind(cache.Options{DefaultTransform: strip}),
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	k := &keeper{Options: o, live: live, cache: mgr.GetCache(), clock: o.Clock, trigger: make(chan struct{}, 1)}
	synced, err := k.watch(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	s := &server{keeper: k, synced: synced}
	if err := errors.Join(mgr.Add(s), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches and certificate", s.check)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// strip drops what no expression reads. CarbonPolicies are kept as they are stored, as the API server has them as parameters.
func strip(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "status")
	}
	if m, ok := o.(client.Object); ok {
		kinds.TrimMetadata(m)
	}
	return o, nil
}

// carbonPolicies is an empty list of CarbonPolicies as they are stored.
func carbonPolicies() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(policyGVK.GroupVersion().WithKind(policyGVK.Kind + "List"))
	return list
}

// watch wakes the keeper when a CarbonPolicy or a WorkloadKind changes. The functions report whether all have been read once.
func (k *keeper) watch(ctx context.Context, from cache.Cache) (synced []func() bool, err error) {
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policyGVK)
	for _, kind := range []client.Object{policy, &v1alpha1.WorkloadKind{}} {
		informer, err := from.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { k.wake() }, UpdateFunc: func(_, _ any) { k.wake() }, DeleteFunc: func(any) { k.wake() },
		})
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		synced = append(synced, handle.HasSynced)
	}
	return synced, nil
}

// server is the HTTPS server as a part of the manager.
type server struct {
	*keeper
	synced []func() bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: all replicas answer.
func (s *server) NeedLeaderElection() bool { return false }

// filled reports whether the caches have been filled once.
func (s *server) filled() bool {
	return !slices.ContainsFunc(s.synced, func(synced func() bool) bool { return !synced() })
}

// check is the check of /readyz.
func (s *server) check(*http.Request) error {
	switch {
	case !s.filled():
		return errors.New("caches are not filled yet")
	case !s.ready():
		return errors.New("there is no certificate yet")
	}
	return nil
}

const (
	readTimeout = 5 * time.Second
	idleTimeout = 2 * time.Minute
	// drain is for how long it still answers after it was told to end: endpoints are removed meanwhile.
	drain = 3 * time.Second
	// retryEvery is how often it tries again to begin.
	retryEvery = 100 * time.Millisecond
)

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	for !s.filled() {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(retryEvery):
		}
	}
	h, err := newHandler(s.Namespace, s.holdersNow, s.policies)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	srv := &http.Server{
		Handler:           h,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
	}
	// With HTTP/2 an API server sends all requests over one connection, and for half a minute also over one to a replica that has stopped answering.
	// With HTTP/1 a request that is not answered in time ends its connection, and the next one may reach another replica.
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	log.FromContext(ctx).Info("Answer API servers", "address", l.Addr().String())
	kept, done := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(kept)
		s.run(ctx)
	}()
	go func() { done <- srv.ServeTLS(l, "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	<-kept
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain+readTimeout)
	defer cancel()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-s.clock.After(drain):
	}
	return srv.Shutdown(stop)
}

// holdersNow are what decides for each kind now.
func (s *server) holdersNow() holders {
	if h := s.holders.Load(); h != nil {
		return *h
	}
	return nil
}

// policies returns the CarbonPolicies of a namespace from memory. They must not be changed.
func (s *server) policies(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	if !s.Namespaces.Has(namespace) {
		return nil, nil
	}
	list := carbonPolicies()
	if err := s.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CarbonPolicies of %s: %w", namespace, err)
	}
	out := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
