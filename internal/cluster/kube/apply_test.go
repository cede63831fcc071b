package kube

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
)

// TestSucceededJobKeepsNoHold: a Job whose last Pod succeeds while Lull pauses it keeps no hold, for the
// watchdog would release it again. A Job that has not finished keeps its hold.
func TestSucceededJobKeepsNoHold(t *testing.T) {
	ctx := context.Background()
	for name, want := range map[string]string{"finished": "", "paused": v1alpha1.HoldPaused} {
		job := newJob(name, annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused), annotate(v1alpha1.AnnotationLatestStart, "2026-03-01T20:00:00Z"), func(j *batchv1.Job) {
			j.Namespace = "default"
			if name == "finished" {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			}
		})
		scheme := runtime.NewScheme()
		if err := batchv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&job).Build()
		var stored batchv1.Job
		key := client.ObjectKeyFromObject(&job)
		for range 2 { // the second call has nothing to write
			if err := c.Get(ctx, key, &stored); err != nil {
				t.Fatal(err)
			}
			if err := (&Applier{Client: c}).Clear(ctx, workloadOf(t, &stored)); err != nil {
				t.Fatal(err)
			}
		}
		version := stored.ResourceVersion
		if err := c.Get(ctx, key, &stored); err != nil {
			t.Fatal(err)
		}
		if stored.Annotations[v1alpha1.AnnotationHold] != want {
			t.Errorf("%s: the hold is %q, want %q", name, stored.Annotations[v1alpha1.AnnotationHold], want)
		}
		if _, has := stored.Annotations[v1alpha1.AnnotationLatestStart]; has != (want != "") {
			t.Errorf("%s: has a latest start: %v", name, has)
		}
		if !*stored.Spec.Suspend {
			t.Errorf("%s: was released", name)
		}
		if stored.ResourceVersion != version {
			t.Errorf("%s: a call with nothing to clear has written", name)
		}
	}
}
