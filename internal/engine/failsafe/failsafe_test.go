package failsafe

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/cluster/manager"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// events are the reasons of the Events that were told.
type events struct {
	mu      sync.Mutex
	reasons []string
}

func (e *events) Eventf(_, _ kruntime.Object, _, reason, _, _ string, _ ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reasons = append(e.reasons, reason)
}

// informers are a cache that keeps what the watchdog's does.
type informers struct {
	client.Reader
	dog *Watchdog
}

func (c informers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	if u, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range u.Items {
			if _, err := c.dog.Transform(&u.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// bed is a watchdog beside an API server that serves Jobs and Kueue, with a policy and no controller.
type bed struct {
	t      *testing.T
	store  client.Client // not counted
	clock  *clocktesting.FakeClock
	dog    *Watchdog
	events events
	// gets and patches count the calls of the watchdog; most is how many patches were under way at a time.
	gets, patches, under, most atomic.Int64
	// forbidden kinds may not be listed; refused Jobs may not be patched.
	forbidden map[string]bool
	refused   string
}

func newBed(t *testing.T, objects ...client.Object) *bed {
	t.Helper()
	scheme := kruntime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, clock: clocktesting.NewFakeClock(now), forbidden: map[string]bool{}}
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: v1alpha1.CarbonPolicySpec{
		Zone: "z", DefaultRuntime: &metav1.Duration{Duration: time.Hour}, MaxDelay: &metav1.Duration{Duration: 10 * time.Hour},
	}}
	objects = append(objects, policy, &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}})
	b.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	served := map[string]bool{"JobList": true, "CronJobList": true, "TrainList": true, "PodList": true, "WorkloadList": true}
	live := interceptor.NewClient(b.store.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			gvk := list.GetObjectKind().GroupVersionKind()
			switch {
			case b.forbidden[strings.TrimSuffix(gvk.Kind, "List")]:
				return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, "", nil)
			case gvk.Kind != "" && !served[gvk.Kind]:
				return &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
			case served[gvk.Kind]:
				return nil // only whether it is served is asked for
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			b.gets.Add(1)
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			b.patches.Add(1)
			under := b.under.Add(1)
			defer b.under.Add(-1)
			for most := b.most.Load(); under > most && !b.most.CompareAndSwap(most, under); most = b.most.Load() {
			}
			runtime.Gosched()
			if obj.GetName() == b.refused {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, obj.GetName(), nil)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	b.dog = &Watchdog{
		Client: live, Forget: func(context.Context, client.Object) error { return nil },
		Applier: &kube.Applier{Client: live, Recorder: &b.events}, Options: Options{Grace: 30 * time.Second, Clock: b.clock},
	}
	b.dog.Cache = informers{b.store, b.dog}
	return b
}

func job(name string, change ...func(*batchv1.Job)) *batchv1.Job {
	yes := true
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "n", UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission},
		},
		Spec: batchv1.JobSpec{Suspend: &yes},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func with(annotation, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations[annotation] = value }
}

func without(annotation string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { delete(j.Annotations, annotation) }
}

// byCron is a Job that the CronJob of the bed created at 11:00, an hour ago.
func byCron(j *batchv1.Job) {
	j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c", Controller: new(true)}}
}

// cron is the CronJob that made a Job at 11:00: it runs again at 16:00.
func (b *bed) cron(policy batchv1.ConcurrencyPolicy) {
	b.t.Helper()
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "c"}, Spec: batchv1.CronJobSpec{Schedule: "0 11,16 * * *", ConcurrencyPolicy: policy}}
	if err := b.store.Create(context.Background(), c); err != nil {
		b.t.Fatal(err)
	}
}

func runs(j *batchv1.Job) { j.Spec.Suspend = new(bool) }

// inQueue is a Job that Kueue runs.
func inQueue(j *batchv1.Job) { j.Labels = map[string]string{kueue.LabelQueue: "q"} }

// workload is what Kueue keeps of a Job.
func workload(job string, active bool, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Workload",
		"metadata": map[string]any{
			"name": "job-" + job, "namespace": "n", "uid": "w-" + job, "labels": map[string]any{kueue.LabelJobUID: job}, "annotations": annotations,
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}},
		},
		"spec": map[string]any{"active": active, "queueName": "q"},
	}}
}

