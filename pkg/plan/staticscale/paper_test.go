package staticscale

import (
	"context"
	"errors"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func elastic(intensity []float64, length float64, curve ...float64) *plan.Problem {
	return plantest.OneCluster(100, intensity, plantest.Job("j", workload.Elastic, 0, len(intensity), length, curve[1:]...))
}

func grams(t *testing.T, planner plan.Planner, p *plan.Problem) (float64, plan.Plan) {
	t.Helper()
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	return plan.Evaluate(p, res.Plan).CarbonG, res.Plan
}

func planner(t testing.TB, factor float64) Planner {
	t.Helper()
	m, err := New(factor)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Worked by hand: work 4, curve 1, 0.5. One server: the four cheapest slots, 10 +
// 20 + 30 + 40 = 100. Two servers: 4 / 1.5 = 2.67 slots at twice the power: 2 (10 +
// 20 + 0.67 x 30) = 100.
func TestMatchesTheExampleWorkedByHand(t *testing.T) {
	p := elastic([]float64{50, 10, 40, 20, 30}, 4, 1, 0.5)
	if g, _ := grams(t, planner(t, 1), p); math.Abs(g-100) > 1e-9 {
		t.Errorf("one server: %v", g)
	}
	if g, _ := grams(t, planner(t, 2), p); math.Abs(g-100) > 1e-9 {
		t.Errorf("two servers: %v", g)
	}
}

// Section 3.1, Figure 3: the best static scale depends on the series; the oracle
// finds it.
func TestBestScaleDependsOnTheSeries(t *testing.T) {
	scale := func(intensity ...float64) int {
		_, pl := grams(t, planner(t, 0), elastic(intensity, 4, 1, 0.9, 0.8, 0.1))
		return pl.Jobs[0].Segments[0].Workers
	}
	if w := scale(10, 10, 10, 10, 10, 10); w != 1 {
		t.Errorf("flat series: scale %d, want 1, the most efficient", w)
	}
	if w := scale(10, 10, 500, 500, 500, 500); w != 3 {
		t.Errorf("two clean slots: scale %d, want 3, the least that fits into them", w)
	}
}

// Section 5.3: CarbonScaler is never worse than the best static scale, where the
// curve's marginal capacity falls.
func TestCarbonScalerIsNeverWorse(t *testing.T) {
	for seed := range uint64(200) {
		p := plantest.Random(seed, plantest.Options{Kinds: []workload.Kind{workload.Elastic}, MaxJobs: 1, Loose: true})
		steps := p.Steps(0, 0)
		if !plan.Concave(steps) || p.Jobs[0].Migratable {
			continue
		}
		res, err := planner(t, 0).Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Unplaced) > 0 {
			continue
		}
		better, _ := grams(t, carbonscaler.Planner{}, p)
		if static := plan.Evaluate(p, res.Plan).CarbonG; better > static*(1+1e-9) {
			t.Errorf("seed %d: CarbonScaler %v, static %v", seed, better, static)
		}
	}
}

func TestLaws(t *testing.T) {
	for _, factor := range []float64{0, 2} {
		plantest.Laws(t, planner(t, factor), 200, plantest.Options{})
		plantest.Laws(t, planner(t, factor), 100, plantest.Options{Objective: plan.MOSP})
	}
}

func TestParams(t *testing.T) {
	for _, bad := range []float64{-1, 0.5, math.NaN(), 1e9} {
		if _, err := New(bad); !errors.Is(err, ErrParams) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) { plantest.Bench(b, planner(b, 0)) }
