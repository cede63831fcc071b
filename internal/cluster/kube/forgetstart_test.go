package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// TestResumedJobForgetsItsStart: a Job that ran, and was paused, has no start any more when it is resumed: Kubernetes 1.32.2 refuses that its Job controller
// writes another one, and the Job would never run again. One that was held at creation has none.
func TestResumedJobForgetsItsStart(t *testing.T) {
	of, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldPaused}},
		Spec:       batchv1.JobSpec{Suspend: &yes}, Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: time.Unix(1e9, 0)}},
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithStatusSubresource(job).WithObjects(job).Build()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(of[0].GVK())
	key := client.ObjectKeyFromObject(job)
	if err := c.Get(t.Context(), key, u); err != nil {
		t.Fatal(err)
	}
	ap := &Applier{Client: c, Recorder: events.NewFakeRecorder(5)}
	if wrote, err := ap.ReleaseHeld(t.Context(), NewWorkload(of[0], u), CodeReleased, "m", time.Now()); !wrote || err != nil {
		t.Fatal(wrote, err)
	}
	if err := c.Get(t.Context(), key, job); err != nil || *job.Spec.Suspend || job.Status.StartTime != nil || job.Annotations[v1alpha1.AnnotationHold] != "" {
		t.Errorf("%v: suspended %v, started %v, %v", err, *job.Spec.Suspend, job.Status.StartTime, job.Annotations)
	}
}

// TestRefusedStatusKeepsNoJobHeld: a Job is resumed though the API server refuses that its start is removed; only a conflict is an error.
func TestRefusedStatusKeepsNoJobHeld(t *testing.T) {
	of, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, x := range map[string]struct {
		err     error
		resumed bool
	}{
		"forbidden": {apierrors.NewForbidden(resource, "x", errors.New("no")), true},
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "x", nil), true},
		"timeout":   {apierrors.NewTimeoutError("slow", 1), true},
		"conflict":  {apierrors.NewConflict(resource, "x", errors.New("changed")), false},
	} {
		yes := true
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldPaused}},
			Spec:       batchv1.JobSpec{Suspend: &yes}, Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: time.Unix(1e9, 0)}},
		}
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithStatusSubresource(job).WithObjects(job).Build(), interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return x.err
			},
		})
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(of[0].GVK())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(job), u); err != nil {
			t.Fatal(err)
		}
		ap := &Applier{Client: c, Recorder: events.NewFakeRecorder(10)}
		_, err := ap.ReleaseInvalid(t.Context(), NewWorkload(of[0], u), errors.New("test"), time.Unix(2e9, 0))
		var now batchv1.Job
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
			t.Fatal(err)
		}
		if resumed := now.Spec.Suspend == nil || !*now.Spec.Suspend; resumed != x.resumed || (err == nil) != x.resumed {
			t.Errorf("%s: resumed %v, %v; want %v", name, resumed, err, x.resumed)
		}
	}
}
