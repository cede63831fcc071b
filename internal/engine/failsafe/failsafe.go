// Package failsafe releases what Lull holds when its time has come, whether or not there is a
// controller. It knows neither planners nor providers: only what stands in the API.
package failsafe

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/fleet/dispatch"
)

// Access rights, generated into charts/lull/files/rbac/failsafe.yaml; those to workloads come with
// their kinds.
//
// +kubebuilder:rbac:groups=lull.dev,resources=carbonpolicies;gridzones;workloadkinds,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=hold.lull.dev,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,resourceNames=failsafe.lull.dev,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lull-system,resources=leases,resourceNames=controller.lull.dev,verbs=get
// +kubebuilder:rbac:groups="",namespace=lull-system,resources=events,verbs=create;patch

// Options configure the watchdog.
type Options struct {
	Metrics        manager.Metrics
	HealthAddress  string // "0" serves none
	LeaderElection bool
	// Namespace of the lease.
	Namespace string
	// Namespaces are those in which it releases holds; none for all.
	Namespaces manager.Namespaces
	// Grace is how long after the latest safe start the watchdog leaves a hold to a controller that renews its lease.
	Grace time.Duration
	// MaxDelay is the longest delay (grid time) that policies and workloads may ask for; 0 for any.
	MaxDelay time.Duration
	// Every is how often holds are looked at.
	Every time.Duration
	Clock clock.Clock
}

// leaderElectionID names the lease, which is not the controller's.
const leaderElectionID = "failsafe.lull.dev"

// Watchdog releases holds in time.
type Watchdog struct {
	// Client reads and writes at the API server. Cache knows all objects, as far as holding and releasing them
	// depends on; Forget drops what it knows of a kind.
	Client  client.Client
	Cache   client.Reader
	Forget  func(ctx context.Context, obj client.Object) error
	Applier *kube.Applier
	Options Options
	// Lease tells whether the controller lives; nil: that is not known, and all holds have their grace.
	Lease *ControllerLease
	// Rounds learns of each look that ends; it may be nil.
	Rounds *manager.Rounds

	// known are the kinds by what their objects are called in the cache.
	known sync.Map // schema.GroupVersionKind -> *kinds.Kind
	// services are what the API server said of kinds, queues and crons what it said of Kueue and of CronJobs.
	services      map[schema.GroupVersionKind]lookup
	queues, crons lookup
	// held are the workloads of a kind that were held when it could last be listed, parked what was then held in queues.
	held   map[schema.GroupVersionKind]int
	parked int
	// lifted is since when a policy holds nothing: it is gone, paused or in Shadow mode.
	lifted map[client.ObjectKey]time.Time
	// refused is the last problem of a WorkloadKind that was logged.
	refused string
	// dispatched is when the queues of a hub were last read.
	dispatched time.Time

	// rate is how fast releases are.
	rate rate

	mu       sync.Mutex
	unlisted map[string]string // kinds that cannot be listed, and why
}

// lookup is an answer of the API server, and when it was given.
type lookup struct {
	service kube.Service
	at      time.Time
}

