// Package staticscale runs each elastic job at one scale throughout, in the
// cheapest slots for it.
package staticscale

import (
	"context"
	"errors"
	"fmt"
	"math"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "the static-scale baseline of Hanafy et al., CarbonScaler, POMACS 7(3), 2023, Section 5"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner staticscale")

// Planner is the method.
type Planner struct{ factor float64 }

// New returns the planner. factor is the scale as a multiple of MinWorkers, e.g. 2
// for twice; 0 chooses for each job the scale that emits least (the paper's static
// scale oracle). Errors wrap ErrParams.
func New(factor float64) (Planner, error) {
	if math.IsNaN(factor) || factor < 0 || (factor > 0 && factor < 1) || factor > workload.MaxScale {
		return Planner{}, fmt.Errorf("%w: factor: %v; accepted: 0 for the best, or at least 1", ErrParams, factor)
	}
	return Planner{factor}, nil
}

// Plan gives each job, in order of arrival, its one scale and the slots that emit
// least at that scale and complete its work, in the capacity that is left; the
// dearest of them is used for the part that is needed. Ties: the smaller scale, the
// earlier slot. Jobs that cannot scale run at MinWorkers, rigid ones in one piece.
//
// Deviations from the source: a factor beyond MaxWorkers means MaxWorkers; jobs
// with a choice of cluster take the one on which they emit least, migratable ones
// the cleanest in each slot.
//
// Optimality: among static scales, for a single job. Errors: that of ctx.
// Complexity: O(scales x clusters x T log T) a job.
func (m Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	return plan.PlaceEach(ctx, p, free, func(j, last int) ([]plan.Segment, int64, bool) { return m.place(p, free, j, last) })
}

func (m Planner) place(p *plan.Problem, free *plan.Free, j, last int) (best []plan.Segment, considered int64, ok bool) {
	job := &p.Jobs[j]
	if job.Kind == workload.Rigid {
		segments, _, n, found := free.CheapestRun(p, j, job.Arrival, last, 0)
		return segments, n, found
	}
	least := math.Inf(1)
	for _, workers := range m.scales(job) {
		for _, clusters := range p.Choices(j) {
			segments, grams, n, found := free.CheapestSlots(p, j, workers, clusters, job.Arrival, last, 0)
			considered += n
			if found && grams < least {
				best, least, ok = segments, grams, true
			}
		}
	}
	return best, considered, ok
}

// scales are those to try, ascending.
func (m Planner) scales(job *workload.Job) []int {
	most := job.MaxWorkers
	if job.Kind != workload.Elastic {
		most = job.MinWorkers
	}
	if m.factor > 0 {
		return []int{min(most, int(math.Round(m.factor*float64(job.MinWorkers))))}
	}
	out := make([]int, 0, most-job.MinWorkers+1)
	for w := job.MinWorkers; w <= most; w++ {
		out = append(out, w)
	}
	return out
}
