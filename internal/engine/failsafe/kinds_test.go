package failsafe

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// TestUnknownKindsMakeNoOrphans: where it is not known which kinds there are, nothing counts as an orphan.
func TestUnknownKindsMakeNoOrphans(t *testing.T) {
	b := newBed(t, workload("a", false, map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused}))
	b.dog.Cache = interceptor.NewClient(b.store.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, kinds := list.(*v1alpha1.WorkloadKindList); kinds {
			return context.DeadlineExceeded
		}
		return c.List(ctx, list, opts...)
	}})
	if err := b.dog.Look(context.Background()); !errors.Is(err, context.DeadlineExceeded) || b.patches.Load() != 0 {
		t.Errorf("%d writes, %v", b.patches.Load(), err)
	}
}

// TestRefusedObjectKeepsNoOtherHeld: an object that cannot be released keeps no other from it, and is tried again.
func TestRefusedObjectKeepsNoOtherHeld(t *testing.T) {
	past := with(v1alpha1.AnnotationLatestStart, at(-time.Hour))
	b := newBed(t, job("a", past), job("b", past), job("c", past))
	b.refused = "b"
	if err := b.dog.Look(context.Background()); !apierrors.IsForbidden(err) {
		t.Errorf("the look ends with %v", err)
	}
	for name, held := range map[string]bool{"a": false, "b": true, "c": false} {
		if *b.job(name).Spec.Suspend != held {
			t.Errorf("%s is held: %v", name, !held)
		}
	}
	b.refused = ""
	b.look()
	if *b.job("b").Spec.Suspend {
		t.Error("b is not tried again")
	}
}

// TestWatchdogReportsAKindItMayNotList: the watchdog may not list a kind that is held at admission. It says so in its readiness, by one Event,
// and in the metric. It says nothing of a kind that nothing holds.
func TestWatchdogReportsAKindItMayNotList(t *testing.T) {
	b := newBed(t, job("a", with(v1alpha1.AnnotationLatestStart, at(-time.Hour))))
	b.forbidden["Job"], b.forbidden["Pod"] = true, true
	admission := &unstructured.Unstructured{}
	admission.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"})
	admission.SetName("hold-jobs.lull.dev")
	if err := b.store.Create(context.Background(), admission); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.look()
	}
	if err := b.dog.Check(nil); err == nil || !strings.Contains(err.Error(), "Job is held") || strings.Contains(err.Error(), "Pod") {
		t.Errorf("ready: %v", err)
	}
	if len(b.events.reasons) != 1 || b.events.reasons[0] != "KindNotListed" {
		t.Errorf("events %v", b.events.reasons)
	}
	if !*b.job("a").Spec.Suspend {
		t.Error("was released all the same")
	}
	b.forbidden = map[string]bool{}
	b.clock.Step(askAgain)
	b.look()
	if err := b.dog.Check(nil); err != nil || *b.job("a").Spec.Suspend {
		t.Errorf("granted, ready: %v, held: %v", err, *b.job("a").Spec.Suspend)
	}
}

// TestWithdrawnRightsAreReported: a kind, or Kueue, that the watchdog could list, and of which it saw holds, and that nothing holds at admission any
// more, is reported until it can be listed again. Of a kind without holds nothing is said.
func TestWithdrawnRightsAreReported(t *testing.T) {
	future := with(v1alpha1.AnnotationLatestStart, at(time.Hour))
	b := newBed(t, job("a", future), workload("a", false, map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused, v1alpha1.AnnotationLatestStart: at(time.Hour)}))
	b.look()
	b.clock.Step(askAgain)
	b.forbidden["Job"], b.forbidden["Pod"], b.forbidden["Workload"] = true, true, true
	for range 2 {
		b.look()
	}
	err := b.dog.Check(nil)
	if err == nil || !strings.Contains(err.Error(), "1 workloads of kind Job were held") || !strings.Contains(err.Error(), "1 Workloads of Kueue were held") || strings.Contains(err.Error(), "Pod") {
		t.Errorf("ready: %v", err)
	}
	if len(b.events.reasons) != 2 {
		t.Errorf("events %v", b.events.reasons)
	}
	b.forbidden = map[string]bool{}
	b.clock.Step(askAgain)
	b.look()
	if err := b.dog.Check(nil); err != nil {
		t.Errorf("granted again: %v", err)
	}
}

