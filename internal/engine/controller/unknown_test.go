package controller

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
)

// heard keeps the notes of events.
type heard []string

func (h *heard) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	*h = append(*h, regarding.(*unstructured.Unstructured).GetName()+" "+reason+" "+fmt.Sprintf(note, args...))
}

// TestMisspeltAnnotationsAreTold: a workload with an unknown annotation gets an Event once, and again when what is
// unknown changes; the condition of its policy names it. The cache keeps the name for that.
func TestMisspeltAnnotationsAreTold(t *testing.T) {
	job, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	workload := func(name string, annotations map[string]any) *kube.Workload {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": name, "namespace": "n", "uid": name, "annotations": annotations}, "spec": map[string]any{},
		}}
		job[0].Prune(u.Object) // as the cache does
		return kube.NewWorkload(job[0], u)
	}
	var h heard
	r := &CarbonPolicyReconciler{Applier: &kube.Applier{Recorder: &h}}
	memory := feedback.New()
	right := workload("right", map[string]any{"lull.dev/max-delay": "6h", "example.com/max-dealy": "x"})
	view := &kube.View{Workloads: []*kube.Workload{workload("wrong", map[string]any{"lull.dev/max-dealy": "6h"}), right}}
	for range 3 {
		r.reportUnknownAnnotations(view, memory)
	}
	const want = "annotation lull.dev/max-dealy is unknown and has no effect; the nearest is lull.dev/max-delay"
	if len(h) != 1 || h[0] != "wrong UnknownAnnotation "+want {
		t.Errorf("events %q", h)
	}
	if got := unknownAnnotations(view); got != "Job wrong: "+want {
		t.Errorf("condition %q", got)
	}
	view.Workloads[0] = workload("wrong", map[string]any{"lull.dev/runtme": "6h"})
	r.reportUnknownAnnotations(view, memory)
	if len(h) != 2 || !strings.Contains(h[1], "lull.dev/runtime") {
		t.Errorf("events %q", h)
	}
	if got := unknownAnnotations(&kube.View{Workloads: []*kube.Workload{right}}); got != "" {
		t.Errorf("condition %q", got)
	}
}
