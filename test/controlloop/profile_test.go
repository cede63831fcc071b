package controlloop

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// TestProfilerMeasuresThroughputOfTheModel measures a Job of 400 parts, of ten seconds each, at one, three and four workers: the throughput is that of so many
// workers. A policy that would hold the Job does not.
func TestProfilerMeasuresThroughputOfTheModel(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		j := b.elasticJob("parts", 400, 4, nil)
		j.Spec.Template.Annotations[simkube.RunTime] = "10m"
		j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
		text, err := yaml.Marshal(j)
		b.must(err)
		file := filepath.Join(t.TempDir(), "job.yaml")
		b.must(os.WriteFile(file, text, 0o600))
		b.Until("the zone's intensity", func() bool {
			var zone v1alpha1.GridZone
			b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: b.zone}, &zone))
			return zone.Status.Intensity != nil
		})
		b.command([]string{"profile", "-f", file, "-n", b.ns, "--min", "1", "--max", "4", "--step", "2", "--duration", "2m", "--zone", b.zone},
			"WORKERS", "interpolated", "% of the run was profiled", "emitted", "wrote ScalingProfile")
		var p v1alpha1.ScalingProfile
		b.read("parts", &p)
		points := p.Spec.Points
		if len(points) != 3 || points[0].Workers != 1 || points[1].Workers != 3 || points[2].Workers != 4 {
			t.Fatalf("points %+v", points)
		}
		for _, x := range points {
			if got := x.Throughput / float64(x.Workers) * 400 / 360; math.Abs(got-1) > 0.2 {
				t.Errorf("each of %d workers has %.2f times the throughput that it has: %+v", x.Workers, got, points)
			}
		}
		if p.Spec.Profiled == nil || *p.Spec.Profiled.Share <= 0 || p.Spec.Profiled.EmissionsG <= 0 {
			t.Errorf("profiled %+v", p.Spec.Profiled)
		}
		b.Until("the measured Job to be gone", func() bool {
			var jobs batchv1.JobList
			b.must(b.Client.List(b.Context(), &jobs, client.InNamespace(b.ns)))
			return len(jobs.Items) == 0
		})
	})
}
