package controlloop

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
)

// batch is a mix of Jobs under observation: rigid, interruptible and elastic ones with deadlines all over the time to come.
type batch struct {
	*bed
	jobs      []*batchv1.Job // as the API server took them in
	deadlines map[string]time.Time
}

// wideMargin completes the policy of a batch. Its elastic Jobs have parts of an hour; a part that is stopped when a Job
// scales down begins anew, which plans do not know of.
func wideMargin(p *v1alpha1.CarbonPolicy) {
	p.Spec.StartMargin = &metav1.Duration{Duration: 2 * time.Hour}
}

// submitBatch submits n Jobs, whose deadlines lie between two hours of the series.
func submitBatch(b *bed, n int, from, to time.Duration) *batch {
	x := &batch{bed: b, deadlines: map[string]time.Time{}}
	b.Create(concave(b.ns))
	for i := range n {
		name := fmt.Sprintf("job-%d", i)
		deadline := gridStart.Add(from + time.Duration(i)*(to-from)/time.Duration(n))
		stated := map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)}
		j := b.job(name, stated)
		switch i % 3 {
		case 1:
			j = b.elasticJob(name, 3, 4, stated)
		case 2:
			j = b.elasticJob(name, 3, 1, stated)
			delete(j.Annotations, v1alpha1.AnnotationMinWorkers)
			delete(j.Annotations, v1alpha1.AnnotationMaxWorkers)
			j.Annotations[v1alpha1.AnnotationInterruptible] = "true"
		}
		b.Create(j)
		x.jobs = append(x.jobs, j)
		x.deadlines[name] = deadline
	}
	return x
}

// submitAlike submits n Jobs of an hour with one deadline.
func submitAlike(b *bed, n int, deadline time.Time) *batch {
	x := &batch{bed: b, deadlines: map[string]time.Time{}}
	for i := range n {
		j := b.submit(fmt.Sprintf("job-%d", i), map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)})
		x.jobs = append(x.jobs, j)
		x.deadlines[j.Name] = deadline
	}
	return x
}

// audit waits for all Jobs and checks what must hold whatever happened: none is left held, each has finished in time, none
// that may not pause was released twice, and nothing of what its user wrote is lost.
func (x *batch) audit() {
	t := x.t
	t.Helper()
	for _, was := range x.jobs {
		x.Until(was.Name+" to finish", func() bool { return x.finished(was.Name) })
		now := x.get(was.Name)
		if at := x.gridTime(now.Status.CompletionTime.Time); at.After(x.deadlines[was.Name]) {
			t.Errorf("%s finished at %s of the series, its deadline is %s", was.Name, at, x.deadlines[was.Name])
			x.tell(was)
		}
	}
	x.Run(10 * time.Second)
	for _, was := range x.jobs {
		now := x.get(was.Name)
		if _, held := now.Annotations[v1alpha1.AnnotationHold]; held {
			t.Errorf("%s has finished and is still marked as held", was.Name)
		}
		if !equality.Semantic.DeepEqual(was.Spec.Template, now.Spec.Template) {
			t.Errorf("%s: the pod template has changed:\n%+v\n%+v", was.Name, was.Spec.Template, now.Spec.Template)
		}
		if !equality.Semantic.DeepEqual(was.Spec.Completions, now.Spec.Completions) || !equality.Semantic.DeepEqual(was.Spec.BackoffLimit, now.Spec.BackoffLimit) {
			t.Errorf("%s: completions or backoffLimit have changed: %+v", was.Name, now.Spec)
		}
		if _, elastic := was.Annotations[v1alpha1.AnnotationMaxWorkers]; !elastic && *was.Spec.Parallelism != *now.Spec.Parallelism {
			t.Errorf("%s: parallelism was %d, is %d", was.Name, *was.Spec.Parallelism, *now.Spec.Parallelism)
		}
		for k, v := range was.Annotations {
			if k != v1alpha1.AnnotationHold && now.Annotations[k] != v {
				t.Errorf("%s: annotation %s was %q, is %q", was.Name, k, v, now.Annotations[k])
			}
		}
		rigid := was.Spec.CompletionMode == nil || *was.Spec.CompletionMode == batchv1.NonIndexedCompletion
		if n := x.releases(was); n == 0 || n > 1 && rigid {
			t.Errorf("%s was released %d times", was.Name, n)
		}
	}
}

// tell logs what became of a Job.
func (b *bed) tell(job *batchv1.Job) {
	for _, e := range b.Store.Since(0) {
		if e.Resource.Kind == "Job" && e.Object.GetUID() == job.UID {
			n, _, _ := unstructured.NestedInt64(e.Object.Object, "spec", "parallelism")
			done, _, _ := unstructured.NestedInt64(e.Object.Object, "status", "succeeded")
			active, _, _ := unstructured.NestedInt64(e.Object.Object, "status", "active")
			a := e.Object.GetAnnotations()
			b.t.Logf("%s by %q: suspended %v, %d workers, %d active, %d done, latest start %s, decision %s", b.gridTime(e.At).Format("15:04:05"), e.By, isSuspended(e.Object), n, active, done, a[v1alpha1.AnnotationLatestStart], a[v1alpha1.AnnotationDecision])
		}
	}
}

// releases counts how often a Job was released.
func (b *bed) releases(job *batchv1.Job) (n int) {
	for _, e := range b.Store.Since(0) {
		if e.Resource.Kind == "Job" && e.Object.GetUID() == job.UID && e.Before != nil && isSuspended(e.Before) && !isSuspended(e.Object) {
			n++
		}
	}
	return n
}

func isSuspended(u *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return is
}

// elasticJob is an Indexed Job of parts of one hour each.
func (b *bed) elasticJob(name string, parts int32, most int, annotations map[string]string) *batchv1.Job {
	j := b.job(name, map[string]string{
		v1alpha1.AnnotationRuntime: fmt.Sprintf("%dh", parts), v1alpha1.AnnotationMinWorkers: "1", v1alpha1.AnnotationMaxWorkers: fmt.Sprint(most),
	})
	for k, v := range annotations {
		j.Annotations[k] = v
	}
	indexed := batchv1.IndexedCompletion
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, &parts, new(int32(1))
	return j
}

// concave is a profile of diminishing returns.
func concave(ns string) *v1alpha1.ScalingProfile {
	return &v1alpha1.ScalingProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "concave", Namespace: ns},
		Spec: v1alpha1.ScalingProfileSpec{Unit: "parts/h", Source: "test", Points: []v1alpha1.ScalingPoint{
			{Workers: 1, Throughput: 1}, {Workers: 2, Throughput: 1.9}, {Workers: 4, Throughput: 3.4},
		}},
	}
}
