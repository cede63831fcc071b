package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/manager"
)

// Access rights of the extender, kept in charts/lull/templates/extender.yaml: it only reads.

// Options configure the extender.
type Options struct {
	// Address is where kube-scheduler asks. Without CertFile and KeyFile, by which it serves HTTPS,
	// it must be on loopback. With ClientCAFile callers prove who they are by certificates of that
	// authority; it is required with HTTPS.
	Address, CertFile, KeyFile, ClientCAFile string
	Metrics                                  manager.Metrics
	HealthAddress                            string // "0" serves none
	// Namespaces are those whose CarbonPolicies count; none for all.
	Namespaces manager.Namespaces
}

// ErrOptions marks options that make no sense.
var ErrOptions = errors.New("invalid options of the extender")

// Check says what is wrong with the options.
func (o *Options) Check() error {
	secure := o.CertFile != "" && o.KeyFile != "" && o.ClientCAFile != ""
	if !secure && o.CertFile+o.KeyFile+o.ClientCAFile != "" {
		return fmt.Errorf("%w: --tls-cert-file, --tls-private-key-file, --client-ca-file: accepted: all of them or none", ErrOptions)
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("%w: --bind-address: %q; accepted: HOST:PORT", ErrOptions, o.Address)
	}
	if ip := net.ParseIP(host); !secure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%w: --bind-address: %q; accepted without TLS: an address on loopback", ErrOptions, o.Address)
	}
	return nil
}

// Run serves the extender until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, state *State, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	mgr, err := manager.New(ctx, config, ctrl.Options{
		Scheme: scheme, Metrics: o.Metrics.Options(), HealthProbeBindAddress: o.HealthAddress,
		Cache: o.Namespaces.BindButPods(cache.Options{DefaultTransform: strip}),
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	ready, err := feed(ctx, mgr.GetCache(), state)
	if err != nil {
		return err
	}
	s := &server{Options: o, handler: &Handler{State: state}, ready: ready}
	if err := errors.Join(mgr.Add(s), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", s.check)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// strip drops what is not read.
func strip(o any) (any, error) {
	switch x := o.(type) {
	case *corev1.Pod:
		*x = corev1.Pod{
			ObjectMeta: onlyNames(x), Status: corev1.PodStatus{Phase: x.Status.Phase, StartTime: x.Status.StartTime, Conditions: scheduled(x.Status.Conditions)},
			Spec: corev1.PodSpec{NodeName: x.Spec.NodeName, Containers: requests(x.Spec.Containers), InitContainers: requests(x.Spec.InitContainers), Overhead: x.Spec.Overhead, Resources: x.Spec.Resources},
		}
	case *corev1.Node:
		x.ManagedFields, x.Annotations, x.Status.Images, x.Status.NodeInfo = nil, nil, nil, corev1.NodeSystemInfo{}
	case client.Object:
		kinds.TrimMetadata(x)
	}
	return o, nil
}

// onlyNames are the metadata by which a Pod is known, and its owners.
func onlyNames(p *corev1.Pod) (out metav1.ObjectMeta) {
	out.Name, out.Namespace, out.UID, out.ResourceVersion, out.OwnerReferences = p.Name, p.Namespace, p.UID, p.ResourceVersion, p.OwnerReferences
	return out
}

// scheduled is the condition by which kube.OnNode knows that a scheduler has bound a Pod.
func scheduled(of []corev1.PodCondition) []corev1.PodCondition {
	for _, c := range of {
		if c.Type == corev1.PodScheduled {
			return []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return nil
}

func requests(of []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(of))
	for i := range of {
		out[i] = corev1.Container{Resources: corev1.ResourceRequirements{Requests: of[i].Resources.Requests}, RestartPolicy: of[i].RestartPolicy}
	}
	return out
}

// feed keeps the state as the API server has it; the checks tell when all has been read once.
func feed(ctx context.Context, from cache.Cache, s *State) ([]func() bool, error) {
	var ready []func() bool
	for _, x := range []struct {
		kind    client.Object
		set     func(any)
		deleted func(client.Object)
	}{
		{&corev1.Node{}, func(o any) { s.SetNode(o.(*corev1.Node)) }, func(o client.Object) { s.DeleteNode(o.GetName()) }},
		{&corev1.Pod{}, func(o any) { s.SetPod(o.(*corev1.Pod)) }, func(o client.Object) { s.DeletePod(o.GetUID()) }},
		{&v1alpha1.GridZone{}, func(o any) { s.SetZone(o.(*v1alpha1.GridZone)) }, func(o client.Object) { s.DeleteZone(o.GetName()) }},
		{&v1alpha1.CarbonPolicy{}, func(o any) {
			p := o.(*v1alpha1.CarbonPolicy)
			if err := s.SetPolicy(p); err != nil {
				log.FromContext(ctx).Error(err, "Let the Pods of a policy pass: the policy cannot be read", "namespace", p.Namespace, "policy", p.Name)
			}
		}, func(o client.Object) {
			s.DeletePolicy(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
		}},
	} {
		informer, err := from.GetInformer(ctx, x.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: x.set, UpdateFunc: func(_, now any) { x.set(now) },
			DeleteFunc: func(o any) {
				if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = gone.Obj
				}
				if o, ok := o.(client.Object); ok {
					x.deleted(o)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		ready = append(ready, handle.HasSynced)
	}
	return ready, nil
}

// server is the HTTP server as a part of the manager.
type server struct {
	Options
	handler http.Handler
	ready   []func() bool
}

// check says whether all has been read once; before that nothing is listened to, and
// kube-scheduler goes on without.
func (s *server) check(*http.Request) error {
	for _, synced := range s.ready {
		if !synced() {
			return errors.New("caches are not filled yet")
		}
	}
	return nil
}

const (
	readTimeout = 10 * time.Second
	// observeEvery is how often the load is noted.
	observeEvery = 30 * time.Second
)

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	state := s.handler.(*Handler).State
	for s.check(nil) != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: readTimeout, IdleTimeout: 5 * time.Minute, ConnContext: roomy}
	var err error
	if srv.TLSConfig, err = s.tls(ctx); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	log.FromContext(ctx).Info("Serve kube-scheduler", "address", l.Addr().String(), "tls", srv.TLSConfig != nil)
	done := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			done <- srv.ServeTLS(l, "", "")
			return
		}
		done <- srv.Serve(l)
	}()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
			defer cancel()
			return srv.Shutdown(stop)
		case <-time.After(observeEvery):
			state.Observe()
		}
	}
}

// tls is the configuration of HTTPS, which follows the files as they change; nil for HTTP.
func (s *server) tls(ctx context.Context) (*tls.Config, error) {
	if s.CertFile == "" {
		return nil, nil
	}
	watcher, err := certwatcher.New(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Failed to watch the certificate")
		}
	}()
	text, err := os.ReadFile(s.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--client-ca-file: %s: no certificate in PEM", s.ClientCAFile)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// answerRoom is the send buffer of a connection, in bytes: an answer that names thousands of nodes
// leaves at once instead of in turns with whoever reads it.
const answerRoom = 1 << 20

// roomy is an http.Server's ConnContext.
func roomy(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(answerRoom) // without it answers are only slower
	}
	return ctx
}
