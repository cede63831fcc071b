package joint_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// moved is p as it is seen when its plan has been followed for d, at most a slot: slots
// begin then. Intensities are means over the new slots, capacity is the least and load the
// most of the old ones. Rigid jobs that have begun are load; others have done what they ran.
// What has too little time left to be planned is left out.
func moved(p *plan.Problem, pl plan.Plan, d time.Duration) *plan.Problem {
	share := float64(d) / float64(p.Grid.Slot)
	q := *p
	q.Grid.Start, q.Grid.N = p.Grid.Start.Add(d), p.Grid.N-1
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	for c := range q.Clusters {
		cl := &q.Clusters[c]
		cl.Intensity = each(q.Grid.N, func(t int) float64 {
			return (1-share)*p.Clusters[c].Intensity[t] + share*p.Clusters[c].Intensity[t+1]
		})
		cl.Capacity, cl.Load = map[string][]float64{}, map[string][]float64{}
		for r, v := range p.Clusters[c].Capacity {
			cl.Capacity[r] = each(q.Grid.N, func(t int) float64 { return math.Min(v[t], v[t+1]) })
			cl.Load[r] = each(q.Grid.N, func(t int) float64 {
				if old := p.Clusters[c].Load[r]; old != nil {
					return math.Max(old[t], old[t+1])
				}
				return 0
			})
		}
	}
	done := make([]float64, len(p.Jobs)) // work
	for _, jp := range pl.Jobs {
		job := &p.Jobs[jp.Job]
		began, _ := jp.Start()
		for _, s := range jp.Segments {
			if s.Slot == 0 {
				done[jp.Job] += math.Min(share, s.Fraction) * job.Throughput(s.Workers)
			}
			if job.Kind == workload.Rigid && began == 0 && s.Slot < q.Grid.N {
				for r, amount := range job.Request {
					q.Clusters[s.Cluster].Load[r][s.Slot] += amount * float64(s.Workers)
				}
			}
		}
	}
	q.Jobs = nil
	rng := rand.New(rand.NewPCG(uint64(len(p.Jobs)), uint64(d)))
	for j := range p.Jobs {
		job := p.Jobs[j]
		early, late := rng.Float64(), rng.Float64()
		if done[j] > 0 {
			job.Length -= done[j] / job.Curve[0]
			if job.Kind == workload.Rigid || job.Length < 1e-3 {
				continue
			}
		}
		job.Arrival = max(0, int(math.Ceil(float64(job.Arrival)-early-share)))
		job.Deadline = min(q.Grid.N, int(math.Floor(float64(job.Deadline)+late-share)))
		if job.Deadline-job.Arrival < job.Slots() {
			continue
		}
		q.Jobs = append(q.Jobs, job)
	}
	return &q
}

func each(n int, of func(t int) float64) []float64 {
	out := make([]float64, n)
	for t := range out {
		out[t] = of(t)
	}
	return out
}

// kept is the share of the rigid jobs of q that start within half a slot of where they
// started by the plan of p.
func kept(p *plan.Problem, before plan.Plan, q *plan.Problem, after plan.Plan) float64 {
	started := map[string]time.Time{}
	for _, jp := range before.Jobs {
		at, _ := jp.Start()
		started[p.Jobs[jp.Job].ID] = p.Grid.Time(at)
	}
	same, all := 0.0, 0.0
	for _, jp := range after.Jobs {
		job := &q.Jobs[jp.Job]
		was, known := started[job.ID]
		if job.Kind != workload.Rigid || !known {
			continue
		}
		at, _ := jp.Start()
		all++
		if 2*q.Grid.Time(at).Sub(was).Abs() <= q.Grid.Slot {
			same++
		}
	}
	return same / math.Max(1, all)
}

