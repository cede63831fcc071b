package controller

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/autoscale"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
)

// The sizes of BenchmarkScale. Each policy has a namespace of its own. A running Job has one pod, the other pods are in
// namespaces without policies.
const (
	scalePolicies, scaleHeld, scaleRunning  = 300, 50_000, 9_000
	scalePods, scaleNodes, scaleOtherSpaces = 50_000, 2_000, 50
)

var scaleNow = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// BenchmarkScale measures a round of decisions of all policies, one after the other, as they share the cluster. Each observes what
// is in the cache, decides, and works out what to write; nothing is written. Between two of them a pod ends and a node comes or
// leaves. The first round plans all Jobs, as after a start. In the others all plans stand.
//
//	go test -run - -bench Scale -benchtime 1x ./internal/engine/controller
func BenchmarkScale(b *testing.B) {
	server := &scaleServer{ctx: b.Context(), pods: make(chan any), nodes: make(chan any)}
	clk := clocktesting.NewFakeClock(scaleNow)
	r := scaleReconciler(b, server, clk)
	round := func() (whole time.Duration, each []time.Duration) {
		for i := range scalePolicies {
			server.churn()
			began := time.Now()
			key, policy := types.NamespacedName{Namespace: scaleSpace(i), Name: "clean"}, &v1alpha1.CarbonPolicy{}
			scaleMust(b, r.Client.Get(b.Context(), key, policy))
			workloads, err := r.Kinds.Workloads(b.Context(), key)
			scaleMust(b, err)
			_, err = r.reconcile(b.Context(), policy, workloads)
			scaleMust(b, err)
			each = append(each, time.Since(began))
			whole += each[i]
			if s := &policy.Status; int(s.Waiting) < scaleHeld/scalePolicies || int(s.Running) < scaleRunning/scalePolicies {
				b.Fatalf("%d workloads, status %+v", len(workloads), s)
			}
			clk.Step(10 * time.Millisecond)
		}
		return whole, each
	}
	p99 := func(each []time.Duration) float64 {
		slices.Sort(each)
		return each[len(each)*99/100].Seconds()
	}
	first, firstEach := round()
	var whole time.Duration
	var each []time.Duration
	for b.Loop() {
		clk.Step(resyncPeriod)
		took, decisions := round()
		whole, each = whole+took, append(each, decisions...)
	}
	b.ReportMetric(first.Seconds(), "s/first-round")
	b.ReportMetric(p99(firstEach), "s/first-p99")
	b.ReportMetric(whole.Seconds()/float64(b.N), "s/round")
	b.ReportMetric(p99(each), "s/p99")
	r.writer = newWriter() // the writes that wait go
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "MiB-heap")
	runtime.KeepAlive(r)
}

func scaleMust(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func scaleSpace(i int) string { return fmt.Sprintf("team-%03d", i%scalePolicies) }

// scaleReconciler is a reconciler with a filled cache. It writes nothing.
func scaleReconciler(b *testing.B, server *scaleServer, clk *clocktesting.FakeClock) *CarbonPolicyReconciler {
	ctx := b.Context()
	scheme, err := NewScheme()
	scaleMust(b, err)
	set := NewKindSet()
	options := cacheOptions(set.Transform)
	options.Scheme, options.Mapper = scheme, testrestmapper.TestOnlyStaticRESTMapper(scheme)
	cached, err := cache.New(&rest.Config{Host: "http://server.invalid", Transport: server}, options)
	scaleMust(b, err)
	go func() { _ = cached.Start(ctx) }() // it ends with the benchmark
	set.cache, set.looked = cached, true
	set.watch = func(context.Context, client.Object) error { return nil }
	job, err := kinds.Named([]string{"Job"})
	scaleMust(b, err)
	scaleMust(b, set.begin(ctx, job[0].GVK()))
	set.crons.informer, err = cached.GetInformer(ctx, empty(kube.CronJobGVK))
	scaleMust(b, err)
	writer := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			return cached.Get(ctx, key, obj, o...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			return cached.List(ctx, list, o...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return nil },
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return nil
		},
	})
	zones := NewZones()
	var samples []carbon.Sample
	for h := range 24 * 6 {
		at := scaleNow.Add(time.Duration(h-24) * time.Hour)
		samples = append(samples, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(300 + 150*math.Cos(2*math.Pi*float64(h)/24) + float64(h%7))})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "BENCH"}, samples)
	scaleMust(b, err)
	zones.Set("bench", Zone{Outlook: carbon.Outlook{Expected: series}})
	applier := &kube.Applier{Client: writer, Recorder: silent{}}
	r := &CarbonPolicyReconciler{
		Client: writer, Zones: zones, Kinds: set, Queues: NewQueues(), Applier: applier, Statements: applier, Curves: curve.NewStore(),
		Autoscaling: autoscale.NewStore(writer, clk), Clock: clk, Limits: Limits{DecisionTime: 10 * time.Second},
		Planner: func(string, map[string]string, []string) (plan.Planner, error) {
			p, err := joint.New(1, 0, 0)
			p.Learned = true
			return plan.Guarded{Planner: p, Probability: plan.SafeProbability}, err
		},
	}
	r.initialize()
	scaleMust(b, cached.IndexField(ctx, &corev1.Pod{}, policyIndex, policyNameOf))
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &v1alpha1.CarbonPolicy{}, &v1alpha1.CarbonPlan{}, &v1alpha1.ScalingProfile{}} {
		_, err := cached.GetInformer(ctx, obj)
		scaleMust(b, err)
	}
	filled, err := watchLoads(ctx, cached, r.loads)
	scaleMust(b, err)
	for !cached.WaitForCacheSync(ctx) || !filled() {
		time.Sleep(10 * time.Millisecond)
	}
	return r
}
