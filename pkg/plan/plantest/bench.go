package plantest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// Sized returns an instance of the given size whose jobs (half rigid, half
// interruptible, 1 to 5 GPUs for 1 to 5 slots, slack 2 to 4 times the length)
// ask for about the share load of the capacity.
func Sized(seed uint64, jobs, clusters, slots int, load float64) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 0xbe))
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Date(2023, 11, 14, 0, 0, 0, 0, time.UTC), Slot: time.Hour, N: slots},
		Objective: plan.Objective{Kind: plan.Carbon},
	}
	demand := 0.0
	for j := range jobs {
		length := 1 + rng.IntN(5)
		job := workload.Job{
			ID: fmt.Sprintf("j%06d", j), Kind: workload.Rigid, Arrival: rng.IntN(max(1, slots-5*length)), Length: float64(length),
			Request:    map[string]float64{"gpu": float64(1 + rng.IntN(5))},
			MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
		}
		if rng.IntN(2) == 0 {
			job.Kind = workload.Interruptible
		}
		job.Deadline = min(slots, job.Arrival+int(math.Ceil(float64(length)*(2+2*rng.Float64()))))
		demand += float64(length) * job.Request["gpu"]
		p.Jobs = append(p.Jobs, job)
	}
	capacity := math.Ceil(demand / load / float64(clusters*slots))
	for c := range clusters {
		cl := plan.Cluster{Name: fmt.Sprintf("c%03d", c), PUE: 1, Watts: map[string]float64{"gpu": 200}, Capacity: map[string][]float64{"gpu": make([]float64, slots)}}
		level := 50 + 400*rng.Float64()
		for t := range slots {
			cl.Capacity["gpu"][t] = math.Max(5, capacity)
			cl.Intensity = append(cl.Intensity, level*(1+0.4*math.Sin(float64(t+c)/4)))
		}
		p.Clusters = append(p.Clusters, cl)
	}
	return p
}

// Bench measures a planner on a grid of sizes that shows how cost grows.
func Bench(b *testing.B, planner plan.Planner) {
	for _, n := range []struct{ jobs, clusters, slots int }{
		{200, 3, 24}, {1000, 3, 24}, {1000, 10, 24}, {1000, 3, 168}, {5000, 30, 48},
	} {
		p := Sized(1, n.jobs, n.clusters, n.slots, 0.5)
		b.Run(fmt.Sprintf("jobs=%d/clusters=%d/slots=%d", n.jobs, n.clusters, n.slots), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := planner.Plan(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
