package carbonscaler

import (
	"context"
	"math"
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/rollout"
	"lull.dev/lull/pkg/workload"
)

// MultiSource names what the multi-job form is taken from.
const MultiSource = "CarbonScaler under a cluster cap, as the baseline of Hanafy et al., CarbonFlex, 2025, Section 6.1"

// Multi is the multi-job form; its zero value is ready.
type Multi struct {
	// MeanLength is what every job is taken to run for, in slots at MinWorkers; 0
	// takes the mean of the problem's jobs.
	MeanLength float64
}

// Plan rolls all jobs out together, with lengths unknown: each is scheduled by
// Algorithm 1 for the mean length in its own window when it arrives; in every slot the
// scales asked for are given by falling marginal throughput, MinWorkers first, then by
// arrival, as long as the cluster has room. A job that got less than it asked for, or
// has outlived its schedule, is scheduled anew from the next slot on; one without
// slack left runs at MinWorkers until it is done. Workers that are of use only together
// are given together (workload.Increments).
//
// Optimality: heuristic. Bound: none. Errors: that of ctx. Complexity: that of Algorithm
// 1 for every job and every denial, beside the roll-out.
func (m Multi) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	mean := m.MeanLength
	if mean <= 0 {
		for j := range p.Jobs {
			mean += p.Jobs[j].Length / float64(len(p.Jobs))
		}
	}
	x := &multi{mean: mean, wants: make([]map[int]plan.Segment, len(p.Jobs)), again: make([]bool, len(p.Jobs))}
	return rollout.Plan(ctx, p, x)
}

type multi struct {
	mean  float64
	wants []map[int]plan.Segment // by job and slot: the largest scale
	again []bool                 // to be scheduled anew
}

// Slot decides one slot.
func (x *multi) Slot(run *rollout.Run) {
	list := run.Active()
	none := func(int) float64 { return 0 }
	type entry struct {
		job, from, to int // numbers of scales
		gain          float64
	}
	var entries []entry
	for _, j := range list {
		job := &run.P.Jobs[j]
		if run.Slack(j) <= 0 {
			run.Raise(j, run.Cleanest(j, none), 0)
			continue
		}
		if x.wants[j] == nil || x.again[j] || x.past(j, run.T) {
			x.schedule(run, j)
		}
		want, ok := x.wants[j][run.T]
		if !ok {
			continue
		}
		entries = append(entries, entry{j, 0, 1, 1})
		for _, more := range workload.Increments(job.Curve[:want.Workers-job.MinWorkers+1]) {
			entries = append(entries, entry{j, more.From + 1, more.To + 1, more.PerWorker() / job.Curve[0]})
		}
	}
	sort.SliceStable(entries, func(a, b int) bool {
		if first := entries[a].from == 0; first != (entries[b].from == 0) {
			return first
		}
		return entries[a].gain > entries[b].gain
	})
	for _, e := range entries {
		c := x.wants[e.job][run.T].Cluster
		if run.Scales(e.job) != e.from || !run.RaiseTo(e.job, c, e.to, 0) {
			x.again[e.job] = true
		}
	}
}

// past reports whether job j has outlived its schedule.
func (x *multi) past(j, t int) bool {
	for at := range x.wants[j] {
		if at >= t {
			return false
		}
	}
	return true
}

// schedule makes the schedule of job j for what is left of the mean length, at least a
// slot, in an empty system.
func (x *multi) schedule(run *rollout.Run, j int) {
	x.again[j] = false
	one := *run.P
	job := run.P.Jobs[j]
	done := (job.Work() - run.Left(j)) / job.Curve[0]
	job.Arrival, job.Length = run.T, math.Max(1, x.mean-done)
	if most := float64(min(job.Deadline, run.P.Grid.N) - run.T); job.Length > most {
		job.Length = math.Max(workload.Eps, most)
	}
	if at := run.Home(j); at >= 0 && !job.Migratable {
		job.Clusters = []string{run.P.Clusters[at].Name}
	}
	one.Jobs = []workload.Job{job}
	x.wants[j] = map[int]plan.Segment{}
	if s, ok := best(&one, plan.NewFree(&one), 0, scheduled); ok {
		for _, g := range s.segments {
			if w, again := x.wants[j][g.Slot]; !again || g.Workers > w.Workers {
				x.wants[j][g.Slot] = g
			}
		}
	}
}
