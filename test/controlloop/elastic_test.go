package controlloop

import (
	"fmt"
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/demo"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/test/simkube"
)

// stairs are the numbers of workers that a Job asked for, in order; 0 while it was held.
func (b *bed) stairs(name string) (out []int64) {
	for _, e := range b.Store.Since(0) {
		if e.Resource.Kind != "Job" || e.Object.GetName() != name {
			continue
		}
		n, _, _ := unstructured.NestedInt64(e.Object.Object, "spec", "parallelism")
		if isSuspended(e.Object) {
			n = 0
		}
		if len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}

// TestElasticJobFollowsTheStaircase: at 500, then 100, then 160 g/kWh an elastic Job waits, runs wide in the cleanest hours
// and narrower in the others, and keeps its deadline.
func TestElasticJobFollowsTheStaircase(t *testing.T) {
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
	onBed(t, hourly, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
		wideMargin(p)
	}, func(b *bed) {
		b.Controller()
		b.Create(concave(b.ns))
		j := b.elasticJob("elastic", 16, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "6h", v1alpha1.AnnotationProfile: "concave"})
		b.Create(j)
		b.Until("a plan", func() bool { return len(b.plan("job-elastic").Status.Phases) > 0 })
		p := b.plan("job-elastic")
		if p.Status.State != v1alpha1.PlanWaiting || p.Status.Trigger.Reason != "Submitted" || p.Status.ExpectedG == nil || p.Status.BaselineG <= *p.Status.ExpectedG || p.Status.Bound == nil ||
			len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != j.UID || p.Status.Shown.Next == "" {
			t.Errorf("plan %+v", p.Status)
		}
		b.Until("the Job to finish", func() bool { return b.finished("elastic") })
		done := b.get("elastic")
		if *done.Spec.Completions != 16 || done.Status.Succeeded != 16 {
			t.Errorf("%d of %d parts", done.Status.Succeeded, *done.Spec.Completions)
		}
		if end := b.gridTime(done.Status.CompletionTime.Time); end.After(at(22)) {
			t.Errorf("finished at %v, after its deadline", end)
		}
		b.starts("elastic", 8)
		if seen := b.stairs("elastic"); len(seen) < 2 || seen[0] != 0 || seen[1] != 4 {
			t.Errorf("workers %v, want 0, then 4, then fewer", seen)
		}
		b.Until("the plan to be finished", func() bool { return b.plan("job-elastic").Status.State == v1alpha1.PlanFinished })
		if f := b.plan("job-elastic").Status; f.EmittedG <= 0 || f.EmittedG >= f.BaselineG || f.Shown.Progress != "100%" {
			t.Errorf("finished plan %+v", f)
		}
		b.must(b.Client.Delete(b.Context(), done, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		b.Until("the plan to go with its Job", func() bool { return b.plan("job-elastic").Name == "" })
	})
}

// TestScaleUpDenied: where no node has room for all the workers that were asked for, the Job is planned anew with what it
// got, and says so.
func TestScaleUpDenied(t *testing.T) {
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 800
		if h < 8 {
			hourly[h] = 100
		}
	}
	onBed(t, hourly, func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"} }, func(b *bed) {
		b.Controller()
		// The deadline leaves one clean morning, so it takes three workers. Two nodes of 16 CPUs: two pods of nine fit, a third never.
		j := b.elasticJob("wide", 24, 3, map[string]string{v1alpha1.AnnotationMaxDelay: "2h"})
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
		b.Create(j)
		b.Until("a plan that says what was denied", func() bool {
			p := b.plan("job-wide")
			return p.Status.Trigger != nil && p.Status.Trigger.Reason == "ScaleUpDenied"
		})
		if now := b.gridTime(time.Now()); now.After(at(3)) {
			t.Errorf("denied at %s, want within three hours", now.Format("15:04"))
		}
		b.Until("the Job to ask for what fits", func() bool { return *b.get("wide").Spec.Parallelism <= 2 })
	})
}

