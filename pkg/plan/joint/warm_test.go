package joint_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// later is p one slot on, after the plan was followed: rigid jobs that began are gone and
// take their capacity with them, others have done what they ran.
func later(p *plan.Problem, pl plan.Plan) *plan.Problem {
	q := *p
	q.Grid.Start, q.Grid.N = p.Grid.Time(1), p.Grid.N-1
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	for c := range q.Clusters {
		cl := &q.Clusters[c]
		cl.Intensity = cl.Intensity[1:]
		capacity, load := map[string][]float64{}, map[string][]float64{}
		for r, v := range cl.Capacity {
			capacity[r] = v[1:]
			load[r] = make([]float64, q.Grid.N)
			if old := cl.Load[r]; old != nil {
				copy(load[r], old[1:])
			}
		}
		cl.Capacity, cl.Load = capacity, load
	}
	done := map[int]float64{} // work done in the slot that has passed
	for _, jp := range pl.Jobs {
		job := &p.Jobs[jp.Job]
		for _, s := range jp.Segments {
			if s.Slot == 0 {
				done[jp.Job] += s.Fraction * job.Throughput(s.Workers)
			} else if at, _ := jp.Start(); job.Kind == workload.Rigid && at == 0 {
				for r, amount := range job.Request {
					q.Clusters[s.Cluster].Load[r][s.Slot-1] += amount * float64(s.Workers)
				}
			}
		}
	}
	q.Jobs = nil
	for j := range p.Jobs {
		job := p.Jobs[j]
		if done[j] > 0 {
			job.Length -= done[j] / job.Curve[0]
			if job.Kind == workload.Rigid || job.Length < 1e-3 {
				continue
			}
		}
		job.Arrival, job.Deadline = max(0, job.Arrival-1), job.Deadline-1
		if job.Deadline <= job.Arrival {
			continue
		}
		q.Jobs = append(q.Jobs, job)
	}
	return &q
}

// with adds n new jobs.
func with(p *plan.Problem, n int, seed uint64) *plan.Problem {
	q := *p
	rng := rand.New(rand.NewPCG(seed, 5))
	q.Jobs = append([]workload.Job(nil), p.Jobs...)
	for i := range n {
		job := p.Jobs[rng.IntN(len(p.Jobs))]
		job.ID = fmt.Sprintf("x%d-%06d", seed, i)
		q.Jobs = append(q.Jobs, job)
	}
	return &q
}

// disturbed multiplies every intensity by 0.95 to 1.05.
func disturbed(p *plan.Problem, seed uint64) *plan.Problem {
	q := *p
	rng := rand.New(rand.NewPCG(seed, 6))
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	for c := range q.Clusters {
		values := make([]float64, q.Grid.N)
		for t, v := range q.Clusters[c].Intensity {
			values[t] = v * (0.95 + 0.1*rng.Float64())
		}
		q.Clusters[c].Intensity = values
	}
	return &q
}

