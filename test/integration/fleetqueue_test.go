//go:build integration && fleet

package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// queueLab gives the test a lab with Kueue.
func queueLab(t *testing.T, flags ...string) string {
	t.Helper()
	dir := ownLab(t, append([]string{"--kueue"}, flags...)...)
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "logs", "kueue.log"))
			t.Logf("end of Kueue's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return dir
}

// onSpokes makes the bed's namespace and queue on each spoke.
func (b bed) onSpokes(at map[string]client.Client) {
	b.t.Helper()
	for _, c := range at {
		must(b.t, c.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}}))
		must(b.t, c.Create(context.Background(), b.localQueue()))
	}
}

// TestQueueOnOneCluster: what is in a queue waits without quota and is released in clean hours;
// what is interruptible is taken out of the queue again in dirty ones.
func TestQueueOnOneCluster(t *testing.T) {
	queueLab(t)
	startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500
		if h%16 >= 8 { // 32 s: room for a slow machine
			hourly[h] = 100
		}
	}
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) {
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
	}))
	b.inQueue()
	b.submit(b.queued("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	long := b.queued("pauses", map[string]string{v1alpha1.AnnotationMaxDelay: "60h", v1alpha1.AnnotationRuntime: "10h", v1alpha1.AnnotationInterruptible: "true"})
	parts, one := int32(10), int32(1) // more than one span of clean hours takes
	indexed := batchv1.IndexedCompletion
	long.Spec.Completions, long.Spec.Parallelism, long.Spec.CompletionMode = &parts, &one, &indexed
	b.submit(long)
	b.submit(b.queued("urgent", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"}))
	other := b.queued("not-ours", nil)
	other.Labels["team"] = "other"
	b.submit(other)

	b.eventually("Kueue to know the gated Jobs", func() bool {
		w, p := b.workload("waits"), b.workload("pauses")
		return w != nil && w.Gated && !w.Reserved && p != nil && p.Gated && !p.Reserved
	})
	b.eventually("what is not governed to finish", func() bool { return b.finished("not-ours") })
	b.eventually("what may not wait to finish", func() bool { return b.finished("urgent") })
	b.eventually("the plan of what waits", func() bool { return b.plan("job-waits").Status.State == v1alpha1.PlanWaiting })
	b.eventually("the end of what waits", func() bool { return b.finished("waits") })
	if at := b.gridTime(b.get("waits").Status.StartTime.Time).Sub(gridStart).Hours(); at < 7.5 || at > 16.5 {
		t.Errorf("ran at hour %.1f; want 8 to 16", at)
	}
	b.eventually("the long one to be taken out of its queue", func() bool {
		w := b.workload("pauses")
		return w != nil && !w.Active && w.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldPaused && !w.Reserved
	})
	if b.plan("job-pauses").Status.State != v1alpha1.PlanPaused {
		b.eventually("its plan to say so", func() bool { return b.plan("job-pauses").Status.State == v1alpha1.PlanPaused })
	}
	b.eventually("it to go on and finish", func() bool { return b.finished("pauses") })
	for _, name := range []string{"waits", "pauses", "urgent"} {
		// The last Pod can succeed while the controller pauses the Job; the next decision clears the hold.
		b.eventually(name+" to be left without a hold", func() bool { return b.get(name).Annotations[v1alpha1.AnnotationHold] == "" })
		if gates := b.get(name).Annotations[kueue.AnnotationGates]; gates != "" {
			t.Errorf("%s is left with the gates %q", name, gates)
		}
	}

	elastic := elasticBed(t, cleanLater())
	elastic.inQueue()
	elastic.scales(map[string]client.Client{"here": env.client}, "here")
}

// TestQueueWithoutGates: a Kueue that does not know the admission gate is told another way to keep
// what is held from running, and the policy says so.
func TestQueueWithoutGates(t *testing.T) {
	queueLab(t, "--kueue-feature-gates", "AdmissionGatedBy=false")
	startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500
		if h >= 8 && h < 24 { // 64 s: room for a slow machine
			hourly[h] = 100
		}
	}
	b := newBed(t, hourly, noReserve(nil))
	b.inQueue()
	b.submit(b.queued("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("it to be held", func() bool {
		w := b.workload("held")
		return w != nil && !w.Active && !w.Reserved && w.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission
	})
	b.eventually("the policy to say so", func() bool {
		var p v1alpha1.CarbonPolicy
		must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &p))
		return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDegraded)
	})
	b.eventually("it to finish", func() bool { return b.finished("held") })
	if at := b.gridTime(b.get("held").Status.StartTime.Time).Sub(gridStart).Hours(); at < 7.5 || at > 24.5 {
		t.Errorf("ran at hour %.1f, want 8 to 24", at)
	}
	if w := b.workload("held"); !w.Active || w.Annotations[v1alpha1.AnnotationHold] != "" {
		t.Errorf("left with %+v", w)
	}
}

// TestQueueFailsafe: with the controller gone, the watchdog releases in time what is gated and what was
// taken out of its queue.
func TestQueueFailsafe(t *testing.T) {
	queueLab(t)
	controller := startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500
		if h < 6 {
			hourly[h] = 100
		} else if h >= 18 { // 48 s in which nobody has a reason to go on: room to kill the controller
			hourly[h] = 400
		}
	}
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) {
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
		p.Spec.StartMargin = &metav1.Duration{Duration: 8 * time.Hour} // 32 s, for Kueue on a slow machine
	}))
	deadline := gridStart.Add(32 * time.Hour).Format(time.RFC3339)
	b.inQueue()
	parts, one, indexed := int32(8), int32(1), batchv1.IndexedCompletion
	long := b.queued("paused", map[string]string{v1alpha1.AnnotationDeadline: deadline, v1alpha1.AnnotationRuntime: "8h", v1alpha1.AnnotationInterruptible: "true"})
	long.Spec.Completions, long.Spec.Parallelism, long.Spec.CompletionMode = &parts, &one, &indexed
	b.submit(long)
	b.eventually("the first to run", func() bool { return b.get("paused").Status.Active > 0 })
	b.eventually("it to be paused", func() bool { w := b.workload("paused"); return w != nil && !w.Active })
	b.submit(b.queued("gated", map[string]string{v1alpha1.AnnotationDeadline: deadline}))
	b.eventually("both to know their latest start", func() bool {
		return b.get("paused").Annotations[v1alpha1.AnnotationLatestStart] != "" && b.get("gated").Annotations[v1alpha1.AnnotationLatestStart] != ""
	})
	must(t, controller.Process.Kill())
	failsafe(t)
	b.eventually("both to finish without the controller", func() bool { return b.finished("paused") && b.finished("gated") })
	if ran := b.decision("gated"); ran != "Failsafe" {
		t.Errorf("the gated Job was released for %q, want Failsafe", ran)
	}
	if end := b.gridTime(b.get("gated").Status.CompletionTime.Time).Sub(gridStart).Hours(); end > 32 {
		t.Errorf("the gated Job ended at hour %.1f, its deadline is 32", end)
	}
}
