// Package caspian implements Caspian: workloads on many clusters, when and where
// carbon is low, weighed against lateness and completion time, by rounding a linear
// program.
package caspian

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Bahreini, Tantawi, Tardieu, Caspian, IEEE CLOUD 2024, Algorithms 2 and 3"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner caspian")

// Params are the weights of problems whose objective has none, and the penalties.
type Params struct {
	// Weights are omega_1..omega_3 for problems of the carbon objective; all zero
	// takes 0.5, 1, 1. Those of a MOSP problem are its own.
	Weights [3]float64
	// Penalties replace gamma and lambda; nil takes the paper's.
	Penalties *relax.Penalties
	// TiesToFirst places a workload on the first of the clusters that score the same, instead of
	// spreading such workloads.
	TiesToFirst bool
}

// Planner is the method; its zero value is ready.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams.
func New(params Params) (Planner, error) {
	for k, w := range params.Weights {
		if math.IsNaN(w) || math.IsInf(w, 0) || w < 0 {
			return Planner{}, fmt.Errorf("%w: omega%d: %v; accepted: finite and at least 0", ErrParams, k+1, w)
		}
	}
	if pen := params.Penalties; pen != nil {
		for x := 1; x < penaltyProbe; x++ {
			if !(pen.Lateness(x) >= pen.Lateness(x-1)) || !(pen.Completion(x) >= pen.Completion(x-1)) || !(pen.Lateness(0) >= 1) || !(pen.Completion(0) >= 1) {
				return Planner{}, fmt.Errorf("%w: penalties: at slot %d; accepted: at least 1 and never falling", ErrParams, x)
			}
		}
	}
	return Planner{params}, nil
}

// penaltyProbe is how far penalties are looked at.
const penaltyProbe = 1000

// NamedPenalties returns penalties by name: lateness is linear (the paper's max(1,
// late)), quadratic or none; completion is linear (the paper's), root or none.
func NamedPenalties(lateness, completion string) (*relax.Penalties, error) {
	out := relax.PaperPenalties()
	linear, end := out.Lateness, out.Completion
	switch lateness {
	case "", "linear":
	case "quadratic":
		out.Lateness = func(late int) float64 { v := linear(late); return v * v }
	case "none":
		out.Lateness = func(int) float64 { return 1 }
	default:
		return nil, fmt.Errorf("%w: lateness: %q; accepted: linear, quadratic or none", ErrParams, lateness)
	}
	switch completion {
	case "", "linear":
	case "root":
		out.Completion = func(e int) float64 { return math.Sqrt(end(e)) }
	case "none":
		out.Completion = func(int) float64 { return 1 }
	default:
		return nil, fmt.Errorf("%w: completion: %q; accepted: linear, root or none", ErrParams, completion)
	}
	return out, nil
}

const (
	evaluations = 360
	tolerance   = 1e-6
	// boundRounding is added to the bound so that sums in another order cannot
	// prove it wrong; shareDigits are kept of b_i, so that rounding orders nothing.
	boundRounding = 1e-9
	shareDigits   = 1e6
)

