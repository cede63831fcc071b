package demo

import (
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/reproduce"
)

// TestEachMethodGetsTheSameJobs: each method gets the same jobs on nodes of its own; only those that scale are elastic.
func TestEachMethodGetsTheSameJobs(t *testing.T) {
	r := &capacityRun{week: &reproduce.CapacityWeek{Jobs: []reproduce.CapacityJob{{Length: 3 * time.Hour, Delay: 6 * time.Hour, Profile: "mobilenet_v2", Curve: []float64{1, 0.5}}}}}
	for _, m := range provisionedMethods() {
		x, job := r.job(m, 0)
		_, elastic := job.Annotations[v1alpha1.AnnotationMaxWorkers]
		if elastic != m.scales || elastic == (job.Annotations[v1alpha1.AnnotationInterruptible] == "true") {
			t.Errorf("%s: elastic %v, want %v", m.key, elastic, m.scales)
		}
		if job.Name != m.key+"-000" || job.Labels[poolLabel] != m.key || job.Spec.Template.Spec.NodeSelector[poolLabel] != m.key || job.Annotations[v1alpha1.AnnotationMaxDelay] != "6h0m0s" {
			t.Errorf("%s: %+v", m.key, job.ObjectMeta)
		}
		if w := x.work(); w.Length != 3*time.Hour || w.Throughput[1] != 1.5 {
			t.Errorf("%s: work %+v", m.key, w)
		}
		if m.method != nil && (r.policy(m).Name != m.key || r.curve(m).Spec.Policies[0].Name != m.key) {
			t.Errorf("%s: policy and curve do not belong together", m.key)
		}
	}
}
