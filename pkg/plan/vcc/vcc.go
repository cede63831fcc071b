// Package vcc implements virtual capacity curves: a cluster's capacity is set for the
// day ahead, hour by hour, so that the day's work is conserved and done when the grid
// is clean; jobs are scheduled under the curve.
package vcc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/rollout"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Radovanovic et al., Carbon-Aware Computing for Datacenters, IEEE TPS 38(2), 2023, as in CarbonFlex, Section 6.7"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner vcc")

// Params are the settings of the method.
type Params struct {
	// Scaling lets elastic jobs scale under the curve; else all run at MinWorkers, in
	// order of arrival.
	Scaling bool
	// Floor is the least share of the capacity that every slot keeps, Peak the most;
	// 0 takes 0 and 1.
	Floor, Peak float64
	// Margin is the share by which the day's work is raised, against a forecast that
	// is too low (risk-aware); 0 takes 0.05. It counts for nothing with Expected.
	Margin float64
	// Expected is the work (capacity x slots) that each day is expected to bring to all clusters;
	// nil takes what it brings, a forecast without error.
	Expected func(day int) float64
}

// Planner is the method; its zero value is vcc without scaling.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams.
func New(params Params) (Planner, error) {
	pl := Planner{params}
	q := pl.complete()
	switch {
	case !(q.Floor >= 0 && q.Floor <= 1):
		return pl, fmt.Errorf("%w: floor: %v; accepted: 0 to 1", ErrParams, q.Floor)
	case !(q.Peak > 0 && q.Peak <= 1 && q.Peak >= q.Floor):
		return pl, fmt.Errorf("%w: peak: %v; accepted: above 0 and the floor, to 1", ErrParams, q.Peak)
	case !(q.Margin >= 0 && q.Margin <= 10):
		return pl, fmt.Errorf("%w: margin: %v; accepted: 0 to 10", ErrParams, q.Margin)
	}
	return pl, nil
}

func (pl Planner) complete() Params {
	q := pl.params
	if q.Peak == 0 {
		q.Peak = 1
	}
	if q.Margin == 0 {
		q.Margin = 0.05
	}
	return q
}

// Plan sets each cluster's curve for every day and rolls jobs out under it:
//
//	minimize   sum_t ci[t] m[t]
//	s.t.       sum_t m[t] >= (1 + margin) x the day's work,  floor M <= m[t] <= peak M
//
// which fills the day's slots from the cleanest on. The day's work is that of the jobs
// that arrive in it (a day-ahead forecast without error) and what the day before left
// over by its curve, shared by the clusters in proportion to their capacity. With Params.Expected
// it is what is expected of the day, and what is left of the jobs that have arrived when it begins.
// Under the curve jobs run in order of arrival at MinWorkers (vcc), or further workers by falling
// marginal throughput as long as there is room (vcc-scaling). A job without slack left
// runs, above the curve where it must.
//
// Workers that are of use only together (workload.Increments) are taken together.
//
// Deviations from the source: the source's curve also pays for the peak of power and
// covers a quantile of the load; here a peak bounds the curve and a margin covers the
// risk.
//
// Optimality: heuristic. Bound: none. Errors: that of ctx. Complexity: O(slots log
// slots) a cluster for the curves, then that of the roll-out.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	x := &policy{params: pl.complete()}
	if x.params.Expected == nil {
		x.curve = Curves(p, x.params.Floor, x.params.Peak, x.params.Margin)
		return rollout.Plan(ctx, p, x)
	}
	x.scarce = scarcest(p)
	x.share = shares(p, x.scarce)
	x.curve = make([][]float64, len(p.Clusters))
	for c := range x.curve {
		x.curve[c] = make([]float64, p.Grid.N)
	}
	return rollout.Plan(ctx, p, x)
}

// shares are those of the clusters in the capacity of a resource.
func shares(p *plan.Problem, resource string) []float64 {
	out, total := make([]float64, len(p.Clusters)), 0.0
	for c := range p.Clusters {
		for _, v := range p.Clusters[c].Capacity[resource] {
			out[c] += v
			total += v
		}
	}
	for c := range out {
		if total > 0 {
			out[c] /= total
		}
	}
	return out
}

// daySlots are the slots of a day.
func daySlots(p *plan.Problem) int { return max(1, int(24*time.Hour/p.Grid.Slot)) }