// Plan maximises Z = sum_k omega_k / theta_k Z_k (package relax has the terms):
//
//  1. theta_k: the optimum of the linear relaxation of Z_k alone;
//  2. x: a solution of the relaxation of Z;
//  3. workloads in non-increasing order of b_i = sum_jt x_ij^t; ties: the earlier
//     arrival, then the ID;
//  4. each gets the (j, t) of largest z_ij^t where it fits (Algorithm 3); ties: the
//     earlier slot, then the cluster with the most room, as spread says.
//
// Line 1 of Algorithm 3 sorts by z_ij^t and leaves ties open. They decide everything in
// baseline mode: with omega_1 = 0 no score tells clusters apart. There "Caspian distributes
// workloads equally among clusters to guarantee low average completion time and low average
// lateness of workloads" (Section V-B, Fig. 4b), so that is what ties do here.
//
// Policies a_ij are the clusters a job allows. Running workloads are revisited when
// they are jobs of the problem, with what is left of them. Several resources are each
// a set of rows. A workload runs in one piece at MinWorkers, whatever its kind.
//
// Deviations from the source: the linear program is solved by column generation over
// the starts of a workload (a simplex method with implicit convexity rows), which
// has the same optimum; with more than 400 rows, or 100,000 rows x jobs, its place is taken by prices from
// the Lagrangian dual, and b_i by whether the workload runs at those. With the carbon
// objective deadlines are hard: later places are not considered.
//
// Optimality: heuristic. Bound: the relaxation's, for MOSP problems of rigid jobs at
// the paper's penalties. Errors: that of ctx. Complexity: that of the simplex method,
// O(rows^2) a pivot and some times as many pivots as there are rows and jobs; then
// O(jobs x clusters x slots).
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	q, err := relax.Normalised(ctx, pl.asRigid(p))
	if err != nil {
		return plan.Result{}, err
	}
	terms := relax.TermsOf(q)
	terms.Penalties = pl.params.Penalties
	m := relax.New(q, terms)
	a := relax.NewAscent(m, nil)
	a.Climb(ctx, evaluations, nil)
	bound := a.Proven()
	b := make([]float64, len(q.Jobs))
	if m.Small() {
		x, err := relax.Solve(ctx, m, a.Lambda, tolerance)
		if err != nil {
			return plan.Result{}, err
		}
		bound = math.Max(bound, m.Proven(x.Lambda, x.Bound))
		for j := range b {
			for _, s := range x.Shares(j) {
				if len(s.Parts) > 0 {
					b[j] += math.Round(s.Amount*shareDigits) / shareDigits
				}
			}
		}
	} else {
		e := a.Pricer()
		e.Set(a.Lambda)
		for j := range b {
			if _, parts := e.Best(j); len(parts) > 0 {
				b[j] = 1
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return plan.Result{}, err
	}
	res := allocate(p, m, a.Pricer(), b, pl.params.TiesToFirst)
	res.Considered = int64(a.Evaluations) * int64(len(p.Jobs))
	if p.Objective.Kind == plan.MOSP && pl.params.Penalties == nil && allRigid(p) {
		proven := bound - boundRounding*math.Abs(bound)
		if p.Objective.PriceWeight == 0 {
			proven = -proven // Z is gained
		}
		res.Bound = &proven
	}
	return res, nil
}

// asRigid is p as Caspian sees it: every workload in one piece, soft deadlines.
func (pl Planner) asRigid(p *plan.Problem) *plan.Problem {
	q := *p
	q.Jobs = append([]workload.Job(nil), p.Jobs...)
	for j := range q.Jobs {
		job := &q.Jobs[j]
		job.Kind, job.Length, job.MaxWorkers, job.Curve = workload.Rigid, float64(job.Slots()), job.MinWorkers, job.Curve[:1]
		if job.Watts != nil {
			job.Watts = job.Watts[:1]
		}
	}
	if p.Objective.Kind == plan.Carbon {
		q.Objective = plan.Objective{Kind: plan.MOSP, Weights: pl.params.Weights}
		if pl.params.Weights == [3]float64{} {
			q.Objective.Weights = [3]float64{0.5, 1, 1}
		}
		q.Clusters = positive(p.Clusters)
	}
	return &q
}

// positive replaces intensities of zero, by which Z1 would divide, by a hundredth of
// the least other one.
func positive(clusters []plan.Cluster) []plan.Cluster {
	least := math.Inf(1)
	for c := range clusters {
		for _, v := range clusters[c].Intensity {
			if v > 0 {
				least = math.Min(least, v)
			}
		}
	}
	if math.IsInf(least, 1) {
		least = 1
	}
	out := append([]plan.Cluster(nil), clusters...)
	for c := range out {
		out[c].Intensity = append([]float64(nil), out[c].Intensity...)
		for t, v := range out[c].Intensity {
			if v == 0 {
				out[c].Intensity[t] = least / 100
			}
		}
	}
	return out
}

func allRigid(p *plan.Problem) bool {
	for j := range p.Jobs {
		if p.Jobs[j].Kind != workload.Rigid {
			return false
		}
	}
	return true
}

// allocate is lines 8 to 14 of Algorithm 2, with Algorithm 3.
func allocate(p *plan.Problem, m *relax.Model, e *relax.Pricer, b []float64, tiesToFirst bool) plan.Result {
	e.Set(make([]float64, len(m.Cap))) // z_ij^t itself
	room := relax.NewRoom(m)
	order := plan.ByArrival(p)
	sort.SliceStable(order, func(x, y int) bool { return b[order[x]] > b[order[y]] })
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for _, j := range order {
		last := p.Grid.N
		if p.Objective.Kind == plan.Carbon {
			last = p.LastSlot(j)
		}
		// Only what is rigid may be cut off by the horizon.
		cutOff := p.Objective.Kind == plan.MOSP && p.Jobs[j].Kind == workload.Rigid
		parts, ok := e.PlaceRunBefore(j, room, last, cutOff)
		if !ok {
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
			continue
		}
		if !tiesToFirst {
			spread(p, m, room, j, parts)
		}
		room.Take(j, parts, 1)
		slots, clusters := make([]int, len(parts)), make([]int, len(parts))
		for i, s := range parts {
			slots[i], clusters[i] = int(s.Slot), int(s.Cluster)
		}
		placed = append(placed, plan.JobPlan{Job: j, Segments: plan.Place(&p.Jobs[j], slots, clusters)})
	}
	return plan.Finish(p, placed, unplaced)
}

// spread moves a run to the cluster with the most room among those that score the same in the same slots, if it
// fits there. What counts is how many of its kind there is room for, on average over the slots of the run, then
// over those from its start to the horizon; if that is equal too, the cluster first in the problem is taken.
// Work that runs already has taken its room, so that workloads are spread over clusters from plan to plan.
//
// Complexity: O(clusters x slots x resources).
func spread(p *plan.Problem, m *relax.Model, room *relax.Room, j int, parts []relax.Part) {
	cost, found := m.Cost(j, parts), int(parts[0].Cluster)
	start, end := int(parts[0].Slot), int(parts[len(parts)-1].Slot)+1
	best, beyond, at := -1.0, -1.0, found
	for _, c := range p.Allowed(j) {
		move(parts, c)
		if math.Abs(m.Cost(j, parts)-cost) > plan.TieShare*math.Abs(cost) || c != found && !room.Fits(j, parts) {
			continue
		}
		now, later := roomFor(p, m, room, j, c, start, end), roomFor(p, m, room, j, c, start, m.T)
		if more(now, best) || !more(best, now) && more(later, beyond) {
			best, beyond, at = now, later, c
		}
	}
	move(parts, at)
}

func move(parts []relax.Part, cluster int) {
	for i := range parts {
		parts[i].Cluster = int32(cluster)
	}
}

// more reports whether a is larger than b by more than rounding.
func more(a, b float64) bool { return a-b > tolerance*math.Max(1, math.Abs(b)) }

// roomFor is how many workloads like j there is room for on a cluster, on average over slots [start, end).
func roomFor(p *plan.Problem, m *relax.Model, room *relax.Room, j, cluster, start, end int) float64 {
	least := math.Inf(1)
	for r, name := range m.Resources() {
		request := p.Jobs[j].Request[name] * float64(p.Jobs[j].MinWorkers)
		if request <= 0 {
			continue
		}
		sum := 0.0
		for t := start; t < end; t++ {
			sum += room.Free(cluster, r, t)
		}
		least = math.Min(least, sum/request/float64(end-start))
	}
	return least
}
