package follow_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/follow"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// places is a problem of one deployment that may migrate among the given places.
func places(ci ...[]float64) *plan.Problem {
	n := len(ci[0])
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Date(2019, 2, 18, 0, 0, 0, 0, time.UTC), Slot: 30 * time.Minute, N: n},
		Objective: plan.Objective{Kind: plan.Carbon},
		Jobs: []workload.Job{{
			ID: "web", Kind: workload.Interruptible, Deadline: n, Length: float64(n), Request: map[string]float64{"server": 1},
			MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}, Migratable: true,
		}},
	}
	for c, v := range ci {
		room := make([]float64, n)
		for t := range room {
			room[t] = 1
		}
		p.Clusters = append(p.Clusters, plan.Cluster{
			Name: string(rune('a' + c)), PUE: 1, Watts: map[string]float64{"server": 1000}, Capacity: map[string][]float64{"server": room}, Intensity: v,
		})
	}
	return p
}

func path(t *testing.T, params follow.Params, p *plan.Problem) string {
	t.Helper()
	pl, err := follow.New(params)
	if err != nil {
		t.Fatal(err)
	}
	res, err := pl.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, s := range res.Plan.Jobs[0].Segments {
		out += p.Clusters[s.Cluster].Name
	}
	return out
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, follow.Planner{}, 150, plantest.Options{})
	plantest.Laws(t, follow.Planner{}, 50, plantest.Options{Objective: plan.MOSP})
}

// TestFollowsTheCleanest: every 30 minutes the deployment is where power is cleanest.
func TestFollowsTheCleanest(t *testing.T) {
	p := places([]float64{10, 10, 90, 90, 90, 90}, []float64{50, 50, 50, 50, 50, 50}, []float64{99, 99, 99, 99, 20, 20})
	if got := path(t, follow.Params{}, p); got != "aabbcc" {
		t.Errorf("went %s, want aabbcc", got)
	}
}

// TestFollowStaysAtLeastTheDwellTime: it stays at least the dwell time.
func TestFollowStaysAtLeastTheDwellTime(t *testing.T) {
	p := places([]float64{10, 90, 10, 90, 10, 90}, []float64{90, 10, 90, 10, 90, 10})
	if got := path(t, follow.Params{Dwell: 30 * time.Minute}, p); got != "ababab" {
		t.Errorf("half an hour: went %s", got)
	}
	if got := path(t, follow.Params{Dwell: 90 * time.Minute, Stay: time.Minute}, p); got != "aaabbb" {
		t.Errorf("an hour and a half: went %s, want aaabbb", got)
	}
}

// TestTemperatureBreaksTies: of about equal intensities the cooler place wins.
func TestTemperatureBreaksTies(t *testing.T) {
	p := places([]float64{50, 50}, []float64{51, 51}, []float64{90, 90})
	for c, temperature := range []float64{25, 5, -20} {
		p.Clusters[c].Signals = map[string][]float64{follow.Temperature: {temperature, temperature}}
	}
	if got := path(t, follow.Params{}, p); got != "bb" {
		t.Errorf("went %s, want the cooler b", got)
	}
	if got := path(t, follow.Params{Equal: 0.001}, p); got != "aa" {
		t.Errorf("nothing is equal: went %s, want a", got)
	}
}

// TestFollowMakesNoMoveThatCostsMore: a move that costs more than it saves over the stay is not made.
func TestFollowMakesNoMoveThatCostsMore(t *testing.T) {
	for _, c := range []struct {
		move follow.Move
		want bool
	}{
		{follow.Move{ComputeA: 1, ComputeB: 1, IntensityA: 100, IntensityB: 90}, true},
		{follow.Move{ComputeA: 1, ComputeB: 1, IntensityA: 100, IntensityB: 100}, false},
		{follow.Move{ComputeA: 1, ComputeB: 1, RampB: 0.2, IntensityA: 100, IntensityB: 90}, false},
		{follow.Move{ComputeA: 1, ComputeB: 1, Transfer: 0.1, IntensityA: 100, IntensityB: 90}, true},
		{follow.Move{ComputeA: 1, ComputeB: 1, Transfer: 0.2, IntensityA: 100, IntensityB: 90}, false},
		{follow.Move{ComputeA: 1.6, ComputeB: 1.1, IntensityA: 100, IntensityB: 120}, true}, // PUE decides
	} {
		if got := c.move.Pays(); got != c.want {
			t.Errorf("%+v: pays %v, want %v", c.move, got, c.want)
		}
	}
	p := places([]float64{10, 60, 60, 60}, []float64{50, 50, 50, 50})
	if got := path(t, follow.Params{Dwell: 30 * time.Minute}, p); got != "abbb" {
		t.Errorf("free moves: went %s", got)
	}
	p.Jobs[0].RestartKWh, p.Jobs[0].TransferKWh = 0.1, 0.1
	if got := path(t, follow.Params{Dwell: 30 * time.Minute}, p); got != "aaaa" {
		t.Errorf("a move of 10.5 g for 5 g: went %s, want to stay", got)
	}
	if got := path(t, follow.Params{Dwell: 30 * time.Minute, Stay: 2 * time.Hour}, p); got != "abbb" {
		t.Errorf("over two hours it pays: went %s", got)
	}
	if got := path(t, follow.Params{Dwell: 30 * time.Minute, Stay: 2 * time.Hour, Threshold: 0.5}, p); got != "aaaa" {
		t.Errorf("below the threshold: went %s", got)
	}
}

// TestFollowTheSun and the wind: any score ranks, also against the carbon.
func TestFollowTheSun(t *testing.T) {
	p := places([]float64{10, 10, 10, 10}, []float64{90, 90, 90, 90})
	p.Clusters[0].Signals = map[string][]float64{"irradiance": {0, 0, 500, 500}, "wind": {5, 5, 5, 5}}
	p.Clusters[1].Signals = map[string][]float64{"irradiance": {400, 400, 100, 0}, "wind": {9, 9, 9, 2}}
	by := func(name string) follow.Score {
		return func(signals map[string]float64) (float64, error) { return signals[name], nil }
	}
	for name, want := range map[string]string{"irradiance": "bbaa", "wind": "bbba", "intensity": "bbbb"} {
		if got := path(t, follow.Params{Score: by(name)}, p); got != want {
			t.Errorf("%s: went %s, want %s", name, got, want)
		}
	}
	for what, score := range map[string]follow.Score{
		"an error":     func(map[string]float64) (float64, error) { return 0, errors.New("no such signal") },
		"not a number": func(map[string]float64) (float64, error) { return math.NaN(), nil },
	} {
		pl, err := follow.New(follow.Params{Score: score})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pl.Plan(context.Background(), p); err == nil {
			t.Errorf("%s gave no error", what)
		}
	}
}

func TestParams(t *testing.T) {
	for _, p := range []follow.Params{{Equal: -1}, {Threshold: 1}, {Threshold: math.NaN()}, {Dwell: -time.Second}} {
		if _, err := follow.New(p); !errors.Is(err, follow.ErrParams) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) { plantest.Bench(b, follow.Planner{}) }
