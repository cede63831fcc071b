package decide

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// TestRenewingDelaysNoLateTask: renewed plans may save, but never at the cost of a deadline, and a task that is late
// already ends no later for them.
func TestRenewingDelaysNoLateTask(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	hour := func(h int) time.Time { return start.Add(time.Duration(h) * time.Hour) }
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: hour(0), To: hour(6), Value: 500}, {From: hour(6), To: hour(24), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		deadline      int // hour
		before, after []Phase
		want          bool
	}{
		"in time, cleaner and later":               {12, []Phase{{From: hour(0), To: hour(1)}}, []Phase{{From: hour(7), To: hour(8)}}, true},
		"in time, then late":                       {4, []Phase{{From: hour(0), To: hour(1)}}, []Phase{{From: hour(7), To: hour(8)}}, false},
		"late, then later":                         {4, []Phase{{From: hour(5), To: hour(6)}}, []Phase{{From: hour(7), To: hour(8)}}, false},
		"late, then as late by rounding":           {4, []Phase{{From: hour(6), To: hour(7)}}, []Phase{{From: hour(6), To: hour(7).Add(rounding)}}, false}, // saves nothing
		"late, cleaner and as late":                {4, []Phase{{From: hour(0), To: hour(1)}, {From: hour(8), To: hour(9)}}, []Phase{{From: hour(7), To: hour(9)}}, true},
		"late, cleaner by a guess behind the grid": {4, []Phase{{From: hour(0), To: hour(1)}, {From: hour(20), To: hour(21)}}, []Phase{{From: hour(7), To: hour(9)}}, false},
		"late, and without a place":                {4, []Phase{{From: hour(5), To: hour(6)}}, nil, false},
		"without a place, then a late one":         {4, nil, []Phase{{From: hour(5), To: hour(6)}}, false}, // nothing to compare
	} {
		s := &Snapshot{
			Now: start, Slot: time.Hour,
			Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Carbon: series, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}}},
			Tasks: []Task{
				{ID: "a", Kind: workload.Interruptible, State: Waiting, Remaining: time.Hour, Deadline: hour(tc.deadline), Request: map[string]float64{"cpu": 1}},
				{ID: "last", Kind: workload.Rigid, State: Waiting, Remaining: time.Hour, Deadline: hour(20), Request: map[string]float64{"cpu": 1}},
			},
		}
		with := func(phases []Phase) *decider {
			w := newDecider(s)
			for k := range phases {
				phases[k].Cluster, phases[k].Workers = "c", 1
			}
			w.items[0].phases = phases
			return w
		}
		if got := with(tc.after).savesAgainst(with(tc.before), nil); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
