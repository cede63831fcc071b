package plan

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"lull.dev/lull/pkg/workload"
)

// CountsBegun marks planners that count what pauses, moves and restarts of jobs that have begun cost
// (workload.Begun). Most published methods count neither.
type CountsBegun interface {
	Planner
	CountsBegun() bool
}

// WithRestarts plans p with any planner so that going on is weighed against restarts and lost work. It is the
// one place that does it for planners that do not count them: after they have planned, a running
// job goes on as it is if that costs no more than its schedule (KeepRunning). If the room of some
// such job is taken, the others are planned once more beside the jobs that go on, and the better plan
// is returned. A planner that counts them plans alone.
//
// Errors: those of the planner. Complexity: that of the planner, up to twice.
func WithRestarts(ctx context.Context, planner Planner, p *Problem) (Result, error) {
	res, err := planner.Plan(ctx, p)
	if err != nil || countsBegun(planner) {
		return res, err
	}
	kept, blocked := keepRunning(p, res)
	if len(blocked) == 0 {
		return kept, nil
	}
	again, err := beside(ctx, planner, p, kept, blocked)
	if err != nil {
		return kept, nil //nolint:nilerr // the first plan stands if no second one is found
	}
	if a, b := len(again.Unplaced), len(kept.Unplaced); a < b || a == b && p.cost(again.Plan) < p.cost(kept.Plan) {
		return again, nil
	}
	return kept, nil
}

// countsBegun reports whether a planner counts what CountsBegun says.
func countsBegun(p Planner) bool {
	c, ok := p.(CountsBegun)
	return ok && c.CountsBegun()
}

// CountsBegun is that of the planner that is guarded.
func (g Guarded) CountsBegun() bool { return countsBegun(g.Planner) }

// cost is that of all schedules of a plan.
func (p *Problem) cost(pl Plan) float64 {
	sum := 0.0
	for _, jp := range pl.Jobs {
		sum += p.JobCost(jp.Job, jp.Segments)
	}
	return sum
}

// KeepRunning lets a running job go on as it is, until it is done, if that fits beside all others and
// costs no more than its schedule in res, or it has none. Jobs are looked at in order of their IDs.
// A bound of res stays one, as it holds for all plans. If nothing that a job restarts for costs and
// it goes on in its first slot, its schedule stays: the planner has decided on it.
//
// Complexity: O(clusters x resources x slots + segments) if any running job restarts.
func KeepRunning(p *Problem, res Result) Result {
	res, _ = keepRunning(p, res)
	return res
}

// keepRunning is KeepRunning. blocked are the runs that would go on at less cost, but do not fit.
func keepRunning(p *Problem, res Result) (out Result, blocked map[int][]Segment) {
	placed := make(map[int][]Segment, len(res.Plan.Jobs))
	for _, jp := range res.Plan.Jobs {
		placed[jp.Job] = jp.Segments
	}
	var candidates []int
	for j := range p.Jobs {
		if p.Jobs[j].Begun != nil && p.mayGoOn(j, placed[j]) {
			candidates = append(candidates, j)
		}
	}
	if len(candidates) == 0 {
		return res, nil
	}
	free, empty := NewFree(p), NewFree(p)
	for _, jp := range res.Plan.Jobs {
		free.TakeAll(jp.Job, jp.Segments)
	}
	kept := map[int][]Segment{}
	blocked = map[int][]Segment{}
	for _, j := range p.sortedByID(slices.Values(candidates)) {
		old, home := placed[j], p.clusterOf(p.Jobs[j].Begun.Cluster)
		on := empty.GoOn(p, j, home, p.Jobs[j].Arrival, p.LastSlot(j), 0)
		if on == nil || len(old) > 0 && p.JobCost(j, on) > p.JobCost(j, old) {
			continue
		}
		free.takeAll(j, old, -1)
		if free.GoOn(p, j, home, p.Jobs[j].Arrival, p.LastSlot(j), 0) != nil {
			kept[j], old = on, on
		} else {
			blocked[j] = on
		}
		free.TakeAll(j, old)
	}
	return res.with(p, kept), blocked
}

// sortedByID returns jobs in order of their IDs.
func (p *Problem) sortedByID(jobs iter.Seq[int]) []int {
	return slices.SortedFunc(jobs, func(a, b int) int { return strings.Compare(p.Jobs[a].ID, p.Jobs[b].ID) })
}

