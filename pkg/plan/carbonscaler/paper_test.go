package carbonscaler

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// elastic is a problem of one job, a unit of emissions a server, slot and unit of
// intensity, as in the paper.
func elastic(intensity []float64, length float64, curve ...float64) *plan.Problem {
	return plantest.OneCluster(1000, intensity, plantest.Job("j", workload.Elastic, 0, len(intensity), length, curve[1:]...))
}

func solve(t testing.TB, p *plan.Problem) plan.Result {
	t.Helper()
	res, err := (Planner{}).Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	return res
}

// Section 3.4, Figure 5: length 2, T = 3, m = 1, M = 2, c = 10, 100, 20.
func TestWorkedExample(t *testing.T) {
	flat := elastic([]float64{10, 100, 20}, 2, 1, 1)
	res := solve(t, flat)
	if got := fmt.Sprint(res.Plan.Jobs[0].Segments); got != "[{0 0 2 1}]" {
		t.Errorf("flat curve: %s; the paper runs two servers in slot 1 alone", got)
	}
	if e := plan.Evaluate(flat, res.Plan); math.Abs(e.CarbonG-20) > 1e-9 || res.Status != plan.Optimal {
		t.Errorf("flat curve: %v carbon units, %s", e.CarbonG, res.Status)
	}
	diminishing := elastic([]float64{10, 100, 20}, 2, 1, 0.7)
	res = solve(t, diminishing)
	segments := res.Plan.Jobs[0].Segments
	if len(segments) != 2 || segments[0] != (plan.Segment{Slot: 0, Workers: 2, Fraction: 1}) || segments[1].Slot != 2 || segments[1].Workers != 1 || math.Abs(segments[1].Fraction-0.3) > 1e-9 {
		t.Errorf("diminishing curve: %v; the paper runs two servers in slot 1 and one for a third of slot 3", segments)
	}
	// The text charges whole slots (40 units); the part of slot 3 that is used is 0.3.
	if e := plan.Evaluate(diminishing, res.Plan); math.Abs(e.CarbonG-(20+0.3*20)) > 1e-9 {
		t.Errorf("diminishing curve: %v carbon units", e.CarbonG)
	}
}

// Theorem 1: for curves that never rise the greedy is optimal. The reference is
// dynamic programming over a fine grid of work.
func TestOptimalOnDecreasingCurves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := 2 + rng.IntN(6)
		intensity := make([]float64, n)
		for i := range intensity {
			intensity[i] = float64(10 + rng.IntN(500))
		}
		// Multiples of 0.25, so that work lies on the grid of the reference.
		curve := []float64{1}
		for range rng.IntN(4) {
			curve = append(curve, math.Min(curve[len(curve)-1], float64(1+rng.IntN(4))/4))
		}
		p := elastic(intensity, float64(1+rng.IntN(4*n))/4, curve...)
		res := solve(t, p)
		got := plan.Evaluate(p, res.Plan).CarbonG
		if want := reference(p); got > want+1e-6 {
			t.Fatalf("%v, work %v, %v: %v, whole slots need %v", curve, p.Jobs[0].Length, intensity, got, want)
		}
		if res.Status != plan.Optimal || *res.Bound > got || *res.Bound < got*(1-1e-6) {
			t.Fatalf("status %s, bound %v of %v", res.Status, *res.Bound, got)
		}
	}
}

// reference is the least emissions with one scale a slot, of which the last may
// be used in part: it tries each slot and scale as the partial one.
func reference(p *plan.Problem) float64 {
	const grid = 4
	need := int(math.Round(p.Jobs[0].Work() * grid))
	job := &p.Jobs[0]
	least := math.Inf(1)
	for partial := range p.Grid.N {
		// cost[w] is the least emissions of w quarter units of work without the slot
		// partial.
		cost := make([]float64, need+1)
		for w := 1; w <= need; w++ {
			cost[w] = math.Inf(1)
		}
		for t := range p.Grid.N {
			if t == partial {
				continue
			}
			next := append([]float64(nil), cost...)
			for workers := 1; workers <= job.MaxWorkers; workers++ {
				done := int(math.Round(job.Throughput(workers) * grid))
				for w := range cost {
					to := min(need, w+done)
					next[to] = math.Min(next[to], cost[w]+p.SlotGrams(0, 0, t, workers))
				}
			}
			cost = next
		}
		for w := range cost {
			rest := float64(need-w) / grid
			if rest == 0 {
				least = math.Min(least, cost[w])
				continue
			}
			for workers := 1; workers <= job.MaxWorkers; workers++ {
				if x := job.Throughput(workers); x >= rest {
					least = math.Min(least, cost[w]+rest/x*p.SlotGrams(0, 0, partial, workers))
				}
			}
		}
	}
	return least
}

