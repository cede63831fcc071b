package plan_test

import (
	"math"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// running is a problem of one job of 3 slots that runs on the first of two clusters and would lose
// half a slot of work by a pause or a move. A server takes 1 kW.
func running() *plan.Problem {
	p := plantest.OneCluster(2, []float64{100, 100, 10, 10, 10}, plantest.Job("a", workload.Interruptible, 0, 5, 3))
	second := p.Clusters[0]
	second.Name, second.PUE, second.Intensity = "d", 2, []float64{20, 20, 20, 20, 20}
	p.Clusters = append(p.Clusters, second)
	job := &p.Jobs[0]
	job.RestartKWh, job.TransferKWh, job.Migratable = 0.5, 1, true
	job.Begun = &workload.Begun{Cluster: "c", Lost: 0.5}
	return p
}

func in(cluster, slot int, fraction float64) plan.Segment {
	return plan.Segment{Slot: slot, Cluster: cluster, Workers: 1, Fraction: fraction}
}

// TestWhatGoingOnCosts states the terms of a running job by hand.
func TestWhatGoingOnCosts(t *testing.T) {
	for name, x := range map[string]struct {
		paused   bool
		segments []plan.Segment
		need     float64
		grams    float64
		restarts int
		moves    int
	}{
		"goes on":                   {false, []plan.Segment{in(0, 0, 1), in(0, 1, 1), in(0, 2, 0.5)}, 2.5, 205, 0, 0},
		"pauses now":                {false, []plan.Segment{in(0, 2, 1), in(0, 3, 1), in(0, 4, 1)}, 3, 30 + 0.5*10, 1, 0},
		"pauses later":              {false, []plan.Segment{in(0, 0, 1), in(0, 3, 1), in(0, 4, 1)}, 3, 120 + 0.5*10, 1, 0},
		"leaves a slot half unused": {false, []plan.Segment{in(0, 0, 0.5), in(0, 1, 1), in(0, 2, 1)}, 3, 160, 0, 0},
		"moves now":                 {false, []plan.Segment{in(1, 0, 1), in(1, 1, 1), in(1, 2, 1)}, 3, 3*40 + 0.5*2*20 + 60, 1, 1},
		"moves later":               {false, []plan.Segment{in(0, 0, 1), in(1, 1, 1), in(1, 2, 1)}, 3, 100 + 2*40 + 0.5*2*20 + 60, 1, 1},
		"is paused":                 {true, []plan.Segment{in(0, 0, 1), in(0, 1, 1), in(0, 2, 1)}, 3, 210 + 0.5*100, 1, 0},
	} {
		p := running()
		if x.paused {
			p.Jobs[0].Begun = &workload.Begun{Cluster: "c", Paused: true}
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		pl := plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: x.segments}}}
		e := plan.Evaluate(p, pl)
		if math.Abs(e.CarbonG-x.grams) > 1e-9 || e.Restarts != x.restarts || e.Moves != x.moves || p.Need(0, x.segments) != x.need {
			t.Errorf("%s: %v g, %d restarts, %d moves, work %v; want %v, %d, %d, %v", name, e.CarbonG, e.Restarts, e.Moves, p.Need(0, x.segments), x.grams, x.restarts, x.moves, x.need)
		}
		if cost := p.JobCost(0, x.segments); math.Abs(cost-x.grams) > 1e-9 {
			t.Errorf("%s: cost %v, want %v", name, cost, x.grams)
		}
		work := 0.0
		for _, s := range x.segments {
			work += s.Fraction
		}
		if err := plan.Check(p, pl); (err == nil) != (work >= x.need) {
			t.Errorf("%s: %v of %v work done: %v", name, work, x.need, err)
		}
	}
}

// TestRunningJobGoesOnUnlessThePlanSaves: a running job goes on where its plan saves less than a restart and lost work cost,
// or has no place for it, but not into the room of others.
func TestRunningJobGoesOnUnlessThePlanSaves(t *testing.T) {
	later := []plan.Segment{in(0, 2, 1), in(0, 3, 1), in(0, 4, 1)} // 30 g, with a restart of 10 g/kWh
	for name, x := range map[string]struct {
		restartKWh float64
		servers    float64 // of two, one is taken by another job throughout
		segments   []plan.Segment
		goesOn     bool
	}{
		"cheap restart":   {0.5, 2, later, false},
		"dear restart":    {20, 2, later, true},
		"no room":         {20, 1, later, false},
		"no place at all": {0.5, 2, nil, true},
	} {
		p := running()
		p.Jobs[0].RestartKWh = x.restartKWh
		p.Jobs = append(p.Jobs, plantest.Job("b", workload.Rigid, 0, 5, 2))
		p.Clusters[0].Capacity["server"] = []float64{x.servers, x.servers, 2, 2, 2}
		placed := []plan.JobPlan{{Job: 1, Segments: []plan.Segment{in(0, 0, 1), in(0, 1, 1)}}}
		var unplaced []plan.Unplaced
		if x.segments != nil {
			placed = append(placed, plan.JobPlan{Job: 0, Segments: x.segments})
		} else {
			unplaced = []plan.Unplaced{{Job: 0, Why: "test"}}
		}
		res := plan.KeepRunning(p, plan.Finish(p, placed, unplaced))
		if got := p.GoesOn(0, res.Plan.Jobs[0].Segments); got != x.goesOn || res.Status != plan.Feasible {
			t.Errorf("%s: goes on: %v, status %s; want %v", name, got, res.Status, x.goesOn)
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBegunIsValidated: each fault names its field.
func TestBegunIsValidated(t *testing.T) {
	for want, spoil := range map[string]func(p *plan.Problem){
		"begun.lost: 3;":     func(p *plan.Problem) { p.Jobs[0].Begun.Lost = 3 },
		"begun.lost: -1;":    func(p *plan.Problem) { p.Jobs[0].Begun.Lost = -1 },
		"begun.lost: 0.5;":   func(p *plan.Problem) { p.Jobs[0].Begun.Paused = true },
		`begun.cluster: ""`:  func(p *plan.Problem) { p.Jobs[0].Begun.Cluster = "" },
		`begun.cluster: "x"`: func(p *plan.Problem) { p.Jobs[0].Begun.Cluster = "x" },
		"begun: set":         func(p *plan.Problem) { p.Jobs[0].Kind = workload.Rigid },
		`objective "mosp"`:   func(p *plan.Problem) { p.Objective.Kind = plan.MOSP },
	} {
		p := running()
		spoil(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
