package controlloop

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

var holds = flag.Int("holds", 60, "how many holds of a dead controller end together in TestHoldsOfADeadController")

// TestHoldsOfADeadController: the controller dies, and all holds end at the same second. The watchdog releases each by ten seconds after its
// latest safe start, and none earlier than it takes to release all of them.
//
//	go test -timeout 0 ./test/controlloop -run TestHoldsOfADeadController -holds 10000
func TestHoldsOfADeadController(t *testing.T) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Leaders = true
		csv := "time,intensity_gco2eq_per_kwh\n"
		for h := range 12 { // each hour is half as dirty as the one before
			csv += fmt.Sprintf("%s,%d\n", time.Now().UTC().Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 1024>>h)
		}
		w.AddNode(simkube.Node("node", "100000"))
		w.Create(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: "team"}, Data: map[string]string{"s.csv": csv}},
			&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: v1alpha1.GridZoneSpec{
				Zone: "TEST", Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: "team", Name: "series", Key: "s.csv"}},
			}},
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "team"}, Spec: v1alpha1.CarbonPolicySpec{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: "zone", Planner: v1alpha1.PlannerSpec{Name: "cheapest"},
			}},
		)
		c := w.Controller()
		w.Watchdog()
		deadline := time.Now().Add(95 * time.Minute).Truncate(time.Second)
		names := make([]string, *holds)
		for i := range names {
			p := &planned{length: time.Hour}
			job := p.submits(fmt.Sprintf("job-%d", i), 1)
			job.Annotations[v1alpha1.AnnotationDeadline] = deadline.Format(time.RFC3339)
			delete(job.Annotations, v1alpha1.AnnotationMaxDelay)
			names[i] = job.Name
			w.Create(job)
		}
		w.Run(10 * time.Minute)
		c.Kill()
		w.Run(time.Until(deadline) - 20*time.Minute)
		released, worst, first, latest := 0, -time.Hour, time.Hour, time.Time{}
		for _, e := range w.Store.Since(0) {
			if e.Resource.Kind != "Job" || e.Before == nil {
				continue
			}
			was, _, _ := unstructured.NestedBool(e.Before.Object, "spec", "suspend")
			is, _, _ := unstructured.NestedBool(e.Object.Object, "spec", "suspend")
			end, err := time.Parse(time.RFC3339, e.Before.GetAnnotations()[v1alpha1.AnnotationLatestStart])
			if !was || is {
				continue
			}
			if err != nil {
				t.Fatalf("%s was released without a latest start by %s at %s: %s", e.Object.GetName(), e.By, e.At, e.Object.GetAnnotations()[v1alpha1.AnnotationDecision])
			}
			if !latest.IsZero() && !end.Equal(latest) {
				t.Fatalf("holds end at %s and %s", latest, end)
			}
			if !strings.HasPrefix(e.By, "failsafe") {
				t.Fatalf("%s was released by %q: %s", e.Object.GetName(), e.By, e.Object.GetAnnotations()[v1alpha1.AnnotationDecision])
			}
			released, worst, first, latest = released+1, max(worst, e.At.Sub(end)), min(first, e.At.Sub(end)), end
		}
		t.Logf("%d of %d holds released, the last %v after its latest safe start", released, len(names), worst)
		if early := time.Duration(len(names))*time.Second/50 + 10*time.Second; first < -early {
			t.Errorf("the first hold was released %v before its latest safe start, want at most %v", -first, early)
		}
		if released < len(names) || worst > 10*time.Second {
			t.Errorf("%d of %d holds released, the last %v after its latest safe start", released, len(names), worst)
		}
	})
}