// TestWorkOfARefusedKindIsReleased: what a kind holds that was refused, as another has its name, is released all the same.
func TestWorkOfARefusedKindIsReleased(t *testing.T) {
	var objects []client.Object
	for _, group := range []string{"x.dev", "y.dev"} {
		objects = append(objects, &v1alpha1.WorkloadKind{ObjectMeta: metav1.ObjectMeta{Name: group}, Spec: v1alpha1.WorkloadKindSpec{
			Group: group, Version: "v1", Kind: "Train", Resource: "trains", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"},
		}}, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Train", "metadata": map[string]any{"name": "a", "namespace": "n", "uid": group, "annotations": map[string]any{
				v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission, v1alpha1.AnnotationLatestStart: at(-time.Hour), "mine": "x",
			}}, "spec": map[string]any{"suspend": true},
		}})
	}
	b := newBed(t, objects...)
	b.look()
	for _, group := range []string{"x.dev", "y.dev"} {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Train"})
		if err := b.store.Get(context.Background(), client.ObjectKey{Namespace: "n", Name: "a"}, u); err != nil {
			t.Fatal(err)
		}
		if held, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); held || u.GetAnnotations()["mine"] != "x" {
			t.Errorf("%s: held %v, annotations %v", group, held, u.GetAnnotations())
		}
	}
}

// TestCacheHoldsLittleOfAnObject: the cache holds little of an object, whatever its owner writes into it.
func TestCacheHoldsLittleOfAnObject(t *testing.T) {
	dog := &Watchdog{}
	jobs, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	dog.known.Store(jobs[0].GVK(), jobs[0])
	huge := strings.Repeat("x", 240_000)
	for _, hold := range []string{"", v1alpha1.HoldAdmission} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"mine": huge}, "annotations": map[string]any{v1alpha1.AnnotationMaxDelay: huge, v1alpha1.AnnotationHold: hold, "mine": huge},
		}, "spec": map[string]any{"suspend": true, "template": huge}}}
		o, err := dog.Transform(u)
		if err != nil {
			t.Fatal(err)
		}
		text, err := o.(*unstructured.Unstructured).MarshalJSON()
		if err != nil || len(text) > 1024 {
			t.Errorf("hold %q: %d bytes are kept, %v", hold, len(text), err)
		}
	}
}

// TestCacheHoldsLittleOfATypedObject: the cache keeps none of the annotations and labels that a tenant writes into a policy, or an administrator into a zone.
func TestCacheHoldsLittleOfATypedObject(t *testing.T) {
	huge := map[string]string{"mine": strings.Repeat("x", 240_000), v1alpha1.AnnotationPausedByRelease: strings.Repeat("x", 240_000)}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "7", Generation: 3, Annotations: huge, Labels: huge}
	for _, x := range []client.Object{&v1alpha1.CarbonPolicy{ObjectMeta: meta}, &v1alpha1.GridZone{ObjectMeta: meta}, &v1alpha1.WorkloadKind{ObjectMeta: meta}} {
		o, err := (&Watchdog{}).Transform(x)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil || len(text) > 1024 || x.GetUID() != "u" || x.GetGeneration() != 3 {
			t.Errorf("%T: %d bytes are kept, %v", x, len(text), err)
		}
	}
}

// TestMarksWithoutAnOwnerAreCounted: a metric says how many Workloads of Kueue stay inactive though nothing of theirs is governed: those whose time
// has not come, and those that cannot be written.
func TestMarksWithoutAnOwnerAreCounted(t *testing.T) {
	parked := func(until time.Duration) map[string]any {
		return map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused, v1alpha1.AnnotationLatestStart: at(until)}
	}
	b := newBed(t, workload("later", false, parked(time.Hour)), workload("due", false, parked(-time.Hour)))
	b.refused = "job-due"
	if err := b.dog.Look(context.Background()); !apierrors.IsForbidden(err) {
		t.Errorf("the look ends with %v", err)
	}
	orphans(t, "one is later, one cannot be written", 2)
	b.refused = ""
	b.look()
	orphans(t, "one is later", 1)
	b.clock.Step(2 * time.Hour)
	b.look()
	orphans(t, "none is left", 0)
}

