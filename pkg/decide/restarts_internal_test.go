package decide

import (
	"context"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// TestPauseAmidAStartIsPriced: the planner is told that a pause of a task that starts, with 2 of 10 minutes left, costs the other 8 once more.
func TestPauseAmidAStartIsPriced(t *testing.T) {
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: now, To: now.Add(24 * time.Hour), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	s := Snapshot{
		Now: now, Slot: time.Hour,
		Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
		Tasks: []Task{{
			ID: "a", Kind: workload.Interruptible, Submitted: now.Add(-2 * time.Hour), Deadline: now.Add(20 * time.Hour), Remaining: 4 * time.Hour,
			Request: map[string]float64{"cpu": 2}, State: Running, Cluster: "c", Changed: now.Add(-2 * time.Hour), Restart: 10 * time.Minute, Starting: 2 * time.Minute,
		}},
	}
	planner := &sees{}
	if _, err := Decide(context.Background(), s, planner); err != nil {
		t.Fatal(err)
	}
	b := planner.p.Jobs[0].Begun
	if want := (8 * time.Minute).Hours(); b == nil || math.Abs(b.Lost-want) > 1e-9 {
		t.Errorf("the planner is told %+v; want %v slots of lost work", b, want)
	}
}
