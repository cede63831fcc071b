package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// mostAnnotations is how many bytes of annotations the API server takes.
const mostAnnotations = 256 << 10

// limitedClient refuses annotations as the API server does.
func limitedClient(objects ...client.Object) client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			tried := &batchv1.Job{}
			if obj.GetObjectKind().GroupVersionKind().Kind != "Job" {
				return c.Patch(ctx, obj, patch, opts...)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), tried); err != nil {
				return err
			}
			elsewhere := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tried).Build()
			if err := elsewhere.Patch(ctx, tried, patch); err != nil {
				return err
			}
			size := 0
			for k, v := range tried.GetAnnotations() {
				size += len(k) + len(v)
			}
			if size > mostAnnotations {
				return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, obj.GetName(), field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", mostAnnotations)})
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
}

// TestFullAnnotationsKeepNoJobHeld: if a user's annotations leave no room for a decision, Lull releases the Job, whether it would wait or its time has come, and
// says so in an Event. A Job that Lull does not hold stays as it is.
func TestFullAnnotationsKeepNoJobHeld(t *testing.T) {
	tl, err := timegrid.NewTimeline(now, now, 1)
	if err != nil {
		t.Fatal(err)
	}
	act := func(verb decide.Verb) func(*Applier, *Workload) (bool, error) {
		return func(ap *Applier, w *Workload) (bool, error) {
			a := decide.Action{Verb: verb, Reason: decide.Reason{Code: decide.CodeCleanerLater, LatestStart: now.Add(time.Hour)}}
			return ap.Apply(t.Context(), w, a, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Timeline: tl, Now: now})
		}
	}
	for name, x := range map[string]struct {
		held, wrote bool
		do          func(*Applier, *Workload) (bool, error)
	}{
		"waits":  {true, true, act(decide.Wait)},
		"is due": {true, true, act(decide.Release)},
		"watchdog": {true, true, func(ap *Applier, w *Workload) (bool, error) {
			return ap.ReleaseHeld(t.Context(), w, CodeFailsafe, "time", now)
		}},
		"unreadable": {true, true, func(ap *Applier, w *Workload) (bool, error) {
			return ap.ReleaseInvalid(t.Context(), w, errors.New("x"), now)
		}},
		"is paused": {false, false, act(decide.Pause)},
	} {
		job := newJob("job", annotate(v1alpha1.AnnotationPolicy, "p"), func(j *batchv1.Job) { j.Namespace = "default" })
		yes := x.held
		job.Spec.Suspend = &yes
		delete(job.Annotations, v1alpha1.AnnotationHold)
		if x.held {
			job.Annotations[v1alpha1.AnnotationHold] = v1alpha1.HoldAdmission
		}
		size := 0
		for k, v := range job.Annotations {
			size += len(k) + len(v)
		}
		job.Annotations["fill"] = strings.Repeat("x", mostAnnotations-size-len("fill"))
		c := limitedClient(&job)
		recorder := events.NewFakeRecorder(5)
		read := func() *batchv1.Job {
			var stored batchv1.Job
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(&job), &stored); err != nil {
				t.Fatal(err)
			}
			return &stored
		}
		if wrote, err := x.do(&Applier{Client: c, Recorder: recorder}, workloadOf(t, read())); wrote != x.wrote || err != nil {
			t.Errorf("%s: wrote %v, %v", name, wrote, err)
		}
		after := read()
		if *after.Spec.Suspend || after.Annotations[v1alpha1.AnnotationHold] != "" || after.Annotations[v1alpha1.AnnotationPolicy] != "p" {
			t.Errorf("%s: suspended %v, hold %q, policy %q", name, *after.Spec.Suspend, after.Annotations[v1alpha1.AnnotationHold], after.Annotations[v1alpha1.AnnotationPolicy])
		}
		if said := len(recorder.Events) == 1; said != x.wrote {
			t.Errorf("%s: an Event: %v", name, said)
		}
	}
}

// TestNoRoom: what the API server and etcd refuse as too large, and nothing else.
func TestNoRoom(t *testing.T) {
	kind := schema.GroupKind{Group: "batch", Kind: "Job"}
	for name, x := range map[string]struct {
		err  error
		want bool
	}{
		"none":             {nil, false},
		"annotations":      {apierrors.NewInvalid(kind, "x", field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", 1)}), true},
		"another field":    {apierrors.NewInvalid(kind, "x", field.ErrorList{field.TooLong(field.NewPath("spec"), "", 1)}), false},
		"another reason":   {apierrors.NewInvalid(kind, "x", field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations"), "", "x")}), false},
		"request":          {apierrors.NewRequestEntityTooLargeError("x"), true},
		"etcd":             {errors.New("etcdserver: request is too large"), true},
		"another conflict": {apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed")), false},
	} {
		if got := NoRoom(x.err); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
