package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cli"
	"lull.dev/lull/internal/controller"
	"lull.dev/lull/internal/failsafe"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/internal/kueue"
)

// Resources are what the modelled API server serves. With operators it serves all kinds that Lull governs, and those
// of Kueue; there are no objects of these kinds.
func Resources(operators bool) []*Resource {
	out := []*Resource{
		{"", "v1", "namespaces", "Namespace", false}, {"", "v1", "nodes", "Node", false}, {"", "v1", "pods", "Pod", true},
		{"", "v1", "configmaps", "ConfigMap", true}, {"", "v1", "secrets", "Secret", true},
		{"batch", "v1", "jobs", "Job", true},
		{"coordination.k8s.io", "v1", "leases", "Lease", true},
		{"events.k8s.io", "v1", "events", "Event", true}, {"", "v1", "events", "Event", true},
		{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", false},
	}
	for kind, name := range map[string]string{
		"CarbonPolicy": "carbonpolicies", "CarbonPlan": "carbonplans", "ScalingProfile": "scalingprofiles",
		"CapacityCurve": "capacitycurves", "Follow": "follows",
	} {
		out = append(out, &Resource{v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, name, kind, kind != "ComputeCluster"})
	}
	for kind, name := range map[string]string{"GridZone": "gridzones", "WorkloadKind": "workloadkinds", "ComputeCluster": "computeclusters"} {
		out = append(out, &Resource{v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, name, kind, false})
	}
	if operators {
		for _, k := range kinds.Builtin() {
			out = append(out, &Resource{k.Spec.Group, k.Spec.Version, k.Spec.Resource, k.Spec.Kind, true})
		}
		for kind, name := range map[string]string{"Workload": "workloads", "LocalQueue": "localqueues"} {
			out = append(out, &Resource{kueue.GroupVersion.Group, kueue.GroupVersion.Version, name, kind, true})
		}
		for kind, name := range map[string]string{"ClusterQueue": "clusterqueues", "Cohort": "cohorts", "MultiKueueCluster": "multikueueclusters", "AdmissionCheck": "admissionchecks", "MultiKueueConfig": "multikueueconfigs"} {
			out = append(out, &Resource{kueue.GroupVersion.Group, kueue.GroupVersion.Version, name, kind, false})
		}
	}
	slices.SortStableFunc(out, func(a, b *Resource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(out, func(a, b *Resource) bool { return a.Group == b.Group && a.Name == b.Name })
}

// Grace and Every are the watchdog's own defaults.
const (
	Grace = 30 * time.Second
	Every = 5 * time.Second
)

// World is a cluster with Lull installed.
type World struct {
	Seed   uint64
	Store  *Store
	Faults Faults
	// Leaders says that the programs elect leaders, which costs two calls every two seconds.
	Leaders bool

	ctx   context.Context //nolint:containedctx // the life of the world
	group sync.WaitGroup

	// start is when the world began. outages are when nobody reaches the API server, away is when the controller is stopped.
	start   time.Time
	outages []span
	away    span
	nobody  bool
	jobs    []*planned
	// calm says that writes go wrong no more.
	calm atomic.Bool

	// replaces says that objects that the administrator replaces come back before anybody may take them for deleted.
	replaces bool

	mu                                    sync.Mutex
	broken                                []string
	held, paused, killed, edits, replaced int
}

// NewWorld returns a cluster of which nothing runs yet. It must be made in a bubble of testing/synctest.
func NewWorld(ctx context.Context, seed uint64, faults Faults) *World {
	w := &World{Seed: seed, Store: NewStore(Resources(seed%8 != 0)), Faults: faults, start: time.Now(), ctx: ctx}
	w.Store.Admit = w.admit
	w.Store.Check = w.check
	return w
}

// Go runs f until the world ends.
func (w *World) Go(f func()) { w.group.Go(f) }

// Wait waits until all that runs has ended.
func (w *World) Wait() { w.group.Wait() }

// Broken returns what was violated.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

func (w *World) breaks(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, time.Now().UTC().Format("2006-01-02T15:04:05 ")+fmt.Sprintf(format, args...))
}

// Keep runs a program of Lull until the world ends, and starts it again some seconds after it was killed.
func (w *World) Keep(name string, run func(ctx context.Context, p *Process) error) {
	w.Go(func() {
		for i := 1; w.ctx.Err() == nil; i++ {
			if name == "controller" && w.away.has(time.Since(w.start)) {
				_ = sleep(w.ctx, w.away.to-time.Since(w.start))
			}
			ctx, cancel := context.WithCancel(w.ctx)
			p := &Process{Name: fmt.Sprintf("%s-%d", name, i), Store: w.Store, Faults: w.Faults, Seed: w.Seed, Killed: cancel, Down: w.down, Calm: w.calm.Load}
			if name == "controller" && w.away.from > time.Since(w.start) {
				stop := time.AfterFunc(w.away.from-time.Since(w.start), p.Kill)
				defer stop.Stop()
			}
			// A program that ends by itself, as one that lost its lease, is started again as by a kubelet.
			if err := run(ctx, p); err != nil && ctx.Err() == nil && w.Faults == (Faults{Lag: w.Faults.Lag, Latency: w.Faults.Latency}) && len(w.outages) == 0 {
				w.breaks("%s ended without a fault: %v", p.Name, err)
			}
			cancel()
			w.mu.Lock()
			if p.Dead() {
				w.killed++
			}
			w.mu.Unlock()
			_ = sleep(w.ctx, 10*time.Second)
		}
	})
}

// down reports whether the API server cannot be reached.
func (w *World) down() bool {
	return slices.ContainsFunc(w.outages, func(s span) bool { return s.has(time.Since(w.start)) })
}

// Controller runs the controller.
func (w *World) Controller() {
	w.Keep("controller", func(ctx context.Context, p *Process) error {
		return controller.Run(ctx, p.Config(), controller.Options{
			MetricsAddress: "0", HealthAddress: "0", Namespace: "lull-system", Planner: cli.NewPlanner, Clock: clock.RealClock{}, LeaderElection: w.Leaders,
		})
	})
}

// Watchdog runs the watchdog.
func (w *World) Watchdog() {
	w.Keep("failsafe", func(ctx context.Context, p *Process) error {
		scheme, err := controller.NewScheme()
		if err != nil {
			return err
		}
		return failsafe.Run(ctx, p.Config(), scheme, failsafe.Options{
			MetricsAddress: "0", HealthAddress: "0", Namespace: "lull-system", Grace: Grace, Every: Every, Clock: clock.RealClock{}, LeaderElection: w.Leaders,
		})
	})
}

// admit holds Jobs as the admission policy of kind Job does (charts/lull/files/kinds/Job.yaml). The caller
// holds the lock of the store.
func (w *World) admit(r *Resource, obj *unstructured.Unstructured) {
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
	if r.Kind != "Job" || suspended {
		return
	}
	for key, p := range w.Store.objects[w.Store.Resource("CarbonPolicy")] {
		want, _, _ := unstructured.NestedStringMap(p.Object, "spec", "selector", "matchLabels")
		matches := key.Namespace == obj.GetNamespace()
		for k, v := range want {
			matches = matches && obj.GetLabels()[k] == v
		}
		if !matches {
			continue
		}
		a := obj.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[v1alpha1.AnnotationPolicy], a[v1alpha1.AnnotationHold] = key.Name, v1alpha1.HoldAdmission
		obj.SetAnnotations(a)
		must(unstructured.SetNestedField(obj.Object, true, "spec", "suspend"))
	}
}

// check reports writes of Lull to objects of others that change more than Lull may: whether they are suspended,
// their scale, and annotations of Lull.
func (w *World) check(e *Event) {
	if e.Before == nil || e.Resource.Kind != "Job" || e.By == "user" {
		return
	}
	own := func(u *unstructured.Unstructured) map[string]any {
		x := u.DeepCopy()
		for _, f := range []string{"suspend", "parallelism", "completions"} {
			unstructured.RemoveNestedField(x.Object, "spec", f)
		}
		a := x.GetAnnotations()
		for k := range a {
			if len(k) > 9 && k[:9] == "lull.dev/" {
				delete(a, k)
			}
		}
		x.SetAnnotations(a)
		for _, f := range []string{"resourceVersion", "generation", "managedFields"} {
			unstructured.RemoveNestedField(x.Object, "metadata", f)
		}
		return x.Object
	}
	if !equalJSON(own(e.Before), own(e.Object)) {
		w.breaks("%s changed a field of %s that is not Lull's", e.By, e.Object.GetName())
	}
}

// Submit creates a Job as a user does.
func (w *World) Submit(job *batchv1.Job) *batchv1.Job {
	u, err := w.Store.Create("user", w.Store.Resource("Job"), object(job))
	must(err)
	out := &batchv1.Job{}
	typed(u, out)
	return out
}

// Create creates any other object as a user does.
func (w *World) Create(kind string, o interface {
	metav1.Object
	runtime.Object
}) {
	mustStore(w.Store.Create("user", w.Store.Resource(kind), object(o)))
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// must panics on an error: a fault of the test.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func mustStore(_ *unstructured.Unstructured, err error) { must(err) }

// finished reports whether a Job is done, and when.
func finished(job *batchv1.Job) (time.Time, bool) {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return job.Status.CompletionTime.Time, true
		}
	}
	return time.Time{}, false
}
