// Package staticscale runs each elastic job at one scale throughout, in the
// cheapest slots for it.
package staticscale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

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
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	var considered int64
	for _, j := range plan.ByArrival(p) {
		if err := ctx.Err(); err != nil {
			return plan.Result{}, err
		}
		segments, n, ok := m.place(p, free, j)
		considered += n
		if !ok && p.Objective.Kind == plan.MOSP {
			segments, ok = free.Earliest(p, j, p.Jobs[j].Arrival, p.Grid.N, 0, true)
		}
		if !ok {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		free.TakeAll(j, segments)
		placed = append(placed, plan.JobPlan{Job: j, Segments: segments})
	}
	res := plan.Finish(p, placed, unplaced)
	res.Considered = considered
	return res, nil
}

func (m Planner) place(p *plan.Problem, free *plan.Free, j int) (best []plan.Segment, considered int64, ok bool) {
	job := &p.Jobs[j]
	last := min(job.Deadline, p.Grid.N)
	if job.Kind == workload.Rigid {
		segments, _, n, found := free.CheapestRun(p, j, job.Arrival, last, 0)
		return segments, n, found
	}
	choices := [][]int{p.Allowed(j)}
	if !job.Migratable {
		choices = nil
		for _, c := range p.Allowed(j) {
			choices = append(choices, []int{c})
		}
	}
	least := math.Inf(1)
	for _, workers := range m.scales(job) {
		for _, clusters := range choices {
			segments, grams, n := cheapest(p, free, j, workers, clusters, last)
			considered += n
			if segments != nil && grams < least {
				best, least = segments, grams
			}
		}
	}
	return best, considered, best != nil
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

// cheapest is the job at one scale in its cheapest slots; nil where they do not
// complete it.
func cheapest(p *plan.Problem, free *plan.Free, j, workers int, clusters []int, last int) (_ []plan.Segment, grams float64, considered int64) {
	job := &p.Jobs[j]
	type candidate struct {
		slot, cluster int
		grams         float64
	}
	var list []candidate
	for t := job.Arrival; t < last; t++ {
		found, best := false, candidate{slot: t}
		for _, c := range clusters {
			if !free.FitsUnder(j, c, t, workers, 0) {
				continue
			}
			considered++
			if g := p.SlotGrams(j, c, t, workers); !found || g < best.grams {
				found, best.cluster, best.grams = true, c, g
			}
		}
		if found {
			list = append(list, best)
		}
	}
	slots := job.Work() / job.Throughput(workers)
	need := int(math.Ceil(slots - workload.Eps))
	if len(list) < need {
		return nil, 0, considered
	}
	sort.SliceStable(list, func(a, b int) bool { return list[a].grams < list[b].grams })
	segments := make([]plan.Segment, need)
	for i, x := range list[:need] {
		fraction := math.Min(1, slots-float64(i))
		segments[i] = plan.Segment{Slot: x.slot, Cluster: x.cluster, Workers: workers, Fraction: fraction}
		grams += fraction * x.grams
	}
	sort.Slice(segments, func(a, b int) bool { return segments[a].Slot < segments[b].Slot })
	return segments, grams, considered
}
