package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// cached answers as a cache does.
type cached struct {
	client.Reader
	plans []v1alpha1.CarbonPlan
}

func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if plans, ok := list.(*v1alpha1.CarbonPlanList); ok {
		plans.Items = c.plans
	}
	return nil
}

func manyPlans(n int) cached {
	var c cached
	for i := range n {
		at := metav1.NewTime(time.Date(2026, 10, 1, i*7919%5000, 0, 0, 0, time.UTC))
		p := v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%50), Name: fmt.Sprint("job-", i)}, Spec: v1alpha1.CarbonPlanSpec{Policy: "clean", Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: fmt.Sprint("train-", i)}}}
		p.Status = v1alpha1.CarbonPlanStatus{State: v1alpha1.PlanWaiting, Deadline: &at, ExpectedG: new(1.0), BaselineG: 2, Phases: make([]v1alpha1.PlanPhase, 4)}
		switch i % 10 {
		case 0:
			p.Status.State = v1alpha1.PlanFinished
		case 1:
			p.Status.Deadline = nil
		}
		c.plans = append(c.plans, p)
	}
	return c
}

// TestPlansAreOrdered: what may not wait first, then by deadline, what is finished last; page after page
// has each once.
func TestPlansAreOrdered(t *testing.T) {
	c := manyPlans(1000)
	var all []Plan
	for offset := 0; ; offset += 300 {
		page, err := plansOf(t.Context(), c, filter{offset: offset, limit: 300})
		if err != nil || page.Total != 1000 {
			t.Fatalf("%d, %v", page.Total, err)
		}
		if len(page.Items) == 0 {
			break
		}
		all = append(all, page.Items...)
	}
	seen := map[string]bool{}
	rank := func(p *Plan) int {
		switch {
		case p.State == "Finished":
			return 2
		case p.Deadline == nil:
			return 0
		}
		return 1
	}
	for i := range all {
		seen[all[i].Namespace+"/"+all[i].Name] = true
		if i == 0 {
			continue
		}
		a, b := &all[i-1], &all[i]
		if rank(a) > rank(b) || rank(a) == 1 && rank(b) == 1 && b.Deadline.Before(*a.Deadline) {
			t.Fatalf("%d: %+v before %+v", i, a, b)
		}
	}
	if len(all) != 1000 || len(seen) != 1000 {
		t.Errorf("%d plans, %d names", len(all), len(seen))
	}
	if page, err := plansOf(t.Context(), c, filter{text: "TRAIN-77", state: "Waiting", limit: 50}); err != nil || page.Total == 0 || page.Total > 12 {
		t.Errorf("%d fit, %v", page.Total, err)
	}
}

// TestPageHeadersForbidOtherOrigins: browsers are told to fetch nothing from elsewhere and to keep nothing.
func TestPageHeadersForbidOtherOrigins(t *testing.T) {
	s := &Server{Reader: manyPlans(1), Access: Loopback{}}
	for host, want := range map[string]int{"localhost:8090": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "127.0.0.1.evil.example": 403, "evil.example": 403, "": 403} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'") || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", host, h)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := httptest.NewRequest(method, "/api/plans", http.NoBody)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code < 400 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func BenchmarkPlans(b *testing.B) {
	c := manyPlans(10_000)
	for b.Loop() {
		if _, err := plansOf(b.Context(), c, filter{limit: 50}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOverview(b *testing.B) {
	c := manyPlans(10_000)
	for b.Loop() {
		if _, err := (&Server{Reader: c}).overview(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