func at(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }

func (b *bed) look() {
	b.t.Helper()
	if err := b.dog.Look(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) job(name string) *batchv1.Job {
	b.t.Helper()
	var j batchv1.Job
	if err := b.store.Get(context.Background(), client.ObjectKey{Namespace: "n", Name: name}, &j); err != nil {
		b.t.Fatal(err)
	}
	return &j
}

func (b *bed) patch(obj client.Object, text string) {
	b.t.Helper()
	if err := b.store.Patch(context.Background(), obj, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) policy() *v1alpha1.CarbonPolicy {
	return &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}
}

// TestHoldEndsWhenItsTimeHasCome: with the controller dead, a hold ends when its time has come, and when its policy or its annotations
// say that it is not wanted any more; never before.
func TestHoldEndsWhenItsTimeHasCome(t *testing.T) {
	written := with(v1alpha1.AnnotationLatestStart, at(8*time.Hour+55*time.Minute)) // as its policy states
	paused := func(b *bed) { b.patch(b.policy(), `{"spec":{"paused":true}}`) }
	for name, tc := range map[string]struct {
		job *batchv1.Job
		do  func(b *bed)
		// waits is until when the watchdog leaves it alone, released when it has released it; both from now.
		waits, released time.Duration
		why             string
	}{
		"no controller has seen it": {job: job("a"), waits: 8*time.Hour + 55*time.Minute, released: 8*time.Hour + 56*time.Minute, why: "no controller has seen it"},
		"the administrator allows less": {job: job("a"), do: func(b *bed) { b.dog.Options.MaxDelay = 2 * time.Hour },
			waits: 55 * time.Minute, released: 56 * time.Minute, why: "no controller has seen it"},
		"a controller has": {job: job("a", with(v1alpha1.AnnotationLatestStart, at(time.Hour)), with(v1alpha1.AnnotationStatedStart, at(8*time.Hour+55*time.Minute))),
			waits: time.Hour, released: time.Hour + time.Minute, why: "the controller has not released it"},
		"it has learned that the run is shorter": {job: job("a", with(v1alpha1.AnnotationDeadline, at(3*time.Hour)), with(v1alpha1.AnnotationLatestStart, at(150*time.Minute)), with(v1alpha1.AnnotationStatedStart, at(115*time.Minute))),
			waits: 150 * time.Minute, released: 151 * time.Minute, why: "the controller has not released it"},
		"it must not wait any more": {job: job("a", written), do: func(b *bed) {
			b.patch(job("a"), `{"metadata":{"annotations":{"lull.dev/max-delay":"0s"}}}`)
		}, released: time.Second, why: "have been edited"},
		"its deadline is earlier now": {job: job("a", written), do: func(b *bed) {
			b.patch(job("a"), `{"metadata":{"annotations":{"lull.dev/deadline":"`+at(3*time.Hour)+`"}}}`)
		}, waits: 115 * time.Minute, released: 116 * time.Minute, why: "have been edited"},
		"its deadline is earlier now, but the controller knew of a longer run": {job: job("a", with(v1alpha1.AnnotationLatestStart, at(time.Hour)), with(v1alpha1.AnnotationStatedStart, at(8*time.Hour+55*time.Minute))), do: func(b *bed) {
			b.patch(job("a"), `{"metadata":{"annotations":{"lull.dev/deadline":"`+at(3*time.Hour)+`"}}}`)
		}, waits: time.Hour, released: time.Hour + time.Minute, why: "the controller has not released it"},
		"its policy lets it wait less": {job: job("a", written), do: func(b *bed) { b.patch(b.policy(), `{"spec":{"maxDelay":"2h"}}`) },
			waits: 55 * time.Minute, released: 56 * time.Minute, why: "have been edited"},
		"it may wait longer now": {job: job("a", written), do: func(b *bed) {
			b.patch(job("a"), `{"metadata":{"annotations":{"lull.dev/max-delay":"100h"}}}`)
		}, waits: 8*time.Hour + 55*time.Minute, released: 8*time.Hour + 56*time.Minute, why: "the controller has not released it"},
		"an annotation nobody can read": {job: job("a", written), do: func(b *bed) {
			b.patch(job("a"), `{"metadata":{"annotations":{"lull.dev/max-delay":"soon"}}}`)
		}, released: time.Second, why: "soon"},
		"an absurd annotation":       {job: job("a", with(v1alpha1.AnnotationMaxDelay, strings.Repeat("1h", 100_000))), released: time.Second, why: "at most 256 bytes"},
		"a hook":                     {job: job("a", written, with("helm.sh/hook", "pre-upgrade")), released: time.Second, why: "a hook of Helm"},
		"it asks for another policy": {job: job("a", written, with(v1alpha1.AnnotationGovernBy, "q")), released: time.Second, why: `asks for the CarbonPolicy "q"`},
		"its CronJob forbids two runs": {job: job("a", byCron), do: func(b *bed) { b.cron(batchv1.ForbidConcurrent) },
			waits: 175 * time.Minute, released: 176 * time.Minute, why: "no controller has seen it"},
		"its CronJob replaces it, as the controller knew": {job: job("a", byCron, with(v1alpha1.AnnotationLatestStart, at(175*time.Minute))), do: func(b *bed) { b.cron(batchv1.ReplaceConcurrent) },
			waits: 175 * time.Minute, released: 176 * time.Minute, why: "the controller has not released it"},
		"its CronJob has been edited": {job: job("a", byCron, written), do: func(b *bed) { b.cron(batchv1.ReplaceConcurrent) },
			waits: 175 * time.Minute, released: 176 * time.Minute, why: "have been edited"},
		"its CronJob allows two runs": {job: job("a", byCron), do: func(b *bed) { b.cron(batchv1.AllowConcurrent) },
			waits: 8*time.Hour + 55*time.Minute, released: 8*time.Hour + 56*time.Minute, why: "no controller has seen it"},
		"its CronJob cannot be read": {job: job("a", byCron), do: func(b *bed) { b.forbidden["CronJob"] = true }, released: time.Second, why: "may not list CronJobs"},
		"its CronJob cannot be read, but the controller could": {job: job("a", byCron, with(v1alpha1.AnnotationLatestStart, at(time.Hour))), do: func(b *bed) { b.forbidden["CronJob"] = true },
			waits: time.Hour, released: time.Hour + time.Minute, why: "the controller has not released it"},
		"its policy is paused": {job: job("a", written), do: paused, waits: 29 * time.Second, released: 31 * time.Second, why: "is paused"},
		"its policy is in Shadow mode": {job: job("a", written), do: func(b *bed) { b.patch(b.policy(), `{"spec":{"mode":"Shadow"}}`) },
			waits: 29 * time.Second, released: 31 * time.Second, why: "Shadow"},
		"its zone is paused": {job: job("a", written), do: func(b *bed) {
			b.patch(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}}, `{"spec":{"paused":true}}`)
		}, waits: 29 * time.Second, released: 31 * time.Second, why: "GridZone z is paused"},
		"its policy is gone": {job: job("a", written), do: func(b *bed) {
			if err := b.store.Delete(context.Background(), b.policy()); err != nil {
				b.t.Fatal(err)
			}
		}, waits: 29 * time.Second, released: 31 * time.Second, why: "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.job)
			if tc.do != nil {
				tc.do(b)
			}
			if tc.waits > 0 {
				b.look()
				b.clock.SetTime(now.Add(tc.waits))
				b.look()
				if !*b.job("a").Spec.Suspend {
					t.Fatalf("released after %v, before its time", tc.waits)
				}
			}
			b.clock.SetTime(now.Add(tc.released))
			b.look()
			j := b.job("a")
			if *j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationHold] != "" || j.Annotations[v1alpha1.AnnotationStatedStart] != "" {
				t.Fatalf("still held after %v: %v", tc.released, j.Annotations)
			}
			if rec, _ := kube.ReadRecord(j.Annotations); rec.Reason != kube.CodeFailsafe || !strings.Contains(rec.Message, tc.why) {
				t.Errorf("released for %s: %s; want %q", rec.Reason, rec.Message, tc.why)
			}
		})
	}
}

