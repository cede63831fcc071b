//go:build integration

package integration

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// elasticJob is an Indexed Job of parts of one hour (four seconds) each.
func (b bed) elasticJob(name string, parts int32, most int, annotations map[string]string) *batchv1.Job {
	j := b.job(name, map[string]string{
		v1alpha1.AnnotationRuntime: fmt.Sprintf("%dh", parts), v1alpha1.AnnotationMinWorkers: "1", v1alpha1.AnnotationMaxWorkers: fmt.Sprint(most),
	})
	for k, v := range annotations {
		j.Annotations[k] = v
	}
	indexed, one := batchv1.IndexedCompletion, int32(1)
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, &parts, &one
	return j
}

func (b bed) plan(name string) *v1alpha1.CarbonPlan {
	b.t.Helper()
	var p v1alpha1.CarbonPlan
	if err := env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: name}, &p); client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return &p
}

// stairs are the numbers of workers that a Job was seen to ask for, in order; 0 while held.
func (b bed) stairs(name string) func() []int32 {
	var mu sync.Mutex
	var seen []int32
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			var j batchv1.Job
			if env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: name}, &j) == nil {
				n := *j.Spec.Parallelism
				if j.Spec.Suspend != nil && *j.Spec.Suspend {
					n = 0
				}
				mu.Lock()
				if len(seen) == 0 || seen[len(seen)-1] != n {
					seen = append(seen, n)
				}
				mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() []int32 {
		mu.Lock()
		defer mu.Unlock()
		return append([]int32(nil), seen...)
	}
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
