package ksearch_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/ksearch"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func planner(t testing.TB, floor float64) ksearch.Planner {
	t.Helper()
	pl, err := ksearch.New(ksearch.Params{Floor: floor})
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, ksearch.Planner{}, 100, plantest.Options{})
	plantest.Laws(t, planner(t, ksearch.DefaultFloor), 100, plantest.Options{})
	plantest.Laws(t, planner(t, 0.5), 50, plantest.Options{Objective: plan.MOSP})
}

func BenchmarkPlan(b *testing.B) { plantest.Bench(b, planner(b, ksearch.DefaultFloor)) }

// TestShareIsTheAuthors: the shares are those of the thresholds that the authors' module has for 1,000 executors. It solves for
// the competitive ratio with the Lambert W function: 1/a = 1 + W((low/high - 1)/e).
func TestShareIsTheAuthors(t *testing.T) {
	const executors = 1000
	for _, x := range []struct{ low, high, w float64 }{
		// W by Newton's method on w e^w, as no package of ours has the function.
		{100, 400, lambert((0.25 - 1) / math.E)},
		{300, 310, lambert((300.0/310 - 1) / math.E)},
		{5, 600, lambert((5.0/600 - 1) / math.E)},
	} {
		a := 1 / (1 + x.w)
		for i := 1; i <= executors; i += 37 {
			threshold := x.high * (1 - (1-1/a)*math.Pow(1+1/(a*executors), float64(i-1)))
			if got, want := ksearch.Share(threshold, x.low, x.high), float64(i-1)/executors; math.Abs(got-want) > 2e-3 {
				t.Errorf("%v to %v: share at threshold %d (%.2f) is %.4f, want %.4f", x.low, x.high, i, threshold, got, want)
			}
		}
	}
}

// lambert is the principal branch of the Lambert W function, from above -1/e to 0.
func lambert(x float64) float64 {
	w := -0.5
	for range 200 {
		e := math.Exp(w)
		w -= (w*e - x) / (e * (w + 1))
	}
	return w
}

// TestSearchKeepsItsRatio: who buys up to the share as intensities fall, and the rest at the highest intensity, pays at most
// the competitive ratio times the lowest intensity that there was.
func TestSearchKeepsItsRatio(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		low := 1 + 400*rng.Float64()
		high := low * (1 + 10*rng.Float64())
		bought, paid, least := 0.0, 0.0, high
		for range 1 + rng.IntN(60) {
			c := low + (high-low)*math.Pow(rng.Float64(), 3*rng.Float64())
			least = math.Min(least, c)
			if s := ksearch.Share(c, low, high); s > bought {
				paid, bought = paid+(s-bought)*c, s
			}
		}
		paid += (1 - bought) * high
		if a := 1 / (1 + lambert((low/high-1)/math.E)); paid > a*least*(1+1e-6) {
			t.Fatalf("case %d: paid %.2f, lowest %.2f, ratio %.4f", n, paid, least, a)
		}
	}
}

func TestShareFallsWithIntensity(t *testing.T) {
	for _, x := range []struct{ at, low, high, want float64 }{
		{50, 50, 500, 1}, {500, 50, 500, 0}, {40, 50, 500, 1}, {600, 50, 500, 0},
		{300, 300, 300, 1}, // nothing to choose from
		{-5, -20, 100, 1}, {0, 0, 0, 1}, {10, 0, 100, 0},
	} {
		if got := ksearch.Share(x.at, x.low, x.high); got != x.want {
			t.Errorf("Share(%v, %v, %v) = %v, want %v", x.at, x.low, x.high, got, x.want)
		}
	}
	last := 1.0
	for c := 50.0; c <= 500; c++ {
		s := ksearch.Share(c, 50, 500)
		if s > last || s < 0 {
			t.Fatalf("share %v at %v, %v before", s, c, last)
		}
		last = s
	}
}

// TestSharesGovernNewJobs: a job that has begun goes on when the share falls; a job that waits runs when it rises or when it
// has no slack left.
func TestSharesGovernNewJobs(t *testing.T) {
	ci := []float64{100, 500, 500, 500, 100, 100, 500, 500}
	p := plantest.OneCluster(1, ci,
		plantest.Job("begun", workload.Interruptible, 0, 8, 2),
		plantest.Job("waits", workload.Interruptible, 2, 8, 1))
	res, err := planner(t, 0).Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for j, want := range [][]int{{0, 1}, {4}} {
		for i, s := range res.Plan.Jobs[j].Segments {
			if i >= len(want) || s.Slot != want[i] {
				t.Errorf("%s: %v, want slots %v", p.Jobs[j].ID, res.Plan.Jobs[j].Segments, want)
				break
			}
		}
	}
	p.Jobs[1].Deadline = 4
	if res, err = planner(t, 0).Plan(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if s := res.Plan.Jobs[1].Segments; len(s) != 1 || s[0].Slot != 3 {
		t.Errorf("without slack: %v, want slot 3", s)
	}
}

// TestFloorTradesCarbonForTime: a higher floor saves less and waits less, in the mean of random weeks.
func TestFloorTradesCarbonForTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	floors := []float64{0, 0.2, 0.6, 1}
	emissions, wait := make([]float64, len(floors)), make([]float64, len(floors))
	for range 20 {
		ci := make([]float64, 168)
		phase := rng.Float64() * 7
		for i := range ci {
			ci[i] = 300 + 200*math.Sin(float64(i)/24*2*math.Pi+phase) + 40*rng.Float64()
		}
		var jobs []workload.Job
		for k := range 60 {
			at := rng.IntN(110)
			jobs = append(jobs, plantest.Job(string(rune('A'+k%26))+string(rune('a'+k/26)), workload.Rigid, at, at+48, float64(1+rng.IntN(6))))
		}
		p := plantest.OneCluster(15, ci, jobs...)
		for f, floor := range floors {
			res, err := planner(t, floor).Plan(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Unplaced) > 0 {
				t.Fatalf("unplaced: %v", res.Unplaced)
			}
			for j := range res.Plan.Jobs {
				for _, s := range res.Plan.Jobs[j].Segments {
					emissions[f] += ci[s.Slot]
				}
				wait[f] += float64(res.Plan.Jobs[j].Segments[0].Slot - p.Jobs[j].Arrival)
			}
		}
	}
	t.Logf("emissions %.0f, wait %.0f", emissions, wait)
	for f := 1; f < len(floors); f++ {
		if emissions[f] < emissions[f-1] || wait[f] > wait[f-1] {
			t.Errorf("floor %v: emissions %.0f and wait %.0f, with %v %.0f and %.0f", floors[f], emissions[f], wait[f], floors[f-1], emissions[f-1], wait[f-1])
		}
	}
	if emissions[0] > 0.85*emissions[3] {
		t.Errorf("without floor %.0f, all at once %.0f: saves less than 15 %%", emissions[0], emissions[3])
	}
}

func TestBadParams(t *testing.T) {
	for _, floor := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := ksearch.New(ksearch.Params{Floor: floor}); !errors.Is(err, ksearch.ErrParams) {
			t.Errorf("floor %v: %v", floor, err)
		}
	}
}
