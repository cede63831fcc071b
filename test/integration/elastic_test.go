//go:build integration

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/demo"
	"lull.dev/lull/pkg/timegrid"
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

// TestProfilesLearnOnline: a Job that does not scale as its profile says corrects the status
// of the profile, from two scales at which it was seen.
func TestProfilesLearnOnline(t *testing.T) {
	startController(t)
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 100 + 50*float64(h/3%2)
	}
	b := newBed(t, hourly, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"}
	})
	ctx := context.Background()
	must(t, env.client.Create(ctx, concave(b.ns)))
	j := b.elasticJob("flat", 1, 4, map[string]string{v1alpha1.AnnotationRuntime: "24h", v1alpha1.AnnotationMaxDelay: "6h", v1alpha1.AnnotationProfile: "concave"})
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Template.Annotations = nil, nil, nil // until a pod says that no work is left
	b.submit(j)
	var zone v1alpha1.GridZone
	must(t, env.client.Get(ctx, client.ObjectKey{Name: b.zone}, &zone))
	tl, err := timegrid.NewTimeline(zone.CreationTimestamp.Time, gridStart, factor)
	must(t, err)
	player := &demo.Player{Client: env.client, Namespace: b.ns, Timeline: tl, Every: 500 * time.Millisecond, Running: func(job string) int {
		var pods corev1.PodList
		must(t, env.client.List(ctx, &pods, client.InNamespace(b.ns), client.MatchingLabels{batchv1.JobNameLabel: job}))
		n := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}}
	player.Add(demo.Work{Job: "flat", Length: 24 * time.Hour, Throughput: []float64{1, 1.2, 1.3, 1.4}})
	var p v1alpha1.ScalingProfile
	b.eventually("the profile to be corrected", func() bool {
		must(t, player.Step(ctx, time.Now()))
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "concave"}, &p))
		return len(p.Status.Observed) > 0
	})
	t.Logf("observed of the profile: %+v; of the Job: %+v", p.Status.Observed, b.plan("job-flat").Status.Observed)
	for _, x := range p.Status.Observed {
		declared := map[int32]float64{1: 1, 2: 1.9, 3: 2.65, 4: 3.4}[x.Workers]
		if x.Workers > 1 && x.Throughput >= declared {
			t.Errorf("%d workers: observed %.2f, declared %.2f: a flatter curve was to be learned", x.Workers, x.Throughput, declared)
		}
	}
}
