package plan

import (
	"context"

	"lull.dev/lull/pkg/workload"
)

// SafeProbability is that of the run time by which deadlines of jobs of uncertain length are guarded
// where nobody states another: by planners, and by the latest safe starts of package decide.
const SafeProbability = 0.95

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
// deadline outranks its guard: where jobs find no place, those jobs are planned again
// with their own deadlines, then all jobs with theirs, and the plan with the fewest
// jobs unplaced is returned.
//
// The bound and the status Optimal of a problem with earlier deadlines say nothing of
// the one given, so a result that rests on a guard has neither. For Z, whose terms
// count from deadlines, they say nothing of it either.
//
// Errors: those of the planner. Complexity: that of the planner, up to three times
// where jobs find no place.
func (g Guarded) Plan(ctx context.Context, p *Problem) (Result, error) {
	q, guarded := g.guard(p, nil)
	if !guarded {
		return g.Planner.Plan(ctx, p)
	}
	res, err := g.Planner.Plan(ctx, q)
	if err != nil {
		return res, err
	}
	if res.Status == Infeasible {
		res = g.without(ctx, p, res)
	} else {
		res = unproven(res)
	}
	return res, nil
}

// without plans p with fewer guards where res, a plan with all of them, leaves jobs
// out. It returns the result that places most jobs, of those that ctx leaves time for.
func (g Guarded) without(ctx context.Context, p *Problem, res Result) Result {
	left := make(map[int]bool, len(res.Unplaced))
	for _, u := range res.Unplaced {
		left[u.Job] = true
	}
	best := unproven(res)
	if q, guarded := g.guard(p, left); guarded {
		fewer, err := g.Planner.Plan(ctx, q)
		if err == nil && len(fewer.Unplaced) < len(best.Unplaced) {
			best = unproven(fewer)
		}
	}
	if len(best.Unplaced) > 0 {
		none, err := g.Planner.Plan(ctx, p)
		if err == nil && len(none.Unplaced) < len(best.Unplaced) {
			best = none // of the problem given: its bound holds
		}
	}
	return best
}

// unproven returns res without what it claims of all plans.
func unproven(res Result) Result {
	res.Bound = nil
	if res.Status == Optimal {
		res.Status = Feasible
	}
	return res
}

// deadline is that of a job brought forward by what the quantile exceeds the mean, with room for the mean.
func (g Guarded) deadline(job *workload.Job) int {
	safe := *job
	safe.Length = job.LengthAt(g.Probability)
	return min(job.Deadline, max(job.Deadline-(safe.Slots()-job.Slots()), job.Arrival+job.Slots()))
}

// guard returns p with the deadlines of jobs brought forward, those in except apart;
// false where that changes none.
func (g Guarded) guard(p *Problem, except map[int]bool) (*Problem, bool) {
	out := *p
	guarded := false
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if except[j] {
			continue
		}
		deadline := g.deadline(job)
		if deadline == job.Deadline {
			continue
		}
		if !guarded {
			out.Jobs = append([]workload.Job(nil), p.Jobs...)
			guarded = true
		}
		out.Jobs[j].Deadline = deadline
	}
	return &out, guarded
}

// Explain is Explain for a plan of g: places after the deadline as it is guarded do not fit. Explanation.Guard
// is that deadline.
func (g Guarded) Explain(p *Problem, pl Plan, j int) (Explanation, bool) {
	x, ok := Explain(p, pl, j)
	job := &p.Jobs[j]
	deadline := g.deadline(job)
	if !ok || p.Objective.Kind == MOSP || deadline == job.Deadline {
		return x, ok
	}
	x.Guard = deadline
	for i := range x.Alternatives {
		a := &x.Alternatives[i]
		end := a.Slot + 1
		if job.Kind == workload.Rigid {
			end = a.Slot + job.Slots()
		}
		if a.Fits && end > deadline {
			a.Fits, a.Why = false, "its deadline would not be kept for the guarded run time"
		}
	}
	return x, true
}
