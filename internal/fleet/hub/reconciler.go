package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/fleet/spoke"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights to Kueue, its dispatcher's included, generated into charts/lull/files/rbac/kueue.yaml.
//
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=workloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=workloads/status,verbs=patch
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=admissionchecks,verbs=get;list;watch
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=multikueueconfigs,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=batch,resources=jobs/status,verbs=patch
// +kubebuilder:rbac:groups=jobset.x-k8s.io,resources=jobsets/status,verbs=patch
// +kubebuilder:rbac:groups=kubeflow.org,resources=mpijobs/status;pytorchjobs/status,verbs=patch
// +kubebuilder:rbac:groups=ray.io,resources=rayjobs/status,verbs=patch
// +kubebuilder:rbac:groups=trainer.kubeflow.org,resources=trainjobs/status,verbs=patch
// +kubebuilder:rbac:groups=workload.codeflare.dev,resources=appwrappers/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=multikueueclusters,verbs=get
// +kubebuilder:rbac:groups="",namespace=kueue-system,resources=secrets,verbs=get

// ZoneOf tells what is known of a GridZone; false where it has not been looked at yet.
type ZoneOf func(name string) (carbon.Outlook, timegrid.Timeline, bool)

// Reconciler looks at the clusters and states what it sees: Caspian's carbon tracker. A cluster
// that hangs keeps no other from being looked at.
type Reconciler struct {
	Client client.Client
	// Reader reads Secrets and MultiKueueClusters from the API server.
	Reader   client.Reader
	Clusters *Clusters
	Zone     ZoneOf
	Get      provider.Getter
	Clock    clock.Clock
	// Namespace is the controller's own, KueueNamespace that of Kueue.
	Namespace, KueueNamespace string
	// Hooks is the folder of the programs that may provision clusters; empty for none.
	Hooks string

	fetched chan event.GenericEvent

	mu    sync.Mutex
	known map[string]*known
	self  string // names this hub: the UID of its namespace kube-system
}

// known is what is remembered of a cluster.
type known struct {
	key      [sha256.Size]byte
	reach    *spoke.Cluster
	cluster  Cluster
	hour     hourOf
	restored bool
	run      *hookRun // the last one

	weatherAt time.Time // when it was last asked for
	weather   provider.Weather
}

const (
	// lookTimeout bounds a look at a cluster.
	lookTimeout = 15 * time.Second
	// lookedAtOnce is how many clusters are looked at at a time.
	lookedAtOnce = 16
	// weatherEvery is how often the weather is asked for, weatherTimeout how long that takes.
	weatherEvery, weatherTimeout = 30 * time.Minute, time.Minute
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.known = map[string]*known{}
	r.fetched = make(chan event.GenericEvent, 64)
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.ComputeCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Follow{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			f, ok := o.(*v1alpha1.Follow)
			if !ok || f.Status.Next == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: f.Status.Next}}} // which may have to be made
		})).
		WatchesRawSource(ctrlsource.Channel(r.fetched, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: lookedAtOnce}).
		Complete(r)
}

