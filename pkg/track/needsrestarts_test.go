package track_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// TestNeedsOfATaskThatRestartsToScale: its scale stands, so what must begin needs the fastest one, and what runs goes on as it is. The scale of other tasks is the planner's.
func TestNeedsOfATaskThatRestartsToScale(t *testing.T) {
	now := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	for name, x := range map[string]struct {
		restarts, runs, queued bool
		in                     time.Duration // until which it is looked at
		want                   int
	}{
		"may wait":                 {true, false, false, time.Hour, 0},
		"must begin":               {true, false, false, 90 * time.Minute, 4},
		"must begin, in the queue": {true, true, true, 90 * time.Minute, 4},
		"must go on":               {true, true, false, 90 * time.Minute, 3},
		"a start takes 10 minutes": {true, false, false, 82 * time.Minute, 4},
		"scales as it runs":        {false, false, false, 100 * time.Minute, 2},
		"scales as it runs, slack": {false, false, false, 85 * time.Minute, 0},
	} {
		task := decide.Task{
			Kind: workload.Elastic, Deadline: now.Add(2 * time.Hour), Remaining: time.Hour, Restart: 10 * time.Minute,
			Scaling: &decide.Scaling{MinWorkers: 2, MaxWorkers: 4, Curve: []float64{1, 0.5, 0.5}, Restarts: x.restarts},
		}
		if x.runs {
			task.State, task.Workers, task.Unscheduled = decide.Running, 3, x.queued
		}
		if got := track.Needs(&task, now.Add(x.in), 0); got != x.want {
			t.Errorf("%s: %d; want %d", name, got, x.want)
		}
	}
}
