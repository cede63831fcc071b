package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/workload"
)

// TestUsedUpDelayGoesWhereThereIsRoom: the bounded delay of an elastic task is used up, and no cluster has room now. It
// is not released to a cluster on which it never fits.
func TestUsedUpDelayGoesWhereThereIsRoom(t *testing.T) {
	runs := task("runs", at(-1), at(2), 30*time.Minute)
	runs.State, runs.Cluster, runs.Changed = decide.Running, "c1", at(-1)
	s := twoPlaces(t, 4, 8, runs, decide.Task{
		ID: "used up", Kind: workload.Elastic, Submitted: at(-1), State: decide.Waiting, Request: map[string]float64{"cpu": 8}, Remaining: time.Minute,
		Scaling: &decide.Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}}, LatestStart: at(0), Deadline: at(1),
	})
	if a := must(t, s, asap.Planner{}).Actions[1]; a.Cluster == "c0" {
		t.Errorf("%s on %s (%s) with %+v; want it on c1, as c0 has 4 CPUs and it takes 8", a.Verb, a.Cluster, a.Reason.Code, a.Phases)
	}
}
