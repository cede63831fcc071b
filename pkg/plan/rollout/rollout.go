// Package rollout plans by running a policy slot by slot: what is decided in a slot
// knows the jobs that have arrived and what they have done, not those to come. It is
// how methods that decide online become planners.
package rollout

import (
	"context"
	"fmt"
	"math"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Policy decides one slot: it raises jobs of run.Active in the order it wants.
type Policy interface {
	Slot(run *Run)
}

// Run is the state of a roll-out. T is the slot to decide.
type Run struct {
	P *plan.Problem
	T int

	free  *plan.Free
	order []int
	jobs  []state
}

type state struct {
	left     float64 // work
	home     int     // cluster, -1 before the first slot
	segments []plan.Segment
	until    int // a rigid job that has started runs until here
	now      int // scales taken in this slot: 0 none, 1 MinWorkers, ...
	before   int // scales before the last raise
	at       int // cluster of this slot
	finished bool
	missed   bool
	further  []workload.Increment
}

// Plan rolls the policy out over p. With hard deadlines a job that is not done in
// time is named and has no place in the plan, though it has used capacity; with soft
// ones it goes on until the horizon.
//
// Errors: that of ctx. Complexity: O(slots x active jobs) beside the policy's own.
func Plan(ctx context.Context, p *plan.Problem, policy Policy) (plan.Result, error) {
	r := &Run{P: p, free: plan.NewFree(p), order: plan.ByArrival(p), jobs: make([]state, len(p.Jobs))}
	for j := range r.jobs {
		r.jobs[j] = state{left: p.Jobs[j].Work(), home: -1, at: -1}
	}
	for r.T = 0; r.T < p.Grid.N; r.T++ {
		if err := ctx.Err(); err != nil {
			return plan.Result{}, err
		}
		r.miss()
		policy.Slot(r)
		r.advance()
	}
	return r.result(), nil
}

// miss gives up the jobs whose deadline has passed.
func (r *Run) miss() {
	for _, j := range r.order {
		if s := &r.jobs[j]; !s.finished && r.T >= r.P.LastSlot(j) {
			s.missed = true
		}
	}
}

// Active are the jobs that have arrived and are not done, in order of arrival. Rigid
// jobs that have started are not among them: they run on.
func (r *Run) Active() []int {
	var out []int
	for _, j := range r.order {
		if r.P.Jobs[j].Arrival > r.T {
			break
		}
		if s := &r.jobs[j]; !s.finished && !s.missed && s.until <= r.T {
			out = append(out, j)
		}
	}
	return out
}

// Waiting counts the jobs that have arrived and are not done, running rigid ones
// included.
func (r *Run) Waiting(count func(j int)) {
	for _, j := range r.order {
		if r.P.Jobs[j].Arrival > r.T {
			break
		}
		if s := &r.jobs[j]; !s.finished && !s.missed {
			count(j)
		}
	}
}

// Left is the work that job j has still to do.
func (r *Run) Left(j int) float64 { return r.jobs[j].left }

// Slack is how many slots job j may still wait and end in time at MinWorkers.
func (r *Run) Slack(j int) int {
	slots := int(math.Ceil(r.jobs[j].left/r.P.Jobs[j].Curve[0] - workload.Eps))
	return min(r.P.Jobs[j].Deadline, r.P.Grid.N) - r.T - slots
}

// Scales is how many scales job j has taken in this slot.
func (r *Run) Scales(j int) int { return r.jobs[j].now }

// Increments returns those of the curve of job j beyond MinWorkers; none unless it is elastic.
func (r *Run) Increments(j int) []workload.Increment {
	s, job := &r.jobs[j], &r.P.Jobs[j]
	if s.further == nil && job.Kind == workload.Elastic {
		s.further = workload.Increments(job.Curve)
	}
	return s.further
}

// Home is the cluster that job j first ran on, -1 before.
func (r *Run) Home(j int) int { return r.jobs[j].home }

// On is the cluster of job j in this slot, -1 where it has taken no scale.
func (r *Run) On(j int) int { return r.jobs[j].at }

// Cleanest returns the allowed cluster of least intensity x PUE on which job j may
// run in this slot with the reserve kept (-1: none): its own, once it has one and may
// not migrate.
func (r *Run) Cleanest(j int, reserve func(c int) float64) int {
	s := &r.jobs[j]
	best := -1
	for _, c := range r.P.Allowed(j) {
		if s.home >= 0 && s.home != c && !r.P.Jobs[j].Migratable {
			continue
		}
		cl := &r.P.Clusters[c]
		if best >= 0 && cl.Intensity[r.T]*cl.PUE >= r.P.Clusters[best].Intensity[r.T]*r.P.Clusters[best].PUE {
			continue
		}
		if r.fits(j, c, r.P.Jobs[j].MinWorkers, reserve(c)) {
			best = c
		}
	}
	return best
}

func (r *Run) fits(j, c, workers int, reserve float64) bool {
	if r.P.Jobs[j].Kind == workload.Rigid {
		end := r.T + r.P.Jobs[j].Slots()
		if end > r.P.LastSlot(j) {
			if r.P.Objective.Kind != plan.MOSP {
				return false
			}
			end = r.P.Grid.N
		}
		return r.free.FitsRun(j, c, r.T, end-r.T, workers, reserve) < 0
	}
	return r.free.FitsUnder(j, c, r.T, workers, reserve)
}

// Raise gives job j its next scale in this slot on cluster c, if it has one and it
// fits while the reserve stays free. A rigid job gets its whole run.
func (r *Run) Raise(j, c int, reserve float64) bool {
	return r.RaiseTo(j, c, r.jobs[j].now+1, reserve)
}

// RaiseTo gives job j all its next scales of this slot up to a number of them on cluster c, or
// none, as Raise does. MinWorkers are raised to alone, before further workers.
func (r *Run) RaiseTo(j, c, scales int, reserve float64) bool {
	s, job := &r.jobs[j], &r.P.Jobs[j]
	if c < 0 || scales <= s.now || s.finished || s.missed || (s.now > 0 && s.at != c) || (s.home >= 0 && s.home != c && !job.Migratable) {
		return false
	}
	if s.now == 0 {
		if scales > 1 || !r.fits(j, c, job.MinWorkers, reserve) {
			return false
		}
		s.now, s.at, s.home = 1, c, c
		if job.Kind == workload.Rigid {
			s.until = min(r.T+job.Slots(), r.P.Grid.N)
			for t := r.T; t < s.until; t++ {
				r.free.Take(j, c, t, job.MinWorkers)
			}
			return true
		}
		r.free.Take(j, c, r.T, job.MinWorkers)
		return true
	}
	more := scales - s.now
	if job.Kind != workload.Elastic || scales > len(job.Curve) || r.done(j) >= s.left-workload.Eps*s.left || !r.free.FitsUnder(j, c, r.T, more, reserve) {
		return false
	}
	s.now, s.before = scales, s.now
	r.free.Take(j, c, r.T, more)
	return true
}

// done is the work of job j at its scale of this slot.
func (r *Run) done(j int) float64 {
	job := &r.P.Jobs[j]
	if r.jobs[j].now == 0 {
		return 0
	}
	return job.Throughput(job.MinWorkers + r.jobs[j].now - 1)
}

// advance does the work of the slot.
func (r *Run) advance() {
	for j := range r.jobs {
		s, job := &r.jobs[j], &r.P.Jobs[j]
		if job.Kind == workload.Rigid {
			if s.until > r.T {
				s.segments = append(s.segments, plan.Segment{Slot: r.T, Cluster: s.at, Workers: job.MinWorkers, Fraction: 1})
				s.left -= job.Curve[0]
				s.finished = s.until == r.T+1
			}
			continue
		}
		if s.now == 0 {
			continue
		}
		if s.now == 1 {
			s.before = 0
		}
		last, work := workload.Throughput(job.Curve[s.before:], 1, s.now-s.before), r.done(j) // last: of the last raise
		fraction, workers := 1.0, job.MinWorkers+s.now-1
		if work > s.left && last > 0 {
			fraction = math.Max(0, 1-(work-s.left)/last)
		}
		if fraction > workload.Eps || s.now == 1 {
			s.segments = append(s.segments, plan.Segment{Slot: r.T, Cluster: s.at, Workers: workers, Fraction: math.Max(workload.Eps, math.Min(1, fraction))})
		}
		if s.now > 1 && fraction < 1-workload.Eps {
			s.segments = append(s.segments, plan.Segment{Slot: r.T, Cluster: s.at, Workers: job.MinWorkers + s.before - 1, Fraction: 1 - math.Max(0, fraction)})
		}
		s.left = math.Max(0, s.left-work)
		s.finished = s.left <= workload.Eps*job.Work()
		s.now, s.at = 0, -1
	}
}

func (r *Run) result() plan.Result {
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for j := range r.jobs {
		s := &r.jobs[j]
		if s.finished {
			placed = append(placed, plan.JobPlan{Job: j, Segments: s.segments})
			continue
		}
		why := plan.WhyNot(r.P, j)
		if done := r.P.Jobs[j].Work() - s.left; done > 0 {
			why = fmt.Sprintf("only %.0f %% of its work was done by slot %d", 100*done/r.P.Jobs[j].Work(), r.P.LastSlot(j))
		}
		unplaced = append(unplaced, plan.Unplaced{Job: j, Why: why})
	}
	return plan.Finish(r.P, placed, unplaced)
}
