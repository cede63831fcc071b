// Package failsafe lets go what Lull holds when its time has come, whether or not there is a
// controller. It knows neither planners nor providers: only what stands in the API.
package failsafe

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/dispatch"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/internal/kueue"
	"lull.dev/lull/internal/metrics"
)

// Access rights, generated into charts/lull/files/rbac/failsafe.yaml; those to workloads come with
// their kinds.
//
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies;gridzones;workloadkinds,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,verbs=get;create;update

// Options configure the watchdog.
type Options struct {
	MetricsAddress, HealthAddress string // "0" serves none
	LeaderElection                bool
	// Namespace of the lease.
	Namespace string
	// Grace is how long after its latest start a hold is left to the controller.
	Grace time.Duration
	// Every is how often holds are looked at.
	Every time.Duration
	Clock clock.Clock
}

// leaderElectionID names the lease, which is not the controller's.
const leaderElectionID = "failsafe.lull.dev"

// Watchdog looks after holds.
type Watchdog struct {
	// Client reads and writes at the API server, Cache knows the metadata of all objects.
	Client  client.Client
	Cache   client.Reader
	Applier *kube.Applier
	Options Options

	served map[string]lookup
	// dispatched is when the queues of a hub were last looked at.
	dispatched time.Time
}

// lookup is whether a kind was served when last asked.
type lookup struct {
	served bool
	at     time.Time
}

// Run runs the watchdog until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o Options) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: o.MetricsAddress}, HealthProbeBindAddress: o.HealthAddress,
		LeaderElection: o.LeaderElection, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cache.Options{DefaultTransform: strip},
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	dog := &Watchdog{Client: live, Cache: mgr.GetCache(), Options: o, Applier: &kube.Applier{Client: live, Recorder: mgr.GetEventRecorder("lull-failsafe")}}
	if err := mgr.Add(dog); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// strip keeps of metadata what the watchdog reads.
func strip(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.OwnerReferences, m.Labels = nil, nil, nil
		for k := range m.Annotations {
			switch k {
			case v1alpha1.AnnotationHold, v1alpha1.AnnotationLatestStart, v1alpha1.AnnotationPolicy, v1alpha1.AnnotationRuntime, v1alpha1.AnnotationMaxDelay, v1alpha1.AnnotationDeadline:
			default:
				delete(m.Annotations, k)
			}
		}
	}
	return o, nil
}

// Start implements manager.Runnable.
func (d *Watchdog) Start(ctx context.Context) error {
	for {
		if err := d.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Look after holds")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.Options.Clock.After(d.Options.Every):
		}
	}
}

// Look releases every hold whose time has come. An object that cannot be released does not
// keep the others from it; the last error is returned.
func (d *Watchdog) Look(ctx context.Context) error {
	all, last := kube.Kinds(ctx, d.Cache)
	for _, k := range all {
		served, err := d.isServed(ctx, k)
		if err != nil {
			last = err
			continue
		}
		if !served {
			continue
		}
		list := kube.MetadataList(k)
		if err := d.list(ctx, list); err != nil {
			last = fmt.Errorf("list %s: %w", k.Name, err)
			continue
		}
		for i := range list.Items {
			if err := d.lookAt(ctx, k, &list.Items[i]); err != nil {
				last = err
			}
		}
	}
	if err := d.dispatch(ctx); err != nil {
		last = err
	}
	return last
}

const (
	// dispatchEvery is how often the queues of a hub are looked at.
	dispatchEvery = 30 * time.Second
	// sendAfter is how long a Workload that holds quota on a hub is left to the controller.
	sendAfter = time.Minute
)

// dispatch sends to any cluster that is allowed what has been let go on a hub, and what the
// controller has not sent anywhere in time.
func (d *Watchdog) dispatch(ctx context.Context) error {
	now := d.Options.Clock.Now()
	if now.Sub(d.dispatched) < dispatchEvery {
		return nil
	}
	d.dispatched = now
	served, err := kube.QueuesServed(ctx, d.Client)
	if err != nil || !served {
		return err
	}
	sender := dispatch.Dispatcher{Reader: d.Client, Live: d.Client, Client: d.Client}
	var last error
	for more := ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
		if err := d.Client.List(ctx, list, client.Limit(500), client.Continue(more)); err != nil {
			return err
		}
		for i := range list.Items {
			w, err := kueue.Read(&list.Items[i])
			if err == nil && dispatch.Awaits(&w) && now.Sub(w.ReservedAt) > sendAfter && len(w.Nominated) == 0 {
				var to []string
				if to, err = sender.Nominate(ctx, &w, true); len(to) > 0 {
					log.FromContext(ctx).Info("Nominate, as no controller has", "namespace", w.Namespace, "workload", w.Name, "clusters", to)
				}
			}
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				last = err
			}
		}
		if more = list.GetContinue(); more == "" {
			return last
		}
	}
}

