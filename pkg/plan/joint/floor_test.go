package joint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/test/size"
)

// This file tries to make the planner leave out more jobs than a simple rule does.

// hostile draws an instance in which jobs compete for capacity, and jobs that have no place at all: little
// capacity, several resources of very different numbers, clusters and slots without capacity, all kinds of
// jobs, work that has begun, prices, and restarts that cost more than the work.
func hostile(seed uint64) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 0xf1))
	some := func() bool { return rng.IntN(3) == 0 }
	p := plantest.Random(seed, plantest.Options{
		MaxJobs: 2 + rng.IntN(24), MaxSlots: 1 + rng.IntN(24), MaxHosts: 1 + rng.IntN(5),
		Begun: some(), Costs: some(), Whole: some(), Loose: rng.IntN(12) == 0,
	})
	if some() { // less than there is work for
		share := []float64{0.1, 0.5, 0.9, 1 - 1e-9}[rng.IntN(4)]
		for c := range p.Clusters {
			for _, amounts := range p.Clusters[c].Capacity {
				for t := range amounts {
					amounts[t] *= share
				}
			}
		}
	}
	if some() {
		for c := range p.Clusters {
			for t := range p.Grid.N {
				if rng.IntN(3) == 0 {
					for _, amounts := range p.Clusters[c].Capacity {
						amounts[t] = 0
					}
				}
			}
		}
	}
	for j := range p.Jobs {
		job := &p.Jobs[j]
		switch rng.IntN(24) {
		case 0:
			job.RestartKWh, job.TransferKWh = 1e6*rng.Float64(), 1e6*rng.Float64()
		case 1: // no cluster has so much
			job.Request["cpu"] *= 1e4
		case 2:
			job.Request = map[string]float64{"memory": 1}
		case 3:
			job.Request["memory"] = 1e15
		case 4:
			job.Migratable = true
		case 5:
			job.Deadline = job.Arrival + job.Slots()
		case 6:
			job.Deadline = p.Grid.N + 5
		}
	}
	return p
}

// lossy is p with an eighth of its capacity gone in every second slot.
func lossy(p *plan.Problem) *plan.Problem {
	q := *p
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	for c := range q.Clusters {
		capacity := map[string][]float64{}
		for r, amounts := range q.Clusters[c].Capacity {
			less := slices.Clone(amounts)
			for t := 0; t < len(less); t += 2 {
				less[t] *= 7.0 / 8
			}
			capacity[r] = less
		}
		q.Clusters[c].Capacity = capacity
	}
	return &q
}

// ending is a context that ends after its error was asked for so many times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// checkFloor checks the plan of an instance: cold, after some capacity was lost, of a later slot, and from
// the memory of another instance.
func checkFloor(t *testing.T, seed uint64, other *joint.Warm) {
	t.Helper()
	p := hostile(seed)
	if err := p.Validate(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	planner := joint.Planner{Effort: 0.1, Reserve: []float64{0, 0.1, 0.4, 0.9}[seed%4]}
	what := func(which string) string { return fmt.Sprintf("seed %d, %s", seed, which) }
	warm := joint.NewWarm(planner)
	res := planned(t, warm, p)
	checkPlaced(t, p, res, what("cold"))
	q := lossy(p)
	checkPlaced(t, q, planned(t, warm, q), what("less capacity"))
	if p.Grid.N > 1 {
		p.Grid.Slot = time.Hour
		q = slotLater(p, res, rand.New(rand.NewPCG(seed, 2)))
		checkPlaced(t, q, planned(t, warm, q), what("a slot later"))
	}
	checkPlaced(t, p, planned(t, other, p), what("from another memory"))
	res, err := planner.Plan(&ending{context.Background(), int(1 + seed%50)}, p)
	if err == nil {
		checkPlaced(t, p, res, what("with an early end"))
	}
}

// TestNoPlanLeavesOutMoreThanAsap: no plan leaves out more jobs than running as soon as possible, earliest deadline first, or
// latest start first.
func TestNoPlanLeavesOutMoreThanAsap(t *testing.T) {
	const shards = 4
	instances := size.Of[uint64](400, 100_000)
	for shard := range uint64(shards) {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			other := joint.NewWarm(joint.Planner{Effort: 0.1, Reserve: 0.1 * float64(shard)})
			for seed := shard; seed < instances; seed += shards {
				checkFloor(t, seed, other)
			}
		})
	}
}

// TestFloorOfFractions: in these instances the plan leaves so little of a fractional length undone as counts as done,
// and is cheaper than the bound by that.
func TestFloorOfFractions(t *testing.T) {
	for _, seed := range []uint64{12782, 17470, 33940, 52672, 64160} {
		checkFloor(t, seed, joint.NewWarm(joint.Planner{Effort: 0.1}))
	}
}

// TestBoundAtTheCapacity: in these instances what the plan takes exceeds the capacity by what rounding may. The prices
// are so high that the bound, which did not count it, lay above the plan's cost.
func TestBoundAtTheCapacity(t *testing.T) {
	for _, seed := range []uint64{416, 17468, 30633, 34386, 51480, 56259, 60702, 62442, 83631} {
		checkFloor(t, seed, joint.NewWarm(joint.Planner{Effort: 0.1}))
	}
}

// TestFloorUnderAnImpossibleJob: in these instances the cost of leaving out a job that has no place at all hid that
// of leaving out one that has, and the plan was taken for optimal.
func TestFloorUnderAnImpossibleJob(t *testing.T) {
	for _, seed := range []uint64{175, 749, 823, 1411, 1469, 1735, 1739, 1773} {
		p := plantest.Random(seed, plantest.Options{})
		for _, reserve := range []float64{0, 0.1} {
			checkPlaced(t, p, planned(t, joint.Planner{Reserve: reserve}, p), fmt.Sprintf("seed %d, reserve %v", seed, reserve))
		}
	}
}