// mayGoOn reports whether a job runs, and its schedule is one that KeepRunning weighs.
func (p *Problem) mayGoOn(j int, segments []Segment) bool {
	job := &p.Jobs[j]
	if job.Begun.Paused || p.GoesOn(j, segments) {
		return false
	}
	costs := job.RestartKWh+job.TransferKWh+job.Begun.Lost > 0
	return costs || len(segments) == 0 || !p.continues(j, segments[0].Cluster, segments[0].Slot)
}

// with returns the result with other schedules of some jobs.
func (res Result) with(p *Problem, schedules map[int][]Segment) Result {
	if len(schedules) == 0 {
		return res
	}
	var all []JobPlan
	for _, jp := range res.Plan.Jobs {
		if schedules[jp.Job] == nil {
			all = append(all, jp)
		}
	}
	for j, segments := range schedules {
		all = append(all, JobPlan{Job: j, Segments: segments})
	}
	unplaced := slices.DeleteFunc(slices.Clone(res.Unplaced), func(u Unplaced) bool { return schedules[u.Job] != nil })
	out := Finish(p, all, unplaced)
	out.Bound, out.Considered = res.Bound, res.Considered
	if res.Status == Optimal {
		out.Status = Optimal
	}
	return out
}

// beside plans the other jobs beside running jobs that go on: those of blocked, as far as they fit
// together, and those that go on in res. The bound is that of res.
func beside(ctx context.Context, planner Planner, p *Problem, res Result, blocked map[int][]Segment) (Result, error) {
	runs := map[int][]Segment{}
	for _, jp := range res.Plan.Jobs {
		if p.GoesOn(jp.Job, jp.Segments) {
			runs[jp.Job] = jp.Segments
		}
	}
	free := NewFree(p)
	for _, j := range p.sortedByID(maps.Keys(runs)) {
		free.TakeAll(j, runs[j])
	}
	for _, j := range p.sortedByID(maps.Keys(blocked)) {
		if on := blocked[j]; free.GoOn(p, j, on[0].Cluster, p.Jobs[j].Arrival, p.LastSlot(j), 0) != nil {
			free.TakeAll(j, on)
			runs[j] = on
		}
	}
	rest, index := p.without(runs)
	found, err := planner.Plan(ctx, rest)
	if err != nil {
		return Result{}, err
	}
	found, _ = keepRunning(rest, found)
	var placed []JobPlan
	var unplaced []Unplaced
	for _, jp := range found.Plan.Jobs {
		placed = append(placed, JobPlan{Job: index[jp.Job], Segments: jp.Segments})
	}
	for j, segments := range runs {
		placed = append(placed, JobPlan{Job: j, Segments: segments})
	}
	for _, u := range found.Unplaced {
		unplaced = append(unplaced, Unplaced{Job: index[u.Job], Why: u.Why})
	}
	out := Finish(p, placed, unplaced)
	out.Bound, out.Considered = res.Bound, res.Considered+found.Considered
	return out, nil
}

// without is the problem of the other jobs, with the given schedules as load, and the index in p of
// each of its jobs.
func (p *Problem) without(runs map[int][]Segment) (*Problem, []int) {
	out, index := *p, make([]int, 0, len(p.Jobs)-len(runs))
	out.Jobs = make([]workload.Job, 0, len(p.Jobs)-len(runs))
	for j := range p.Jobs {
		if runs[j] == nil {
			out.Jobs, index = append(out.Jobs, p.Jobs[j]), append(index, j)
		}
	}
	out.Clusters = slices.Clone(p.Clusters)
	for c := range out.Clusters {
		load := map[string][]float64{}
		for r, amounts := range p.Clusters[c].Load {
			load[r] = slices.Clone(amounts)
		}
		out.Clusters[c].Load = load
	}
	for _, j := range p.sortedByID(maps.Keys(runs)) { // a fixed order: equal bits
		for i, s := range runs[j] {
			if i > 0 && runs[j][i-1].Slot == s.Slot {
				continue // of two segments of a slot the larger stands first
			}
			for r, q := range p.Jobs[j].Request {
				load := out.Clusters[s.Cluster].Load
				if load[r] == nil {
					load[r] = make([]float64, p.Grid.N)
				}
				load[r][s.Slot] += q * float64(s.Workers)
			}
		}
	}
	return &out, index
}
