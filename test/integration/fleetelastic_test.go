//go:build integration && fleet

package integration

import (
	"context"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kueue"
)

// keepsItsScale: an elastic Job of a hub runs at the scale that it was submitted with on the cluster to
// which it went, and is never on two.
func keepsItsScale(t *testing.T, _ string, at map[string]client.Client) {
	startController(t)
	first, second := make([]float64, 96), make([]float64, 96)
	for h := range first {
		first[h], second[h] = 400, 900
		if h >= 6 && h < 9 {
			first[h] = 60
		}
	}
	b := newBed(t, second, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
	})
	b.onSpokes(at)
	b.cluster("spoke-1", first)
	b.cluster("spoke-2", second)
	ctx := context.Background()
	must(t, env.client.Create(ctx, concave(b.ns)))
	b.inQueue("spoke-1", "spoke-2")
	j := b.elasticJob("elastic", 8, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "1h", v1alpha1.AnnotationProfile: "concave"})
	j.Labels[kueue.LabelQueue] = "lab"
	two := int32(2)
	j.Spec.Parallelism = &two
	b.submit(j)
	var scales []int32
	b.eventually("it to finish", func() bool {
		on := 0
		for cluster, c := range at {
			var job batchv1.Job
			if c.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "elastic"}, &job) != nil || job.DeletionTimestamp != nil {
				continue
			}
			on++
			if cluster != "spoke-1" {
				t.Errorf("it is on %s", cluster)
			}
			if n := job.Status.Active; n > 0 && !slices.Contains(scales, n) {
				scales = append(scales, n)
			}
		}
		if on > 1 {
			t.Error("it is on two clusters")
		}
		return b.finished("elastic")
	})
	t.Logf("active workers on the spoke: %v", scales)
	if slices.Max(append(scales, 0)) != 2 {
		t.Errorf("workers that were active on the spoke: %v; want two at most", scales)
	}
}
