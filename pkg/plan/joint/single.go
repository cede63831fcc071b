package joint

import (
	"context"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// single places each job alone where it costs least beside the load and the jobs before it. It is exact for one job.
type single struct{ Planner }

// Single implements plan.Refiner.
func (pl Planner) Single() plan.Planner { return single{pl} }

// Single implements plan.Refiner.
func (w *Warm) Single() plan.Planner { return w.planner.Single() }

// Plan places the jobs in the order of the problem. A job that has no place beside the reserve may use it.
//
// Errors: that of ctx. Complexity: O(jobs x clusters x slots); times the number of clusters for jobs that may pause and may
// not migrate.
func (pl single) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	reserve := pl.Reserve
	if pl.Learned {
		reserve = p.Reserve
	}
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	tries := []*plan.Problem{p}
	if reserve > 0 {
		tries = []*plan.Problem{p.WithReserve(reserve), p}
	}
	left := make([]bool, len(p.Jobs))
	for n, q := range tries {
		m := relax.New(q, relax.TermsOf(q))
		e, room := relax.NewPricer(m), relax.NewRoom(m)
		e.Set(make([]float64, len(m.Cap)))
		for j := range p.Jobs {
			if err := ctx.Err(); err != nil {
				return plan.Result{}, err
			}
			if n > 0 && !left[j] {
				continue
			}
			_, parts, ok := e.PlaceIn(j, room)
			if left[j] = !ok; ok {
				room.Take(j, parts, 1)
				placed = append(placed, plan.JobPlan{Job: j, Segments: m.Segments(j, parts)})
			}
		}
	}
	for j := range left {
		if left[j] {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
		}
	}
	return plan.Finish(p, placed, unplaced), nil
}