// TestWarmAtAnyOffset: slots begin at the time of the decision, so those of the next
// problem begin anywhere within those of the last one, or before them if the clock is set back.
// The plan is then as good as a cold one. With many jobs on a cluster, most places are
// kept and few are considered; with few of them a plan may be made anew. By default half of the offsets are tried with
// each instance, the other half with the other instance of as many jobs.
func TestWarmAtAnyOffset(t *testing.T) {
	for i, c := range []struct {
		options generate.Options
		many    bool
	}{
		{generate.Options{Seed: 61, Jobs: 2000, Clusters: 1, Slots: 168, Load: 0.45}, true},
		{generate.Options{Seed: 62, Jobs: 300, Clusters: 3, Slots: 72, Load: 0.4, Kinds: allKinds}, false},
		{generate.Options{Seed: 63, Jobs: 800, Clusters: 5, Slots: 48, Load: 0.4, Kinds: allKinds[:2]}, false},
		{generate.Options{Seed: 64, Jobs: 3000, Clusters: 2, Slots: 168, Load: 0.4, Kinds: allKinds}, true},
	} {
		p := instance(t, c.options)
		if i%2 == 1 {
			p.Grid.Slot = 15 * time.Minute
		}
		first, memory := remembered(t, p)
		for k, o := range []struct{ share, kept float64 }{{-0.2, 0.85}, {7.0 / 60, 0.85}, {0.47, 0.5}, {53.0 / 60, 0.85}} {
			if !size.Large() && i%2 != k%2 {
				continue
			}
			d := time.Duration(o.share * float64(p.Grid.Slot)).Truncate(time.Second)
			q := with(p, 5, uint64(i))
			q.Grid.Start = p.Grid.Start.Add(d)
			if d > 0 {
				q = with(moved(p, first.Plan, d), 5, uint64(i))
			}
			res, _, err := joint.Planner{}.Replan(context.Background(), q, memory)
			if err != nil {
				t.Fatal(err)
			}
			cold := planned(t, joint.Planner{}, q)
			what := fmt.Sprintf("%s, slots of %v, %v later", name(c.options), p.Grid.Slot, d)
			checkPlaced(t, q, res, what)
			checkAgainstCold(t, what, q, res, cold)
			if !c.many {
				continue
			}
			same, faster := kept(p, first.Plan, q, res.Plan), float64(cold.Considered)/float64(res.Considered)
			t.Logf("%s: %.0f %% kept, %.1f times fewer places considered", what, 100*same, faster)
			if same < o.kept {
				t.Errorf("%s: %.0f %% of the places kept, want at least %.0f %%", what, 100*same, 100*o.kept)
			}
			if faster < leastFaster {
				t.Errorf("%s: %d places considered, %d cold; want at most a %dth", what, res.Considered, cold.Considered, leastFaster)
			}
		}
	}
}

const (
	worstPoints = 0.4 // of the emissions of a cold plan, in percent
	leastFaster = 5   // times fewer places considered than cold
)

func remembered(t testing.TB, p *plan.Problem) (plan.Result, *joint.Memory) {
	t.Helper()
	res, memory, err := joint.Planner{}.Replan(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res, memory
}

func checkAgainstCold(t *testing.T, what string, q *plan.Problem, res, cold plan.Result) {
	t.Helper()
	e, c := plan.Evaluate(q, res.Plan).CarbonG, plan.Evaluate(q, cold.Plan).CarbonG
	points := 100 * (e - c) / c
	t.Logf("%s: %.3f points worse than cold", what, points)
	if len(res.Unplaced) > len(cold.Unplaced) {
		t.Errorf("%s: %d jobs left out, %d by a cold plan", what, len(res.Unplaced), len(cold.Unplaced))
	}
	if len(cold.Unplaced) == 0 && points > worstPoints {
		t.Errorf("%s: %.3f points worse than cold, want at most %v", what, points, worstPoints)
	}
}

// TestWarmLeavesOutNoMoreThanCold: on crowded instances, of all kinds and at any offset,
// where the plan remembered may lead the search astray.
func TestWarmLeavesOutNoMoreThanCold(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 0x0ff))
		p := crowded(t, seed)
		warm := joint.NewWarm(joint.Planner{})
		res := planned(t, warm, p)
		for round := range uint64(2) {
			q := with(moved(p, res.Plan, time.Duration(rng.Int64N(int64(p.Grid.Slot)))), 2+len(p.Jobs)/10, 2*seed+round)
			if q.Grid.N < 2 {
				break
			}
			res = planned(t, warm, q)
			cold := planned(t, joint.Planner{}, q)
			if len(res.Unplaced) > len(cold.Unplaced) {
				t.Errorf("seed %d: %d jobs left out, %d by a cold plan", seed, len(res.Unplaced), len(cold.Unplaced))
			}
			p = q
		}
	}
}