// Reconcile looks at a cluster and states what it is like.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cc v1alpha1.ComputeCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &cc); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cc.Spec.Provision != nil {
		// What the cache does not know yet must not be done twice.
		if err := r.Reader.Get(ctx, req.NamespacedName, &cc); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	k := r.knownOf(cc.Name)
	k.restore(&cc)
	model, err := kube.PowerModel(&cc.Spec.Power)
	if err != nil {
		err = fmt.Errorf("spec.power: %w", err)
	}
	var unreached error
	if err == nil {
		err, unreached = r.look(ctx, k, &cc)
	}
	now := r.Clock.Now()
	outlook, timeline, looked := r.Zone(cc.Spec.Zone)
	if err == nil && looked && outlook.Expected == nil {
		err = fmt.Errorf("spec.zone: GridZone %s has no data", cc.Spec.Zone)
	}
	grid := timeline.ToGrid(now)
	refresh, stale := kube.DurationOf(cc.Spec.Refresh, 15*time.Second), kube.DurationOf(cc.Spec.StaleAfter, time.Minute)
	if err == nil && cc.Spec.Access.MultiKueueCluster != "" {
		if lost := r.keep(ctx, k, &cc, unreached == nil, now); lost != nil {
			if apierrors.IsConflict(lost) {
				return ctrl.Result{RequeueAfter: again}, nil
			}
			return ctrl.Result{}, lost
		}
	}
	if unreached == nil && err == nil {
		if hour, mean, ended := k.hour.add(grid, k.cluster.Look.Load); ended {
			k.cluster.Usual = k.cluster.Usual.learn(hour, mean)
		}
	}
	r.askWeather(ctx, k, &cc, now)
	before := cc.DeepCopy()
	answers := err == nil && unreached == nil
	underWay, failed := r.provision(ctx, k, &cc, answers, now)
	if failed != nil {
		return ctrl.Result{}, failed
	}
	if underWay {
		refresh = min(refresh, provisionAgain)
	}
	c := &k.cluster
	c.reach = k.reach
	c.Name, c.Zone, c.MultiKueue, c.Power = cc.Name, cc.Spec.Zone, cc.Spec.Access.MultiKueueCluster, model
	c.Follow = cc.Spec.Follow
	c.Answers = err == nil && !c.Look.At.IsZero() && now.Sub(c.Look.At) <= stale && !leaves(&cc)
	c.Usable = c.Answers && len(cc.Status.RemovedFrom) == 0
	c.Provision = cc.Spec.Provision != nil
	c.Absent = c.Provision && cc.Status.Provision.State == v1alpha1.ProvisionAbsent && !answers
	r.mu.Lock()
	c.Weather = k.weather
	r.mu.Unlock()
	r.Clusters.set(*c)
	metrics.Reachable.WithLabelValues(cc.Name).Set(bit(answers))

	fillStatus(&cc, c, outlook, grid, err, unreached)
	if _, err := kube.PatchStatus(ctx, r.Client, &cc, before); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: refresh}, nil
}

// knownOf is what is known of a cluster, from now on if nothing was.
func (r *Reconciler) knownOf(name string) *known {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[name]
	if k == nil {
		k = &known{}
		r.known[name] = k
	}
	return k
}

// forget drops what is known of a cluster that is gone.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	delete(r.known, name)
	r.mu.Unlock()
	r.Clusters.remove(name)
	metrics.ForgetCluster(name)
}

// restore takes up what an earlier controller has learned.
func (k *known) restore(cc *v1alpha1.ComputeCluster) {
	if k.restored {
		return
	}
	k.restored = true
	for _, h := range cc.Status.Usual {
		if h.Hour >= 0 && h.Hour < 24 {
			k.cluster.Usual[h.Hour] = h.Load
		}
	}
}

// look looks at the cluster. err says why the specification cannot be carried out, unreached
// why the cluster does not answer.
func (r *Reconciler) look(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster) (err, unreached error) {
	text, err := r.kubeconfig(ctx, cc)
	if err != nil {
		return err, nil
	}
	if key := sha256.Sum256(text); k.reach == nil || key != k.key {
		reach, err := spoke.Connect(text)
		if err != nil {
			return fmt.Errorf("spec.access: %w", err), nil
		}
		k.reach, k.key = reach, key
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	begin := time.Now()
	l, err := k.reach.Look(ctx, cc.Spec.Queue, r.Clock.Now())
	metrics.LookSeconds.Observe(time.Since(begin).Seconds())
	if err != nil {
		return nil, err
	}
	if cc.Spec.Access.MultiKueueCluster != "" {
		hub, err := r.hub(ctx)
		if err != nil {
			return err, nil
		}
		if err := k.reach.Claim(ctx, r.KueueNamespace, hub, r.Clock.Now()); err != nil {
			if errors.Is(err, spoke.ErrClaimed) {
				return err, nil
			}
			return nil, err
		}
	}
	k.cluster.Look = l
	return nil, nil
}

// errAccess marks an access that cannot be used.
var errAccess = errors.New("spec.access")

// kubeconfig reads that of a cluster. Errors never show its content.
func (r *Reconciler) kubeconfig(ctx context.Context, cc *v1alpha1.ComputeCluster) ([]byte, error) {
	namespace, name, key := r.Namespace, "", "kubeconfig"
	if s := cc.Spec.Access.Secret; s != nil {
		name, key = s.Name, s.Key
	} else {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kueue.GroupVersion.WithKind("MultiKueueCluster"))
		if err := r.Reader.Get(ctx, client.ObjectKey{Name: cc.Spec.Access.MultiKueueCluster}, u); err != nil {
			return nil, fmt.Errorf("%w.multiKueueCluster: %w", errAccess, err)
		}
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "clusterSource", "kubeConfig", "locationType")
		location, _, _ := unstructured.NestedString(u.Object, "spec", "clusterSource", "kubeConfig", "location")
		if kind != "Secret" || location == "" {
			return nil, fmt.Errorf("%w.multiKueueCluster: %s: its kubeConfig is not in a Secret (locationType %q); accepted: one in a Secret, or access.secret", errAccess, u.GetName(), kind)
		}
		namespace, name = r.KueueNamespace, location
	}
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("%w: Secret %s/%s: %w", errAccess, namespace, name, err)
	}
	text, ok := secret.Data[key]
	if !ok {
		return nil, fmt.Errorf("%w: Secret %s/%s has no key %q", errAccess, namespace, name, key)
	}
	return text, nil
}