// TestMarksOfAnObjectWithoutPolicyAreCounted: the metric counts the held objects whose policy is gone too: in the grace of a policy that may be being
// replaced, and while they cannot be written. It says nothing new while the policies cannot be read.
func TestMarksOfAnObjectWithoutPolicyAreCounted(t *testing.T) {
	other := func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationPolicy] = "gone" }
	unnamed := func(j *batchv1.Job) { delete(j.Annotations, v1alpha1.AnnotationPolicy) }
	stale := func(j *batchv1.Job) { *j.Spec.Suspend = false }
	b := newBed(t, job("governed"), job("a", other), job("b", other, unnamed), job("open", other, stale))
	b.refused = "a"
	b.look()
	orphans(t, "two in their grace", 2)
	b.clock.Step(time.Minute)
	cached := b.dog.Cache
	b.dog.Cache = interceptor.NewClient(b.store.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, policies := list.(*v1alpha1.CarbonPolicyList); policies {
			return context.DeadlineExceeded
		}
		return c.List(ctx, list, opts...)
	}})
	if err := b.dog.Look(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the look ends with %v", err)
	}
	orphans(t, "the policies cannot be read", 2)
	b.dog.Cache = cached
	if err := b.dog.Look(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("the look ends with %v", err)
	}
	orphans(t, "one cannot be written", 1)
	b.refused = ""
	b.look()
	orphans(t, "none is left", 0)
	if !*b.job("governed").Spec.Suspend || *b.job("a").Spec.Suspend || *b.job("b").Spec.Suspend {
		t.Error("the governed Job is released, or another is held")
	}
}

// TestWorkloadsOfKueueWithoutOwnerAreOrphans: a Workload of Kueue that nothing owns is counted, and Lull's hold and gate are taken off. One
// with two owners is counted once.
func TestWorkloadsOfKueueWithoutOwnerAreOrphans(t *testing.T) {
	ownerless := func(name string, active bool, annotations map[string]any) *unstructured.Unstructured {
		u := workload(name, active, annotations)
		u.SetOwnerReferences(nil)
		return u
	}
	twice := workload("twice", false, map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused, v1alpha1.AnnotationLatestStart: at(time.Hour)})
	twice.SetOwnerReferences(append(twice.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "also", UID: "also"}))
	b := newBed(t, twice,
		ownerless("parked", false, map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused, v1alpha1.AnnotationLatestStart: at(time.Hour)}),
		ownerless("gated", true, map[string]any{kueue.AnnotationGates: "x/other," + v1alpha1.Gate}),
		ownerless("theirs", false, map[string]any{kueue.AnnotationGates: "x/other"}),
	)
	b.refused = "job-gated"
	if err := b.dog.Look(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("the look ends with %v", err)
	}
	orphans(t, "all have a mark", 3)
	b.refused = ""
	b.look()
	orphans(t, "the gate is off", 2)
	b.clock.Step(2 * time.Hour)
	b.look()
	orphans(t, "none is left", 0)
	for name, want := range map[string]struct {
		active bool
		gates  string
	}{"parked": {true, ""}, "twice": {true, ""}, "gated": {true, "x/other"}, "theirs": {false, "x/other"}} {
		u := workload(name, false, nil)
		if err := b.store.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Fatal(err)
		}
		active, _, _ := unstructured.NestedBool(u.Object, "spec", "active")
		if active != want.active || u.GetAnnotations()[kueue.AnnotationGates] != want.gates || u.GetAnnotations()[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s: active %v, %v", name, active, u.GetAnnotations())
		}
	}
}

// orphans fails the test if the metric counts another number of marks without an owner.
func orphans(t *testing.T, when string, want float64) {
	t.Helper()
	var m dto.Metric
	if err := metrics.OrphanMarks.Write(&m); err != nil || m.GetGauge().GetValue() != want {
		t.Errorf("%s: %v marks without an owner, want %v; %v", when, m.GetGauge().GetValue(), want, err)
	}
}
