package joint_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// This file tries to make the planner look at more than its doc comments allow. It counts what is looked at
// (relax.Pricer.Looked), so that the speed of the machine does not matter.

const (
	// A plan from nothing looks at no more than this for each job, slot and cluster, and a constant.
	coldEach, coldBase = 25_000, 50_000_000
	// A plan from a memory looks at no more than this. The most that 400 seeds had was a constant of 166 M (seed 281).
	warmEach, warmBase = 200, 180_000_000
)

// extremeJob draws a job of up to maxLength slots: requests from thousandths of a CPU to more than a cluster has, many bytes
// beside, deadlines that are tight or beyond the horizon, and restarts that cost nothing or more than the work.
func extremeJob(rng *rand.Rand, id string, kind workload.Kind, slots, maxLength int) workload.Job {
	pick := func(values ...float64) float64 { return values[rng.IntN(len(values))] }
	length := float64(1 + rng.IntN(maxLength))
	if kind != workload.Rigid && rng.IntN(3) == 0 {
		length -= 0.9 * rng.Float64()
	}
	arrival := rng.IntN(2) * rng.IntN(slots)
	slack := rng.IntN(slots)
	if rng.IntN(3) == 0 {
		slack = rng.IntN(1 + int(length))
	}
	job := plantest.Job(id, kind, arrival, arrival+int(math.Ceil(length))+slack, length)
	if kind == workload.Elastic {
		for k := range rng.IntN(16) {
			job.Curve = append(job.Curve, 1/float64(k+2))
		}
		job.MaxWorkers = len(job.Curve)
	}
	job.Request = map[string]float64{"cpu": pick(0.001, 1, 1, 2, 40)}
	if rng.IntN(3) == 0 {
		job.Request["memory"] = math.Round(1e9 * math.Pow(1000, rng.Float64()))
	}
	if kind != workload.Rigid {
		job.RestartKWh, job.Migratable = pick(0, 1e-3, 10), rng.IntN(2) == 0
	}
	return job
}

// extremeIntensity draws a series of intensities: none, tiny, huge, one spike or one hole, of all sizes, a day's wave, or
// on and off.
func extremeIntensity(rng *rand.Rand, shape, slots int) []float64 {
	out := make([]float64, slots)
	level := []float64{1e-9, 300, 1e6}[rng.IntN(3)]
	for t := range out {
		switch shape {
		case 1, 3:
			out[t] = level
		case 4:
			out[t] = math.Pow(10, -9+15*rng.Float64())
		case 5:
			out[t] = 300 + 200*math.Sin(2*math.Pi*float64(t)/24) + 20*rng.Float64()
		case 6:
			out[t] = 400 * float64(rng.IntN(2))
		}
	}
	switch spike := rng.IntN(slots); shape {
	case 2:
		out[spike] = level
	case 3:
		out[spike] = 0
	}
	return out
}

// extreme draws an instance of so many jobs and slots, with capacity for one job, for most of them or without end.
func extreme(seed uint64, jobs, slots int) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 0xe7))
	p := plantest.OneCluster(1, make([]float64, slots))
	p.Clusters = nil
	longest := 1 + rng.IntN([]int{1, 48, max(1, slots/10), max(1, slots/3)}[rng.IntN(4)])
	kinds := [][]workload.Kind{allKinds, allKinds[:1], allKinds[1:2], allKinds[2:]}[rng.IntN(4)]
	work := 0.0
	for i := range jobs {
		job := extremeJob(rng, "j"+strconv.Itoa(100_000+i), kinds[rng.IntN(len(kinds))], slots, min(longest, slots))
		work += job.Length * job.Request["cpu"]
		p.Jobs = append(p.Jobs, job)
	}
	shape, clusters := rng.IntN(7), 1+rng.IntN(3)
	fair := work / float64(slots*clusters)
	cpus := []float64{fair, fair / 0.7, fair / 0.3, 40, 1e15}[rng.IntN(5)]
	for c := range clusters {
		cl := plan.Cluster{
			Name: "c" + strconv.Itoa(c), PUE: 1, Watts: map[string]float64{"cpu": float64(10 * rng.IntN(3))},
			Capacity: map[string][]float64{"cpu": make([]float64, slots), "memory": make([]float64, slots)}, Intensity: extremeIntensity(rng, shape, slots),
		}
		for t := range slots {
			cl.Capacity["cpu"][t], cl.Capacity["memory"][t] = cpus, min(1e17, cpus*4e9)
		}
		p.Clusters = append(p.Clusters, cl)
	}
	return p
}

// checkBounded plans an extreme instance from nothing, an hour later with new jobs, and after another forecast.
func checkBounded(t *testing.T, seed uint64, jobs, slots int) {
	t.Helper()
	p := extreme(seed, jobs, slots)
	planner := joint.Planner{Reserve: []float64{0, 0.2, 0.5}[seed/7%3]}
	var memory *joint.Memory
	each, base := int64(coldEach), int64(coldBase)
	var res plan.Result
	for step, what := range []string{"cold", "an hour later", "another forecast"} {
		switch step {
		case 1:
			if next := later(p, res.Plan); len(next.Jobs) > 0 { // the new jobs are like those that are left
				p = next
			}
			p = with(p, 3, seed)
		case 2:
			p = disturbed(p, seed)
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var looked int64
		var err error
		if res, memory, looked, err = planner.Counted(context.Background(), p, memory); err != nil {
			t.Fatal(err)
		}
		size := int64(len(p.Jobs) * p.Grid.N * len(p.Clusters))
		t.Logf("seed %d, %d jobs, %d slots, %s: %d M looked at, %d for each job, slot and cluster", seed, jobs, slots, what, looked/1_000_000, looked/size)
		if most := base + each*size; looked > most {
			t.Errorf("seed %d, %d jobs, %d slots, %s: %d slots looked at, want at most %d", seed, jobs, slots, what, looked, most)
		}
		checkPlaced(t, p, res, fmt.Sprintf("seed %d, %s", seed, what))
		each, base = warmEach, warmBase
	}
}

// TestLooksAtBoundedMuch: whatever the instance, what the planner looks at is bounded by jobs, slots and clusters.
func TestLooksAtBoundedMuch(t *testing.T) {
	sizes := [][2]int{{1, 2500}, {10, 600}, {40, 300}, {120, 96}}
	if size.Large() {
		sizes = [][2]int{{1, 2500}, {10, 2264}, {100, 2000}, {300, 500}, {1000, 168}}
	}
	for seed := range size.Of[uint64](24, 100) {
		at := sizes[seed%uint64(len(sizes))]
		checkBounded(t, seed, at[0], at[1])
	}
}

// TestWarmLooksAtBoundedMuch: in these instances most jobs have no place. Each plan from the memory seeks places for
// them, and looked at up to 950 M slots before repairs were bounded by what they look at.
func TestWarmLooksAtBoundedMuch(t *testing.T) {
	for _, seed := range []uint64{2, 5, 18} {
		p := extreme(seed, 1000, 168)
		res, memory, _, err := joint.Planner{Effort: 0.01}.Counted(context.Background(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		p = with(later(p, res.Plan), 3, 1)
		res, _, looked, err := joint.Planner{}.Counted(context.Background(), p, memory)
		if err != nil {
			t.Fatal(err)
		}
		if looked > warmBase {
			t.Errorf("seed %d: %d slots looked at, want at most %d", seed, looked, warmBase)
		}
		checkPlaced(t, p, res, fmt.Sprintf("seed %d", seed))
	}
}
