package promise_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// queueSeeds is the number of instances of TestQueueIsForeseen.
const queueSeeds = 120

// TestQueueIsForeseen: no job may wait, so all are released at once and the clusters start them as
// they like. What the first decision says that their queues will do is what the simulated clusters
// then do, to the nanosecond.
func TestQueueIsForeseen(t *testing.T) {
	data, m := recorded(t), byName(t, "asap")[0]
	waited := 0
	for seed := uint64(6_000_001); seed < 6_000_001+queueSeeds; seed++ {
		in := generate(t, seed, true, m, data)
		for i := range in.cfg.Jobs {
			j := &in.cfg.Jobs[i]
			j.Deadline, j.MaxDelay = time.Time{}, 0
			if j.Scale != nil { // an elastic job always has a deadline
				j.Kind, j.Scale = workload.Rigid, nil
			}
		}
		cfg := in.with(t, m)
		foreseen := map[string]decide.Phase{}
		cfg.Decided = func(_ decide.Snapshot, d decide.Decision) {
			for i := range d.Actions {
				if _, known := foreseen[d.Actions[i].Task]; !known && len(d.Actions[i].Phases) == 1 {
					foreseen[d.Actions[i].Task] = d.Actions[i].Phases[0]
				}
			}
		}
		res, err := sim.Simulate(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cfg.Jobs {
			want, got := res.Jobs[i].Runs, foreseen[cfg.Jobs[i].ID]
			if len(want) != 1 {
				t.Fatalf("seed %d: %s job %s ran as %v; want once, as nothing may pause it", seed, cfg.Jobs[i].Kind, cfg.Jobs[i].ID, want)
			}
			says := fmt.Sprint(got.From.Sub(res.Start), got.To.Sub(res.Start), got.Cluster)
			does := fmt.Sprint(want[0].From, want[0].To, cfg.Clusters[want[0].Cluster].Name)
			if says != does {
				t.Errorf("seed %d: job %s is said to run %s, and runs %s", seed, cfg.Jobs[i].ID, says, does)
			}
			if want[0].From > cfg.Jobs[i].Submitted.Sub(res.Start) {
				waited++
			}
		}
		if t.Failed() {
			return
		}
	}
	if waited < 50 {
		t.Errorf("%d jobs waited for room; want at least 50, or the test shows nothing", waited)
	}
}
