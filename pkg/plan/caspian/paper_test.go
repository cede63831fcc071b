package caspian_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/caspian"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

func TestLaws(t *testing.T) {
	plantest.Laws(t, caspian.Planner{}, 60, plantest.Options{MaxJobs: 8, MaxSlots: 12})
	plantest.Laws(t, caspian.Planner{}, 60, plantest.Options{MaxJobs: 8, MaxSlots: 12, Objective: plan.MOSP})
}

// paper is the instance of Section V: 200 workloads, three spokes of 32 GPUs.
func paper(t *testing.T, seed uint64, omega1 float64) *plan.Problem {
	t.Helper()
	p, err := generate.Instance(generate.Options{Seed: seed, Jobs: 200, Clusters: 3, Slots: 40, Objective: plan.MOSP})
	if err != nil {
		t.Fatal(err)
	}
	p.Objective.Weights = [3]float64{omega1, 1, 1}
	p, err = relax.Normalised(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func solve(t *testing.T, pl plan.Planner, p *plan.Problem) plan.Evaluation {
	t.Helper()
	res, err := pl.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	return plan.Evaluate(p, res.Plan)
}

// TestWeightTradesCarbonForTime: Figures 4 to 6. With omega_1 = 0 jobs are on time and
// early; as it grows emissions fall, and lateness, mean alpha and makespan rise.
func TestWeightTradesCarbonForTime(t *testing.T) {
	var saved, alpha, late [5]float64
	for seed := range uint64(3) {
		base := solve(t, asap.Planner{}, paper(t, seed, 0))
		for i, omega := range []float64{0, 0.25, 0.5, 1, 2} {
			e := solve(t, caspian.Planner{}, paper(t, seed, omega))
			saved[i] += (1 - e.CarbonG/base.CarbonG) / 3
			alpha[i] += e.MeanAlpha / 3
			late[i] += float64(e.Late+e.Unscheduled) / 600
		}
	}
	t.Logf("saved %.3f, alpha %.3f, late %.3f for omega1 = 0, 0.25, 0.5, 1, 2", saved, alpha, late)
	if late[0] > 0.02 {
		t.Errorf("omega1 = 0: %.1f %% late; the paper has none", 100*late[0])
	}
	for i := 1; i < len(saved); i++ {
		if alpha[i] < alpha[i-1]-0.01 || late[i] < late[i-1]-0.01 {
			t.Errorf("step %d: alpha %.3f after %.3f, late %.3f after %.3f; both must grow", i, alpha[i], alpha[i-1], late[i], late[i-1])
		}
		// At 2 runs end at the horizon, which cuts them off: emissions say little.
		if i < 4 && saved[i] < saved[i-1]-0.01 {
			t.Errorf("step %d: saved %.3f after %.3f; must grow", i, saved[i], saved[i-1])
		}
	}
	if saved[2]-saved[0] < 0.1 || saved[4]-saved[0] < 0.15 {
		t.Errorf("omega1 = 0.5 saves %.1f points, 2 saves %.1f over 0; the paper has 33 and 42 on its zones", 100*(saved[2]-saved[0]), 100*(saved[4]-saved[0]))
	}
	if late[4] < late[0] {
		t.Error("more weight on carbon must not make fewer jobs late")
	}
}

// TestNoWorkloadRunsOnAnExcludedCluster: a workload runs on no cluster that its policy a_ij excludes (7).
func TestNoWorkloadRunsOnAnExcludedCluster(t *testing.T) {
	p := paper(t, 1, 1)
	q := *p
	q.Jobs = append([]workload.Job(nil), p.Jobs...)
	for j := range q.Jobs {
		if j%2 == 0 {
			q.Jobs[j].Clusters = []string{"spoke2"}
		}
	}
	solve(t, caspian.Planner{}, &q) // Check names a cluster that is not allowed
}

// TestAllocationByHand: Algorithm 3. Two workloads, one GPU: the cleanest slot goes to
// the first in order of arrival, b_i being equal.
func TestAllocationByHand(t *testing.T) {
	p := plantest.OneCluster(1, []float64{100, 10, 100}, plantest.Job("a", workload.Rigid, 0, 3, 1), plantest.Job("b", workload.Rigid, 0, 3, 1))
	p.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{1, 0.01, 0.01}}
	res, err := caspian.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := res.Plan.Jobs[0].Start(); at != 1 {
		t.Errorf("a starts in slot %d, want the clean slot 1", at)
	}
	if at, _ := res.Plan.Jobs[1].Start(); at != 0 {
		t.Errorf("b starts in slot %d, want 0: equal carbon, earlier end", at)
	}
}

// TestNeverBetterThanTheBound: against proven optima of small instances.
func TestNeverBetterThanTheBound(t *testing.T) {
	for seed := range uint64(200) {
		p := plantest.Random(seed, plantest.Options{MaxJobs: 4, MaxSlots: 5, MaxHosts: 2, Objective: plan.MOSP, Kinds: []workload.Kind{workload.Rigid}})
		best, err := exact.Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		res, err := caspian.Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		opt, got := plan.Evaluate(p, best.Plan).ZTotal, plan.Evaluate(p, res.Plan).ZTotal
		if got > opt*(1+1e-9) || *res.Bound < opt*(1-1e-7) {
			t.Errorf("seed %d: Z %v, optimum %v, bound %v", seed, got, opt, *res.Bound)
		}
	}
}

// TestHigherPenaltyMakesFewerJobsLate: a lateness that weighs more makes fewer jobs late.
func TestHigherPenaltyMakesFewerJobsLate(t *testing.T) {
	p := paper(t, 2, 2)
	pen, err := caspian.NamedPenalties("none", "none")
	if err != nil {
		t.Fatal(err)
	}
	careless, err := caspian.New(caspian.Params{Penalties: pen})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := solve(t, caspian.Planner{}, p), solve(t, careless, p); b.Late <= a.Late {
		t.Errorf("%d late without penalties, %d with the paper's", b.Late, a.Late)
	}
	if _, err := caspian.NamedPenalties("cubic", ""); !errors.Is(err, caspian.ErrParams) {
		t.Errorf("unknown penalty: %v", err)
	}
	falling := &relax.Penalties{Lateness: func(x int) float64 { return 1 / (1 + float64(x)) }, Completion: func(int) float64 { return 1 }}
	if _, err := caspian.New(caspian.Params{Penalties: falling}); !errors.Is(err, caspian.ErrParams) {
		t.Errorf("falling penalty: %v", err)
	}
	if _, err := caspian.New(caspian.Params{Weights: [3]float64{math.NaN(), 1, 1}}); !errors.Is(err, caspian.ErrParams) {
		t.Errorf("weight NaN: %v", err)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []struct {
		name           string
		jobs, clusters int
	}{{"jobs=50/clusters=3/slots=24", 50, 3}, {"jobs=200/clusters=3/slots=24", 200, 3}, {"jobs=1000/clusters=3/slots=24", 1000, 3}} {
		p, err := generate.Instance(generate.Options{Jobs: n.jobs, Clusters: n.clusters, Slots: 24, Objective: plan.MOSP})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(n.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (caspian.Planner{}).Plan(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEqualScoresAreSpread: Section V-B. With omega_1 = 0 nothing tells clusters apart, and Caspian "distributes
// workloads equally among clusters"; with omega_1 > 0 the clean one is taken.
func TestEqualScoresAreSpread(t *testing.T) {
	clusters := func(names ...string) []plan.Cluster {
		var out []plan.Cluster
		for i, name := range names {
			c := plantest.OneCluster(30, []float64{100 + 100*float64(i), 100 + 100*float64(i), 100 + 100*float64(i), 100 + 100*float64(i)}).Clusters[0]
			c.Name = name
			out = append(out, c)
		}
		return out
	}
	of := func(omega1 float64, names ...string) *plan.Problem {
		p := plantest.OneCluster(30, []float64{100, 100, 100, 100})
		p.Clusters = clusters(names...)
		for i := range 36 {
			j := plantest.Job(fmt.Sprintf("w%02d", i), workload.Rigid, 0, 4, float64(1+i%3))
			p.Jobs = append(p.Jobs, j)
		}
		p.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{omega1, 1, 1}}
		return p
	}
	hours := func(p *plan.Problem) map[string]float64 {
		res, err := caspian.Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, j := range res.Plan.Jobs {
			for _, s := range j.Segments {
				out[p.Clusters[s.Cluster].Name]++
				if p.Objective.Weights[0] == 0 && j.Segments[0].Slot != 0 {
					t.Errorf("%s starts in slot %d; there is room for all at once", p.Jobs[j.Job].ID, j.Segments[0].Slot)
				}
			}
		}
		return out
	}
	for _, names := range [][]string{{"clean", "middle", "dirty"}, {"dirty", "clean", "middle"}} {
		got := hours(of(0, names...))
		for _, name := range names {
			if math.Abs(got[name]-24) > 1 {
				t.Errorf("omega1 = 0: slots by cluster %v; want 24 on each, give or take one", got)
			}
		}
	}
	if got := hours(of(1, "clean", "middle", "dirty")); got["clean"] < 40 {
		t.Errorf("omega1 = 1: slots by cluster %v; want most on the clean one", got)
	}
	// What a workload may not use, and what others have taken, is not spread to.
	p := of(0, "clean", "middle", "dirty")
	for j := range p.Jobs {
		p.Jobs[j].Clusters = []string{"clean", "dirty"}
	}
	if got := hours(p); math.Abs(got["clean"]-36) > 1 || math.Abs(got["dirty"]-36) > 1 {
		t.Errorf("two clusters are allowed: slots by cluster %v; want 36 on each, give or take one", got)
	}
	// A cluster of which less is free gets less.
	p = of(0, "clean", "middle", "dirty")
	for r, free := range p.Clusters[0].Capacity {
		for s := range free {
			p.Clusters[0].Capacity[r][s] = 10
		}
	}
	if got := hours(p); got["clean"] >= got["middle"] || got["clean"] >= got["dirty"] {
		t.Errorf("a third is free of the clean one: slots by cluster %v; want fewest there", got)
	}
}
