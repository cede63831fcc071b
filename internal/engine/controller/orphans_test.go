package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

type synced struct{ cache.Informer }

func (synced) HasSynced() bool { return true }

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// TestPolicyGoneUnparks: when a policy is gone, what it has set inactive in a queue of Kueue is active again.
func TestPolicyGoneUnparks(t *testing.T) {
	ctx := context.Background()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "n", UID: "a", Labels: map[string]string{kueue.LabelQueue: "q"},
		Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldPaused},
	}}
	parked := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Workload",
		"metadata": map[string]any{
			"name": "job-a", "namespace": "n", "uid": "w", "annotations": map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused},
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "a"}},
		},
		"spec": map[string]any{"active": false, "queueName": "q"},
	}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job, parked).Build()
	queues := NewQueues()
	queues.cache, queues.informer, queues.looked = listCache{client: c}, synced{}, true
	r := &CarbonPolicyReconciler{Client: c, Queues: queues, Curves: curve.NewStore(), Clock: clock.RealClock{}, Applier: &kube.Applier{Client: c, Recorder: silent{}}}
	kind, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind[0].GVK())
	if err := c.Get(ctx, client.ObjectKeyFromObject(job), u); err != nil {
		t.Fatal(err)
	}
	if err := r.releaseOrphans(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: "p"}}, []*kube.Workload{kube.NewWorkload(kind[0], u)}); err != nil {
		t.Fatal(err)
	}
	w, err := kube.Fetch(ctx, c, kind[0], client.ObjectKeyFromObject(job))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(parked), parked); err != nil {
		t.Fatal(err)
	}
	q, err := kueue.Read(parked)
	if err != nil {
		t.Fatal(err)
	}
	if w.Marked() || !q.Active || q.Annotations[v1alpha1.AnnotationHold] != "" {
		t.Errorf("marked %v, Workload %+v", w.Marked(), q)
	}
}

// TestReplacedPolicyKeepsItsHolds: a policy that is deleted may come back within a few seconds, as "kubectl replace
// --force" has it. Only then are its holds opened, except for those whose latest safe start comes before.
func TestReplacedPolicyKeepsItsHolds(t *testing.T) {
	ctx := context.Background()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	yes := true
	held := func(name string, latest time.Duration) *batchv1.Job {
		return &batchv1.Job{Spec: batchv1.JobSpec{Suspend: &yes}, ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "n", UID: types.UID(name), Annotations: map[string]string{
				v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission,
				v1alpha1.AnnotationLatestStart: clk.Now().Add(latest).Format(time.RFC3339),
			},
		}}
	}
	jobs := []*batchv1.Job{held("due", 0), held("soon", 4*time.Second), held("later", 48*time.Hour)}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(jobs[0], jobs[1], jobs[2]).Build()
	queues := NewQueues()
	queues.cache, queues.informer, queues.looked = listCache{client: c}, synced{}, true
	r := &CarbonPolicyReconciler{Client: c, Queues: queues, Curves: curve.NewStore(), Clock: clk, turns: newTurns(1, 1), Applier: &kube.Applier{Client: c, Recorder: silent{}}, gone: map[types.NamespacedName]time.Time{}}
	policy := types.NamespacedName{Namespace: "n", Name: "p"}
	look := func() (after time.Duration, open []string) {
		var workloads []*kube.Workload
		for _, j := range jobs {
			w, err := kube.Fetch(ctx, c, kind[0], client.ObjectKeyFromObject(j))
			if err != nil {
				t.Fatal(err)
			}
			workloads = append(workloads, w)
		}
		res, err := r.policyGone(ctx, ctrl.Request{NamespacedName: policy}, workloads)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			var now batchv1.Job
			if err := c.Get(ctx, client.ObjectKeyFromObject(j), &now); err != nil {
				t.Fatal(err)
			}
			if !*now.Spec.Suspend {
				open = append(open, j.Name)
			}
		}
		return res.RequeueAfter, open
	}
	expect := func(when string, after time.Duration, open ...string) {
		t.Helper()
		if gotAfter, got := look(); gotAfter != after || !slices.Equal(got, open) {
			t.Errorf("%s: released %v, looks again after %v; want %v and %v", when, got, gotAfter, open, after)
		}
	}
	expect("at once", 4*time.Second, "due")
	clk.Step(4 * time.Second)
	expect("when the next is due", replaceGrace-4*time.Second, "due", "soon")
	delete(r.gone, policy) // Reconcile has found it again
	clk.Step(time.Minute)
	expect("deleted again", replaceGrace, "due", "soon")
	clk.Step(replaceGrace)
	expect("when it does not come back", 0, "due", "soon", "later")
}

// TestReplacedZoneStaysKnown: what is known of a zone is kept for as long as it may come back.
func TestReplacedZoneStaysKnown(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	r := &GridZoneReconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Zones: NewZones(), Feeds: &source.Feeds{}, Clock: clk, gone: map[string]time.Time{},
	}
	r.Zones.Set("z", Zone{})
	for _, want := range []struct {
		after time.Duration
		known bool
	}{{replaceGrace, true}, {0, false}} {
		res, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "z"}})
		if _, known := r.Zones.Get("z"); err != nil || res.RequeueAfter != want.after || known != want.known {
			t.Errorf("looks again after %v, known %v, %v; want %+v", res.RequeueAfter, known, err, want)
		}
		clk.Step(replaceGrace)
	}
}