// patience is how long a kind may take to be listed: the holds of the others must not wait
// for one that does not let itself be.
const patience = 10 * time.Second

func (d *Watchdog) list(ctx context.Context, list *metav1.PartialObjectMetadataList) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return d.Cache.List(ctx, list, client.UnsafeDisableDeepCopy)
}

// askAgain is how long what is known of a kind counts.
const askAgain = 30 * time.Second

func (d *Watchdog) isServed(ctx context.Context, k *kinds.Kind) (bool, error) {
	if d.served == nil {
		d.served = map[string]lookup{}
	}
	now := d.Options.Clock.Now()
	if x, ok := d.served[k.Name]; ok && now.Sub(x.at) < askAgain {
		return x.served, nil
	}
	served, err := kube.Served(ctx, d.Client, k)
	if err != nil {
		return false, err
	}
	d.served[k.Name] = lookup{served, now}
	return served, nil
}

// lookAt releases one object if its time has come.
func (d *Watchdog) lookAt(ctx context.Context, k *kinds.Kind, m *metav1.PartialObjectMetadata) error {
	if m.Annotations[v1alpha1.AnnotationHold] == "" || m.DeletionTimestamp != nil {
		return nil
	}
	due, why, err := d.due(ctx, m)
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", k.Name, m.Namespace, m.Name, err)
	}
	if d.Options.Clock.Now().Before(due.Add(d.Options.Grace)) {
		return nil
	}
	w, err := kube.Fetch(ctx, d.Client, k, client.ObjectKeyFromObject(m))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	// What was decided since the cache has seen it counts.
	if at := w.Annotations()[v1alpha1.AnnotationLatestStart]; at != m.Annotations[v1alpha1.AnnotationLatestStart] {
		return nil
	}
	wrote, err := d.Applier.ReleaseHeld(ctx, w, kube.CodeFailsafe, why, d.Options.Clock.Now())
	if wrote {
		metrics.Actions.WithLabelValues("Release", string(kube.CodeFailsafe)).Inc()
		log.FromContext(ctx).Info("Release", "kind", k.Name, "namespace", m.Namespace, "name", m.Name, "why", why)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // somebody else was faster
	}
	return err
}

// due is when an object must run at the latest, and why: what stands in the object, else
// what follows from its annotations and its policy as the controller would find it. A hold
// whose policy is gone has no reason any more.
func (d *Watchdog) due(ctx context.Context, m *metav1.PartialObjectMetadata) (time.Time, string, error) {
	if at, err := time.Parse(time.RFC3339, m.Annotations[v1alpha1.AnnotationLatestStart]); err == nil {
		return at, fmt.Sprintf("latest safe start %s has come, and the controller has not released it", at.Format(time.RFC3339)), nil
	}
	created := m.CreationTimestamp.Time
	name := m.Annotations[v1alpha1.AnnotationPolicy]
	var policy v1alpha1.CarbonPolicy
	err := d.Cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, &policy)
	if apierrors.IsNotFound(err) {
		return created, fmt.Sprintf("the CarbonPolicy %q that held it is gone", name), nil
	}
	if err != nil {
		return time.Time{}, "", err
	}
	var zone v1alpha1.GridZone
	if err := d.Cache.Get(ctx, client.ObjectKey{Name: policy.Spec.Zone}, &zone); client.IgnoreNotFound(err) != nil {
		return time.Time{}, "", err
	}
	at, problem := latestStart(m, &policy, &zone)
	why := fmt.Sprintf("latest safe start %s has come, and no controller has seen it", at.UTC().Format(time.RFC3339))
	if problem != nil { // what nobody can read is not held
		at, why = created, problem.Error()
	}
	return at, why, nil
}

// latestStart is when an object that no controller has seen must run at the latest.
func latestStart(m *metav1.PartialObjectMetadata, policy *v1alpha1.CarbonPolicy, zone *v1alpha1.GridZone) (time.Time, error) {
	tl, err := kube.ZoneTimeline(zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("GridZone %s: %w", zone.Name, err)
	}
	latest, err := kube.LatestStart(m.Annotations, &policy.Spec, tl.ToGrid(m.CreationTimestamp.Time))
	if err != nil {
		return time.Time{}, err
	}
	return tl.ToWall(latest), nil
}
