package plan_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// small is one elastic, one rigid and one interruptible job on two clusters.
func small() *plan.Problem {
	four := func(v float64) []float64 { return []float64{v, v, v, v} }
	cluster := func(name string) plan.Cluster {
		return plan.Cluster{Name: name, PUE: 1, Watts: map[string]float64{"cpu": 1000}, Capacity: map[string][]float64{"cpu": four(3)}, Intensity: []float64{10, 100, 20, 50}}
	}
	job := func(id string, kind workload.Kind, length float64) workload.Job {
		return workload.Job{ID: id, Kind: kind, Length: length, Deadline: 4, Request: map[string]float64{"cpu": 1}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}}
	}
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Unix(0, 0), Slot: time.Hour, N: 4},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{cluster("a"), cluster("b")},
		Jobs:      []workload.Job{job("e", workload.Elastic, 2), job("r", workload.Rigid, 2), job("i", workload.Interruptible, 1.5)},
	}
	p.Jobs[0].MaxWorkers, p.Jobs[0].Curve = 2, []float64{1, 0.7}
	return p
}

func seg(t, c, w int, f float64) plan.Segment {
	return plan.Segment{Slot: t, Cluster: c, Workers: w, Fraction: f}
}

func goodPlan() plan.Plan {
	return plan.Plan{Jobs: []plan.JobPlan{
		{Job: 0, Segments: []plan.Segment{seg(0, 0, 2, 1), seg(2, 0, 1, 0.3)}},
		{Job: 1, Segments: []plan.Segment{seg(2, 1, 1, 1), seg(3, 1, 1, 1)}},
		{Job: 2, Segments: []plan.Segment{seg(0, 1, 1, 1), seg(2, 1, 1, 0.5)}},
	}}
}

func TestCheckAcceptsAndEvaluatePrices(t *testing.T) {
	p := small()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, goodPlan()); err != nil {
		t.Fatal(err)
	}
	e := plan.Evaluate(p, goodPlan())
	// e: 2 kW * 10 + 0.3 kW * 20 = 26 (the paper's example); r: 20 + 50; i: 10 + 10.
	if math.Abs(e.CarbonG-116) > 1e-9 || math.Abs(e.JobG[0]-26) > 1e-9 {
		t.Errorf("emissions %v, of the elastic job %v; want 116 and 26", e.CarbonG, e.JobG[0])
	}
	if math.Abs(e.EnergyKWh-5.8) > 1e-9 || e.Late != 0 || e.Unscheduled != 0 || e.Makespan != 4 {
		t.Errorf("evaluation %+v", e)
	}
}

// TestCheckFindsEveryFault breaks the good plan in one way at a time.
func TestCheckFindsEveryFault(t *testing.T) {
	for want, breakIt := range map[string]func(*plan.Problem, *plan.Plan){
		"before arrival":       func(p *plan.Problem, _ *plan.Plan) { p.Jobs[2].Arrival = 1 },
		"past deadline":        func(p *plan.Problem, _ *plan.Plan) { p.Jobs[1].Deadline = 3 },
		"outside the horizon":  func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[1].Segments[1].Slot = 4 },
		"unknown cluster":      func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[1].Segments[1].Cluster = 2 },
		"workers outside":      func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[0].Segments[0].Workers = 3 },
		"job scaled":           func(p *plan.Problem, pl *plan.Plan) { scaleRigid(p, pl) },
		"fraction":             func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[2].Segments[1].Fraction = math.NaN() },
		"is not allowed":       func(p *plan.Problem, _ *plan.Plan) { p.Jobs[1].Clusters = []string{"a"} },
		"two clusters in slot": func(_ *plan.Problem, pl *plan.Plan) { splitSlot(pl) },
		"used 1.3":             func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[0].Segments[0].Slot = 2 },
		"changes cluster":      func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[2].Segments[1].Cluster = 0 },
		"interrupted":          func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[1].Segments[0].Slot = 1 },
		"work done":            func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[2].Segments[1].Fraction = 0.4 },
		"not planned":          func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs = pl.Jobs[:2] },
		"planned twice":        func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs = append(pl.Jobs, pl.Jobs[0]) },
		"not in the problem":   func(_ *plan.Problem, pl *plan.Plan) { pl.Jobs[0].Job = 9 },
		"> 1 in slot 2":        func(p *plan.Problem, _ *plan.Plan) { p.Clusters[1].Capacity["cpu"][2] = 1 },
		"> 3 in slot 0":        func(p *plan.Problem, _ *plan.Plan) { p.Clusters[0].Load = map[string][]float64{"cpu": {2, 0, 0, 0}} },
	} {
		p, pl := small(), goodPlan()
		breakIt(p, &pl)
		err := plan.Check(p, pl)
		if !errors.Is(err, plan.ErrPlan) || !strings.Contains(err.Error(), want) {
			t.Errorf("want a fault with %q, got %v", want, err)
		}
	}
}

