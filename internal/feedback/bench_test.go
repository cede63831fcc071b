package feedback

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// BenchmarkReconcile is what a decision on 5,000 Jobs that wait costs beside planning and the
// API, where all plans stand: observe, compare with the plans, follow them, state them.
func BenchmarkReconcile(b *testing.B) {
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		b.Fatal(err)
	}
	var workloads []*kube.Workload
	for i := range 5000 {
		workloads = append(workloads, kube.NewWorkload(named[0], &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": fmt.Sprintf("job-%d", i), "namespace": "ns", "uid": fmt.Sprintf("u-%d", i), "creationTimestamp": t0.Format(time.RFC3339),
				"annotations": map[string]any{
					v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission, v1alpha1.AnnotationRuntime: "2h", v1alpha1.AnnotationMaxDelay: "20h",
					v1alpha1.AnnotationDecision: `{"verb":"Wait","reason":"CleanerLater","message":"starts later","expectedSaving":0.5}`,
				},
			},
			"spec": map[string]any{"suspend": true, "parallelism": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "100m"}}},
			}}}},
		}}))
	}
	samples := []carbon.Sample{{From: at(-24), To: at(10), Value: 500}, {From: at(10), To: at(48), Value: 100}}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		b.Fatal(err)
	}
	policy := &v1alpha1.CarbonPolicy{}
	m := New()
	standing := &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(12), Cluster: "local", Workers: 1, Intensity: 100}}, Reason: decide.Reason{Code: decide.CodeCleanerLater}}
	look := func() kube.View {
		view, err := kube.Observe(kube.Input{Now: at(1), Timeline: timegrid.Timeline{}, Policy: policy, Carbon: carbon.Outlook{Expected: series}, Workloads: workloads, Learned: m})
		if err != nil {
			b.Fatal(err)
		}
		return view
	}
	view := look()
	for i := range view.Workloads {
		r := m.record(view.Workloads[i])
		r.standing, r.forecast, r.signature, r.plannedAt, r.plans = standing, "f", signatureOf(&view.Snapshot.Tasks[i]), at(0), 1
	}
	for b.Loop() {
		view := look()
		if due := m.Prepare(&view, "f", 0.05, kube.Context{}); len(due) > 0 {
			b.Fatal("plans do not stand")
		}
		d, err := decide.Decide(b.Context(), view.Snapshot, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i, w := range view.Workloads {
			kube.Tells(w, &d.Actions[i])
			if m.Settled(&view, i, &d.Actions[i]) {
				continue
			}
			if s := m.Status(&view, i, &d.Actions[i]); m.ToWrite(w, &s, at(1)) {
				m.Wrote(w, &s, at(1))
			}
		}
	}
}