// "When T = t + l" (Section 5): without slack the job still scales up in clean
// slots to pause in dirty ones.
func TestScalesWithoutSlack(t *testing.T) {
	p := elastic([]float64{100, 10, 100, 10}, 4, 1, 1, 1, 1)
	res := solve(t, p)
	if e := plan.Evaluate(p, res.Plan); e.CarbonG >= 220 || math.Abs(e.CarbonG-40) > 1e-9 {
		t.Errorf("%v carbon units, want all work in the clean slots", e.CarbonG)
	}
}

// TestThresholdEqualsHeap: the fast path takes what the heap alone would.
func TestThresholdEqualsHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		n := 5 + rng.IntN(60)
		intensity := make([]float64, n)
		for i := range intensity {
			intensity[i] = float64(1+rng.IntN(20)) * 10 // ties
		}
		curve := []float64{1}
		for range rng.IntN(30) {
			curve = append(curve, curve[len(curve)-1]*(0.8+0.2*rng.Float64()))
		}
		p := elastic(intensity, 1+rng.Float64()*float64(n), curve...)
		fast := solve(t, p)
		slow := *p
		slow.Jobs = append([]workload.Job(nil), p.Jobs...)
		slow.Jobs[0].Curve = append(append([]float64(nil), curve...), 0, 1e-300) // not concave: no fast path
		slow.Jobs[0].MaxWorkers = len(slow.Jobs[0].Curve)
		a, b := plan.Evaluate(p, fast.Plan).CarbonG, plan.Evaluate(&slow, solve(t, &slow).Plan).CarbonG
		if math.Abs(a-b) > 1e-9*b {
			t.Fatalf("threshold %v, heap %v", a, b)
		}
	}
}

func TestLaws(t *testing.T) {
	plantest.Laws(t, Planner{}, 400, plantest.Options{})
	plantest.Laws(t, Planner{}, 200, plantest.Options{Objective: plan.MOSP})
}

// TestOneJobOnAnyCurve: time sharing between the corners of the hull leaves no gap.
func TestOneJobOnAnyCurve(t *testing.T) { plantest.OneJob(t, Planner{}, plantest.Instances(3000)) }

// TestBoundOnPowersOfTwo is the example that showed a bound above the plan's own
// emissions: a job that runs faster at powers of two only.
func TestBoundOnPowersOfTwo(t *testing.T) {
	intensity := make([]float64, 24)
	for i := range intensity {
		intensity[i] = 300 + 200*math.Sin(float64(i)/24*2*math.Pi)
	}
	p := elastic(intensity, 12, 1, 1, 0, 1.61, 0, 1.49, 0, 1.41)
	p.Clusters[0].Watts["server"] = 60
	res := solve(t, p)
	grams := plan.Evaluate(p, res.Plan).CarbonG
	want, _ := plantest.HullBound(p)
	if res.Bound == nil || *res.Bound > grams || grams > want*(1+1e-6) {
		t.Errorf("%v g, bound %v; the hull bound is %v", grams, *res.Bound, want)
	}
}

func TestAdversarial(t *testing.T) {
	for name, p := range map[string]*plan.Problem{
		"zero intensity": elastic([]float64{0, 0, 0}, 2, 1, 0.5), "one slot": elastic([]float64{5}, 1, 1, 0.5), "equal": elastic([]float64{7, 7, 7, 7}, 3, 1, 1),
		"useless workers": elastic([]float64{5, 6, 7}, 2, 1, 0, 0), "a jump": elastic([]float64{5, 6, 7}, 2, 1, 0.1, 5),
	} {
		if res := solve(t, p); res.Status == plan.Infeasible || math.IsNaN(plan.Evaluate(p, res.Plan).CarbonG) {
			t.Errorf("%s: %+v", name, res)
		}
	}
	res, err := (Planner{}).Plan(context.Background(), elastic([]float64{5, 6}, 9, 1, 1))
	if err != nil || res.Status != plan.Infeasible || len(res.Unplaced) != 1 {
		t.Errorf("impossible deadline: %+v, %v", res, err)
	}
}

func BenchmarkOneJob(b *testing.B) {
	for _, n := range []struct{ slots, servers int }{{24, 8}, {96, 16}, {168, 64}, {720, 256}} {
		for _, kind := range []string{"concave", "measured"} {
			rng := rand.New(rand.NewPCG(3, 3))
			intensity := make([]float64, n.slots)
			for i := range intensity {
				intensity[i] = 200 + 100*math.Sin(float64(i)/4) + 20*rng.Float64()
			}
			curve := make([]float64, n.servers)
			for k := range curve {
				curve[k] = math.Pow(0.99, float64(k))
				if kind == "measured" {
					curve[k] *= 0.9 + 0.2*rng.Float64()
				}
			}
			p := elastic(intensity, float64(n.slots)*float64(n.servers)/8, curve...)
			b.Run(fmt.Sprintf("curve=%s/slots=%d/servers=%d", kind, n.slots, n.servers), func(b *testing.B) {
				for b.Loop() {
					if _, err := (Planner{}).Plan(context.Background(), p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
