package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// TestAFullPodKeepsNoOtherOfItsGroupHeld: a Pod of a group has no room for a decision, or a list of gates that the cache cuts. All Pods of the group are
// released, also if that one has been released before.
func TestAFullPodKeepsNoOtherOfItsGroupHeld(t *testing.T) {
	of, err := kinds.Named([]string{"Pod"})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		annotation string
		gated      bool // the Pod with it
	}{
		"full": {"fill", true}, "full, and released before": {"fill", false}, "many gates": {kueue.AnnotationGates, true},
	} {
		var objects []client.Object
		for i := range 3 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("p", i), Namespace: "n", Labels: map[string]string{v1alpha1.LabelGroup: "g"},
				Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission},
			}, Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.Gate}}}}
			if i == 0 {
				p.Annotations[x.annotation] = strings.Repeat("x", 5000)
				if !x.gated {
					p.Spec.SchedulingGates = nil
					delete(p.Annotations, v1alpha1.AnnotationHold)
				}
			}
			objects = append(objects, p)
		}
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build(), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if body, _ := patch.Data(obj); x.annotation == "fill" && obj.GetName() == "p0" && strings.Contains(string(body), `"reason`) {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p0", field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", mostAnnotations)})
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		read := func() []*Workload {
			var all []*Workload
			for _, o := range objects {
				w, err := Fetch(t.Context(), c, of[0], client.ObjectKeyFromObject(o))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, w)
			}
			return all
		}
		if _, err := (&Applier{Client: c, Recorder: events.NewFakeRecorder(9)}).ReleaseHeld(t.Context(), Group(read())[0], CodeFailsafe, "time", now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range read() {
			if w.Facts.Suspended || w.Annotations()[v1alpha1.AnnotationHold] != "" {
				t.Errorf("%s: %s is held", name, w.Objects[0].GetName())
			}
		}
	}
}

// fullInQueue is a Job in a queue whose annotations are full, with its Workload of Kueue.
func fullInQueue(t *testing.T, change func(*batchv1.Job), active bool, hold string) (client.Client, func() *Workload) {
	t.Helper()
	job := newJob("job", annotate(v1alpha1.AnnotationPolicy, "p"), func(j *batchv1.Job) { j.Namespace = "default" }, change)
	size := 0
	for k, v := range job.Annotations {
		size += len(k) + len(v)
	}
	job.Annotations["fill"] = strings.Repeat("x", mostAnnotations-size-len("fill"))
	q := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "q", "namespace": "default", "uid": "q", "labels": map[string]any{kueue.LabelJobUID: string(job.UID)},
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": string(job.UID), "controller": true}},
		},
		"spec": map[string]any{"queueName": "q", "active": active, "podSets": []any{}},
	}}
	q.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	if hold != "" {
		q.SetAnnotations(map[string]string{v1alpha1.AnnotationHold: hold})
	}
	c := limitedClient(&job, q)
	return c, func() *Workload {
		w, err := Fetch(t.Context(), c, jobKind(t), client.ObjectKeyFromObject(&job))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
}

// TestFullAnnotationsInAQueue: Lull does not evict a Job that runs if the Job has no room for the decision, and releases one that is held, once.
func TestFullAnnotationsInAQueue(t *testing.T) {
	tl, err := timegrid.NewTimeline(now, now, 1)
	if err != nil {
		t.Fatal(err)
	}
	act := func(c client.Client, w *Workload, verb decide.Verb) (bool, error) {
		ap := &Applier{Client: c, Recorder: events.NewFakeRecorder(9)}
		return ap.Apply(t.Context(), w, decide.Action{Verb: verb, Reason: decide.Reason{Code: decide.CodeCleanerLater, LatestStart: now}}, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Timeline: tl, Now: now})
	}
	inQueue := func(j *batchv1.Job) {
		running(j)
		j.Labels = map[string]string{kueue.LabelQueue: "q"}
	}
	c, read := fullInQueue(t, inQueue, true, "")
	if wrote, err := act(c, read(), decide.Pause); wrote || err != nil || !read().Queued.Active {
		t.Errorf("a pause: wrote %v, %v; active %v", wrote, err, read().Queued.Active)
	}
	for _, verb := range []decide.Verb{decide.Wait, decide.Resume} {
		c, read = fullInQueue(t, func(j *batchv1.Job) {
			inQueue(j)
			j.Annotations[v1alpha1.AnnotationHold] = v1alpha1.HoldPaused
		}, false, v1alpha1.HoldPaused)
		if wrote, err := act(c, read(), verb); !wrote || err != nil || !read().Queued.Active || read().Marked() {
			t.Errorf("%s: wrote %v, %v; active %v, marked %v", verb, wrote, err, read().Queued.Active, read().Marked())
		}
	}
}

// TestFullAnnotationsLeaveTheirPolicy: an operator takes a Job out of its policy though its annotations are full, whether it runs or waits.
func TestFullAnnotationsLeaveTheirPolicy(t *testing.T) {
	for _, change := range []func(*batchv1.Job){running, func(*batchv1.Job) {}} {
		c, read := fullInQueue(t, change, true, "")
		if wrote, err := (&Applier{Client: c, Recorder: events.NewFakeRecorder(9)}).Ungovern(t.Context(), read(), now); !wrote || err != nil {
			t.Errorf("wrote %v, %v", wrote, err)
		}
		if a := read().Annotations(); a[v1alpha1.AnnotationPolicy] != "" || read().Facts.Suspended {
			t.Errorf("policy %q, suspended %v", a[v1alpha1.AnnotationPolicy], read().Facts.Suspended)
		}
	}
}
