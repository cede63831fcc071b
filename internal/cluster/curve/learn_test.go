package curve

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// TestLearningCountsThePowerOfAllThatAJobUses: a curve may set a resource that draws no power itself, such as a licence for each CPU of a Slurm cluster. What is
// learned is the same as of a curve that sets the CPUs: the capacity is low in dirty hours.
func TestLearningCountsThePowerOfAllThatAJobUses(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		var h History
		begin := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
		for i := range 3 * 24 {
			p := Past{ID: fmt.Sprint(i), Kind: kind, Submitted: begin.Add(time.Duration(i) * time.Hour), Delay: 12 * time.Hour, Hours: 2, Request: map[string]float64{"cpu": 4, "memory": 1e9, "licence": 4}, MinWorkers: 1, Curve: []float64{1}}
			if kind == workload.Elastic {
				p.MinWorkers, p.Curve = 2, []float64{1, 0.4, 0.3}
			}
			h.past = append(h.past, p)
		}
		capacities := map[string][]float64{}
		for _, resource := range []string{"cpu", "licence"} {
			watts := power.PerUnit{Watts: map[string]float64{"cpu": 5}, PUE: 1.2}
			p, ok := h.problem(begin, begin.AddDate(0, 0, 3), time.Hour, resource, 64, watts, func(g timegrid.Grid) ([]float64, bool) {
				out := make([]float64, g.N)
				for i := range out {
					if out[i] = 500; i%24 >= 12 {
						out[i] = 100
					}
				}
				return out, true
			})
			if !ok {
				t.Fatal("no problem")
			}
			k, err := replay(context.Background(), p, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			used := map[bool]float64{}
			for _, c := range k.Cases() {
				used[c.State.Intensity > 300] += c.Capacity
				capacities[resource] = append(capacities[resource], c.Capacity)
			}
			if used[true] > used[false]/4 {
				t.Errorf("%s, %s: the oracle used %v of the capacity in dirty hours, %v in clean ones; want a quarter at most", kind, resource, used[true], used[false])
			}
		}
		if !slices.Equal(capacities["cpu"], capacities["licence"]) {
			t.Errorf("%s: what is learned by licences differs from what is learned by CPUs", kind)
		}
	}
}
