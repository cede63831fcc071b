package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// errKilled is the end of the process that writes.
var errKilled = errors.New("killed")

// bench is an API server with one Job in a queue and its Workload. After left writes the writer is killed.
type bench struct {
	t      *testing.T
	client client.Client
	left   int
}

func newBench(t *testing.T, job *batchv1.Job, q map[string]any) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, left: 1000}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(job).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if (&client.PatchOptions{}).ApplyOptions(opts).DryRun != nil { // writes nothing
				return c.Patch(ctx, obj, patch, opts...)
			}
			if b.left--; b.left < 0 {
				return errKilled
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	if q != nil {
		builder.WithObjects(&unstructured.Unstructured{Object: q})
	}
	b.client = builder.Build()
	return b
}

// workloadObject is a Workload of Kueue of a Job.
func workloadObject(job string, active bool, annotations map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Workload",
		"metadata": map[string]any{
			"name": "job-" + job, "namespace": "default", "uid": "workload-of-" + job, "labels": map[string]any{kueue.LabelJobUID: job}, "annotations": annotations,
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true}},
		},
		"spec":   map[string]any{"active": active, "queueName": "q"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "QuotaReserved", "status": "False", "reason": "Pending"}}},
	}
}

func (b *bench) fetch() *Workload {
	b.t.Helper()
	w, err := Fetch(context.Background(), b.client, jobKind(b.t), client.ObjectKey{Namespace: "default", Name: "a"})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// parkedByNobody fails where Kueue's Workload is inactive without a mark that says who did.
func (b *bench) parkedByNobody(when string) {
	b.t.Helper()
	if q := b.fetch().Queued; q != nil && !q.Active && q.Annotations[v1alpha1.AnnotationHold] == "" {
		b.t.Errorf("%s: the Workload is inactive and nothing says that Lull did it", when)
	}
}

// free fails where anything of Lull still holds the Job, or carries a mark.
func (b *bench) free(when string) {
	b.t.Helper()
	w := b.fetch()
	if w.Facts.Suspended || w.Marked() || w.Queued != nil && !w.Queued.Active {
		b.t.Errorf("%s: suspended %v, marked %v, Workload %+v", when, w.Facts.Suspended, w.Marked(), w.Queued)
	}
}

// heldJobs are Jobs in all the ways in which Lull holds one.
func heldJobs() map[string]func() (*batchv1.Job, map[string]any) {
	at := func(name string, change ...func(*batchv1.Job)) *batchv1.Job {
		j := newJob(name, change...)
		j.Namespace = "default"
		return &j
	}
	paused := annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused)
	parked := map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused}
	return map[string]func() (*batchv1.Job, map[string]any){
		"suspended": func() (*batchv1.Job, map[string]any) { return at("a"), nil },
		"gated":     func() (*batchv1.Job, map[string]any) { return at("a", queued), nil },
		"gated, known to Kueue": func() (*batchv1.Job, map[string]any) {
			return at("a", queued), workloadObject("a", true, map[string]any{})
		},
		"parked": func() (*batchv1.Job, map[string]any) {
			return at("a", released(""), paused), workloadObject("a", false, parked)
		},
		"half parked": func() (*batchv1.Job, map[string]any) {
			return at("a", released("")), workloadObject("a", false, parked)
		},
		"gated, parked": func() (*batchv1.Job, map[string]any) { return at("a", queued), workloadObject("a", false, parked) },
		"elastic, gated": func() (*batchv1.Job, map[string]any) {
			return at("a", queued, annotate(kueue.AnnotationElastic, "true")), workloadObject("a", true, map[string]any{kueue.AnnotationGates: "x/other," + v1alpha1.Gate})
		},
	}
}

