package carbonflex

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// elastic is an elastic job of one server a worker.
func elastic(id string, arrival, deadline int, length float64, curve ...float64) workload.Job {
	return plantest.Job(id, workload.Elastic, arrival, deadline, length, curve[1:]...)
}

func solve(t *testing.T, p *plan.Problem) plan.Result {
	t.Helper()
	res, err := (Oracle{}).Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// plain is Algorithm 1 as it is written: all entries, one sort, whole slots. It
// returns the scale of each job in each slot.
func plain(p *plan.Problem, m int) ([][]int, bool) {
	type entry struct {
		j, t, k  int
		value    float64
		deadline int
	}
	var list []entry
	for j := range p.Jobs {
		for t := p.Jobs[j].Arrival; t < min(p.Jobs[j].Deadline, p.Grid.N); t++ {
			for k, v := range p.Jobs[j].Curve {
				list = append(list, entry{j, t, k + 1, v / p.Clusters[0].Intensity[t], p.Jobs[j].Deadline})
			}
		}
	}
	sort.SliceStable(list, func(a, b int) bool {
		x, y := list[a], list[b]
		switch {
		case x.value != y.value:
			return x.value > y.value
		case x.deadline != y.deadline:
			return x.deadline < y.deadline
		case x.t != y.t: // the further ties are the planner's
			return x.t < y.t
		case p.Jobs[x.j].ID != p.Jobs[y.j].ID:
			return p.Jobs[x.j].ID < p.Jobs[y.j].ID
		}
		return x.k < y.k
	})
	scale, used, need := make([][]int, len(p.Jobs)), make([]int, p.Grid.N), make([]float64, len(p.Jobs))
	for j := range scale {
		scale[j], need[j] = make([]int, p.Grid.N), p.Jobs[j].Work()
	}
	for _, e := range list {
		if need[e.j] <= 1e-9 || used[e.t] >= m || scale[e.j][e.t] != e.k-1 {
			continue
		}
		scale[e.j][e.t] = e.k
		used[e.t]++
		need[e.j] -= p.Jobs[e.j].Curve[e.k-1]
	}
	for _, left := range need {
		if left > 1e-9 {
			return scale, false
		}
	}
	return scale, true
}

// TestIsAlgorithm1 compares with the plain form on random weeks, of few curves
// (which the planner groups) and of many.
func TestIsAlgorithm1(t *testing.T) {
	compared := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 10 + rng.IntN(40)
		intensity := make([]float64, n)
		for i := range intensity {
			intensity[i] = float64(5+rng.IntN(30)) * 10 // ties
		}
		curves := [][]float64{{1}, {1, 1, 1}, {1, 0.8, 0.5}, {1, 0.5}}
		var jobs []workload.Job
		for i := range 3 + rng.IntN(20) {
			curve := curves[rng.IntN(len(curves))]
			if rng.IntN(4) == 0 {
				curve = []float64{1, 0.5 + 0.5*rng.Float64(), 0.4 * rng.Float64()}
			}
			arrival, length := rng.IntN(n-2), 1+rng.IntN(4)
			jobs = append(jobs, elastic(fmt.Sprintf("j%02d", i), arrival, min(n, arrival+length+rng.IntN(12)), float64(length), curve...))
		}
		m := 2 + rng.IntN(10)
		p := plantest.OneCluster(float64(m), intensity, jobs...)
		want, feasible := plain(p, m)
		res := solve(t, p)
		if feasible != (res.Status != plan.Infeasible) {
			t.Fatalf("seed %d: feasible %v, status %s", seed, feasible, res.Status)
		}
		if !feasible {
			continue
		}
		compared++
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatal(err)
		}
		for _, jp := range res.Plan.Jobs {
			got := make([]int, n)
			for _, s := range jp.Segments {
				got[s.Slot] = max(got[s.Slot], s.Workers)
			}
			if fmt.Sprint(got) != fmt.Sprint(want[jp.Job]) {
				t.Fatalf("seed %d, job %d: %v, Algorithm 1 gives %v", seed, jp.Job, got, want[jp.Job])
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d feasible instances", compared)
	}
}

// Section 4.1: of entries of equal value the one with the earlier deadline comes
// first.
func TestTiesByDeadline(t *testing.T) {
	p := plantest.OneCluster(1, []float64{10, 20, 30}, elastic("a", 0, 3, 1, 1), elastic("b", 0, 2, 1, 1))
	res := solve(t, p)
	if a, b := res.Plan.Jobs[0].Segments[0].Slot, res.Plan.Jobs[1].Segments[0].Slot; b != 0 || a != 1 {
		t.Errorf("a in slot %d, b in slot %d; want the earlier deadline in the cleanest slot", a, b)
	}
}

// "If jobs are not complete, the schedule is infeasible: their deadlines are
// extended and the algorithm runs again."
func TestExtendsDeadlines(t *testing.T) {
	p := plantest.OneCluster(1, []float64{10, 10, 10, 10, 10, 10}, elastic("a", 0, 2, 2, 1), elastic("b", 0, 2, 2, 1))
	if res := solve(t, p); res.Status != plan.Infeasible || len(res.Unplaced) == 0 {
		t.Errorf("hard deadlines: %+v", res)
	}
	p.Objective = plan.Objective{Kind: plan.MOSP, Theta: &[3]float64{1, 1, 1}}
	res := solve(t, p)
	if len(res.Plan.Jobs) != 2 || res.Status == plan.Infeasible {
		t.Fatalf("soft deadlines: %+v", res)
	}
	if e := plan.Evaluate(p, res.Plan); e.Late == 0 || e.Late == 2 {
		t.Errorf("%d late, want one", e.Late)
	}
}

// Theorem 4.1 for one job: no schedule in whole slots emits less, which
// exhaustive search confirms.
func TestOptimalForOneJob(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		n := 2 + rng.IntN(4)
		intensity := make([]float64, n)
		for i := range intensity {
			intensity[i] = float64(10 + rng.IntN(300))
		}
		p := plantest.OneCluster(3, intensity, elastic("a", 0, n, float64(1+rng.IntN(n)), 1, 0.75, 0.5))
		res := solve(t, p)
		got := plan.Evaluate(p, res.Plan).CarbonG
		least := math.Inf(1)
		var try func(slot int, work, grams float64)
		try = func(slot int, work, grams float64) {
			if work >= p.Jobs[0].Work()-1e-9 {
				least = math.Min(least, grams)
				return
			}
			if slot == n {
				return
			}
			try(slot+1, work, grams)
			for w := 1; w <= 3; w++ {
				try(slot+1, work+p.Jobs[0].Throughput(w), grams+p.SlotGrams(0, 0, slot, w))
			}
		}
		try(0, 0, 0)
		if got > least+1e-9 {
			t.Fatalf("%v: %v, exhaustive search in whole slots %v", intensity, got, least)
		}
	}
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, Oracle{}, 400, plantest.Options{})
	plantest.Laws(t, Oracle{}, 200, plantest.Options{Objective: plan.MOSP})
}

