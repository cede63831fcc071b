//go:build integration

package integration

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// cleanDirtyClean is clean for three hours, dirty for five, then clean.
func cleanDirtyClean() []float64 {
	out := make([]float64, 24)
	for h := range out {
		out[h] = 100
		if h >= 3 && h < 8 {
			out[h] = 900
		}
	}
	return out
}

// atOnce lets work be paused and resumed without a pause between changes.
func atOnce(p *v1alpha1.CarbonPolicy) {
	p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
}

// endless lets the pods of a Job run longer than any test.
func endless(j *batchv1.Job) *batchv1.Job {
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "20000h"
	return j
}

// TestInterruptibleJobRunsInCleanHours: an interruptible Job runs in clean hours, has no pods in dirty ones, and goes on in the next clean ones. What the planner chooses is tested in
// test/controlloop: here the API server and the Job controller are real.
func TestInterruptibleJobRunsInCleanHours(t *testing.T) {
	startController(t)
	b := newStandingBed(t, cleanDirtyClean(), noReserve(atOnce))
	j := endless(b.job("chunks", map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "8h", v1alpha1.AnnotationMaxDelay: "20h"}))
	indexed, parts, one := batchv1.IndexedCompletion, int32(4), int32(1)
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, &parts, &one
	b.submit(j)
	b.eventually("it to run", func() bool { return b.get("chunks").Status.Active == 1 })
	b.jump(3)
	b.eventually("it to be paused, without pods", func() bool {
		j := b.get("chunks")
		return b.suspended("chunks") && j.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldPaused && j.Status.Active == 0
	})
	b.jump(8)
	b.eventually("it to run again", func() bool { return b.get("chunks").Status.Active == 1 })
	if hold := b.get("chunks").Annotations[v1alpha1.AnnotationHold]; hold != "" || b.suspended("chunks") {
		t.Errorf("it runs with the mark %q", hold)
	}
}

// TestShadowPolicyDelaysNothing: a policy in Shadow mode marks a Job and decides about it; the Job runs at once.
func TestShadowPolicyDelaysNothing(t *testing.T) {
	startController(t)
	b := newStandingBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Mode = v1alpha1.ModeShadow })
	b.submit(endless(b.job("free", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})))
	if a := b.get("free").Annotations; b.suspended("free") || a[v1alpha1.AnnotationPolicy] != "clean" || a[v1alpha1.AnnotationHold] != "" {
		t.Errorf("created suspended %v, with %v", b.suspended("free"), a)
	}
	b.eventually("it to run, with a plan", func() bool {
		return b.get("free").Status.Active == 1 && b.plan("job-free").Status.State != ""
	})
	if b.suspended("free") {
		t.Error("it was suspended")
	}
}
