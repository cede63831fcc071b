package plantest

import (
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/workload"
)

// OneJobGap is how far above the bound of sharing slots in time the plan of a single
// elastic job may lie, relative.
const OneJobGap = 1e-3

// OneJob checks that a planner plans a single elastic job on any measured curve within
// OneJobGap of HullBound, in as many random instances.
func OneJob(t *testing.T, planner plan.Planner, instances int) {
	t.Helper()
	worst, worstSeed := 0.0, uint64(0)
	for seed := range uint64(instances) {
		p := RandomOneJob(seed)
		bound, possible := HullBound(p)
		res := solve(t, planner, p)
		if !possible {
			if res.Status != plan.Infeasible {
				t.Fatalf("seed %d: status %s of a job that cannot be done", seed, res.Status)
			}
			continue
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		grams := plan.Evaluate(p, res.Plan).CarbonG
		if res.Bound != nil && *res.Bound > grams*(1+1e-9) {
			t.Fatalf("seed %d: bound %v above the plan's own %v", seed, *res.Bound, grams)
		}
		if gap := (grams - bound) / math.Max(bound, 1e-6); gap > worst {
			worst, worstSeed = gap, seed
		}
	}
	t.Logf("%T, %d single jobs: worst gap to the hull bound %.4f %%", planner, instances, 100*worst)
	if worst > OneJobGap {
		p := RandomOneJob(worstSeed)
		t.Errorf("%T, seed %d: %.3f %% above the hull bound; want at most %.1f %%; curve %v, watts %v", planner, worstSeed, 100*worst, 100*OneJobGap, p.Jobs[0].Curve, p.Jobs[0].Watts)
	}
}

// RandomOneJob returns an instance of one elastic job with a curve as measurements give
// them, on one to three clusters of which it uses one.
func RandomOneJob(seed uint64) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 0x1b))
	slots := 4 + rng.IntN(45)
	intensity := func() []float64 {
		out := make([]float64, slots)
		for t := range out {
			out[t] = float64(20 + rng.IntN(500))
			if rng.IntN(12) == 0 {
				out[t] = 0
			}
		}
		return out
	}
	minimum := 1 + rng.IntN(3)
	curve := generate.MeasuredCurve(rng, minimum, 1+rng.IntN(20))
	job := workload.Job{
		ID: "one", Kind: workload.Elastic, Deadline: slots, Request: map[string]float64{"server": 1},
		MinWorkers: minimum, MaxWorkers: minimum + len(curve) - 1, Curve: curve,
		Length: math.Max(0.1, float64(slots)*rng.Float64()),
	}
	if rng.IntN(2) == 0 {
		job.Watts = measuredWatts(rng, len(curve))
	}
	p := OneCluster(float64(job.MaxWorkers), intensity(), job)
	if rng.IntN(2) == 0 { // not every scale fits
		room := p.Clusters[0].Capacity["server"]
		for t := range room {
			room[t] = float64(rng.IntN(job.MaxWorkers + 1))
		}
	}
	for range rng.IntN(3) {
		c := p.Clusters[0]
		c.Name = c.Name + "x" + string(rune('0'+len(p.Clusters)))
		c.PUE, c.Intensity = 1+rng.Float64(), intensity()
		c.Watts = map[string]float64{"server": float64(rng.IntN(2000))}
		p.Clusters = append(p.Clusters, c)
	}
	return p
}

// HullBound returns the least emissions of the only job of p on one of its clusters if
// slots may be shared in time between scales; false where no cluster can do its work.
//
// The value is the largest theta * work + sum_t min(0, min_k grams_tk - theta * work_k)
// over prices theta of work, found by bisection on its slope: no hull is made, so that
// it can judge planners which make one.
func HullBound(p *plan.Problem) (float64, bool) {
	best := math.Inf(1)
	for _, c := range p.Allowed(0) {
		if v, ok := priced(p, c); ok {
			best = math.Min(best, v)
		}
	}
	return best, !math.IsInf(best, 1)
}

func priced(p *plan.Problem, c int) (float64, bool) {
	job, free := &p.Jobs[0], plan.NewFree(p)
	throughputs := workload.Throughputs(job.Curve)
	need := job.Work() * (1 - 1e-9)
	grams := make([][]float64, p.Grid.N) // by slot, of every scale that fits
	for t := job.Arrival; t < p.LastSlot(0); t++ {
		for k := range throughputs {
			if !free.FitsUnder(0, c, t, job.MinWorkers+k, 0) {
				break
			}
			grams[t] = append(grams[t], p.SlotGrams(0, c, t, job.MinWorkers+k))
		}
	}
	// at returns the value at a price, and the least work of the slots' best responses.
	at := func(theta float64) (value, done float64) {
		value = theta * need
		for _, slot := range grams {
			least, work := 0.0, 0.0
			for k, g := range slot {
				if v := g - theta*throughputs[k]; v < least {
					least, work = v, throughputs[k]
				}
			}
			value, done = value+least, done+work
		}
		return value, done
	}
	high := 1e-9
	for ; high < 1e15; high *= 2 {
		if _, done := at(high); done >= need {
			break
		}
	}
	if high >= 1e15 {
		return 0, false
	}
	low := 0.0
	for range 60 {
		middle := (low + high) / 2
		if _, done := at(middle); done >= need {
			high = middle
		} else {
			low = middle
		}
	}
	a, _ := at(low)
	b, _ := at(high)
	return math.Max(0, math.Max(a, b)), true
}

// measuredWatts returns total powers at every scale: rising, with scales that take no
// more, that take less, or none at all.
func measuredWatts(rng *rand.Rand, scales int) []float64 {
	out := make([]float64, scales)
	watts := float64(rng.IntN(400))
	for i := range out {
		out[i] = watts
		switch rng.IntN(6) {
		case 0:
			watts = math.Max(0, watts-float64(rng.IntN(200)))
		case 1:
		default:
			watts += float64(rng.IntN(300))
		}
	}
	if rng.IntN(10) == 0 {
		clear(out)
	}
	return out
}
