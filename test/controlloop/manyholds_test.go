package controlloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
	"lull.dev/lull/test/size"
)

// TestManyHoldsEndTogether: thousands of holds end at the same second. The controller died before they were created.
// The watchdog releases each by ten seconds after its latest safe start, and none earlier than it takes to release all of them, also at an
// API server that takes a second for a write.
func TestManyHoldsEndTogether(t *testing.T) {
	for _, holds := range size.Of([]int{200}, []int{500, 2000, 10_000}) {
		// A call takes up to that long, half of it on average.
		for name, latency := range map[string]time.Duration{"20ms": 40 * time.Millisecond, "100ms": 200 * time.Millisecond, "500ms": time.Second} {
			t.Run(fmt.Sprintf("holds=%d/%s", holds, name), func(t *testing.T) { manyHolds(t, holds, latency) })
		}
	}
}

func manyHolds(t *testing.T, holds int, latency time.Duration) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Leaders = true
		w.Create(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "team"}, Spec: v1alpha1.CarbonPolicySpec{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: "zone", Planner: v1alpha1.PlannerSpec{Name: "cheapest"},
			}},
		)
		c := w.Controller()
		w.Faults.Latency = latency
		w.Watchdog()
		w.Run(2 * time.Minute)
		c.Kill()
		end := time.Now().Add(6 * time.Minute).Truncate(time.Second) // the latest safe start
		for i := range holds {
			p := &planned{length: time.Hour}
			job := p.submits(fmt.Sprintf("job-%d", i), 1)
			delete(job.Annotations, v1alpha1.AnnotationMaxDelay)
			// The work takes an hour, and its safety margin is five minutes.
			job.Annotations[v1alpha1.AnnotationDeadline] = end.Add(time.Hour + 5*time.Minute).Format(time.RFC3339)
			w.Create(job)
		}
		w.Run(time.Until(end) + time.Minute)
		released, first, last := 0, time.Time{}, time.Time{}
		for _, e := range w.Store.Since(0) {
			if e.Resource.Kind != "Job" || e.Before == nil {
				continue
			}
			was, _, _ := unstructured.NestedBool(e.Before.Object, "spec", "suspend")
			is, _, _ := unstructured.NestedBool(e.Object.Object, "spec", "suspend")
			if !was || is {
				continue
			}
			if !strings.HasPrefix(e.By, "failsafe") {
				t.Fatalf("%s was released by %q", e.Object.GetName(), e.By)
			}
			if released++; first.IsZero() {
				first = e.At
			}
			last = e.At
		}
		t.Logf("%d of %d holds released, from %v to %v after their latest safe start", released, holds, first.Sub(end), last.Sub(end))
		if early := time.Duration(holds)*time.Second/50 + 10*time.Second; first.Before(end.Add(-early)) {
			t.Errorf("the first hold was released %v before its latest safe start, want at most %v", end.Sub(first), early)
		}
		if released < holds || last.After(end.Add(10*time.Second)) {
			t.Errorf("%d of %d holds released, the last %v after its latest safe start", released, holds, last.Sub(end))
		}
	})
}
