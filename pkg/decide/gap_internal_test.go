package decide

import (
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// TestGapIsRelativeToTheBound: a plan of 150 g with a bound of 100 g is 50 % off, as "lull plan" and the glossary have it.
func TestGapIsRelativeToTheBound(t *testing.T) {
	p := &plan.Problem{
		Grid: timegrid.Grid{Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Slot: time.Hour, N: 1}, Objective: plan.Objective{Kind: plan.Carbon},
		Clusters: []plan.Cluster{{Name: "c", Watts: map[string]float64{"cpu": 1000}, PUE: 1, Intensity: []float64{150}, Capacity: map[string][]float64{"cpu": {1}}}},
		Jobs:     []workload.Job{{ID: "a", Kind: workload.Rigid, Length: 1, Deadline: 1, Request: map[string]float64{"cpu": 1}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}}},
	}
	made := plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: []plan.Segment{{Slot: 0, Workers: 1, Fraction: 1}}}}}
	unknown := math.Inf(1)
	for bound, want := range map[float64]float64{100: 0.5, 150: 0, 150.001: 0, 0: unknown} {
		got := gapOf(p, plan.Result{Plan: made, Bound: &bound})
		if (got == nil) != (want == unknown) || got != nil && math.Abs(*got-want) > 1e-9 {
			t.Errorf("bound %v: %v, want %v", bound, got, want)
		}
	}
	if gapOf(p, plan.Result{Plan: made}) != nil {
		t.Error("a gap without a bound")
	}
}
