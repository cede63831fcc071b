package decide

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// sees is a planner that keeps the problem it was given.
type sees struct{ p *plan.Problem }

func (s *sees) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	s.p = p
	return cheapest.Planner{}.Plan(ctx, p)
}

// TestPlannersKnowWhenATaskMayChange: a running task that may not change for two and a half slots is
// planned from the third slot on, with less work left; what it does until then is load of its cluster, and
// part of its plan. One that is done before it may change is not planned at all.
func TestPlannersKnowWhenATaskMayChange(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	var samples []carbon.Sample
	for h := range 24 {
		v := units.CarbonIntensity(400)
		if h >= 6 {
			v = 100
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		minRun   time.Duration
		changing bool
		atRisk   time.Duration
		arrival  int
		length   float64
		lost     float64
		load     float64
		first    time.Time // end of the first phase; zero if it pauses now
	}{
		"long ago":             {0, false, 0, 0, 4, 0, 0, time.Time{}},
		"within its least run": {3 * time.Hour, false, time.Hour, 2, 2, 1, 2, at(2)},
		"under way":            {0, true, 0, 1, 3, 0, 2, at(1)},
		"it ends before":       {9 * time.Hour, false, 0, -1, 0, 0, 0, at(4)},
	} {
		s := Snapshot{
			Now: t0, Slot: time.Hour, MinRun: x.minRun,
			Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 4}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
			Tasks: []Task{{
				ID: "a", Kind: workload.Interruptible, Submitted: at(-2), Deadline: at(20), Remaining: 4 * time.Hour, AtRisk: x.atRisk,
				Request: map[string]float64{"cpu": 2}, State: Running, Cluster: "c", Changed: at(-0.5), Changing: x.changing,
			}},
		}
		planner := &sees{}
		d, err := Decide(context.Background(), s, planner)
		if err != nil {
			t.Fatal(err)
		}
		if a := &d.Actions[0]; x.arrival < 0 {
			if planner.p != nil || a.Verb != Continue || a.Reason.Code != CodeTooSoon || !a.Phases[0].To.Equal(x.first) {
				t.Errorf("%s: %s (%s) with %+v, want it to go on", name, a.Verb, a.Reason.Code, a.Phases)
			}
			continue
		}
		job := &planner.p.Jobs[0]
		lost := 0.0
		if job.Begun != nil {
			lost = job.Begun.Lost
		}
		if job.Arrival != x.arrival || job.Length != x.length || lost != x.lost || planner.p.Clusters[0].Load["cpu"][0] != x.load {
			t.Errorf("%s: from slot %d on, %v slots of which %v may be lost, load %v; want %d, %v, %v, %v", name,
				job.Arrival, job.Length, lost, planner.p.Clusters[0].Load["cpu"][0], x.arrival, x.length, x.lost, x.load)
		}
		a := &d.Actions[0]
		if pauses := a.Verb == Pause; pauses != x.first.IsZero() || !pauses && !a.Phases[0].To.Equal(x.first) {
			t.Errorf("%s: %s with %+v, want the first phase until %v", name, a.Verb, a.Phases, x.first)
		}
		if v := Verify(s, d); len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
}
