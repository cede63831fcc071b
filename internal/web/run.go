package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/access"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/manager"
)

// Options say where the page is served, and who may read it.
type Options struct {
	// Address is that of the page. Without CertFile and KeyFile it must be loopback.
	Address           string
	CertFile, KeyFile string
	// Ledger is nil if there is none.
	Ledger Ledger
	// System is the namespace of the leases of the controller and the watchdog; "" shows neither.
	System string
	// Namespaces are those whose policies and plans the page shows; none for all.
	Namespaces manager.Namespaces
	// Ready is called with the address once the page is served; may be nil.
	Ready func(net.Addr)
}

// ErrOptions marks options that are not accepted.
var ErrOptions = errors.New("invalid options of the web page")

// Check returns an error that wraps ErrOptions if the options are not accepted.
func (o *Options) Check() error {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("%w: --bind-address: %q; accepted: HOST:PORT", ErrOptions, o.Address)
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return fmt.Errorf("%w: --tls-cert-file, --tls-private-key-file: accepted: both, or none", ErrOptions)
	case o.CertFile == "" && !loopback:
		return fmt.Errorf("%w: --bind-address: %q; accepted without a certificate: a loopback address", ErrOptions, o.Address)
	}
	return nil
}

const (
	// readWithin bounds the time that a request takes to arrive, stopWithin how long those under way may
	// take in the end.
	readWithin = 10 * time.Second
	stopWithin = 2 * time.Second
	// mostHeader bounds the header of a request, in bytes.
	mostHeader = 64 << 10
)

// trim drops what the page does not read, and anybody who may create such an object may fill.
func trim(o any) (any, error) {
	if m, ok := o.(client.Object); ok {
		kinds.TrimMetadata(m)
	}
	return o, nil
}

// Run serves the page until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	objects, err := manager.NewCache(config, o.Namespaces.Bind(cache.Options{Scheme: scheme, DefaultTransform: trim}))
	if err != nil {
		return fmt.Errorf("create a cache: %w", err)
	}
	s := &Server{Reader: objects, Ledger: o.Ledger, Access: Loopback{}}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	if o.System != "" {
		s.Programs = kept(func(ctx context.Context) []Program { return programs(ctx, c, o.System) })
	}
	if o.CertFile != "" {
		s.Access = &access.Tokens{Client: c, Now: time.Now, List: "carbonplans"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- objects.Start(ctx) }()
	for _, kind := range []client.Object{&v1alpha1.GridZone{}, &v1alpha1.CarbonPolicy{}, &v1alpha1.CarbonPlan{}, &v1alpha1.CapacityCurve{}} {
		informer, err := objects.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { s.Changed() }, UpdateFunc: func(any, any) { s.Changed() }, DeleteFunc: func(any) { s.Changed() },
		}); err != nil {
			return err
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return errors.Join(fmt.Errorf("the data of the page could not be read"), ctx.Err())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: readWithin, ReadTimeout: readWithin, MaxHeaderBytes: mostHeader, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() {
		if o.CertFile != "" {
			served <- server.ServeTLS(listener, o.CertFile, o.KeyFile)
			return
		}
		served <- server.Serve(listener)
	}()
	if o.Ready != nil {
		o.Ready(listener.Addr())
	}
	select {
	case err := <-served:
		return err
	case err := <-failed:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	stop, stopped := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer stopped()
	cancel()
	return server.Shutdown(stop)
}

// keptFor is how long an answer about the programs counts: each open page asks, up to once a second.
const keptFor = 5 * time.Second

// kept returns a function that asks again only once the last answer is older than keptFor.
func kept(ask func(context.Context) []Program) func(context.Context) []Program {
	var mu sync.Mutex
	var last []Program
	var at time.Time
	return func(ctx context.Context) []Program {
		mu.Lock()
		defer mu.Unlock()
		if !at.IsZero() && time.Since(at) < keptFor {
			return last
		}
		found := ask(ctx)
		if ctx.Err() == nil { // whoever asked has not gone away meanwhile
			last, at = found, time.Now()
		}
		return found
	}
}

// programs reads the leases of the controller and the watchdog. One that may not be read is left out.
func programs(ctx context.Context, r client.Reader, namespace string) []Program {
	out := []Program{}
	for _, name := range []string{manager.Controller, manager.Failsafe} {
		if message, works, err := manager.ReadLease(ctx, r, namespace, name, time.Now()); err == nil {
			out = append(out, Program{name, works, message})
		}
	}
	return out
}
