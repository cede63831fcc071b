//go:build integration

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// TestProfilerMeasuresThroughput measures a Job of many short parts at one, three and four workers: twice, once
// into the cluster and once into a file. A policy that would hold it does not. How much faster more workers are depends on
// the machine here: TestProfilerMeasuresThroughputOfTheModel of test/controlloop checks the measured values.
func TestProfilerMeasuresThroughput(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyLong(), nil)
	j := b.elasticJob("parts", 400, 4, nil)
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "15m" // a second
	j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	text, err := yaml.Marshal(j)
	must(t, err)
	file := filepath.Join(t.TempDir(), "job.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	b.eventually("the zone's intensity", func() bool {
		var zone v1alpha1.GridZone
		must(t, env.client.Get(context.Background(), client.ObjectKey{Name: b.zone}, &zone))
		return zone.Status.Intensity != nil
	})
	out := command(t, "profile", "-f", file, "--min", "1", "--max", "4", "--step", "2", "--duration", "4s", "--zone", b.zone)
	t.Log(out)
	for _, part := range []string{"WORKERS", "interpolated", "% of the run was profiled", "emitted", "wrote ScalingProfile"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output lacks %q", part)
		}
	}
	var p v1alpha1.ScalingProfile
	must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "parts"}, &p))
	points := p.Spec.Points
	if len(points) != 3 || points[0].Workers != 1 || points[1].Workers != 3 || points[2].Workers != 4 {
		t.Fatalf("points %+v", points)
	}
	for _, x := range points {
		if x.Throughput <= 0 {
			t.Errorf("%d workers: throughput %v", x.Workers, x.Throughput)
		}
	}
	if p.Spec.Profiled == nil || *p.Spec.Profiled.Share <= 0 || p.Spec.Profiled.EmissionsG <= 0 {
		t.Errorf("profiled %+v", p.Spec.Profiled)
	}
	b.eventually("the measured Job to be gone", func() bool {
		var jobs batchv1.JobList
		must(t, env.client.List(context.Background(), &jobs, client.InNamespace(b.ns)))
		return len(jobs.Items) == 0
	})
	to := filepath.Join(t.TempDir(), "profile.yaml")
	command(t, "profile", "-f", file, "--min", "1", "--max", "2", "--duration", "1s", "-o", to)
	if text, err := os.ReadFile(to); err != nil || !strings.Contains(string(text), "kind: ScalingProfile") {
		t.Errorf("%s %v", text, err)
	}
}