func planned(t testing.TB, planner plan.Planner, p *plan.Problem) plan.Result {
	t.Helper()
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// worstLent is worstPoints with a reserve: lending moves one job at a time, so it ends further apart from
// two plans beside the reserve that are as good.
const worstLent = 0.7

// TestWarmIsAsGoodAsCold: after an hour with ten new jobs, and after a forecast that
// changed everywhere.
func TestWarmIsAsGoodAsCold(t *testing.T) {
	for _, o := range []generate.Options{
		{Seed: 41, Jobs: 3000, Clusters: 1, Slots: 168, Load: 0.45},
		{Seed: 42, Jobs: 400, Clusters: 3, Slots: 72, Load: 0.4, Kinds: allKinds},
		{Seed: 43, Jobs: 1000, Clusters: 5, Slots: 48, Load: 0.45, Kinds: allKinds[:2]},
	} {
		for _, reserve := range []float64{0, 0.2} {
			o := o
			o.Load *= 1 - reserve // else jobs need the reserve, and plans differ in how much
			p := instance(t, o)
			warm := joint.NewWarm(joint.Planner{Reserve: reserve})
			res := planned(t, warm, p)
			q := p
			for hour := range uint64(3) {
				q = with(later(q, res.Plan), 10, hour)
				if hour == 2 {
					q = disturbed(q, hour)
				}
				res = planned(t, warm, q)
				cold := planned(t, joint.Planner{Reserve: reserve}, q)
				checkPlaced(t, q, res, "warm")
				checkReserve(t, q, res, warm, reserve)
				e, c := plan.Evaluate(q, res.Plan), plan.Evaluate(q, cold.Plan)
				points := 100 * (e.CarbonG - c.CarbonG) / c.CarbonG
				t.Logf("%s, reserve %v, hour %d: %.3f points worse than cold", name(o), reserve, hour, points)
				worst := worstPoints
				if reserve > 0 {
					worst = worstLent
				}
				if points > worst && len(res.Unplaced) == len(cold.Unplaced) {
					t.Errorf("%s, reserve %v, hour %d: %.3f points worse than cold, want at most %v", name(o), reserve, hour, points, worst)
				}
			}
		}
	}
}

// TestWarmKeepsPlaces: where nothing changed, nothing moves; and little work is done.
func TestWarmKeepsPlaces(t *testing.T) {
	p := instance(t, generate.Options{Seed: 44, Jobs: 500, Clusters: 3, Slots: 48, Load: 0.5, Kinds: allKinds})
	warm := joint.NewWarm(joint.Planner{})
	first, again := planned(t, warm, p), planned(t, warm, p)
	a, b := plan.Evaluate(p, first.Plan), plan.Evaluate(p, again.Plan)
	if math.Abs(a.CarbonG-b.CarbonG) > 1e-9*a.CarbonG {
		t.Errorf("%v g at first, %v g again", a.CarbonG, b.CarbonG)
	}
	if again.Considered > first.Considered/20 {
		t.Errorf("%d places considered at first, %d again", first.Considered, again.Considered)
	}
}

// TestWarmForgetsWhatDoesNotFit: other slots, other clusters, other jobs.
func TestWarmForgetsWhatDoesNotFit(t *testing.T) {
	o := generate.Options{Seed: 45, Jobs: 60, Clusters: 2, Slots: 24, Load: 0.5, Kinds: allKinds}
	p := instance(t, o)
	finer := *p
	finer.Grid.Slot = p.Grid.Slot / 2
	renamed := *p
	renamed.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	renamed.Clusters[0].Name = "other"
	o.Seed = 46
	shifted := *p
	shifted.Grid.Start = p.Grid.Start.Add(20 * time.Minute)
	earlier := *p
	earlier.Grid.Start = p.Grid.Start.Add(-5 * time.Hour)
	empty := *p
	empty.Jobs = nil
	warm := joint.NewWarm(joint.Planner{})
	for what, q := range map[string]*plan.Problem{"finer": &finer, "renamed": &renamed, "other jobs": instance(t, o), "shifted": &shifted, "earlier": &earlier, "empty": &empty} {
		planned(t, warm, p)
		checkPlaced(t, q, planned(t, warm, q), what)
	}
}

// TestWarmPlansAreValid: any sequence of problems is planned validly, also with soft deadlines.
func TestWarmPlansAreValid(t *testing.T) {
	for _, o := range []plantest.Options{{}, {Loose: true, Costs: true}, {Objective: plan.MOSP}} {
		warm := joint.NewWarm(joint.Planner{Reserve: 0.1})
		for seed := range uint64(60) {
			p := plantest.Random(seed, o)
			res := planned(t, warm, p)
			if o.Objective == plan.MOSP {
				if err := plan.Check(p, res.Plan); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				continue
			}
			checkPlaced(t, p, res, fmt.Sprintf("seed %d", seed))
		}
	}
}

func TestWarmIsSafeForConcurrentUse(t *testing.T) {
	p := instance(t, generate.Options{Seed: 47, Jobs: 60, Clusters: 2, Slots: 24, Load: 0.5})
	warm := joint.NewWarm(joint.Planner{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := warm.Plan(context.Background(), p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// BenchmarkWarm plans jobs that wait on one cluster of 168 hourly slots, as the
// controllers do: cold, an hour later with ten new jobs, and after a new forecast.
func BenchmarkWarm(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		for kind, kinds := range map[string][]workload.Kind{"rigid": allKinds[:1], "mixed": allKinds} {
			p := instance(b, generate.Options{Seed: 48, Jobs: n, Clusters: 1, Slots: 168, Load: 0.5, Kinds: kinds})
			_, memory, err := joint.Planner{}.Replan(context.Background(), p, nil)
			if err != nil {
				b.Fatal(err)
			}
			res := planned(b, joint.Planner{}, p)
			next := with(later(p, res.Plan), 10, 1)
			for what, c := range map[string]struct {
				p      *plan.Problem
				memory *joint.Memory
			}{"cold": {next, nil}, "later": {next, memory}, "forecast": {disturbed(next, 1), memory}} {
				b.Run(fmt.Sprintf("jobs=%d/clusters=1/slots=168/kind=%s/%s", n, kind, what), func(b *testing.B) {
					began := cpu(b)
					gap := 0.0
					for b.Loop() {
						res, _, err := joint.Planner{}.Replan(context.Background(), c.p, c.memory)
						if err != nil {
							b.Fatal(err)
						}
						if len(res.Unplaced) == 0 {
							gap = gapOf(b, c.p, res)
						}
					}
					b.ReportMetric(gap, "gap%")
					b.ReportMetric((cpu(b)-began)*1000/float64(b.N), "cpu-ms/op")
				})
			}
		}
	}
}