// TestReplacedPolicyLosesNoHolds: a policy that is back at the next look has not lost its holds.
func TestReplacedPolicyLosesNoHolds(t *testing.T) {
	b := newBed(t, job("a"))
	for range 3 {
		b.patch(b.policy(), `{"spec":{"paused":true}}`)
		b.look()
		b.clock.Step(20 * time.Second)
		b.patch(b.policy(), `{"spec":{"paused":false}}`)
		b.look()
		b.clock.Step(20 * time.Second)
	}
	if !*b.job("a").Spec.Suspend {
		t.Error("released, though its policy was back each time")
	}
}

// TestMarksAreFoundOnAnyObject: a mark of Lull on any object is found, also where a release or a hold was left half done, and
// nothing remains of it.
func TestMarksAreFoundOnAnyObject(t *testing.T) {
	ctx := context.Background()
	parked := func(extra ...string) map[string]any {
		out := map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused}
		for i := 0; i < len(extra); i += 2 {
			out[extra[i]] = extra[i+1]
		}
		return out
	}
	gated := with(kueue.AnnotationGates, "x/other,"+v1alpha1.Gate)
	past := with(v1alpha1.AnnotationLatestStart, at(-time.Hour))
	gates := strings.Repeat("x/other,", 12_000) + "x/last" // more than the cache keeps
	for name, tc := range map[string]struct {
		job      *batchv1.Job
		workload *unstructured.Unstructured
		others   string // gates that stay
	}{
		"gated":                      {job("a", inQueue, gated, past), nil, "x/other"},
		"among many gates":           {job("a", inQueue, with(kueue.AnnotationGates, gates+","+v1alpha1.Gate), past), nil, gates},
		"parked":                     {job("a", inQueue, past), workload("a", false, parked()), ""},
		"released by halves":         {job("a", inQueue, without(v1alpha1.AnnotationHold)), workload("a", false, parked(v1alpha1.AnnotationLatestStart, at(-time.Hour))), ""},
		"by an older Lull":           {job("a", inQueue, without(v1alpha1.AnnotationHold), with(v1alpha1.AnnotationMaxDelay, "0s")), workload("a", false, parked()), ""},
		"no longer governed":         {job("a", inQueue, without(v1alpha1.AnnotationHold), without(v1alpha1.AnnotationPolicy)), workload("a", false, parked()), ""},
		"the object is of no kind":   {job("b", runs, without(v1alpha1.AnnotationHold)), workload("a", false, parked(v1alpha1.AnnotationLatestStart, at(-time.Hour))), ""},
		"elastic, its gate was kept": {job("a", inQueue, past, gated, with(kueue.AnnotationElastic, "true")), workload("a", true, map[string]any{kueue.AnnotationGates: v1alpha1.Gate}), "x/other"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tc.job}
			if tc.workload != nil {
				objects = append(objects, tc.workload)
			}
			b := newBed(t, objects...)
			b.clock.SetTime(now.Add(time.Minute))
			for range 2 {
				b.look()
			}
			j := b.job(tc.job.Name)
			if j.Annotations[v1alpha1.AnnotationHold] != "" || j.Annotations[kueue.AnnotationGates] != tc.others {
				t.Errorf("the Job keeps %.1000v", fmt.Sprint(j.Annotations))
			}
			if tc.workload == nil {
				return
			}
			if err := b.store.Get(ctx, client.ObjectKeyFromObject(tc.workload), tc.workload); err != nil {
				t.Fatal(err)
			}
			q, err := kueue.Read(tc.workload)
			if err != nil || !q.Active || len(q.Annotations) != 0 {
				t.Errorf("the Workload is active: %v, keeps %v; %v", q.Active, q.Annotations, err)
			}
		})
	}

	// What its user set inactive stays so; what is parked for later too.
	for name, w := range map[string]*unstructured.Unstructured{
		"by its user": workload("a", false, map[string]any{}),
		"for later":   workload("a", false, parked(v1alpha1.AnnotationLatestStart, at(time.Hour))),
	} {
		b := newBed(t, job("a", inQueue, without(v1alpha1.AnnotationHold)), w)
		b.look()
		if b.patches.Load() != 0 {
			t.Errorf("%s: %d writes", name, b.patches.Load())
		}
	}
}

