package joint

import (
	"context"

	"lull.dev/lull/pkg/plan"
)

// Counted is Replan, and how many slots and parts it looked at.
func (pl Planner) Counted(ctx context.Context, p *plan.Problem, last *Memory) (plan.Result, *Memory, int64, error) {
	v, err := pl.begin(ctx, p)
	if err != nil {
		return plan.Result{}, nil, 0, err
	}
	res, memory := v.replan(ctx, last)
	return res, memory, v.looked(), nil
}

// BesideReserve returns the plan of p that w remembers: the one from which jobs that may pause have not
// moved into the reserve yet. p is the problem that w planned last.
func (w *Warm) BesideReserve(p *plan.Problem) plan.Plan {
	var out plan.Plan
	for j := range p.Jobs {
		job := &p.Jobs[j]
		jp := plan.JobPlan{Job: j}
		for _, x := range w.memory.jobs[job.ID].parts {
			jp.Segments = append(jp.Segments, plan.Segment{Slot: int(x.Slot), Cluster: int(x.Cluster), Workers: job.MinWorkers + int(x.Scale), Fraction: x.Fraction})
		}
		if len(jp.Segments) > 0 {
			out.Jobs = append(out.Jobs, jp)
		}
	}
	return out
}
