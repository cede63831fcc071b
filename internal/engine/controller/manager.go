package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/accounting/meter"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/autoscale"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/internal/fleet/services"
	"lull.dev/lull/internal/web"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into charts/lull/files/rbac/controller.yaml.
//
// +kubebuilder:rbac:groups=lull.dev,resources=computeclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=computeclusters/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=lull.dev,resources=capacitycurves,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lull.dev,resources=capacitycurves/status,verbs=patch
// +kubebuilder:rbac:groups=lull.dev,resources=follows,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lull.dev,resources=follows/status,verbs=patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=hold.lull.dev,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,resourceNames=controller.lull.dev,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=lull-system,resources=events,verbs=create;patch

// Options configure the controller.
type Options struct {
	Metrics        manager.Metrics
	HealthAddress  string // "0" serves none
	LeaderElection bool
	// Namespace is the controller's own: of its lease, and of the Secrets that
	// GridZones name.
	Namespace string
	// Namespaces are those that the controller governs; none for all. It reads Pods in all of them.
	Namespaces manager.Namespaces
	// CacheDir keeps what providers said across restarts; empty keeps it in memory.
	CacheDir string
	// Fetch changes how providers are asked, before they are; nil changes nothing. A test gives it a transport to a grid of
	// its own.
	Fetch func(*fetch.Client)
	// PrometheusURL is the address of a Prometheus with Kepler's or DCGM's measurements,
	// and those of workloads that name a query for their progress; empty for none. It is
	// asked every PrometheusInterval, with the bearer token in PrometheusTokenFile if one
	// is named.
	PrometheusURL, PrometheusTokenFile string
	PrometheusInterval                 time.Duration
	// KueueNamespace is where Kueue looks for the kubeconfigs of its workers.
	KueueNamespace string
	// Ledger is the database of the ledger: a file of SQLite, or the URL of a PostgreSQL; empty for none.
	Ledger string
	// Web is the web page, served beside; none where its Address is empty.
	Web web.Options
	// ProvisionHooks is the folder of the programs that may provision clusters; empty for none.
	ProvisionHooks string
	Planner        PlannerFactory
	// Limits are what policies may ask for.
	Limits Limits
	// Events says which decisions on workloads are recorded as Events.
	Events kube.Events
	Clock  clock.Clock
}

// leaderElectionID names the lease of the active controller.
const leaderElectionID = "controller.lull.dev"

// NewScheme returns the types that Lull reads and writes. All callers share one scheme, which must not be changed.
func NewScheme() (*runtime.Scheme, error) { return newScheme() }

var newScheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
})

