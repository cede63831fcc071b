package kube

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// TestJobWithoutPodsHoldsNobody: a Job that claims the whole cluster for a year and whose pods nobody can make holds no work of
// another tenant: at first that is released when it would be too late, and after the patience the claim counts for nothing.
func TestJobWithoutPodsHoldsNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		released time.Duration // before now
		failed   time.Duration // its last pod, before now; 0 for none
		counts   bool
	}{
		"just released":       {released: time.Minute, counts: true},
		"released long ago":   {released: 10 * time.Minute},
		"pod failed just now": {released: time.Hour, failed: time.Minute, counts: true},
		"pod failed long ago": {released: time.Hour, failed: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newJob("claim", running, annotate(v1alpha1.AnnotationRuntime, "8760h"), annotate(v1alpha1.AnnotationMaxDelay, "0s"), func(j *batchv1.Job) {
				j.Status.Active, j.Status.StartTime = 0, &metav1.Time{Time: now.Add(-tc.released)}
				j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000000")}
			})
			var pods []corev1.Pod
			if tc.failed > 0 {
				state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(now.Add(-time.Hour)), FinishedAt: metav1.NewTime(now.Add(-tc.failed))}}
				pods = []corev1.Pod{{
					ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: claim.UID}}},
					Status:     corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
				}}
			}
			v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &claim)}, Pods: pods})
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Snapshot.Tasks[0].Unscheduled; got == tc.counts {
				t.Errorf("unscheduled: %v", got)
			}
			use := UseOf(&v, timegrid.Timeline{}, func(*Workload) []decide.Phase { return nil })
			if got := len(use.Stretches) > 0; got != tc.counts {
				t.Errorf("takes capacity: %v, want %v", got, tc.counts)
			}
			if tc.counts && v.DeniedAt.IsZero() {
				t.Error("no decision is due when the patience is over")
			}
			for _, after := range []time.Duration{0, 8 * time.Hour, 10 * time.Hour, 40 * time.Hour} {
				s := observe(t, policy, timegrid.Timeline{}, newJob("other", annotate(v1alpha1.AnnotationRuntime, "1h"), annotate(v1alpha1.AnnotationMaxDelay, "10h"))).Snapshot
				s.Now = now.Add(after)
				s.Clusters[0].LoadAt = Expected(nil, []Use{use}, LocalCluster, timegrid.Timeline{}, timegrid.Align(s.Now, s.Slot), s.Slot)
				s.Clusters[0].Carbon = falling(t, now)
				d, err := decide.Decide(t.Context(), s, cheapest.Planner{})
				if err != nil {
					t.Fatal(err)
				}
				a := d.Actions[0]
				if a.Verb == decide.Wait && a.Reason.LatestStart.After(s.Tasks[0].Deadline) {
					t.Errorf("after %v: waits until %s, %v after its deadline: %s", after, a.Reason.LatestStart, a.Reason.LatestStart.Sub(s.Tasks[0].Deadline), a.Reason.Message())
				}
				if !tc.counts && after == 0 && a.Verb != decide.Wait {
					t.Errorf("%v, want it to wait for cleaner power: %s", a.Verb, a.Reason.Message())
				}
			}
		})
	}
}

// falling is an intensity that falls for 96 hours.
func falling(t *testing.T, from time.Time) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range 96 {
		at := from.Truncate(time.Hour).Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(500 - h)})
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
