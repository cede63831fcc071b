package kube

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

const export = `{"apiVersion": "v1", "kind": "List", "items": [
 {"apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "late", "namespace": "ml", "creationTimestamp": "2023-05-01T10:00:00Z",
   "annotations": {"lull.dev/interruptible": "true", "lull.dev/runtime": "2h", "lull.dev/deadline": "2023-05-02T10:00:00Z"}},
  "spec": {"parallelism": 3, "template": {"spec": {"priorityClassName": "batch", "containers": [
    {"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"}}}]}}},
  "status": {"startTime": "2023-05-01T10:05:00Z", "completionTime": "2023-05-01T11:35:00Z"}},
 {"apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "running", "namespace": "ml", "creationTimestamp": "2023-05-01T09:00:00Z"},
  "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}, "status": {"startTime": "2023-05-01T10:05:00Z"}},
 {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
  "metadata": {"name": "w", "namespace": "ml", "creationTimestamp": "2023-05-01T08:00:00Z"},
  "spec": {"queueName": "gpus", "podSets": [{"name": "main", "count": 4, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}}]},
  "status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "2023-05-01T08:10:00Z"},
   {"type": "Finished", "status": "True", "lastTransitionTime": "2023-05-01T09:10:00Z"}]}}]}`

func TestReadExport(t *testing.T) {
	tr, err := ReadExport(strings.NewReader(export))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Jobs) != 2 || tr.Skipped.Total() != 1 || !tr.Start.Equal(time.Date(2023, 5, 1, 8, 0, 0, 0, time.UTC)) {
		t.Fatalf("%d jobs, skipped: %v, from %v", len(tr.Jobs), tr.Skipped, tr.Start)
	}
	w, j := tr.Jobs[0], tr.Jobs[1]
	if w.ID != "ml/w" || w.Length != time.Hour || w.Request[trace.CPU] != 8 || w.Class != "gpus" {
		t.Errorf("workload: %+v", w)
	}
	if j.Arrival != 2*time.Hour || j.Length != 90*time.Minute || j.Request[trace.CPU] != 4.5 || j.Request[trace.Memory] != 6 || j.Request[trace.GPU] != 3 {
		t.Errorf("job: %+v", j)
	}
	if j.Kind != workload.Interruptible || j.Estimate != 2*time.Hour || j.Deadline != 26*time.Hour || j.PriorityClass != "batch" {
		t.Errorf("job, as stated: %+v", j)
	}
}

// TestReadExportNulls: an item that is null says nothing.
func TestReadExportNulls(t *testing.T) {
	for _, text := range []string{strings.Replace(export, `"items": [`, `"items": [null, [null],`, 1), export + " null", "[null," + export + "]"} {
		if tr, err := ReadExport(strings.NewReader(text)); err != nil || len(tr.Jobs) != 2 {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func TestReadExportErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                               "list",
		"\xff\xfe{\x00":                    "UTF-16, as older PowerShell writes with >; accepted: UTF-8",
		"{\n\"items\": [\x00]}":            "line 2: NUL (U+0000); accepted: plain text in UTF-8",
		`{"items": [{"kind": "Service"}]}`: "Service",
		"":                                 "list",
		`{"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1"}`: "volcano",
		"kind: Job\nspec: {a: 1, a: 2}":                              "a",
		"{}":                                                         "kind",
		`{"items": [{"kind": "Job", "metadata": 7}]}`:                "items[0]",
		strings.Replace(export, `"2h"`, `"soon"`, 1):                 "soon",
	} {
		if _, err := ReadExport(strings.NewReader(text)); !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one that names %s", text, err, want)
		}
	}
}

func FuzzReadExport(f *testing.F) {
	f.Add(export)
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ReadExport(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, j := range tr.Jobs {
			if j.Length <= 0 || j.Arrival < 0 {
				t.Fatalf("%+v", j)
			}
		}
	})
}