// newManager returns a manager with its cache and its health checks; transform is applied to what it caches of
// all kinds but Pods and Nodes.
func newManager(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, transform toolscache.TransformFunc, o Options) (ctrl.Manager, error) {
	mgr, err := manager.NewCertain(ctx, config, ctrl.Options{
		Scheme:  scheme,
		Metrics: o.Metrics.Options(), HealthProbeBindAddress: o.HealthAddress,
		LeaderElection: o.LeaderElection, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: o.Namespace,
		// All state is in the API: a successor may start the moment this one ends.
		LeaderElectionReleaseOnCancel: true,
		// Run may be called more than once in a process. The queue with priorities keeps its lock for good if it is
		// stopped while nobody takes from it.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		Cache:      o.Namespaces.BindButPods(cacheOptions(transform)),
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	return mgr, errors.Join(manager.ReportLeader(mgr, "controller"), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
}

// observeRequest counts a request to a provider.
func observeRequest(host, status string, took time.Duration) {
	metrics.Requests.WithLabelValues(host, status).Inc()
	metrics.RequestSeconds.WithLabelValues(host).Observe(took.Seconds())
}

// Run runs the controller against a cluster until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) (failed error) {
	scheme, err := NewScheme()
	if err != nil {
		return err
	}
	set := NewKindSet()
	mgr, err := newManager(ctx, config, scheme, set.Transform, o)
	if err != nil {
		return err
	}
	live := o.Namespaces.Reader(mgr.GetAPIReader(), scheme, mgr.GetRESTMapper(), nil)
	zones := NewZones()
	get := &fetch.Client{Cache: fetch.NewCache(o.CacheDir), Observe: observeRequest}
	if o.Fetch != nil {
		o.Fetch(get)
	}
	if err := (&GridZoneReconciler{
		Client: mgr.GetClient(), Zones: zones, Clock: o.Clock, Feeds: &source.Feeds{Get: get, Dir: o.CacheDir},
		Reader: &kube.ZoneReader{Reader: live, Namespace: o.Namespace, Namespaces: o.Namespaces},
	}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the GridZone reconciler: %w", err)
	}
	clusters := hub.NewClusters()
	zoneOf := func(name string) (carbon.Outlook, timegrid.Timeline, bool) {
		zone, looked := zones.Get(name)
		return zone.Outlook, zone.Timeline, looked
	}
	if err := (&hub.Reconciler{
		Client: mgr.GetClient(), Reader: live, Clusters: clusters, Get: get, Clock: o.Clock,
		Namespace: o.Namespace, KueueNamespace: o.KueueNamespace, Hooks: o.ProvisionHooks, Zone: zoneOf,
	}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the ComputeCluster reconciler: %w", err)
	}
	queues := NewQueues()
	var measure *meter.Meter
	if o.PrometheusURL != "" {
		measure = meter.New(o.PrometheusURL, o.PrometheusTokenFile, o.PrometheusInterval, get, o.Clock)
		if err := mgr.Add(measure); err != nil {
			return err
		}
	}
	// A client of its own, with a limit of its own: what starts does not queue behind what is told.
	statements, err := client.New(config, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	recorder := mgr.GetEventRecorder("lull")
	if err := (&services.Reconciler{
		Client: mgr.GetClient(), Reader: live, Clusters: clusters, Zone: zoneOf, Clock: o.Clock, Recorder: recorder,
	}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the Follow reconciler: %w", err)
	}
	var entries *ledgerRecorder
	if o.Ledger != "" {
		l, err := ledger.Later(o.Ledger)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, l.Close()) }()
		entries = newLedgerRecorder(l, zones, o.Clock.Now)
		defer func() { entries.Flush(context.WithoutCancel(ctx)) }() // after the last decision
		if err := errors.Join(entries.watch(ctx, mgr), mgr.Add(entries)); err != nil {
			return err
		}
		o.Web.Ledger = l
	}
	o.Web.Namespaces, o.Web.System = o.Namespaces, o.Namespace
	if o.Web.Address != "" {
		p := &page{config: config, scheme: scheme, options: o.Web}
		if err := errors.Join(mgr.Add(p), mgr.AddReadyzCheck("page", p.check)); err != nil {
			return err
		}
	}
	curves := curve.NewStore()
	if err := (&curve.Reconciler{
		Client: mgr.GetClient(), Reader: live, Store: curves, Zone: zoneOf, Clock: o.Clock, Namespace: o.Namespace,
	}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the CapacityCurve reconciler: %w", err)
	}
	autoscaling := autoscale.NewStore(live, o.Clock)
	if err := mgr.Add(autoscaling); err != nil {
		return err
	}
	probes := newProber(statements, o.Clock, o.Namespace)
	if err := mgr.Add(probes); err != nil {
		return err
	}
	rounds := &manager.Rounds{Clock: o.Clock, Elected: mgr.Elected(), Idle: noPolicyIn(mgr.GetClient())}
	if err := (&CarbonPolicyReconciler{
		Live: live, Client: mgr.GetClient(), Curves: curves, Autoscaling: autoscaling, Zones: zones, Kinds: set, Queues: queues, Clusters: clusters, Planner: o.Limits.bounded(o.Planner), Limits: o.Limits, Clock: o.Clock, Meter: measure, Ledger: entries, Prober: probes, Namespace: o.Namespace, Rounds: rounds,
		Applier:    &kube.Applier{Client: mgr.GetClient(), Recorder: recorder, Events: o.Events},
		Statements: &kube.Applier{Client: statements, Recorder: recorder, Events: o.Events},
	}).SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up the CarbonPolicy reconciler: %w", err)
	}
	if err := errors.Join(mgr.AddReadyzCheck("kinds", func(*http.Request) error { return checkKinds(mgr, set) }), mgr.AddReadyzCheck("decisions", rounds.Check)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// noPolicyIn returns a function that reports whether there is no CarbonPolicy to decide on.
func noPolicyIn(r client.Reader) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var list v1alpha1.CarbonPolicyList
		if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list CarbonPolicies: %w", err)
		}
		return !slices.ContainsFunc(list.Items, func(p v1alpha1.CarbonPolicy) bool { return p.DeletionTimestamp == nil }), nil
	}
}

// checkKinds is a readiness check: a leader that does not watch the kinds of workloads yet decides nothing. A replica that
// does not lead is ready.
func checkKinds(mgr interface{ Elected() <-chan struct{} }, set *KindSet) error {
	select {
	case <-mgr.Elected():
	default:
		return nil
	}
	if !set.ready() {
		return errors.New("the kinds of workloads are not watched yet: are the CustomResourceDefinitions of Lull installed?")
	}
	return nil
}
