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
	"k8s.io/apimachinery/pkg/api/resource"
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

// TestElasticJobFollowsTheStaircase: at 500, then 100, then 200 g/kWh an elastic Job waits,
// runs wide in the cleanest hours and narrower in the others, and keeps its deadline.
func TestElasticJobFollowsTheStaircase(t *testing.T) {
	startController(t)
	hourly := make([]float64, 24)
	for h := range hourly {
		switch {
		case h < 8:
			hourly[h] = 500
		case h < 11:
			hourly[h] = 100
		default:
			hourly[h] = 160
		}
	}
	b := newBed(t, hourly, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
	})
	must(t, env.client.Create(context.Background(), concave(b.ns)))
	j := b.elasticJob("elastic", 16, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "6h", v1alpha1.AnnotationProfile: "concave"})
	b.submit(j)
	stairs := b.stairs("elastic")
	b.eventually("a plan", func() bool { return len(b.plan("job-elastic").Status.Phases) > 0 })
	p := b.plan("job-elastic")
	if p.Status.State != v1alpha1.PlanWaiting || p.Status.Trigger.Reason != "Submitted" || p.Status.BaselineG <= p.Status.ExpectedG || p.Status.Bound == nil ||
		len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != j.UID || p.Status.Shown.Next == "" {
		t.Errorf("plan %+v", p.Status)
	}
	t.Logf("%s, next %s, saves %s, bound %s", p.Status.Shown.Progress, p.Status.Shown.Next, p.Status.Shown.Saves, p.Status.Shown.Bound)
	b.eventually("the Job to finish", func() bool { return b.finished("elastic") })
	done := b.get("elastic")
	if *done.Spec.Completions != 16 || done.Status.Succeeded != 16 {
		t.Errorf("%d of %d parts", done.Status.Succeeded, *done.Spec.Completions)
	}
	if at := b.gridTime(done.Status.CompletionTime.Time); at.After(gridStart.Add(22 * time.Hour)) {
		t.Errorf("finished at %v, after its deadline", at)
	}
	seen := stairs()
	t.Logf("workers %v", seen)
	if len(seen) < 2 || seen[0] != 0 || seen[1] != 4 {
		t.Errorf("workers %v, want 0, then 4, then fewer", seen)
	}
	b.eventually("the plan to be finished", func() bool { return b.plan("job-elastic").Status.State == v1alpha1.PlanFinished })
	if f := b.plan("job-elastic").Status; f.EmittedG <= 0 || f.EmittedG >= f.BaselineG || f.Shown.Progress != "100%" {
		t.Errorf("finished plan %+v", f)
	}
	// What remains to be told: nothing; and the plan goes with its Job.
	background := metav1.DeletePropagationBackground
	must(t, env.client.Delete(context.Background(), done, &client.DeleteOptions{PropagationPolicy: &background}))
	b.eventually("the plan to go with its Job", func() bool { return b.plan("job-elastic").Name == "" })
}

// TestScaleUpDenied: where no node has room for all the workers that were asked for, the
// Job is planned anew with what it got, and says so.
func TestScaleUpDenied(t *testing.T) {
	startController(t)
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 800
		if h < 8 {
			hourly[h] = 100
		}
	}
	b := newBed(t, hourly, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"}
	})
	// The clean hours take three workers. Two nodes of 16 CPUs: two pods of nine fit, a third never.
	j := b.elasticJob("wide", 24, 3, map[string]string{v1alpha1.AnnotationMaxDelay: "10h"})
	j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
	b.submit(j)
	b.eventually("a plan that says what was denied", func() bool {
		p := b.plan("job-wide")
		return p.Status.Trigger != nil && p.Status.Trigger.Reason == "ScaleUpDenied"
	})
	b.eventually("the Job to ask for what fits", func() bool { return *b.get("wide").Spec.Parallelism <= 2 })
	must(t, env.client.Delete(context.Background(), b.get("wide"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// TestProgressIsTakenAsStated: a Job that says it is further than planned is planned anew,
// and one that is slower too.
func TestProgressIsTakenAsStated(t *testing.T) {
	startController(t)
	b := newBed(t, []float64{100, 200, 300, 400, 500, 600, 600, 600, 600, 600, 600, 600}, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"}
	})
	j := b.elasticJob("says", 40, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "20h", v1alpha1.AnnotationRuntime: "8h"})
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "40h"
	b.submit(j)
	b.eventually("the Job to run", func() bool { return !b.suspended("says") && b.get("says").Status.Active > 0 })
	running := b.get("says")
	patch := client.MergeFrom(running.DeepCopy())
	running.Annotations[v1alpha1.AnnotationProgress] = "0.9"
	must(t, env.client.Patch(context.Background(), running, patch))
	b.eventually("a plan that knows the progress", func() bool {
		p := b.plan("job-says")
		return p.Status.Trigger != nil && p.Status.Trigger.Reason == "ProgressDeviates" && p.Status.ProgressSource == "annotation" && p.Status.Progress == 0.9
	})
	running = b.get("says")
	patch = client.MergeFrom(running.DeepCopy())
	running.Annotations[v1alpha1.AnnotationProgress] = "soon"
	must(t, env.client.Patch(context.Background(), running, patch))
	time.Sleep(time.Second)
	if b.suspended("says") {
		t.Error("a Job that runs was held for a progress that nobody can read")
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