// askWeather asks for the weather beside the reconciler, where that is due.
func (r *Reconciler) askWeather(ctx context.Context, k *known, cc *v1alpha1.ComputeCluster, now time.Time) {
	w := cc.Spec.Weather
	if w == nil || r.Get == nil || (!k.weatherAt.IsZero() && now.Sub(k.weatherAt) < weatherEvery) {
		return
	}
	k.weatherAt = now
	from := kube.Weather(w)
	name := cc.Name
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), weatherTimeout)
		defer cancel()
		got, err := from.Fetch(ctx, r.Get, 1, 4, weatherEvery)
		if err != nil {
			log.FromContext(ctx).Info("Weather of a cluster", "cluster", name, "error", err.Error())
			return
		}
		r.mu.Lock()
		k.weather = got
		r.mu.Unlock()
		r.fetched <- event.GenericEvent{Object: &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}()
}

// fillStatus states what is known of a cluster at a time of its zone.
func fillStatus(cc *v1alpha1.ComputeCluster, c *Cluster, outlook carbon.Outlook, grid time.Time, err, unreached error) {
	s := &cc.Status
	s.ObservedGeneration = cc.Generation
	s.Intensity, s.Forecast, s.Temperature = nil, nil, nil
	if outlook.Expected != nil {
		if sample, ok := outlook.Expected.At(grid); ok {
			v := round(float64(sample.Value))
			s.Intensity = &v
		}
		s.Forecast = kube.Hours(outlook, grid)
	}
	if t := at(c.Weather.Start, c.Weather.Temperature, grid); !math.IsNaN(t) {
		t = math.Round(t*10) / 10
		s.Temperature = &t
	}
	l := &c.Look
	if !l.At.IsZero() {
		s.Capacity, s.Load, s.Nodes, s.Version = rounded(l.Capacity), rounded(l.Load), int32(l.Nodes), l.Version
		// To the minute: a status that changes with every look would be written with every look.
		looked := metav1.NewTime(l.At.UTC().Truncate(time.Minute))
		s.LookedAt = &looked
	}
	s.Usual = nil
	for hour, load := range c.Usual {
		if load != nil {
			s.Usual = append(s.Usual, v1alpha1.HourlyLoad{Hour: int32(hour), Load: rounded(load)})
		}
	}
	set := func(kind string, is bool, whenTrue, whenFalse, message string) {
		cond := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: whenFalse, Message: message, ObservedGeneration: cc.Generation}
		if is {
			cond.Status, cond.Reason = metav1.ConditionTrue, whenTrue
		}
		meta.SetStatusCondition(&s.Conditions, cond)
	}
	set(v1alpha1.ConditionReady, err == nil, "Configured", "NotConfigured", text(err))
	switch {
	case err != nil:
		set(v1alpha1.ConditionReachable, false, "", "NotConfigured", text(err))
	default:
		set(v1alpha1.ConditionReachable, unreached == nil, "Answers", why(unreached), text(unreached))
	}
	message := "it has never answered"
	if !l.At.IsZero() {
		message = "last answer: " + l.At.UTC().Truncate(time.Minute).Format(time.RFC3339)
	}
	set(v1alpha1.ConditionStale, !c.Usable, "TooOld", "Current", message)
}

// why puts the failure of a look into one word.
func why(err error) string {
	switch {
	case apierrors.IsUnauthorized(err):
		return "Unauthorized"
	case apierrors.IsForbidden(err):
		return "Forbidden"
	case apierrors.IsNotFound(err):
		return "NotFound"
	}
	return "NoAnswer"
}

func text(err error) string {
	const most = 1000
	if err == nil {
		return ""
	}
	if s := err.Error(); len(s) > most {
		return s[:most] + "..."
	}
	return err.Error()
}

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// round keeps three decimals.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

func rounded(in map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(in))
	for k, v := range in {
		out[k] = round(v)
	}
	return out
}
