package controlloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// cleanIn is dirty except in the hours from one to another.
func cleanIn(from, to int) []float64 {
	hourly := slices.Repeat([]float64{500}, 96)
	copy(hourly[from:to], slices.Repeat([]float64{50}, to-from))
	return hourly
}

// noReserve completes a policy of tests that fill their cluster: its planner keeps no reserve.
func noReserve(p *v1alpha1.CarbonPolicy) { p.Spec.Planner = v1alpha1.PlannerSpec{Name: "cheapest"} }

// large is a Job that fills a node of 16 CPUs.
func (b *bed) large(name string, annotations map[string]string) *batchv1.Job {
	j := b.job(name, annotations)
	j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("16")
	j.Spec.Template.Annotations[simkube.RunTime] = annotations[v1alpha1.AnnotationRuntime]
	return j
}

// planned is the hour of the series from which a Job is planned to run.
func (b *bed) planned(name string) float64 {
	b.t.Helper()
	b.Until("a plan of "+name, func() bool { return len(b.plan("job-"+name).Status.Phases) > 0 })
	return b.plan("job-" + name).Status.Phases[0].From.Sub(gridStart).Hours()
}

// inFirstSlot reports whether a planned hour is that of the first slot in hours that begin at the given one: slots of a quarter
// of an hour begin at the decision, not at full hours.
func inFirstSlot(planned, begins float64) bool { return planned >= begins && planned < begins+0.25 }

// TestPoliciesShareTheCluster: policies of two namespaces have one cluster. What runs of one competes for capacity with the
// other until it is expected to end, not for good; and what one has planned the other plans around.
func TestPoliciesShareTheCluster(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		hourly := cleanIn(12, 14)
		first, second := newBed(w, "first", hourly, noReserve), newBed(w, "second", hourly, noReserve)
		w.Controller()
		for _, name := range []string{"full-0", "full-1"} {
			w.Create(first.large(name, map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationRuntime: "6h"}))
		}
		w.Until("the cluster to be full", func() bool { return first.get("full-0").Status.Active == 1 && first.get("full-1").Status.Active == 1 })
		waits := map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"}
		w.Create(first.large("planned", waits))
		if at := first.planned("planned"); !inFirstSlot(at, 12) {
			t.Errorf("the first is planned from hour %v; want 12", at)
		}
		w.Create(second.large("clean", waits))
		if at := second.planned("clean"); !inFirstSlot(at, 12) {
			t.Errorf("the second policy plans from hour %v, while the cluster is full; want 12, when it is free again", at)
		}
		// In the clean hours both nodes are taken now, one of them by the other policy.
		w.Create(second.large("beside", waits))
		if at := second.planned("beside"); at > 10 && at < 14 || at < 4 {
			t.Errorf("planned from hour %v, when there is no room", at)
		}
		for name, b := range map[string]*bed{"planned": first, "clean": second, "beside": second} {
			b.Until(name+" to finish", func() bool { return b.finished(name) })
			if reason := b.decision(name); reason == "DeadlineAtRisk" {
				t.Errorf("%s found no place", name)
			}
		}
		first.starts("planned", 12)
		second.starts("clean", 12)
	})
}

// TestJobThatFitsNoNodeIsReleased: what no node will ever have room for is released, says so, draws nothing, and competes with nobody for
// capacity: neither in its own policy, nor in another, nor where no policy governs it.
func TestJobThatFitsNoNodeIsReleased(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		hourly := cleanIn(14, 16)
		first, second := newBed(w, "first", hourly, nil), newBed(w, "second", hourly, nil)
		w.Controller()
		huge := first.job("huge", map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationRuntime: "30h"})
		huge.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500")
		w.Create(huge, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nobodys", Namespace: second.ns}, Spec: huge.Spec.Template.Spec})
		w.Until("its plan to say that it has no node", func() bool { return first.plan("job-huge").Status.Reason == "Unscheduled" })
		first.command([]string{"explain", "job/huge", "-n", first.ns}, "Running: ", "no node has room for them", "(Unscheduled)\n")
		var pod corev1.Pod
		second.read("nobodys", &pod)
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
			t.Errorf("the Pod that no policy governs: %+v", pod.Status)
		}
		for _, b := range []*bed{first, second} {
			b.submit("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"})
			if at := b.planned("waits"); !inFirstSlot(at, 14) {
				t.Errorf("planned from hour %v (%s), want 14, when power is clean", at, b.plan("job-waits").Status.Message)
			}
		}
		if p := first.plan("job-huge").Status; p.EnergyKWh != 0 || p.State != v1alpha1.PlanRunning || !strings.Contains(p.Message, "no node has room for them") {
			t.Errorf("what does not run: %+v", p)
		}
	})
}

// TestUsualLoadIsPlannedAround: pods that no policy governs fill the cluster every night. On the second night what is governed waits for
// the hours in which it is usually free, instead of finding no place for good.
func TestUsualLoadIsPlannedAround(t *testing.T) {
	onBed(t, cleanIn(34, 36), nil, func(b *bed) {
		b.Controller()
		for night := range 2 {
			for i := range 2 { // a node each, for six hours
				b.At(b.Began.Add(time.Duration(night)*24*time.Hour/factor+time.Second), func() {
					j := b.large(fmt.Sprintf("strange-%d-%d", night, i), map[string]string{v1alpha1.AnnotationRuntime: "6h"})
					j.Labels = nil
					b.Create(j)
				})
			}
		}
		b.Run(26 * time.Hour / factor)
		if b.get("strange-1-0").Status.Active != 1 || b.get("strange-1-1").Status.Active != 1 {
			t.Fatal("the cluster is not full")
		}
		b.Create(b.large("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"}))
		if at := b.planned("waits"); !inFirstSlot(at, 34) {
			t.Errorf("planned from hour %v; want 34", at)
		}
		b.Until("it to finish", func() bool { return b.finished("waits") })
		b.starts("waits", 34)
	})
}
