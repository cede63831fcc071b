package decide_test

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// TestCurveErrorIsShort: the error of a curve that begins without throughput names its first value, not all of it.
func TestCurveErrorIsShort(t *testing.T) {
	for want, curve := range map[string][]float64{"curve begins with [0]; accepted: a throughput above 0": make([]float64, 5000), "curve begins with []; accepted": nil} {
		_, err := decide.Decide(t.Context(), decide.Snapshot{
			Now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Slot: time.Hour, Clusters: []decide.Cluster{{Name: "c"}},
			Tasks: []decide.Task{{ID: "a", Kind: workload.Elastic, State: decide.Waiting, Scaling: &decide.Scaling{MinWorkers: 1, MaxWorkers: 5000, Curve: curve}}},
		}, asap.Planner{})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.300v; want %q", err, want)
		}
	}
}
