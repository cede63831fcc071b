package window_test

import (
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan/window"
)

// TestNextFollowsThePlan: asked for slot by slot, a job alone starts when the planner starts it.
func TestNextFollowsThePlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		arrival := rng.IntN(20)
		j := job("a", "", arrival, 1)
		j.Length, j.Deadline = 1, day
		p := problem(j)
		for s := range p.Clusters[0].Intensity {
			p.Clusters[0].Intensity[s] = float64(rng.IntN(300))
		}
		want := starts(t, window.Params{}, p)[0]
		values := p.Clusters[0].Intensity[arrival : arrival+24]
		got := 0
		for got < len(values) && window.Next(values, 6, got) > got {
			got++
		}
		if arrival+got != want {
			t.Fatalf("arrives at %d: starts at %d when asked, %d by plan", arrival, arrival+got, want)
		}
	}
}

// TestPassedWindowMakesWay: a window that has passed makes way for the best of what is left, and at last for none.
func TestPassedWindowMakesWay(t *testing.T) {
	values := []float64{5, 1, 1, 9, 9, 3, 3, 9}
	for now, want := range []int{1, 1, 1, 5, 5, 5, 5, 7} {
		if got := window.Next(values, 2, now); got != want {
			t.Errorf("at %d: window from %d, want %d", now, got, want)
		}
	}
	if got := window.Next(values, 2, 9); got != 9 {
		t.Errorf("beyond the frame: %d, want now", got)
	}
	if got := window.Next(nil, 2, 0); got != 0 {
		t.Errorf("nothing known: %d, want now", got)
	}
}
