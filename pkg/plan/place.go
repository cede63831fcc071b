package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"lull.dev/lull/pkg/workload"
)

// This file holds what every planner does with a place once it has chosen it:
// turn slots into segments, and a run of placements into a Result.

// Place returns the segments of a run of job j at MinWorkers in the given slots,
// ascending, on the clusters of the same index. The last slot is used in part when
// the length is fractional; rigid jobs use whole slots.
func Place(j *workload.Job, slots, clusters []int) []Segment {
	segments := make([]Segment, len(slots))
	for i, t := range slots {
		segments[i] = Segment{Slot: t, Cluster: clusters[i], Workers: j.MinWorkers, Fraction: 1}
	}
	if rest := j.Length - math.Floor(j.Length); j.Kind != workload.Rigid && rest > workload.Eps && len(slots) == j.Slots() {
		segments[len(slots)-1].Fraction = rest
	}
	return segments
}

// TakeAll removes the segments of job j, in order of slots, from f. Where a job
// shares a slot between scales the largest counts, and stands first.
func (f *Free) TakeAll(j int, segments []Segment) { f.takeAll(j, segments, 1) }

// takeAll is TakeAll, or with sign -1 gives the segments back.
func (f *Free) takeAll(j int, segments []Segment, sign int) {
	for i, s := range segments {
		if i == 0 || segments[i-1].Slot != s.Slot {
			f.Take(j, s.Cluster, s.Slot, sign*s.Workers)
		}
	}
}

// PlaceEach places one job after the other, in order of arrival, where place says
// in what is free: before slot last, its deadline or the horizon. place also
// counts the placements it considered. A job without a place runs as soon as it
// can where deadlines are soft, and is named where they are hard.
//
// Errors: that of ctx.
func PlaceEach(ctx context.Context, p *Problem, free *Free, place func(j, last int) (segments []Segment, considered int64, ok bool)) (Result, error) {
	var placed []JobPlan
	var unplaced []Unplaced
	var considered int64
	for _, j := range ByArrival(p) {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		segments, n, ok := place(j, min(p.Jobs[j].Deadline, p.Grid.N))
		considered += n
		if !ok && p.Objective.Kind == MOSP {
			segments, ok = free.Earliest(p, j, p.Jobs[j].Arrival, p.Grid.N, 0, true)
		}
		if !ok {
			unplaced = append(unplaced, Unplaced{Job: j, Why: WhyNot(p, j)})
			continue
		}
		free.TakeAll(j, segments)
		placed = append(placed, JobPlan{Job: j, Segments: segments})
	}
	res := Finish(p, placed, unplaced)
	res.Considered = considered
	return res, nil
}

// Choices are the sets of clusters that job j may use together: all it is allowed
// if it is migratable, else each by itself.
func (p *Problem) Choices(j int) [][]int {
	if p.Jobs[j].Migratable {
		return [][]int{p.Allowed(j)}
	}
	var out [][]int
	for _, c := range p.Allowed(j) {
		out = append(out, []int{c})
	}
	return out
}

// Finish puts the placements into the order of the problem's jobs and sets the
// status from what was left out. Where jobs may stay unscheduled (MOSP), a
// plan without them is feasible.
func Finish(p *Problem, placed []JobPlan, unplaced []Unplaced) Result {
	slices.SortFunc(placed, func(a, b JobPlan) int { return a.Job - b.Job })
	slices.SortFunc(unplaced, func(a, b Unplaced) int { return a.Job - b.Job })
	res := Result{Plan: Plan{Jobs: placed}, Status: Feasible, Unplaced: unplaced}
	if len(unplaced) > 0 && p.Objective.Kind == Carbon {
		res.Status = Infeasible
	}
	return res
}

// WhyNot says why job j found no place, for Unplaced.Why.
func WhyNot(p *Problem, j int) string {
	job := &p.Jobs[j]
	last := p.LastSlot(j)
	switch {
	case job.Arrival >= p.Grid.N:
		return fmt.Sprintf("arrives in slot %d, at or past the horizon of %d", job.Arrival, p.Grid.N)
	case last-job.Arrival < job.Slots() && p.Objective.Kind == Carbon:
		return fmt.Sprintf("needs %d slots at %d workers, has %d between arrival %d and slot %d",
			job.Slots(), job.MinWorkers, max(0, last-job.Arrival), job.Arrival, last)
	}
	return fmt.Sprintf("no free capacity for %d slots between arrival %d and slot %d", job.Slots(), job.Arrival, last)
}

// ByArrival returns the job indices in order of arrival, then of ID, so that the
// order of the file decides nothing.
func ByArrival(p *Problem) []int {
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &p.Jobs[a], &p.Jobs[b]
		return cmp.Or(x.Arrival-y.Arrival, strings.Compare(x.ID, y.ID))
	})
	return order
}
