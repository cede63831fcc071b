package joint

import "lull.dev/lull/pkg/plan"

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
