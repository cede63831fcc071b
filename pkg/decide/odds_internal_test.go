package decide

import (
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// pathsOf are hourly paths from a time on.
func pathsOf(t *testing.T, from time.Time, values ...[]float64) *carbon.Paths {
	t.Helper()
	p, err := carbon.NewPaths(from, time.Hour, values)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOddsOfAPlan: over handmade paths, the odds count those in which the plan emits more, and state the quantiles of what it saves.
// Paths of two clusters belong together from the last one back. Without paths over all phases nothing is stated.
func TestOddsOfAPlan(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	hour := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	phase := func(cluster string, from, to float64) Phase {
		return Phase{Cluster: cluster, From: hour(from), To: hour(to), Workers: 1}
	}
	// The first hour is at 100 in all paths, the third one at what each states.
	var eleven [][]float64
	for _, then := range []float64{0, 10, 20, 30, 40, 50, 60, 70, 100, 110, 200} {
		eleven = append(eleven, []float64{100, 1000, then, then})
	}
	for _, x := range []struct {
		name        string
		c, d        *carbon.Paths
		plan, other []Phase
		want        Odds
	}{
		{"one phase", pathsOf(t, t0, eleven...), nil, []Phase{phase("c", 2, 3)}, []Phase{phase("c", 0, 1)}, Odds{Paths: 11, Worse: 2, Low: -0.1, High: 0.9}},
		{"the same run", pathsOf(t, t0, eleven...), nil, []Phase{phase("c", 0, 1)}, []Phase{phase("c", 0, 1)}, Odds{Paths: 11}},
		{
			"two phases", pathsOf(t, t0, []float64{100, 300, 100, 300}, []float64{100, 100, 200, 300}), nil,
			[]Phase{phase("c", 0, 1), phase("c", 2, 3)}, []Phase{phase("c", 0, 2)}, Odds{Paths: 2, Worse: 1, Low: -0.5, High: 0.5},
		},
		{"a part of a slot", pathsOf(t, t0, []float64{100, 300}), nil, []Phase{phase("c", 0.5, 1.5)}, []Phase{phase("c", 1, 2)}, Odds{Paths: 1, Low: 1. / 3, High: 1. / 3}},
		{
			"two clusters", pathsOf(t, t0, []float64{1, 1, 1, 1}, []float64{100, 0, 0, 0}, []float64{200, 0, 0, 0}), pathsOf(t, t0, []float64{0, 0, 150, 0}, []float64{0, 0, 150, 0}),
			[]Phase{phase("d", 2, 3)}, []Phase{phase("c", 0, 1)}, Odds{Paths: 2, Worse: 1, Low: -0.5, High: 0.25},
		},
		{"nothing emitted at once", pathsOf(t, t0, []float64{0, 5}, []float64{0, 0}), nil, []Phase{phase("c", 1, 2)}, []Phase{phase("c", 0, 1)}, Odds{Paths: 2, Worse: 1}},
		{"the plan ends after the paths", pathsOf(t, t0, eleven...), nil, []Phase{phase("c", 3, 5)}, []Phase{phase("c", 0, 2)}, Odds{}},
		{"the other begins before the paths", pathsOf(t, hour(1), eleven...), nil, []Phase{phase("c", 3, 4)}, []Phase{phase("c", 0, 1)}, Odds{}},
		{"no paths", nil, nil, []Phase{phase("c", 2, 3)}, []Phase{phase("c", 0, 1)}, Odds{}},
		{"no paths of the other cluster", pathsOf(t, t0, eleven...), nil, []Phase{phase("d", 2, 3)}, []Phase{phase("c", 0, 1)}, Odds{}},
		{"no phases", pathsOf(t, t0, eleven...), nil, nil, []Phase{phase("c", 0, 1)}, Odds{}},
	} {
		s := goingOn(t, t0, 4, Task{ID: "a", Kind: workload.Interruptible, State: Waiting, Request: map[string]float64{"cpu": 2}, Remaining: time.Hour, Deadline: hour(20)})
		s.Clusters[0].Power = power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}
		s.Clusters = append(s.Clusters, s.Clusters[0])
		s.Clusters[1].Name = "d"
		s.Clusters[0].CarbonPaths, s.Clusters[1].CarbonPaths = x.c, x.d
		got := newDecider(s).odds(0, x.plan, x.other)
		if got.Paths != x.want.Paths || got.Worse != x.want.Worse || math.Abs(got.Low-x.want.Low) > 1e-9 || math.Abs(got.High-x.want.High) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

// TestConfident: odds are confident if the plan emits no more in at least the share of the paths; unknown odds are.
func TestConfident(t *testing.T) {
	for _, x := range []struct {
		odds  Odds
		share float64
		want  bool
	}{
		{Odds{}, 1, true},
		{Odds{Paths: 10}, 1, true},
		{Odds{Paths: 10, Worse: 1}, 0.9, true},
		{Odds{Paths: 10, Worse: 1}, 0.91, false},
		{Odds{Paths: 49, Worse: 5}, 0.9, false},
		{Odds{Paths: 50, Worse: 5}, 0.9, true},
		{Odds{Paths: 3, Worse: 3}, 0, true},
	} {
		if got := x.odds.Confident(x.share); got != x.want {
			t.Errorf("%+v, share %v: %v, want %v", x.odds, x.share, got, x.want)
		}
	}
}