func scaleRigid(p *plan.Problem, pl *plan.Plan) {
	p.Jobs[1].MaxWorkers, p.Jobs[1].Curve = 2, []float64{1, 1}
	pl.Jobs[1].Segments[0].Workers = 2
}

func splitSlot(pl *plan.Plan) {
	pl.Jobs[2].Segments[0].Fraction = 0.5
	pl.Jobs[2].Segments = append(pl.Jobs[2].Segments, seg(0, 0, 1, 0.5))
}

// TestValidateNamesFieldAndValue: every fault of a description is an error that
// names the field and the value.
func TestValidateNamesFieldAndValue(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for want, breakIt := range map[string]func(*plan.Problem){
		"horizon: 0":              func(p *plan.Problem) { p.Grid.N = 0 },
		"slot: 0s":                func(p *plan.Problem) { p.Grid.Slot = 0 },
		"clusters: none":          func(p *plan.Problem) { p.Clusters = nil },
		`name "a" stands twice`:   func(p *plan.Problem) { p.Clusters[1].Name = "a" },
		"name is empty":           func(p *plan.Problem) { p.Clusters[0].Name = "" },
		"pue: 0.5":                func(p *plan.Problem) { p.Clusters[0].PUE = 0.5 },
		"pue: NaN":                func(p *plan.Problem) { p.Clusters[0].PUE = nan },
		"intensity: 3 values":     func(p *plan.Problem) { p.Clusters[0].Intensity = p.Clusters[0].Intensity[:3] },
		"intensity[1]: NaN":       func(p *plan.Problem) { p.Clusters[0].Intensity[1] = nan },
		"intensity[2]: -1":        func(p *plan.Problem) { p.Clusters[0].Intensity[2] = -1 },
		`capacity["cpu"][3]: +In`: func(p *plan.Problem) { p.Clusters[0].Capacity["cpu"][3] = inf },
		`capacity["cpu"]: 0 valu`: func(p *plan.Problem) { p.Clusters[0].Capacity["cpu"] = nil },
		`load["cpu"][0]: -2`:      func(p *plan.Problem) { p.Clusters[0].Load = map[string][]float64{"cpu": {-2, 0, 0, 0}} },
		`watts["cpu"]: -1`:        func(p *plan.Problem) { p.Clusters[0].Watts["cpu"] = -1 },
		`id "r" stands twice`:     func(p *plan.Problem) { p.Jobs[0].ID = "r" },
		"not a cluster":           func(p *plan.Problem) { p.Jobs[0].Clusters = []string{"mars"} },
		`kind: "lazy"`:            func(p *plan.Problem) { p.Jobs[0].Kind = "lazy" },
		"length: 0":               func(p *plan.Problem) { p.Jobs[0].Length = 0 },
		"length: NaN":             func(p *plan.Problem) { p.Jobs[0].Length = nan },
		"arrival: -1":             func(p *plan.Problem) { p.Jobs[0].Arrival = -1 },
		"minWorkers: 0":           func(p *plan.Problem) { p.Jobs[0].MinWorkers = 0 },
		"maxWorkers: 0":           func(p *plan.Problem) { p.Jobs[0].MaxWorkers = 0 },
		"curve: 1 values":         func(p *plan.Problem) { p.Jobs[0].Curve = []float64{1} },
		"curve[0]: 0":             func(p *plan.Problem) { p.Jobs[0].Curve = []float64{0, 1} },
		"watts: 1 values":         func(p *plan.Problem) { p.Jobs[0].Watts = []float64{1} },
		"request: nothing":        func(p *plan.Problem) { p.Jobs[0].Request = nil },
		`request["cpu"]: NaN`:     func(p *plan.Problem) { p.Jobs[0].Request = map[string]float64{"cpu": nan} },
		"waited: 3":               func(p *plan.Problem) { p.Jobs[0].Arrival, p.Jobs[0].Waited = 1, 3 },
		`objective.kind: "least"`: func(p *plan.Problem) { p.Objective.Kind = "least" },
		"weights[1]: NaN": func(p *plan.Problem) {
			p.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{1, nan, 1}}
		},
		"theta[0]: 0": func(p *plan.Problem) {
			p.Objective = plan.Objective{Kind: plan.MOSP, Theta: &[3]float64{0, 1, 1}}
		},
		"divides by it": func(p *plan.Problem) { p.Objective.Kind = plan.MOSP; p.Clusters[0].Intensity[0] = 0 },
	} {
		p := small()
		breakIt(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
