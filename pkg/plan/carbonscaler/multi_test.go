package carbonscaler

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func TestMultiLaws(t *testing.T) {
	plantest.Laws(t, Multi{}, 100, plantest.Options{})
	plantest.Laws(t, Multi{MeanLength: 3}, 50, plantest.Options{Objective: plan.MOSP})
}

// TestMultiAloneIsCarbonScaler: one job of the mean length gets Algorithm 1's schedule.
func TestMultiAloneIsCarbonScaler(t *testing.T) {
	p := plantest.OneCluster(10, []float64{10, 100, 20}, plantest.Job("a", workload.Elastic, 0, 3, 2, 0.7))
	a, err := Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Multi{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := plan.Evaluate(p, a.Plan).CarbonG, plan.Evaluate(p, b.Plan).CarbonG; x != y {
		t.Errorf("alone %v g, among one %v g", x, y)
	}
}

// TestMultiScalesInPowersOfTwo: the third and fourth worker pay only together.
func TestMultiScalesInPowersOfTwo(t *testing.T) {
	p := plantest.OneCluster(10, []float64{10, 100, 100, 100, 100, 100}, plantest.Job("a", workload.Elastic, 0, 6, 4, 1, 0, 2))
	res, err := Multi{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if e := plan.Evaluate(p, res.Plan); e.CarbonG != 40 {
		t.Errorf("%v g, want 40: all work with four workers in the clean slot; %v", e.CarbonG, res.Plan)
	}
}

// TestMultiGivesMarginalThroughputFirst: two jobs want both servers of the clean slot;
// MinWorkers first, and a third server goes to the one that gains more by it.
func TestMultiGivesMarginalThroughputFirst(t *testing.T) {
	p := plantest.OneCluster(3, []float64{10, 100, 100, 100}, plantest.Job("a", workload.Elastic, 0, 4, 2, 0.5), plantest.Job("b", workload.Elastic, 0, 4, 2, 0.9))
	res, err := Multi{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	at := func(j int) int {
		most := 0
		for _, s := range res.Plan.Jobs[j].Segments {
			if s.Slot == 0 {
				most = max(most, s.Workers)
			}
		}
		return most
	}
	if at(0) != 1 || at(1) != 2 {
		t.Errorf("a has %d and b %d servers in the clean slot, want 1 and 2", at(0), at(1))
	}
}

// TestMultiKeepsDeadlinesOfLongJobs: a job much longer than the mean still ends in time.
func TestMultiKeepsDeadlinesOfLongJobs(t *testing.T) {
	p := plantest.OneCluster(10, []float64{50, 100, 10, 100, 50, 100, 10, 100, 50, 60, 70, 80},
		plantest.Job("long", workload.Interruptible, 0, 12, 9), plantest.Job("s1", workload.Interruptible, 0, 12, 1), plantest.Job("s2", workload.Interruptible, 0, 12, 1))
	res, err := Multi{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != plan.Feasible {
		t.Errorf("status %s: %v", res.Status, res.Unplaced)
	}
}

func BenchmarkMulti(b *testing.B) { plantest.Bench(b, Multi{}) }

func TestMultiTakesUsefulScales(t *testing.T) {
	plantest.UsefulScales(t, Multi{}, 300, plantest.Options{})
}