// Run runs the watchdog until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o Options) error {
	dog := &Watchdog{Options: o}
	mgr, err := manager.New(ctx, config, ctrl.Options{
		Scheme: scheme, Metrics: o.Metrics.Options(), HealthProbeBindAddress: o.HealthAddress,
		LeaderElection: o.LeaderElection, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         o.Namespaces.Bind(cache.Options{DefaultTransform: dog.Transform}),
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	// Releases are bounded by atOnce, and by the API server: thousands that are due together must not queue in
	// the client.
	unbounded := rest.CopyConfig(config)
	unbounded.QPS = -1
	live, err := client.New(unbounded, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	live = o.Namespaces.Client(live, nil)
	dog.Client, dog.Cache, dog.Forget = live, mgr.GetCache(), mgr.GetCache().RemoveInformer
	dog.Lease = &ControllerLease{Reader: live, Namespace: o.Namespace}
	dog.Rounds = &manager.Rounds{Clock: o.Clock, Elected: mgr.Elected(), Pause: o.Every}
	dog.Applier = &kube.Applier{Client: live, Recorder: mgr.GetEventRecorder("lull-failsafe")}
	if err := errors.Join(manager.ReportLeader(mgr, "failsafe"), mgr.Add(dog), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("kinds", dog.Check), mgr.AddReadyzCheck("rounds", dog.Rounds.Check)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// Transform keeps of an object in the cache what the watchdog reads.
func (d *Watchdog) Transform(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		if m, is := o.(client.Object); is {
			kinds.TrimMetadata(m)
		}
		return o, nil
	}
	k, _ := d.known.Load(u.GroupVersionKind())
	switch kind, _ := k.(*kinds.Kind); {
	case kind != nil:
		u.Object = kind.Holds(u.Object)
	case u.GroupVersionKind() == kube.CronJobGVK:
		kube.PruneCronJob(u.Object)
	case u.GroupVersionKind() == kueue.GroupVersion.WithKind("Workload"):
		kueue.Prune(u.Object)
		kind.TrimAnnotations(u.Object)
	}
	return u, nil
}

// Start implements manager.Runnable.
func (d *Watchdog) Start(ctx context.Context) error {
	metrics.FailsafeRound.Set(float64(d.Options.Clock.Now().Unix()))
	for {
		if err := d.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Failed to release holds")
		}
		metrics.FailsafeRound.Set(float64(d.Options.Clock.Now().Unix()))
		d.Rounds.Done()
		select {
		case <-ctx.Done():
			return nil
		case <-d.Options.Clock.After(d.Options.Every):
		}
	}
}

// Look releases every hold whose time has come, and takes Lull's marks off what somebody has opened by hand.
// A kind that cannot be listed, or an object that cannot be released, does not keep the others from it.
func (d *Watchdog) Look(ctx context.Context) error {
	var errs []error
	all, err := kube.HeldKinds(ctx, d.Cache)
	if all == nil {
		errs = append(errs, err)
	} else if text := fmt.Sprint(err); err != nil && text != d.refused {
		d.refused = text
		log.FromContext(ctx).Error(err, "Refused a WorkloadKind")
	}
	policies, err := d.readPolicies(ctx)
	errs = append(errs, err)
	err = d.patiently(ctx, func(ctx context.Context) (err error) {
		policies.dead, err = d.Lease.dead(ctx, policies.now)
		return err
	})
	errs = append(errs, err)
	marks := &kube.Marks{Reader: d.Cache}
	queues, err := d.queuesServed(ctx)
	if err == nil && queues {
		if err = d.patiently(ctx, func(ctx context.Context) error { return marks.ReadQueues(ctx, "") }); err == nil {
			d.parked = marks.Queued()
		}
	}
	complete := all != nil && err == nil // without all governed objects nobody can say what is an orphan
	errs = append(errs, err)
	var running sync.WaitGroup // a kind whose writes are slow does not keep the others from it
	released := make([]outcome, len(all))
	orphans := 0
	for i, k := range all {
		marked, problem, err := d.list(ctx, marks, k)
		if err == nil || problem != nil { // an API server that does not answer says nothing of the kind
			d.report(ctx, k.GroupKind().String(), kube.AdmissionPolicy(k), problem)
		}
		complete = complete && err == nil && problem == nil
		due, waiting, unknown := d.due(policies, kube.WithCronJobs(marked, func() kube.CronJobs { return d.cronJobs(ctx) }))
		errs, orphans = append(errs, err, unknown), orphans+waiting
		running.Go(func() { released[i] = d.release(ctx, due) })
	}
	running.Wait()
	overdue := 0
	for _, o := range released {
		overdue, orphans = overdue+o.overdue, orphans+o.orphans
		errs = append(errs, o.err)
	}
	stay, err := d.unparkOrphans(ctx, marks.Orphans(), complete)
	errs = append(errs, err)
	if complete && policies.known {
		metrics.OrphanMarks.Set(float64(stay + orphans))
	}
	d.lifted = policies.lifted
	metrics.OverdueHolds.Set(float64(overdue))
	if queues {
		errs = append(errs, d.dispatch(ctx))
	}
	return errors.Join(errs...)
}

// atOnce is how many workloads are released at a time: ten thousand holds that expire together take some
// three hundred rounds.
const atOnce = 32

// task is a workload to be written: released, as it is due, or freed of marks that hold nothing.
type task struct {
	workload *kube.Workload
	due      bool
	why      string
	orphan   bool // no policy governs it
}

// outcome is what became of some tasks; overdue counts the workloads that could not be released, orphans those that keep a mark and that no
// policy governs.
type outcome struct {
	err              error
	overdue, orphans int
}

// due returns those of some workloads that are to be written. waiting counts the others that no policy governs: they have their grace.
func (d *Watchdog) due(policies *policies, marked []*kube.Workload) (out []task, waiting int, err error) {
	var errs []error
	holds := make([]hold, 0, len(marked))
	var ends []time.Time
	for _, w := range marked {
		h, err := policies.hold(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s/%s: %w", w.Kind.Name, w.Namespace(), w.Name(), err))
			continue
		}
		holds = append(holds, h)
		if policies.dead && !h.lifted {
			ends = append(ends, h.ends)
		}
	}
	until := cutoff(ends, policies.now, d.Options.Every, d.rate.counted(d.Options.Clock.Now()))
	for i := range holds {
		h := &holds[i]
		due := !policies.now.Before(h.ends.Add(d.Options.Grace))
		if policies.dead && !h.lifted && !h.ends.After(until) {
			if due = true; h.ends.After(policies.now) {
				h.why = fmt.Sprintf("the controller is dead, and latest safe start %s is near", h.ends.UTC().Format(time.RFC3339))
			}
		}
		if due || h.workload.Stale() {
			out = append(out, task{h.workload, due, h.why, h.orphan})
		} else if h.orphan {
			waiting++
		}
	}
	return out, waiting, few(errs)
}

// release carries out tasks, so many at a time.
func (d *Watchdog) release(ctx context.Context, tasks []task) outcome {
	var group errgroup.Group
	group.SetLimit(atOnce)
	errs := make([]error, len(tasks))
	began := d.Options.Clock.Now()
	var made, tooSlow atomic.Int64
	for i := range tasks {
		group.Go(func() error {
			errs[i] = d.patiently(ctx, func(ctx context.Context) error { return d.releaseOne(ctx, tasks[i], &made) })
			if tookTooLong(errs[i]) {
				tooSlow.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	d.rate.measure(int(made.Load()), int(tooSlow.Load()), d.Options.Clock.Since(began), d.Options.Clock.Now())
	out := outcome{}
	var told []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		if told = append(told, err); tasks[i].due {
			out.overdue++
		}
		if tasks[i].orphan {
			out.orphans++
		}
	}
	out.err = few(told)
	return out
}

// releaseOne releases a workload that is due, or clears its marks if they hold nothing. What the cache knows to
// be held is written at once: the API server refuses what has changed since. A mark is taken off only after a
// look at the objects themselves. made counts the releases that were written.
func (d *Watchdog) releaseOne(ctx context.Context, t task, made *atomic.Int64) error {
	if w := t.workload; !t.due || !w.Held() {
		for _, o := range w.Objects {
			live, err := kube.Fetch(ctx, d.Client, w.Kind, client.ObjectKeyFromObject(o))
			if err == nil && t.due {
				err = d.write(ctx, live, t.why, made)
			} else if err == nil && live.Stale() {
				err = d.Applier.Clear(ctx, live)
			}
			if ignoreRace(err) != nil {
				return err
			}
		}
		return nil
	}
	return ignoreRace(d.write(ctx, t.workload, t.why, made))
}

func (d *Watchdog) write(ctx context.Context, w *kube.Workload, why string, made *atomic.Int64) error {
	wrote, err := d.Applier.ReleaseHeld(ctx, w, kube.CodeFailsafe, why, d.Options.Clock.Now())
	if wrote && err == nil {
		made.Add(1)
	}
	if wrote {
		d.tell(ctx, w.Kind.Name, w.Namespace(), w.Name(), why)
	}
	return err
}

func (d *Watchdog) tell(ctx context.Context, kind, namespace, name, why string) {
	metrics.Actions.WithLabelValues("Release", string(kube.CodeFailsafe)).Inc()
	log.FromContext(ctx).Info("Release", "kind", kind, "namespace", namespace, "name", name, "why", why)
}

// ignoreRace drops the errors of a write when somebody else was faster: the next look sees what is left.
func ignoreRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

const (
	// dispatchEvery is how often the queues of a hub are read.
	dispatchEvery = 30 * time.Second
	// sendAfter is how long a Workload that holds quota on a hub is left to the controller.
	sendAfter = time.Minute
)

// dispatch sends to any cluster that is allowed what has been released on a hub, and what the
// controller has not sent anywhere in time.
func (d *Watchdog) dispatch(ctx context.Context) error {
	now := d.Options.Clock.Now()
	if now.Sub(d.dispatched) < dispatchEvery {
		return nil
	}
	d.dispatched = now
	sender := dispatch.Dispatcher{Reader: d.Client, Live: d.Client, Client: d.Client}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	if err := d.patiently(ctx, func(ctx context.Context) error { return d.Cache.List(ctx, list, client.UnsafeDisableDeepCopy) }); err != nil {
		return fmt.Errorf("list the Workloads of Kueue: %w", err)
	}
	var errs []error
	for i := range list.Items {
		w, err := kueue.Read(&list.Items[i])
		if err == nil && dispatch.Awaits(&w) && now.Sub(w.ReservedAt) > sendAfter && len(w.Nominated) == 0 {
			var to []string
			if to, err = sender.Nominate(ctx, &w, true); len(to) > 0 {
				log.FromContext(ctx).Info("Nominated, because no controller has done it", "namespace", w.Namespace, "workload", w.Name, "clusters", to)
			}
		}
		errs = append(errs, ignoreRace(err))
	}
	return errors.Join(errs...)
}

// patience is how long a kind may take to be listed, and a workload to be written: the holds of the others must
// not wait for one that does not let itself be.
const patience = 10 * time.Second

func (d *Watchdog) patiently(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx)
}

// askAgain is how long an answer of the API server counts.
const askAgain = 30 * time.Second

func (d *Watchdog) queuesServed(ctx context.Context) (bool, error) {
	if now := d.Options.Clock.Now(); d.queues.at.IsZero() || now.Sub(d.queues.at) >= askAgain {
		served, err := kube.QueuesServed(ctx, d.Client)
		if err != nil {
			return false, fmt.Errorf("look for Kueue: %w", err)
		}
		d.queues = lookup{served, now}
		var problem error
		if served == kube.Forbidden && d.parked > 0 {
			problem = fmt.Errorf("%d Workloads of Kueue were held when the watchdog could last list them, and it no longer may: grant the right with kueue.enabled of the chart, or run \"lull release --queues\"", d.parked)
		}
		d.report(ctx, "Workload.kueue.x-k8s.io", fleetRole(), problem)
	}
	return d.queues.service == kube.Served, nil
}

// list returns the workloads of a kind that carry any mark. problem says why a kind that is held at admission
// cannot be listed; a kind that nothing holds need not be.
func (d *Watchdog) list(ctx context.Context, marks *kube.Marks, k *kinds.Kind) (marked []*kube.Workload, problem, err error) {
	gvk := k.GVK()
	if before, _ := d.known.Swap(gvk, k); before != nil && !reflect.DeepEqual(before.(*kinds.Kind).Spec, k.Spec) {
		obj := &unstructured.Unstructured{} // what is kept of its objects depends on the kind
		obj.SetGroupVersionKind(gvk)
		if err := d.Forget(ctx, obj); err != nil {
			return nil, nil, err
		}
	}
	is := d.services[gvk]
	if now := d.Options.Clock.Now(); is.at.IsZero() || now.Sub(is.at) >= askAgain {
		service, err := kube.ServiceOf(ctx, d.Client, k)
		if err != nil {
			return nil, nil, err
		}
		if service == kube.Forbidden {
			if service, err = kube.HeldAtAdmission(ctx, d.Client, k); err != nil {
				return nil, nil, err
			}
			if service == kube.NotServed && d.held[gvk] > 0 { // nobody holds more, but nobody releases these
				service = kube.Forbidden
			}
		}
		if d.services == nil {
			d.services = map[schema.GroupVersionKind]lookup{}
		}
		is = lookup{service, now}
		d.services[gvk] = is
	}
	switch is.service {
	case kube.NotServed:
		return nil, nil, nil
	case kube.Forbidden:
		if n := d.held[gvk]; n > 0 {
			return nil, fmt.Errorf("%d workloads of kind %s were held when the watchdog could last list them, and it no longer may: grant the right with \"lull manifests --kinds\" (and --namespaces, if Lull is installed for some namespaces only), or run \"lull release --kinds %s\"", n, k.Name, k.Name), nil
		}
		return nil, fmt.Errorf("%s is held at admission by %s, and the watchdog may not list it: grant the right with \"lull manifests --kinds\" (and --namespaces, if Lull is installed for some namespaces only)", k.Name, k.AdmissionName()), nil
	}
	err = d.patiently(ctx, func(ctx context.Context) error {
		marked, err = marks.Of(ctx, k, "")
		return err
	})
	if err == nil {
		if d.held == nil {
			d.held = map[schema.GroupVersionKind]int{}
		}
		d.held[gvk] = 0
		for _, w := range marked {
			if w.Held() {
				d.held[gvk]++
			}
		}
	}
	return marked, err, err
}
