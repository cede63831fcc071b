package kube

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
		podless time.Duration // for which it has had no pod, as far as was seen
		change  func(*batchv1.Job)
		counts  bool
	}{
		"just released":     {podless: 0, counts: true},
		"for nine minutes":  {podless: 9 * time.Minute, counts: true},
		"for ten minutes":   {podless: 10 * time.Minute},
		"it tells of a pod": {podless: time.Hour, counts: true, change: func(j *batchv1.Job) { j.Status.Active = 1 }},
		"in a queue":        {podless: time.Hour, counts: true, change: func(j *batchv1.Job) { j.Labels["kueue.x-k8s.io/queue-name"], j.Status.StartTime = "q", nil }},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newJob("claim", running, annotate(v1alpha1.AnnotationRuntime, "8760h"), annotate(v1alpha1.AnnotationMaxDelay, "0s"), func(j *batchv1.Job) {
				j.Status.Active = 0
				j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000000")}
				if j.Labels == nil {
					j.Labels = map[string]string{}
				}
				if tc.change != nil {
					tc.change(j)
				}
			})
			stated := policy
			stated.ScaleUpPatience = hours(168) // of the tenant who claims: it does not count
			v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: stated}, Workloads: []*Workload{workloadOf(t, &claim)}, Learned: podless{since: now.Add(-tc.podless)}})
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
			if tc.counts && tc.change == nil && v.DeniedAt.IsZero() {
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

// podless has seen no pod since a time.
type podless struct {
	learned
	since time.Time
}

func (p podless) PodlessSince(*Workload, bool, time.Time) time.Time { return p.since }

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
