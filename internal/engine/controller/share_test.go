package controller

import (
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// TestUngovernedLoadIsExpected: what no policy governs is expected to go on for an hour, and then to be what was usual at that
// hour, as far as it has been seen; what policies have planned comes on top.
func TestUngovernedLoadIsExpected(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	habit := &hub.Habit{}
	look := func(at time.Time, cpu float64) *decide.Snapshot {
		others := []kube.Use{{Stretches: []kube.Stretch{
			{From: at.Add(45 * time.Minute), To: at.Add(time.Hour), Cluster: "local", Amount: map[string]float64{"cpu": 2}},
			{From: at, To: at.Add(time.Minute), Cluster: "local", Amount: map[string]float64{"gpu": 1}},
			{From: at, To: at.Add(time.Hour), Cluster: "other", Amount: map[string]float64{"cpu": 100}},
		}}}
		s := &decide.Snapshot{Now: at, Slot: 30 * time.Minute, Tasks: []decide.Task{{Deadline: at.Add(100 * time.Hour)}}, Clusters: []decide.Cluster{{
			Name: "local", Capacity: map[string]float64{"cpu": 16}, Load: map[string]float64{"cpu": cpu},
		}}}
		expect(s, habit, others, timegrid.Timeline{})
		if s.Clusters[0].Load != nil {
			t.Fatalf("at %v: %v counts twice", at, s.Clusters[0].Load)
		}
		return s
	}
	// Full from midnight to six, then empty until noon; what comes later has never been seen.
	for hour := range 12 {
		cpu := 16.0
		if hour >= 6 {
			cpu = 0
		}
		look(day.Add(time.Duration(hour)*time.Hour), cpu)
		look(day.Add(time.Duration(hour)*time.Hour+30*time.Minute), cpu)
	}
	look(day.Add(12*time.Hour), 4)
	got := look(day.Add(26*time.Hour), 16).Clusters[0].LoadAt // at two o'clock of the next day
	if n := len(got["cpu"]); n != 201 {
		t.Errorf("%d slots; want those to the last deadline", n)
	}
	want := []float64{16, 18, 16, 16, 16, 16, 16, 16} // to six o'clock
	for range 12 {
		want = append(want, 0)
	}
	want = append(want, 4, 4, 16, 16) // what was seen at noon; then as now
	if !reflect.DeepEqual(got["cpu"][:len(want)], want) || got["gpu"][0] != 1 {
		t.Errorf("%v\nwant %v", got["cpu"][:len(want)], want)
	}
	empty := &decide.Snapshot{Now: day, Slot: time.Hour, Clusters: []decide.Cluster{{Capacity: map[string]float64{"cpu": 1}}}}
	expect(empty, &hub.Habit{}, nil, timegrid.Timeline{})
	if empty.Clusters[0].LoadAt != nil {
		t.Errorf("a load where there is none: %v", empty.Clusters[0].LoadAt)
	}
}
