package feedback

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// TestQuantilesOfAFamily: quantiles rest on the runs that have ended, at least workload.QuantilesFrom, and
// on those that have not, as they last at least as long as they have run.
func TestQuantilesOfAFamily(t *testing.T) {
	m := New()
	next := job(t, `{metadata: {name: next, namespace: ns, uid: next, labels: {team: x}}}`)
	end := func(i, hours int) {
		m.Ended(&kube.View{Finished: []*kube.Workload{job(t, fmt.Sprintf(`{metadata: {name: a, namespace: ns, uid: e%d, labels: {team: x}}, spec: {},
			status: {startTime: "2026-03-01T00:00:00Z", completionTime: "2026-03-01T%02d:00:00Z", conditions: [{type: Complete, status: "True"}]}}`, i, hours))}}, kube.Context{})
	}
	check := func(name string, done time.Duration, want ...float64) {
		t.Helper()
		got := m.Quantiles(next, done)
		if len(want) == 0 && len(got) > 0 || len(want) > 0 && len(got) != len(workload.Probabilities) {
			t.Fatalf("%s: %v, want %v", name, got, want)
		}
		seen := 0
		for k, q := range got {
			if q.P != workload.Probabilities[k] {
				t.Errorf("%s: quantile %d is that of %v", name, k, q.P)
			}
			i := slices.Index([]float64{0.5, 0.9, 0.95}, q.P)
			if i < 0 {
				continue
			}
			seen++
			// In steps of 5 %, rounded up.
			if off := q.Length.Hours() / want[i]; off < 1 || off > step {
				t.Errorf("%s: quantile %v is %v, want %v h", name, q.P, q.Length, want[i])
			}
		}
		if len(want) > 0 && seen != 3 {
			t.Errorf("%s: %d of the three quantiles", name, seen)
		}
	}
	for i := 1; i < workload.QuantilesFrom; i++ {
		end(i, i)
	}
	check("too few runs", 0)
	for i := workload.QuantilesFrom; i <= 9; i++ {
		end(i, i)
	}
	check("nine runs of 1 to 9 h", 0, 5, 9, 9)
	check("after four hours", 4*time.Hour, 7, 9, 9)
	check("after more than any", 10*time.Hour)

	runs := func(change func(w *kube.Workload, task *decide.Task)) {
		v := view(t, at(20), 1, 0)
		w := job(t, `{metadata: {name: b, namespace: ns, uid: b, labels: {team: x}, annotations: {}}}`)
		v.Workloads[0] = w
		v.Snapshot.Tasks[0].Kind, v.Snapshot.Tasks[0].Scaling, v.Progress[0].Ran = workload.Rigid, nil, 20*time.Hour
		if change != nil {
			change(w, &v.Snapshot.Tasks[0])
		}
		m.Prepare(v, "f", 0.05, kube.Context{})
	}
	runs(nil)
	check("one has run for 20 h", 0, 6, 20, 20)
	runs(func(_ *kube.Workload, task *decide.Task) { task.State = decide.Waiting })
	check("it waits again", 0, 5, 9, 9)
	runs(func(_ *kube.Workload, task *decide.Task) {
		task.Kind, task.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}}
	})
	check("one that scales says nothing", 0, 5, 9, 9)
	runs(func(w *kube.Workload, _ *decide.Task) {
		w.Objects[0].SetAnnotations(map[string]string{"lull.dev/ran": "1h0m0s"})
	})
	check("nor does one that was paused", 0, 5, 9, 9)

	other := job(t, `{metadata: {name: next, namespace: ns, uid: u8, labels: {team: y}}}`)
	if got := m.Quantiles(other, 0); got != nil {
		t.Errorf("another family: %v, want none", got)
	}
}

// TestSmallChangesOfAQuantileMoveNoPlans: small changes of a quantile move no plans, and none is rounded down.
func TestSmallChangesOfAQuantileMoveNoPlans(t *testing.T) {
	seen := map[time.Duration]bool{}
	for d := time.Second; d < 1000*time.Hour; d += d/200 + 1 {
		s := steadyAbove(d)
		if s < d || float64(s) > step*float64(d)+float64(time.Second) {
			t.Fatalf("%v becomes %v", d, s)
		}
		seen[s] = true
	}
	if most := int(math.Log(1000*3600)/math.Log(step)) + 60; len(seen) > most { // below 20 s seconds count
		t.Errorf("%d steps from a second to 1000 hours, want at most %d", len(seen), most)
	}
}