// Curves returns the share of capacity that each cluster may use in every slot, by
// cluster and slot.
func Curves(p *plan.Problem, floor, peak, margin float64) [][]float64 {
	n := p.Grid.N
	day := daySlots(p)
	scarce := scarcest(p)
	work := make([]float64, n) // of the jobs that arrive in each slot
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if job.Arrival < n {
			work[job.Arrival] += job.Length * job.Request[scarce] * float64(job.MinWorkers)
		}
	}
	out := make([][]float64, len(p.Clusters))
	for c, share := range shares(p, scarce) {
		cl := &p.Clusters[c]
		out[c] = make([]float64, n)
		carried := 0.0
		for from := 0; from < n; from += day {
			to := min(n, from+day)
			need := carried
			for _, w := range work[from:to] {
				need += (1 + margin) * w * share
			}
			carried = fill(out[c], cl, scarce, from, to, need, floor, peak)
		}
	}
	return out
}

// fill sets the curve of one day and returns the work that does not fit it.
func fill(curve []float64, cl *plan.Cluster, resource string, from, to int, need, floor, peak float64) float64 {
	capacity := cl.Capacity[resource]
	if capacity == nil {
		return need
	}
	day, left := Day(cl.Intensity[from:to], capacity[from:to], need, floor, peak)
	copy(curve[from:to], day)
	return left
}

// Day is the curve of one day, as shares of the capacity of its slots: the floor everywhere, and
// more in its cleanest slots, up to the peak, until the work that is needed (capacity x slots) fits.
// left is what does not.
//
// Complexity: O(slots log slots).
func Day(intensity, capacity []float64, need, floor, peak float64) (curve []float64, left float64) {
	curve = make([]float64, len(intensity))
	slots := make([]int, len(intensity))
	for t := range slots {
		slots[t] = t
		curve[t] = floor
		need -= floor * capacity[t]
	}
	sort.SliceStable(slots, func(a, b int) bool { return intensity[slots[a]] < intensity[slots[b]] })
	for _, t := range slots {
		if need <= 0 {
			break
		}
		if capacity[t] <= 0 {
			continue
		}
		more := math.Min((peak-floor)*capacity[t], need)
		curve[t] += more / capacity[t]
		need -= more
	}
	return curve, math.Max(0, need)
}

// scarcest is the resource asked for most, relative to its capacity: the curve is in
// its units.
func scarcest(p *plan.Problem) string {
	best, most := "", -1.0
	for _, r := range p.Resources() {
		demand, capacity := 0.0, 0.0
		for j := range p.Jobs {
			demand += p.Jobs[j].Length * p.Jobs[j].Request[r] * float64(p.Jobs[j].MinWorkers)
		}
		for c := range p.Clusters {
			for _, v := range p.Clusters[c].Capacity[r] {
				capacity += v
			}
		}
		if share := demand / math.Max(capacity, 1e-9); share > most {
			best, most = r, share
		}
	}
	return best
}

type policy struct {
	params Params
	curve  [][]float64
	// With Params.Expected the curves are in units of scarce, of which each cluster gets its share.
	scarce string
	share  []float64
}

// begin makes the curves of the day that begins with this slot.
func (x *policy) begin(run *rollout.Run) {
	p, day := run.P, daySlots(run.P)
	to := min(p.Grid.N, run.T+day)
	need := x.params.Expected(run.T/day) * float64(to-run.T) / float64(day)
	run.Waiting(func(j int) {
		job := &p.Jobs[j]
		need += run.Left(j) / job.Curve[0] * job.Request[x.scarce] * float64(job.MinWorkers)
	})
	for c := range x.curve {
		fill(x.curve[c], &p.Clusters[c], x.scarce, run.T, to, need*x.share[c], x.params.Floor, x.params.Peak)
	}
}

// Slot schedules one slot under the curve.
func (x *policy) Slot(run *rollout.Run) {
	if x.params.Expected != nil && run.T%daySlots(run.P) == 0 {
		x.begin(run)
	}
	list := run.Active()
	none := func(int) float64 { return 0 }
	under := func(c int) float64 { return math.Max(0, 1-x.curve[c][run.T]) }
	for _, j := range list {
		if run.Slack(j) <= 0 {
			run.Raise(j, run.Cleanest(j, none), 0)
		}
	}
	for _, j := range list {
		if run.Scales(j) == 0 {
			if c := run.Cleanest(j, under); c >= 0 {
				run.Raise(j, c, under(c))
			}
		}
	}
	if !x.params.Scaling {
		return
	}
	type entry struct {
		job  int
		more workload.Increment
		gain float64
	}
	var entries []entry
	for _, j := range list {
		if run.Scales(j) == 0 {
			continue
		}
		for _, x := range run.Increments(j) {
			entries = append(entries, entry{j, x, x.PerWorker() / run.P.Jobs[j].Curve[0]})
		}
	}
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].gain > entries[b].gain })
	for _, e := range entries {
		if run.Scales(e.job) == e.more.From+1 {
			c := run.On(e.job)
			run.RaiseTo(e.job, c, e.more.To+1, under(c))
		}
	}
}
