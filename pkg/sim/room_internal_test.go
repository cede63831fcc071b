package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/workload"
)

// TestWhatDividesACapacityFits: jobs that ask for equal parts of a memory all run at once, although
// their sum is above it by the rounding of the division, as planners and decisions count.
func TestWhatDividesACapacityFits(t *testing.T) {
	const memory = 1e12
	start := time.Unix(0, 0)
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, []carbon.Sample{{From: start, To: start.Add(1000 * time.Hour), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for parts := 2; parts <= 60; parts++ {
		cfg := Config{Slot: time.Hour, atOnce: true, Clusters: []Cluster{{Name: "a", Capacity: map[string]float64{"memory": memory}, Actual: series}}}
		for i := range parts {
			cfg.Jobs = append(cfg.Jobs, Job{ID: fmt.Sprint(i), Submitted: start, Length: time.Hour, Estimate: time.Hour, Kind: workload.Rigid, Request: map[string]float64{"memory": memory / float64(parts)}})
		}
		res, err := Simulate(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range res.Jobs {
			if o.Wait > 0 {
				t.Errorf("job %d of %d waits %v", i+1, parts, o.Wait)
			}
		}
	}
}
