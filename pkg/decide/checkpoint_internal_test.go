package decide

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/workload"
)

// TestPlansPauseAtCheckpoints: plans pause at checkpoints, count what pauses lose, and do all of the work.
func TestPlansPauseAtCheckpoints(t *testing.T) {
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	on := func(cluster string, from, to int) Phase {
		return Phase{From: at(from), To: at(to), Cluster: cluster, Workers: 1}
	}
	short := func(p Phase) Phase { // a pause comes a little after the checkpoint
		p.To = p.To.Add(rounding)
		return p
	}
	for name, x := range map[string]struct {
		atRisk   time.Duration
		phases   []Phase
		progress time.Duration
		want     []Phase
	}{
		"one run":                 {0, []Phase{on("c", 0, 120)}, 2 * time.Hour, []Phase{on("c", 0, 120)}},
		"a pause at a checkpoint": {0, []Phase{on("c", 0, 60), on("c", 90, 150)}, 2 * time.Hour, []Phase{on("c", 0, 60), on("c", 90, 150)}},
		"a pause after a checkpoint": {0, []Phase{on("c", 0, 50), on("c", 90, 160)}, 100 * time.Minute,
			[]Phase{short(on("c", 0, 30)), on("c", 90, 180)}},
		"a move after a checkpoint": {0, []Phase{on("c", 0, 50), on("d", 50, 120)}, 100 * time.Minute,
			[]Phase{short(on("c", 0, 30)), on("d", 50, 140)}},
		"a run without a checkpoint": {0, []Phase{on("c", 0, 20), on("c", 60, 160)}, 100 * time.Minute, []Phase{on("c", 60, 180)}},
		"what is at risk is saved": {20 * time.Minute, []Phase{on("c", 0, 15), on("c", 60, 150)}, 2 * time.Hour,
			[]Phase{short(on("c", 0, 10)), on("c", 60, 150)}},
		"what is at risk is lost": {20 * time.Minute, []Phase{on("c", 0, 5), on("c", 60, 175)}, 115 * time.Minute, []Phase{on("c", 60, 180)}},
		"all is done before the last run": {20 * time.Minute, []Phase{on("c", 0, 100), on("c", 130, 150)}, 2*time.Hour + 20*time.Minute,
			[]Phase{short(on("c", 0, 100))}},
	} {
		t.Run(name, func(t *testing.T) {
			task := &Task{Kind: workload.Interruptible, State: Running, Cluster: "c", Remaining: 2 * time.Hour, AtRisk: x.atRisk, Checkpoint: 30 * time.Minute}
			if got := task.progress(x.phases, now); got != x.progress {
				t.Errorf("progress %v, want %v", got, x.progress)
			}
			got := task.atCheckpoints(x.phases, now)
			if len(got) != len(x.want) {
				t.Fatalf("%v, want %v", got, x.want)
			}
			for k := range got {
				if got[k].From != x.want[k].From || got[k].To.Sub(x.want[k].To).Abs() > rounding {
					t.Errorf("phase %d: %v, want %v", k, got[k], x.want[k])
				}
			}
			if task.lags(got, now) {
				t.Errorf("%v is missing", task.missing(got, now))
			}
		})
	}
}