// TestReleaseLeavesNothingThatHolds: whatever holds a Job and whoever asks, a release leaves nothing of Lull's that holds it. A
// kill between any two writes leaves a mark, and what is left half done is finished by the next release.
func TestReleaseLeavesNothingThatHolds(t *testing.T) {
	ctx := context.Background()
	for by, release := range map[string]func(*Applier, *Workload) error{
		"a decision": func(ap *Applier, w *Workload) error {
			_, err := ap.Apply(ctx, w, decide.Action{Verb: decide.Release}, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Now: now})
			return err
		},
		"an invalid annotation": func(ap *Applier, w *Workload) error {
			_, err := ap.ReleaseInvalid(ctx, w, ErrAnnotation, now)
			return err
		},
		"a policy that is gone": func(ap *Applier, w *Workload) error {
			_, err := ap.ReleaseHeld(ctx, w, CodePolicyGone, "gone", now)
			return err
		},
		"hand": func(ap *Applier, w *Workload) error {
			_, err := ap.Ungovern(ctx, w, now)
			return err
		},
	} {
		for name, state := range heldJobs() {
			for writes := 0; ; writes++ {
				when := fmt.Sprintf("%s, released by %s, killed after %d writes", name, by, writes)
				job, q := state()
				b := newBench(t, job, q)
				ap := &Applier{Client: b.client, Recorder: silent{}}
				b.left = writes
				err := release(ap, b.fetch())
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatalf("%s: %v", when, err)
				}
				b.left = 1000
				b.parkedByNobody(when)
				if w := b.fetch(); err != nil && !w.Marked() && w.Facts.Suspended {
					t.Errorf("%s: suspended without a mark", when)
				}
				if err == nil {
					if writes == 0 {
						t.Errorf("%s: nothing was written", when)
					}
					b.free(when)
					break
				}
				if w := b.fetch(); w.Marked() {
					if _, err := ap.ReleaseHeld(ctx, w, CodeFailsafe, "time", now); err != nil {
						t.Fatalf("%s: %v", when, err)
					}
				}
				b.free(when + ", then released by the watchdog")
			}
		}
	}
}

// TestKilledPauseLeavesAMark: a pause that is killed between its writes leaves a mark on what it has stopped.
func TestKilledPauseLeavesAMark(t *testing.T) {
	ctx := context.Background()
	for writes := range 3 {
		job := newJob("a", released(""))
		job.Namespace = "default"
		b := newBench(t, &job, workloadObject("a", true, map[string]any{}))
		ap := &Applier{Client: b.client, Recorder: silent{}}
		b.left = writes
		a := decide.Action{Verb: decide.Pause, Reason: decide.Reason{LatestStart: now.Add(time.Hour)}}
		_, err := ap.Apply(ctx, b.fetch(), a, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Timeline: timegrid.Timeline{}, Now: now})
		if (err == nil) != (writes == 2) {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		b.left = 1000
		when := fmt.Sprintf("killed after %d writes", writes)
		b.parkedByNobody(when)
		w := b.fetch()
		if w.Held() != (writes > 0) {
			t.Errorf("%s: held %v", when, w.Held())
		}
		if writes > 0 && w.Queued.Annotations[v1alpha1.AnnotationLatestStart] != "2026-03-01T13:00:00Z" {
			t.Errorf("%s: the Workload does not say until when", when)
		}
		if _, err := ap.ReleaseHeld(ctx, w, CodeFailsafe, "time", now); err != nil {
			t.Fatal(err)
		}
		b.free(when + ", then released")
	}
}

// TestUserSuspendedJobStaysSuspended: a held Job that its user opens by hand loses Lull's marks; when its user suspends it again,
// it stays so, whoever looks.
func TestUserSuspendedJobStaysSuspended(t *testing.T) {
	ctx := context.Background()
	job := newJob("a", annotate(v1alpha1.AnnotationLatestStart, "2026-03-01T20:00:00Z"))
	job.Namespace = "default"
	b := newBench(t, &job, nil)
	ap := &Applier{Client: b.client, Recorder: silent{}}
	suspend := func(v bool) {
		t.Helper()
		if err := b.client.Patch(ctx, job.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, v))); err != nil {
			t.Fatal(err)
		}
	}
	look := func() View {
		t.Helper()
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{b.fetch()}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range v.Stale {
			if err := ap.Clear(ctx, w); err != nil {
				t.Fatal(err)
			}
		}
		return v
	}
	if v := look(); len(v.Stale) != 0 || len(v.Snapshot.Tasks) != 1 {
		t.Fatalf("held: %+v", v)
	}
	suspend(false)
	if v := look(); len(v.Stale) != 1 || len(v.Snapshot.Tasks) != 1 || v.Snapshot.Tasks[0].State != decide.Running {
		t.Fatalf("opened by hand: %d stale, %+v", len(v.Stale), v.Snapshot.Tasks)
	}
	if v := look(); len(v.Stale) != 0 {
		t.Fatal("cleared marks are still there")
	}
	suspend(true)
	if v := look(); len(v.Snapshot.Tasks) != 0 {
		t.Fatalf("suspended by its user it is a task: %+v", v.Snapshot.Tasks)
	}
	if wrote, err := ap.ReleaseHeld(ctx, b.fetch(), CodeFailsafe, "time", now); wrote || err != nil {
		t.Errorf("released what its user suspended: %v", err)
	}
	if !b.fetch().Facts.Suspended {
		t.Error("it runs")
	}
}

