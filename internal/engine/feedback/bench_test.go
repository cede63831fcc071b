package feedback

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/caspian"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/units"
)

// BenchmarkReconcile is what a decision on 5,000 Jobs that wait costs beside planning and the
// API, where all plans stand: observe, compare with the plans, follow them, state them.
func BenchmarkReconcile(b *testing.B) {
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		b.Fatal(err)
	}
	workloads := waiting(named[0], 5000, "20h")
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
		seen := observed(&view.Progress[i])
		r.track, r.plans = track.Restore(standing, &view.Snapshot.Tasks[i], &seen, track.Rules{Forecast: "f"}, at(0)), 1
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
			kube.Tells(w, &d.Actions[i], view.Progress[i].StatedStart)
			if m.Settled(&view, i, &d.Actions[i]) {
				continue
			}
			if s := m.Status(&view, i, &d.Actions[i]); m.ToWrite(w, &s, at(1)) {
				m.Wrote(w, &s, at(1))
			}
		}
	}
}

// waiting are Jobs that wait, with one CPU each.
func waiting(kind *kinds.Kind, n int, delay string) []*kube.Workload {
	var out []*kube.Workload
	for i := range n {
		out = append(out, kube.NewWorkload(kind, &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": fmt.Sprintf("job-%d", i), "namespace": "ns", "uid": fmt.Sprintf("u-%d", i), "creationTimestamp": t0.Format(time.RFC3339),
				"annotations": map[string]any{
					v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission, v1alpha1.AnnotationRuntime: fmt.Sprintf("%dh", 1+i%5), v1alpha1.AnnotationMaxDelay: delay,
					v1alpha1.AnnotationDecision: `{"verb":"Wait","reason":"CleanerLater","message":"starts later","expectedSaving":0.5}`,
				},
			},
			"spec": map[string]any{"suspend": true, "parallelism": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": fmt.Sprint(1 + i%5)}}},
			}}}},
		}}))
	}
	return out
}

// BenchmarkPeriod is a planning period of a hub, the API apart: 1,000 Jobs that wait, 10 clusters
// and 24 slots, from what is observed to the place of each.
func BenchmarkPeriod(b *testing.B) {
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		b.Fatal(err)
	}
	workloads := waiting(named[0], 1000, "18h")
	var clusters []decide.Cluster
	for c := range 10 {
		var samples []carbon.Sample
		for h := range 48 {
			samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(300 + 20*c + int(200*math.Sin(float64(h+3*c)/4)))})
		}
		series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
		if err != nil {
			b.Fatal(err)
		}
		clusters = append(clusters, decide.Cluster{
			Name: fmt.Sprintf("cluster-%d", c), Power: power.PerUnit{Watts: map[string]float64{"cpu": 3.5}, PUE: 1}, Carbon: series, Capacity: map[string]float64{"cpu": 64},
		})
	}
	hour := &metav1.Duration{Duration: time.Hour}
	for name, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "caspian": caspian.Planner{}} {
		for _, objective := range []v1alpha1.ObjectiveKind{v1alpha1.ObjectiveCarbon, v1alpha1.ObjectiveMOSP} {
			policy := &v1alpha1.CarbonPolicy{Spec: v1alpha1.CarbonPolicySpec{Slot: hour, Objective: &v1alpha1.ObjectiveSpec{Kind: objective}}}
			b.Run(name+"/"+string(objective), func(b *testing.B) {
				for b.Loop() {
					view, err := kube.Observe(kube.Input{Now: at(1), Timeline: timegrid.Timeline{}, Policy: policy, Workloads: workloads, Clusters: slices.Clone(clusters), Learned: New()})
					if err != nil {
						b.Fatal(err)
					}
					m := New()
					due := m.Prepare(&view, "f", 0.05, kube.Context{})
					d, err := decide.Decide(b.Context(), view.Snapshot, planner)
					if err != nil {
						b.Fatal(err)
					}
					kube.Place(&view, &d)
					placed := 0
					for i := range d.Actions {
						if len(d.Actions[i].Phases) > 0 {
							placed++
						}
					}
					if len(due) != len(workloads) || placed < len(workloads)*9/10 {
						b.Fatalf("%d planned, %d placed", len(due), placed)
					}
				}
			})
		}
	}
}
