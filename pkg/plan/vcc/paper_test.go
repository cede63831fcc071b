package vcc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/vcc"
	"lull.dev/lull/pkg/workload"
)

func planner(t testing.TB, params vcc.Params) vcc.Planner {
	t.Helper()
	pl, err := vcc.New(params)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, vcc.Planner{}, 100, plantest.Options{})
	plantest.Laws(t, planner(t, vcc.Params{Scaling: true}), 100, plantest.Options{})
	plantest.Laws(t, planner(t, vcc.Params{Scaling: true, Floor: 0.2, Peak: 0.8}), 50, plantest.Options{Objective: plan.MOSP})
}

// TestCurveConservesTheDay: a day's curve holds the work that arrives in it, in the
// cleanest hours first, within floor and peak; what does not fit goes to the next day.
func TestCurveConservesTheDay(t *testing.T) {
	ci := make([]float64, 48)
	for i := range ci {
		ci[i] = 100 + 50*math.Sin(float64(i))
	}
	p := plantest.OneCluster(10, ci, plantest.Job("a", workload.Interruptible, 0, 48, 20), plantest.Job("b", workload.Interruptible, 30, 48, 7))
	curve := vcc.Curves(p, 0.05, 1, 0)[0]
	for day, work := range []float64{20, 7} {
		sum := 0.0
		for _, v := range curve[24*day : 24*day+24] {
			sum += 10 * v
			if v < 0.05 || v > 1 {
				t.Errorf("share %v outside floor and peak", v)
			}
		}
		if want := math.Max(work, 12); math.Abs(sum-want) > 1e-9 {
			t.Errorf("day %d: capacity %v, want %v", day, sum, want)
		}
		for x := 24 * day; x < 24*day+24; x++ {
			for y := 24 * day; y < 24*day+24; y++ {
				if ci[x] < ci[y] && curve[x] < curve[y]-1e-12 {
					t.Errorf("slot %d is cleaner than %d and has less", x, y)
				}
			}
		}
	}
	// Ten times the work of a day: the day is full, the rest is tomorrow's.
	p.Jobs[0].Length = 300
	for _, v := range vcc.Curves(p, 0, 1, 0)[0][:24] {
		if v != 1 {
			t.Fatal("a day with too much work is not full")
		}
	}
}

// TestCurveHoldsTheExpectedWork: a day's curve holds what is expected of the day and what is left of the jobs that are
// there when it begins.
func TestCurveHoldsTheExpectedWork(t *testing.T) {
	ci := make([]float64, 48)
	for i := range ci {
		ci[i] = 100 + float64(i%24) // cleanest from midnight on
	}
	// Ten of work on a day of which nothing is expected beside the six that are there: four are left
	// for the next.
	p := plantest.OneCluster(1, ci, plantest.Job("a", workload.Interruptible, 0, 48, 6), plantest.Job("b", workload.Interruptible, 1, 48, 4))
	asked := []int{}
	pl := planner(t, vcc.Params{Expected: func(day int) float64 {
		asked = append(asked, day)
		return 0
	}})
	res, err := pl.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	used := make([]float64, 48)
	for _, jp := range res.Plan.Jobs {
		for _, s := range jp.Segments {
			used[s.Slot] += s.Fraction
		}
	}
	want := make([]float64, 48)
	for _, x := range []int{0, 1, 2, 3, 4, 5, 24, 25, 26, 27} {
		want[x] = 1
	}
	if !slices.Equal(asked, []int{0, 1}) || !slices.Equal(used, want) {
		t.Errorf("asked for days %v, used %v", asked, used)
	}
}

// TestCleanerThanAgnostic: Section 6.7 of CarbonFlex; with scaling jobs wait less.
func TestCleanerThanAgnostic(t *testing.T) {
	ci := make([]float64, 96)
	for i := range ci {
		ci[i] = 250 + 200*math.Sin(2*math.Pi*float64(i)/24)
	}
	var jobs []workload.Job
	for i := range 60 {
		j := plantest.Job(string(rune('A'+i/26))+string(rune('a'+i%26)), workload.Elastic, i, i+36, 3, 0.95, 0.9, 0.85)
		jobs = append(jobs, j)
	}
	p := plantest.OneCluster(6, ci, jobs...)
	solve := func(pl plan.Planner) plan.Evaluation {
		res, err := pl.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if res.Status == plan.Infeasible {
			t.Fatalf("%d unplaced: %s", len(res.Unplaced), res.Unplaced[0].Why)
		}
		return plan.Evaluate(p, res.Plan)
	}
	agnostic, fcfs, scaling := solve(asap.Planner{}), solve(vcc.Planner{}), solve(planner(t, vcc.Params{Scaling: true}))
	t.Logf("agnostic %.0f g, vcc %.0f g wait %.1f, vcc-scaling %.0f g wait %.1f", agnostic.CarbonG, fcfs.CarbonG, fcfs.MeanWait, scaling.CarbonG, scaling.MeanWait)
	if fcfs.CarbonG > 0.95*agnostic.CarbonG || scaling.CarbonG > 0.95*agnostic.CarbonG {
		t.Error("the curve saves less than 5 %")
	}
}

func TestParams(t *testing.T) {
	for _, p := range []vcc.Params{{Floor: -1}, {Floor: 0.5, Peak: 0.4}, {Peak: 2}, {Margin: -1}, {Floor: math.NaN()}} {
		if _, err := vcc.New(p); !errors.Is(err, vcc.ErrParams) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, scaling := range []bool{false, true} {
		b.Run(fmt.Sprintf("scaling=%v", scaling), func(b *testing.B) { plantest.Bench(b, planner(b, vcc.Params{Scaling: scaling})) })
	}
}