// TestUsersOwnInQueue: as above, for a Workload that its user sets active.
func TestUsersOwnInQueue(t *testing.T) {
	ctx := context.Background()
	job := newJob("a", released(""), annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused))
	job.Namespace = "default"
	b := newBench(t, &job, workloadObject("a", true, map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused}))
	w := b.fetch()
	if !w.Stale() {
		t.Fatal("a Workload that its user set active counts as held")
	}
	if err := (&Applier{Client: b.client, Recorder: silent{}}).Clear(ctx, w); err != nil {
		t.Fatal(err)
	}
	b.free("cleared")

	// A Workload that was made anew has no mark; what was just written is waited for.
	job = newJob("a", released(""), annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused))
	recent := newJob("b", released(""), annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused),
		annotate(v1alpha1.AnnotationDecision, fmt.Sprintf(`{"verb":"Pause","at":%q}`, now.Add(-time.Second).Format(time.RFC3339))))
	active := &kueue.Workload{Active: true, Considered: true}
	v := observeQueue(t, clusters(t, 8, 8), map[types.UID]*kueue.Workload{"a": active, "b": active}, job, recent)
	if len(v.Stale) != 1 || v.Stale[0].Name() != "a" {
		t.Errorf("stale: %+v", v.Stale)
	}
}

// TestReleaseHeldOfFinished: what has ended is not released, and loses its marks.
func TestReleaseHeldOfFinished(t *testing.T) {
	job := newJob("a", func(j *batchv1.Job) {
		j.Namespace = "default"
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	b := newBench(t, &job, nil)
	if wrote, err := (&Applier{Client: b.client, Recorder: silent{}}).ReleaseHeld(context.Background(), b.fetch(), CodeFailsafe, "time", now); wrote || err != nil {
		t.Errorf("released what has ended: %v, %v", wrote, err)
	}
	if w := b.fetch(); w.Marked() || !w.Facts.Suspended {
		t.Errorf("marked %v, suspended %v", w.Marked(), w.Facts.Suspended)
	}
}

// TestHeldJobStatesItsLatestStart: a held Job says from which latest start by its annotations and its policy its own one follows;
// one that is edited is written anew.
func TestHeldJobStatesItsLatestStart(t *testing.T) {
	job := newJob("a", annotate(v1alpha1.AnnotationMaxDelay, "4h"))
	job.CreationTimestamp = metav1.NewTime(now)
	v := observe(t, policy, timegrid.Timeline{}, job)
	stated := v.Progress[0].StatedStart
	if stated != "2026-03-01T15:55:00Z" {
		t.Fatalf("stated start %s, want 4 h less 5 min from now", stated)
	}
	a := decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeCleanerLater}}
	rec := newRecord(a, &Progress{}, now)
	for name, tc := range map[string]struct {
		annotations map[string]string
		edited      bool
	}{
		"as stated":        {map[string]string{v1alpha1.AnnotationLatestStart: stated}, false},
		"learned run time": {map[string]string{v1alpha1.AnnotationLatestStart: "2026-03-01T15:00:00Z", v1alpha1.AnnotationStatedStart: stated}, false},
		"edited":           {map[string]string{v1alpha1.AnnotationLatestStart: "2026-03-01T15:00:00Z", v1alpha1.AnnotationStatedStart: "2026-03-01T19:00:00Z"}, true},
	} {
		w := &Workload{record: &rec, annotations: tc.annotations}
		if got := Tells(w, &a, stated); got != tc.edited {
			t.Errorf("%s: told %v", name, got)
		}
	}

	// The watchdog computes the same, in a replay too.
	replay, err := timegrid.NewTimeline(now.Add(-90*time.Minute), now.Add(-1000*time.Hour), 1234)
	if err != nil {
		t.Fatal(err)
	}
	for _, tl := range []timegrid.Timeline{{}, replay} {
		for _, change := range []func(*batchv1.Job){
			annotate(v1alpha1.AnnotationMaxDelay, "100m"), annotate(v1alpha1.AnnotationDeadline, "2027-01-01T00:00:00Z"), annotate(v1alpha1.AnnotationRuntime, "90m"),
			annotate(v1alpha1.AnnotationRuntimeP95, "5h"), annotate(v1alpha1.AnnotationInterruptible, "true"),
		} {
			job := newJob("a", change)
			v := observe(t, policy, tl, job)
			if len(v.Progress) != 1 {
				t.Fatalf("%v: %v", job.Annotations, v.Invalid)
			}
			grid, err := LatestStart(workloadOf(t, &job), &policy, 0, tl)
			if err != nil || wallText(tl, grid) != v.Progress[0].StatedStart {
				t.Errorf("%v: stated %s, the watchdog has %s, %v", job.Annotations, v.Progress[0].StatedStart, wallText(tl, grid), err)
			}
		}
	}
}
