package decide_test

import (
	"context"
	"fmt"
	"testing"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
)

// BenchmarkRenew is a decision while n tasks wait by standing plans and one or 50 have just come: with room for
// all; with scarce room, so that plans may compete; and, for comparison, with plans that stand whatever comes.
//
// renewed is the number of plans renewed by a decision, cpu-ms/op the processor time of one.
func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{500, 5000} {
		for _, x := range []struct {
			name      string
			cpus      float64 // for each task
			came      int
			renewable bool
		}{{"room=enough/came=1", 10, 1, true}, {"room=scarce/came=1", 0.06, 1, true}, {"room=scarce/came=50", 0.06, 50, true}, {"room=scarce/came=1/stand", 0.06, 1, false}} {
			b.Run(fmt.Sprintf("jobs=%d/%s", n, x.name), func(b *testing.B) {
				planner := joint.NewWarm(joint.Planner{})
				tasks := func(now float64, standing []*decide.Standing, came int) decide.Snapshot {
					s := standingTasks(b, n, now, standing, came)
					s.Clusters[0].Capacity = map[string]float64{"cpu": x.cpus * float64(n)}
					return s
				}
				now, seconds, renewed := 2.0, 0.0, 0
				standing := decided(b, tasks(now, nil, 0), planner)
				for b.Loop() {
					b.StopTimer()
					now += 0.007
					s := tasks(now, standing, x.came)
					for i := range n {
						s.Tasks[i].Renewable = x.renewable
					}
					began := cpu(b)
					b.StartTimer()
					d, err := decide.Decide(context.Background(), s, planner)
					if err != nil {
						b.Fatal(err)
					}
					seconds += cpu(b) - began
					for i := range d.Actions {
						if d.Actions[i].Renewed {
							renewed++
						}
					}
				}
				b.ReportMetric(seconds*1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(renewed)/float64(b.N), "renewed")
			})
		}
	}
}
