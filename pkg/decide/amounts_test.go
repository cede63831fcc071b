package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/cheapest"
)

// TestAbsurdAmountsReleaseNoOther: tasks that ask for more than a planning problem may state, waiting, running or of other policies, let no planner fail. The
// Kubernetes API accepts requests up to 9.2e18. The tasks beside them still wait, if there is room in the clean hours.
func TestAbsurdAmountsReleaseNoOther(t *testing.T) {
	const most = 9223372036854775807
	other := func() decide.Task { return task("other", at(2), at(20), 2*time.Hour) }
	huge := func(id string, state decide.State) decide.Task {
		x := task(id, at(2), at(20), time.Hour)
		if x.Request, x.State = map[string]float64{"cpu": most}, state; state == decide.Running {
			x.Cluster = "c"
		}
		return x
	}
	for name, s := range map[string]decide.Snapshot{
		"run":  snapshot(t, at(4), other(), huge("a", decide.Running), huge("b", decide.Running)),
		"wait": snapshot(t, at(4), other(), huge("a", decide.Waiting), huge("b", decide.Waiting)),
		"of others": func() decide.Snapshot {
			s := snapshot(t, at(4), other())
			s.Clusters[0].LoadAt = map[string][]float64{"cpu": {2 * most, 2 * most, 0}}
			return s
		}(),
	} {
		d, err := decide.Decide(t.Context(), s, cheapest.Planner{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a := d.Actions[0]; a.Verb != decide.Wait {
			t.Errorf("%s: beside them %s: %s", name, a.Verb, a.Reason.Message())
		}
	}
}