// TestMassReleaseTakesOneWriteEach: holds that expire at once take one write each and nothing else, so many at a time that at 30 ms a
// write ten thousand are released within ten seconds.
func TestMassReleaseTakesOneWriteEach(t *testing.T) {
	const n, tenThousand = 2000, 10_000
	var objects []client.Object
	for i := range n {
		objects = append(objects, job(fmt.Sprintf("j%05d", i), with(v1alpha1.AnnotationLatestStart, at(-time.Minute))))
	}
	b := newBed(t, objects...)
	b.look()
	if got := b.patches.Load(); got != n || b.gets.Load() != 0 {
		t.Errorf("%d writes and %d reads for %d releases", got, b.gets.Load(), n)
	}
	if most := b.most.Load(); most > atOnce {
		t.Errorf("%d writes at a time, want at most %d", most, atOnce)
	}
	if rounds := (tenThousand + atOnce - 1) / atOnce; time.Duration(rounds)*30*time.Millisecond > 10*time.Second {
		t.Errorf("%d rounds of writes", rounds)
	}
	b.look()
	if got := b.patches.Load(); got != n {
		t.Errorf("%d more writes when all are released", got-n)
	}
}

// TestOpenedJobLosesItsMarks: a Job that was opened by hand loses its marks after one look at it, and is not read again. When its
// user suspends it, it stays suspended. One that has ended is not released.
func TestOpenedJobLosesItsMarks(t *testing.T) {
	ended := job("ended", with(v1alpha1.AnnotationLatestStart, at(-time.Hour)), func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	b := newBed(t, ended, job("opened", runs, with(v1alpha1.AnnotationLatestStart, at(time.Hour))), job("users", without(v1alpha1.AnnotationHold)), job("late", runs, with(v1alpha1.AnnotationLatestStart, at(-time.Hour))))
	b.look()
	for _, name := range []string{"ended", "opened", "late"} {
		if a := b.job(name).Annotations; a[v1alpha1.AnnotationHold] != "" || a[v1alpha1.AnnotationLatestStart] != "" || a[v1alpha1.AnnotationDecision] != "" {
			t.Errorf("%s keeps %v", name, a)
		}
	}
	if gets, patches := b.gets.Load(), b.patches.Load(); gets != 2 || patches != 3 {
		t.Errorf("%d reads, %d writes; want one each, and no read of what has ended", gets, patches)
	}
	b.patch(job("opened"), `{"spec":{"suspend":true}}`)
	for range 3 {
		b.clock.Step(24 * time.Hour)
		b.look()
	}
	if gets, patches := b.gets.Load(), b.patches.Load(); gets != 2 || patches != 3 {
		t.Errorf("%d reads, %d writes later, want none", gets-2, patches-3)
	}
	for _, name := range []string{"ended", "opened", "users"} {
		if !*b.job(name).Spec.Suspend {
			t.Errorf("%s was resumed", name)
		}
	}
}

// TestStalledWatchdogIsNotReady: the watchdog is not ready if a look does not end. A look that fails ends.
func TestStalledWatchdogIsNotReady(t *testing.T) {
	b := newBed(t)
	elected := make(chan struct{})
	close(elected)
	b.dog.Rounds, b.dog.Options.Every = &manager.Rounds{Clock: b.clock, Elected: elected}, time.Second
	ready := func() bool { return b.dog.Rounds.Check(httptest.NewRequest("GET", "/readyz", nil)) == nil }
	if !ready() {
		t.Error("not ready at its start")
	}
	b.clock.Step(manager.Stalled + time.Second)
	if ready() {
		t.Error("ready, though it has not looked")
	}
	b.dog.Cache = interceptor.NewClient(b.store.(client.WithWatch), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return context.DeadlineExceeded
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.dog.Start(ctx) }()
	for end := time.Now().Add(2 * time.Minute); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not ready, though it looks")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
