package decide_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// manyScales is a snapshot of n tasks that wait, may have up to 62 workers, and take so many hours at one worker, within so many hours. Their plans have many phases, as
// the intensity changes each hour and the gain of a worker falls with their number.
func manyScales(tb testing.TB, n, work, within int, restarts bool) decide.Snapshot {
	tb.Helper()
	var samples []carbon.Sample
	for h := range 200 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(100 + 100*(h*7919%13))})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		tb.Fatal(err)
	}
	curve := make([]float64, 62)
	for k := range curve {
		curve[k] = 1 / (1 + 0.01*float64(k))
	}
	var tasks []decide.Task
	for i := range n {
		x := task(fmt.Sprintf("a%03d", i), t0.Add(-time.Hour), at(float64(within)), time.Duration(work)*time.Hour)
		x.Kind, x.Request = workload.Elastic, map[string]float64{"cpu": 1}
		x.Checkpoint, x.Restart = 0, 2*time.Minute
		x.Scaling = &decide.Scaling{MinWorkers: 1, MaxWorkers: 62, Curve: curve, Restarts: restarts}
		tasks = append(tasks, x)
	}
	return decide.Snapshot{Now: t0, Slot: 15 * time.Minute, Tasks: tasks, Clusters: []decide.Cluster{{
		Name: "c", Capacity: map[string]float64{"cpu": 40 * float64(n)}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series,
	}}}
}

// BenchmarkRestartsToScale is a decision on tasks whose changes of scale restart them, beside the same tasks whose changes do not.
func BenchmarkRestartsToScale(b *testing.B) {
	for _, x := range []struct{ n, work, within int }{{50, 300, 24}, {100, 300, 24}, {100, 600, 48}} {
		for _, restarts := range []bool{false, true} {
			b.Run(fmt.Sprintf("jobs=%d/hours=%d/slots=%d/restarts=%v", x.n, x.work, 4*x.within, restarts), func(b *testing.B) {
				s := manyScales(b, x.n, x.work, x.within, restarts)
				for b.Loop() {
					if _, err := decide.Decide(context.Background(), s, joint.Planner{Effort: 0.02}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestPlansOfManyScalesHaveFewRestarts: what settles a plan is bounded, and still each change of scale is one that pays.
func TestPlansOfManyScalesHaveFewRestarts(t *testing.T) {
	for _, within := range []int{24, 48} {
		s := manyScales(t, 8, 300, within, true)
		d, err := decide.Decide(context.Background(), s, joint.Planner{Effort: 0.02})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range decide.Verify(s, d) {
			t.Error(v)
		}
		for i := range d.Actions {
			if n := len(d.Actions[i].Phases); n == 0 || n > 12 {
				t.Errorf("within %d h: %s has %d phases; want 1 to 12", within, s.Tasks[i].ID, n)
			}
		}
	}
}
