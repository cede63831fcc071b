//go:build integration && fleet

package integration

import (
	"context"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// cleanLater are hourly intensities that are low in hours 8 to 13.
// They are no more, as fewer workers would do then: it takes a machine on which Kueue needs more than those 24 s for a
// resize to fail a test of them.
func cleanLater() []float64 {
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 400
		if h >= 8 && h < 14 {
			hourly[h] = 60
		}
	}
	return hourly
}

// elasticBed is one whose plans scale.
func elasticBed(t *testing.T, hourly []float64) bed {
	t.Helper()
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{} // Kueue sets the pace
	}))
	must(t, env.client.Create(context.Background(), concave(b.ns)))
	return b
}

// scales submits an elastic Job to the queue: twelve hours of work that must be done by hour 18. It
// begins before the clean hours with few workers and has more in them, all of which run, on one cluster.
func (b bed) scales(at map[string]client.Client, where string) {
	b.t.Helper()
	j := b.elasticJob("elastic", 12, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "6h", v1alpha1.AnnotationProfile: "concave"})
	j.Labels[kueue.LabelQueue] = "lab"
	b.submit(j)
	if scales := b.workersSeen(at, where); slices.Max(append(scales, 0)) < 3 {
		b.t.Errorf("workers that ran: %v; want more in the clean hours", scales)
	}
}

// workersSeen are the numbers of workers that the Job "elastic" had until it finished, in order; it must
// be on one cluster only.
func (b bed) workersSeen(at map[string]client.Client, where string) (scales []int) {
	b.t.Helper()
	ctx := context.Background()
	b.eventually("the elastic Job to finish", func() bool {
		on := 0
		for cluster, c := range at {
			var job batchv1.Job
			if c.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "elastic"}, &job) != nil || job.DeletionTimestamp != nil {
				continue
			}
			on++
			if cluster != where {
				b.t.Errorf("it is on %s", cluster)
			}
			var pods corev1.PodList
			must(b.t, c.List(ctx, &pods, client.InNamespace(b.ns), client.MatchingLabels{batchv1.JobNameLabel: "elastic"}))
			n := 0
			for i := range pods.Items {
				if pods.Items[i].Status.Phase == corev1.PodRunning {
					n++
				}
			}
			if n > 0 && (len(scales) == 0 || scales[len(scales)-1] != n) {
				scales = append(scales, n)
			}
		}
		if on > 1 {
			b.t.Error("it is on two clusters")
		}
		return b.finished("elastic")
	})
	b.t.Logf("workers that ran: %v", scales)
	return scales
}

// scalesThere: an elastic Job of a hub is scaled on the cluster to which it went.
func scalesThere(t *testing.T, _ string, at map[string]client.Client) {
	startController(t)
	dirty := make([]float64, 96)
	for h := range dirty {
		dirty[h] = 900
	}
	b := elasticBed(t, dirty)
	b.onSpokes(at)
	b.cluster("spoke-1", cleanLater())
	b.cluster("spoke-2", dirty)
	b.inQueue("spoke-1", "spoke-2")
	b.scales(at, "spoke-1")
}