// BenchmarkOracle is a week of elastic jobs, kmax 16, of ten curves.
func BenchmarkOracle(b *testing.B) {
	for _, n := range []struct {
		jobs int
		m    float64
	}{{1381, 150}, {53172, 6000}} {
		rng := rand.New(rand.NewPCG(4, 4))
		const slots = 168 + 48
		intensity := make([]float64, slots)
		for i := range intensity {
			intensity[i] = 200 + 120*math.Sin(float64(i)/24*2*math.Pi) + 30*rng.Float64()
		}
		var curves [][]float64
		for c := range 10 {
			curve := make([]float64, 16)
			for k := range curve {
				curve[k] = math.Pow(0.85+0.015*float64(c), float64(k))
			}
			curves = append(curves, curve)
		}
		var jobs []workload.Job
		for i := range n.jobs {
			length, slack := 1+rng.IntN(2), 6
			if i%3 == 0 {
				length, slack = 3+rng.IntN(9), 24
			}
			arrival := rng.IntN(168)
			jobs = append(jobs, elastic(fmt.Sprintf("j%06d", i), arrival, min(slots, arrival+length+slack), float64(length), curves[rng.IntN(10)]...))
		}
		p := plantest.OneCluster(n.m, intensity, jobs...)
		b.Run(fmt.Sprintf("jobs=%d/slots=%d/kmax=16", n.jobs, slots), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Oracle{}).Plan(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
