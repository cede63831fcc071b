// Package gaia implements GAIA's start-time policies: jobs run in one piece, and
// the only choice is when they start.
package gaia

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/plan"
)

// Source names what the method is taken from.
const Source = "Hanafy et al., Going Green for Less Green (GAIA), ASPLOS 2024, as CarbonFlex (2025) compares with it"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner gaia")

// Policy says how a start is chosen.
type Policy string

// The policies.
const (
	// LowestSlot starts in the slot of least intensity, whatever comes after it.
	LowestSlot Policy = "lowest-slot"
	// LowestWindow starts where the run has the least mean intensity.
	LowestWindow Policy = "lowest-window"
	// Saving starts where the carbon that waiting saves, for each slot of waiting,
	// is most; at once where waiting saves nothing.
	Saving Policy = "saving"
)

// Params of the planner.
type Params struct {
	Policy Policy
	// MeanLength is what every job is taken to run for when its start is chosen: on
	// submission nobody knows better. Zero takes the mean of the jobs planned;
	// Oracle the true length of each.
	MeanLength time.Duration
	Oracle     bool
}

// Planner is the method.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams that names the
// parameter.
func New(params Params) (Planner, error) {
	switch params.Policy {
	case LowestSlot, LowestWindow, Saving:
	default:
		return Planner{}, fmt.Errorf("%w: policy: %q; accepted: %q, %q or %q", ErrParams, params.Policy, LowestSlot, LowestWindow, Saving)
	}
	if params.MeanLength < 0 {
		return Planner{}, fmt.Errorf("%w: mean-length: %v; accepted: at least 0", ErrParams, params.MeanLength)
	}
	return Planner{params}, nil
}

// Plan chooses a start for each job, in order of arrival, among those that still
// end by its deadline, and runs it there in one piece at MinWorkers. When the
// cluster is full then, the job waits for room, first come first served; when that
// would cost the deadline, it takes the earliest room there is. Ties: the earlier
// start.
//
// The window of slots [t, t+l) emits W(t). LowestSlot minimises the intensity of
// t, LowestWindow W(t), and Saving maximises (W(arrival) - W(t)) / (t - arrival).
//
// Deviations from the source: the latest start is that of the deadline instead of
// a queue's longest wait; jobs with a choice of cluster take the one whose chosen
// window is best by the policy's own measure.
//
// Errors: that of ctx. Complexity: O(clusters x T) a job.
func (m Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	sums := make([][]float64, len(p.Clusters))
	for c := range p.Clusters {
		sums[c] = make([]float64, p.Grid.N+1)
		for t, v := range p.Clusters[c].Intensity {
			sums[c][t+1] = sums[c][t] + v*p.Clusters[c].PUE
		}
	}
	mean := m.mean(p)
	return plan.PlaceEach(ctx, p, free, func(j, last int) (segments []plan.Segment, considered int64, ok bool) {
		job := &p.Jobs[j]
		length := mean
		if m.params.Oracle {
			length = job.Slots()
		}
		best, found := choice{}, false
		for _, c := range p.Allowed(j) {
			x, ok := m.choose(p, sums[c], j, c, length, last)
			considered += int64(max(0, last-job.Arrival))
			if ok && (!found || x.value < best.value) {
				best, found = x, true
			}
		}
		if found {
			segments = free.EarliestRun(p, j, best.cluster, best.start, last, 0, false)
		}
		if segments == nil {
			segments = anyRun(free, p, j, last)
		}
		return segments, considered, segments != nil
	})
}

// mean is the length, in slots, that every job is taken to have.
func (m Planner) mean(p *plan.Problem) int {
	if d := m.params.MeanLength; d > 0 {
		return max(1, int(math.Ceil(float64(d)/float64(p.Grid.Slot))))
	}
	sum := 0.0
	for j := range p.Jobs {
		sum += p.Jobs[j].Length
	}
	return max(1, int(math.Round(sum/math.Max(1, float64(len(p.Jobs))))))
}

// choice is a start and its measure, less is better.
type choice struct {
	cluster, start int
	value          float64
}

// choose finds the start on one cluster.
func (m Planner) choose(p *plan.Problem, sums []float64, j, c, length, last int) (choice, bool) {
	job := &p.Jobs[j]
	// watts makes clusters comparable.
	watts := p.Watts(j, c, job.MinWorkers)
	window := func(t int) float64 {
		end := min(t+length, p.Grid.N)
		if end <= t {
			return math.Inf(1)
		}
		return (sums[end] - sums[t]) / float64(end-t) * watts
	}
	best, found := choice{cluster: c}, false
	atOnce := math.Inf(1)
	if job.Arrival < p.Grid.N {
		atOnce = window(job.Arrival)
	}
	for t := job.Arrival; t+job.Slots() <= last; t++ {
		value := 0.0
		switch m.params.Policy {
		case LowestSlot:
			value = p.Clusters[c].Intensity[t] * p.Clusters[c].PUE * watts
		case LowestWindow:
			value = window(t)
		case Saving:
			if t > job.Arrival {
				value = -(atOnce - window(t)) / float64(t-job.Arrival)
			}
		}
		if !found || value < best.value-plan.TieShare*math.Abs(best.value) {
			best.start, best.value, found = t, value, true
		}
	}
	if found && m.params.Policy == Saving && len(p.Clusters) > 1 {
		// Between clusters the rate of saving says little: compare what they emit.
		best.value = window(best.start)
	}
	return best, found
}

// anyRun is the earliest run in one piece on any cluster, or nil.
func anyRun(free *plan.Free, p *plan.Problem, j, last int) (best []plan.Segment) {
	for _, c := range p.Allowed(j) {
		segments := free.EarliestRun(p, j, c, p.Jobs[j].Arrival, last, 0, false)
		if segments != nil && (best == nil || segments[0].Slot < best[0].Slot) {
			best = segments
		}
	}
	return best
}
