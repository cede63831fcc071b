package plan

import (
	"context"

	"lull.dev/lull/pkg/workload"
)

// Guarded plans jobs whose run time is uncertain with any planner: emissions and
// capacity are those of the mean, Job.Length, but every slot is early enough for the
// run time that is exceeded with no more than 1 - Probability to end by the deadline at
// MinWorkers. The k-th slot of a job (from 0) then lies no later than deadline -
// LengthAt(Probability) + k, its latest safe start.
type Guarded struct {
	Planner Planner
	// Probability of the run time that deadlines are guarded against, e.g. 0.95.
	Probability float64
}

// Plan brings the deadlines of jobs with quantiles forward by what the quantile exceeds
// the mean, but leaves them room for the mean, and plans the problem that results. A
// bound is one of that problem; there is none for Z, whose terms count from deadlines.
//
// Errors: those of the planner.
func (g Guarded) Plan(ctx context.Context, p *Problem) (Result, error) {
	q, guarded := g.guard(p)
	if !guarded {
		return g.Planner.Plan(ctx, p)
	}
	res, err := g.Planner.Plan(ctx, q)
	if p.Objective.Kind == MOSP {
		res.Bound = nil
		if res.Status == Optimal {
			res.Status = Feasible
		}
	}
	return res, err
}

func (g Guarded) guard(p *Problem) (*Problem, bool) {
	out := *p
	guarded := false
	for j := range p.Jobs {
		if len(p.Jobs[j].Quantiles) == 0 {
			continue
		}
		if !guarded {
			out.Jobs = append([]workload.Job(nil), p.Jobs...)
			guarded = true
		}
		job := &out.Jobs[j]
		safe := *job
		safe.Length = job.LengthAt(g.Probability)
		job.Deadline = min(job.Deadline, max(job.Deadline-(safe.Slots()-job.Slots()), job.Arrival+job.Slots()))
	}
	return &out, guarded
}
