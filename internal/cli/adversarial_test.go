package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// adversaries are problems that break what is careless.
func adversaries() map[string]*plan.Problem {
	flat := func(v float64, n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	job := func(id string, kind workload.Kind, arrival, deadline int, length float64) workload.Job {
		if kind == workload.Elastic {
			return plantest.Job(id, kind, arrival, deadline, length, 0.8, 0.5)
		}
		return plantest.Job(id, kind, arrival, deadline, length)
	}
	three := func(arrival, deadline int, length float64) []workload.Job {
		return []workload.Job{
			job("a", workload.Rigid, arrival, deadline, length), job("b", workload.Interruptible, arrival, deadline, length), job("c", workload.Elastic, arrival, deadline, length),
		}
	}
	out := map[string]*plan.Problem{
		"no jobs":              plantest.OneCluster(4, flat(100, 6)),
		"zero intensity":       plantest.OneCluster(4, flat(0, 6), three(0, 6, 2)...),
		"zero capacity":        plantest.OneCluster(0, flat(100, 6), three(0, 6, 2)...),
		"impossible deadlines": plantest.OneCluster(4, flat(100, 6), three(4, 5, 3)...),
		"past the horizon":     plantest.OneCluster(4, flat(100, 6), three(9, 20, 2)...),
		"equal everything":     plantest.OneCluster(3, flat(100, 6), three(0, 6, 2)...),
		"one slot":             plantest.OneCluster(4, flat(100, 1), three(0, 1, 1)...),
		"too large":            plantest.OneCluster(0.5, flat(100, 6), three(0, 6, 2)...),
		"tiny and huge":        plantest.OneCluster(2, []float64{1e-9, 1e9, 1e-9, 1e9, 1, 100}, three(0, 6, 2)...),
	}
	out["endless"] = plantest.OneCluster(4, flat(100, 6), three(0, 6, 2e9)...)
	out["long and pausing"] = plantest.OneCluster(4, []float64{9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6}, three(0, 40, 36.5)...)
	hot := plantest.OneCluster(4, flat(100, 6), three(0, 6, 2)...)
	for j := range hot.Jobs {
		hot.Jobs[j].Watts = flat(1e6, len(hot.Jobs[j].Curve))
	}
	out["a megawatt"] = hot
	cold := plantest.OneCluster(4, flat(100, 6), three(0, 6, 2)...)
	for j := range cold.Jobs {
		cold.Jobs[j].Watts = flat(0, len(cold.Jobs[j].Curve))
	}
	out["no power"] = cold
	free := plantest.OneCluster(4, flat(100, 6), three(0, 6, 2)...)
	for j := range free.Jobs {
		free.Jobs[j].Request = map[string]float64{"server": 0}
	}
	out["no request"] = free
	flatCurve := plantest.OneCluster(4, flat(100, 6), plantest.Job("a", workload.Elastic, 0, 6, 2, 0, 0))
	out["useless workers"] = flatCurve
	return out
}

// TestAdversarial: every planner meets every adversary, with both objectives, with a
// clear status: no panic, no NaN, every job planned or named, what is planned feasible.
func TestAdversarial(t *testing.T) {
	for what, base := range adversaries() {
		for _, kind := range []plan.ObjectiveKind{plan.Carbon, plan.MOSP} {
			p := *base
			p.Objective = plan.Objective{Kind: kind}
			if kind == plan.MOSP {
				p.Objective.Weights, p.Objective.Theta = [3]float64{0.5, 1, 1}, &[3]float64{1, 3, 1}
			}
			if p.Validate() != nil {
				continue // an intensity of 0 has no Z
			}
			for _, name := range plannerNames() {
				t.Run(fmt.Sprintf("%s/%s/%s", what, kind, name), func(t *testing.T) {
					planner, err := NewPlanner(name, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					res, err := planner.Plan(context.Background(), &p)
					if errors.Is(err, exact.ErrTooLarge) {
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					judge(t, &p, res)
				})
			}
		}
	}
}

func judge(t *testing.T, p *plan.Problem, res plan.Result) {
	t.Helper()
	if len(res.Plan.Jobs)+len(res.Unplaced) != len(p.Jobs) {
		t.Errorf("%d planned, %d named, of %d", len(res.Plan.Jobs), len(res.Unplaced), len(p.Jobs))
	}
	if infeasible := p.Objective.Kind == plan.Carbon && len(res.Unplaced) > 0; infeasible != (res.Status == plan.Infeasible) {
		t.Errorf("status %s with %d unplaced", res.Status, len(res.Unplaced))
	}
	if res.Status != plan.Infeasible {
		if err := plan.Check(p, res.Plan); err != nil {
			t.Error(err)
		}
	}
	e := plan.Evaluate(p, res.Plan)
	for what, v := range map[string]float64{"emissions": e.CarbonG, "energy": e.EnergyKWh, "z1": e.Z[0], "alpha": e.MeanAlpha} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Errorf("%s: %v", what, v)
		}
	}
	if res.Bound != nil && (math.IsNaN(*res.Bound) || math.IsInf(*res.Bound, 0)) {
		t.Errorf("bound %v", *res.Bound)
	}
	if res.Bound != nil && p.Objective.Kind == plan.Carbon && *res.Bound > e.CarbonG*(1+1e-9) {
		t.Errorf("bound %v above %v", *res.Bound, e.CarbonG)
	}
}