// TestProgressIsTakenAsStated: a Job that says it is further than planned is planned anew, and one that states what nobody can
// read is not held for it.
func TestProgressIsTakenAsStated(t *testing.T) {
	onBed(t, []float64{100, 200, 300, 400, 500, 600, 600, 600, 600, 600, 600, 600}, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"}
	}, func(b *bed) {
		b.Controller()
		j := b.elasticJob("says", 40, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "20h", v1alpha1.AnnotationRuntime: "8h"})
		j.Spec.Template.Annotations[simkube.RunTime] = "40h"
		b.Create(j)
		b.Until("the Job to run", func() bool { return !b.suspended("says") && b.get("says").Status.Active > 0 })
		states := func(progress string) {
			b.Patch(b.get("says"), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationProgress, progress))
		}
		states("0.9")
		b.Until("a plan that knows the progress", func() bool {
			p := b.plan("job-says")
			return p.Status.Trigger != nil && p.Status.Trigger.Reason == "ProgressDeviates" && p.Status.ProgressSource == "annotation" && p.Status.Progress == 0.9
		})
		states("soon")
		b.Run(15 * time.Second)
		if b.suspended("says") {
			t.Error("a Job that runs was held for a progress that nobody can read")
		}
	})
}

// TestProfilesLearnOnline: a Job that does not scale as its profile says corrects the status of the profile, from two scales at
// which it was seen.
func TestProfilesLearnOnline(t *testing.T) {
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 100 + 50*float64(h/3%2)
	}
	onBed(t, hourly, func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"} }, func(b *bed) {
		b.Controller()
		b.Create(concave(b.ns))
		j := b.elasticJob("flat", 1, 4, map[string]string{v1alpha1.AnnotationRuntime: "24h", v1alpha1.AnnotationMaxDelay: "6h", v1alpha1.AnnotationProfile: "concave"})
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Template.Annotations = nil, nil, nil // until a pod says that no work is left
		b.Create(j)
		var zone v1alpha1.GridZone
		b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: b.zone}, &zone))
		tl, err := timegrid.NewTimeline(zone.CreationTimestamp.Time, gridStart, factor)
		b.must(err)
		running := func(job string) (n int) {
			var pods corev1.PodList
			b.must(b.Client.List(b.Context(), &pods, client.InNamespace(b.ns), client.MatchingLabels{batchv1.JobNameLabel: job}))
			for i := range pods.Items {
				if pods.Items[i].Status.Phase == corev1.PodRunning {
					n++
				}
			}
			return n
		}
		player := &demo.Player{Client: b.Client, Namespace: b.ns, Timeline: tl, Every: time.Minute / 10, Running: running}
		throughput := []float64{1, 1.2, 1.3, 1.4} // flatter than the profile
		player.Add(demo.Work{Job: "flat", Length: 24 * time.Hour, Throughput: throughput})
		var p v1alpha1.ScalingProfile
		b.Until("the profile to be corrected", func() bool {
			b.must(player.Step(b.Context(), time.Now()))
			b.read("concave", &p)
			return len(p.Status.Observed) > 0
		})
		if done := player.Progress("flat"); done >= 1 {
			t.Error("the profile was corrected only after the end of the Job")
		}
		flatter := func(when string) {
			t.Helper()
			for _, x := range p.Status.Observed {
				if declared := []float64{1, 1.9, 2.65, 3.4}[x.Workers-1]; x.Workers > 1 && x.Throughput >= declared {
					t.Errorf("%s, %d workers: observed %.2f, declared %.2f: a flatter curve was to be learned", when, x.Workers, x.Throughput, declared)
				}
			}
			t.Logf("%s, at %s: observed of the profile: %+v", when, b.gridTime(time.Now()).Format("Mon 15:04"), p.Status.Observed)
		}
		flatter("first")
		b.Until("the Job to finish", func() bool {
			b.must(player.Step(b.Context(), time.Now()))
			return b.finished("flat")
		})
		b.read("concave", &p)
		flatter("in the end")
		// The Job states its progress every six minutes, and the controller sees it up to a minute later: that is 5 % of a measurement.
		if x := p.Status.Observed; len(x) != 2 || x[0].Workers != 2 || math.Abs(x[0].Throughput/1.2-1) > 0.05 || x[1].Workers != 4 {
			t.Errorf("observed %+v, want two scales, with 2 workers the 1.2 that are true, within 5 %%", x)
		}
	})
}
