// Package asap is the carbon-agnostic planner: first come, first served, every
// job as soon as it fits. It is the baseline that savings are stated against.
package asap

import (
	"context"

	"lull.dev/lull/pkg/plan"
)

// Source names what the method is taken from.
const Source = "carbon-agnostic FCFS, the baseline of all five papers"

// Planner is the method; its zero value is ready.
type Planner struct{}

// Plan places the jobs in order of arrival, each at the earliest time and on
// the cluster where it fits (plan.Free.Earliest), at MinWorkers. A later job
// may fill a hole that an earlier one left, and never delays one.
//
// Where several clusters serve equally early, the least used one is taken:
// the baseline spreads work and does not know which cluster is clean.
//
// Errors: that of ctx. Complexity: O(jobs x clusters x slots).
func (Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for _, j := range plan.ByArrival(p) {
		if err := ctx.Err(); err != nil {
			return plan.Result{}, err
		}
		segments, ok := free.Earliest(p, j, p.Jobs[j].Arrival, p.LastSlot(j), 0, p.Objective.Kind == plan.MOSP)
		if !ok {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		free.TakeAll(j, segments)
		placed = append(placed, plan.JobPlan{Job: j, Segments: segments})
	}
	return plan.Finish(p, placed, unplaced), nil
}
