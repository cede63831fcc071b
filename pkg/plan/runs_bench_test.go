package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
)

// BenchmarkRuns is the search for the slots of one job.
func BenchmarkRuns(b *testing.B) {
	for _, x := range []struct{ slots, n, clusters int }{{96, 8, 1}, {96, 8, 3}, {336, 40, 3}} {
		b.Run(fmt.Sprintf("slots=%d/n=%d/clusters=%d", x.slots, x.n, x.clusters), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			table := make([]float64, x.slots*x.clusters)
			for i := range table {
				table[i] = 100 + 400*rng.Float64()
			}
			cost := func(c, t int) float64 { return table[t*x.clusters+c] }
			r := plan.Runs{N: x.n, Part: 0.7, Last: x.slots, Clusters: x.clusters, Slot: cost, Start: cost, Resume: cost, Leave: cost, Arrive: cost}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, ok := r.Cheapest(); !ok {
					b.Fatal("no schedule")
				}
			}
		})
	}
}
