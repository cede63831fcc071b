// Package carbonflex implements CarbonFlex: the oracle that schedules elastic jobs
// on a whole cluster with full knowledge of the future.
package carbonflex

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Hanafy et al., CarbonFlex, 2025, Algorithm 1"

// Oracle is Algorithm 1; its zero value is ready.
type Oracle struct{}

// Plan takes increments of scale over all jobs and slots in the order of marginal
// throughput per intensity, p_j(k) / CI_t, then of the deadline, as long as the
// slot has room and the job work left:
//
//	value(j, t, k) = (curve_j[k] / curve_j[0]) / intensity[t],  t in [arrival_j, deadline_j)
//
// Further ties: the earlier slot, then the job's ID. The increment that completes
// a job is used for a part of its slot. Where deadlines are soft (MOSP), those of
// jobs that stay incomplete are extended, by an eighth of the window and at least
// a slot, and all is done again, as in the source; where they are hard, such jobs
// are named and the others are planned without them.
//
// Deviations from the source: several clusters are allowed: a job stays on the one
// of its best increment, unless it is migratable. Jobs that can only be paused have
// one increment a slot. Rigid jobs, which the source does not have, are placed
// first, least slack first, at their cheapest run. Workers that are of use only
// together (workload.Increments) are one increment, and one that adds more than
// MinWorkers counts as adding as much: it cannot come first.
//
// Optimality: for one homogeneous cluster and decreasing marginal throughput, in
// whole slots (Theorem 4.1). Errors: that of ctx. Complexity: O(G log G + E) a
// round for E entries in G groups of equal curve, scale, slot and cluster; memory
// O(G + sum of windows): the lists of who may use a slot shrink as jobs are done,
// and full slots are passed over.
func (o Oracle) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	jobs := make([]state, len(p.Jobs))
	for j := range jobs {
		jobs[j] = state{last: min(p.Jobs[j].Deadline, p.Grid.N)}
	}
	var considered int64
	for {
		round := newRound(p, jobs)
		if err := round.run(ctx); err != nil {
			return plan.Result{}, err
		}
		considered += round.considered
		again := false
		for _, j := range round.incomplete() {
			s := &jobs[j]
			switch {
			case p.Objective.Kind != plan.MOSP:
				s.dropped = true
			case s.last < p.Grid.N:
				s.last = min(p.Grid.N, s.last+max(1, (s.last-p.Jobs[j].Arrival)/8))
			default:
				s.dropped = true
			}
			again = true
		}
		if !again {
			return round.result(considered), nil
		}
	}
}

// state is what lasts from round to round.
type state struct {
	last    int // first slot that may not be used
	dropped bool
}

// use is what a job does in a slot.
type use struct {
	cluster, steps  int
	workers, before int     // with and without the last step
	fraction        float64 // of the last step
}

type round struct {
	p          *plan.Problem
	jobs       []state
	free       *plan.Free
	need       []float64 // work left
	home       []int     // cluster, -1 while free to choose
	uses       []map[int]use
	rigid      map[int][]plan.Segment
	enough     []float64 // need below which a job counts as done
	curves     []curve
	active     [][][]int32 // by curve and slot: jobs that may use it, by deadline
	smallest   int         // job that asks for least, -1 where that has no meaning
	considered int64
}

func newRound(p *plan.Problem, jobs []state) *round {
	r := &round{p: p, jobs: jobs, free: plan.NewFree(p), need: make([]float64, len(jobs)), home: make([]int, len(jobs)), uses: make([]map[int]use, len(jobs)), rigid: map[int][]plan.Segment{}}
	r.enough = make([]float64, len(jobs))
	for j := range jobs {
		r.need[j], r.home[j] = p.Jobs[j].Work(), -1
		r.enough[j] = workload.Eps * r.need[j]
	}
	r.smallest = smallest(p)
	return r
}

// smallest is the job whose request fits if any does: that of least amount where
// all ask for the same single resource, else -1.
func smallest(p *plan.Problem) int {
	at, least, name := -1, math.Inf(1), ""
	for j := range p.Jobs {
		if len(p.Jobs[j].Request) != 1 {
			return -1
		}
		for r, q := range p.Jobs[j].Request {
			if name != "" && r != name {
				return -1
			}
			name = r
			if q < least {
				at, least = j, q
			}
		}
	}
	return at
}

// curve is what jobs of equal capacity curve, relative to its first value, have in common.
type curve struct {
	further []workload.Increment // step i + 1 is further[i]
	jobs    []int                // by deadline
}

// group is all entries of one curve, step, slot and cluster; they have one value.
type group struct {
	value         float64
	curve, step   int
	slot, cluster int
}

func (r *round) run(ctx context.Context) error {
	r.placeRigid()
	r.listCurves()
	r.activate()
	groups := r.groups()
	for i := 0; i < len(groups); {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Entries of equal value are taken by deadline, whatever group they are in.
		k := i + 1
		for k < len(groups) && groups[k].value == groups[i].value {
			k++
		}
		if k == i+1 {
			r.takeGroup(groups[i])
		} else {
			r.takeMerged(groups[i:k])
		}
		i = k
	}
	return nil
}

// activate lists who may use each slot.
func (r *round) activate() {
	r.active = make([][][]int32, len(r.curves))
	for n := range r.curves {
		r.active[n] = make([][]int32, r.p.Grid.N)
		for _, j := range r.curves[n].jobs {
			for t := r.p.Jobs[j].Arrival; t < r.jobs[j].last; t++ {
				r.active[n][t] = append(r.active[n][t], int32(j))
			}
		}
	}
}

// full reports whether nobody can have anything of the group's slot any more.
func (r *round) full(g group) bool {
	return r.smallest >= 0 && !r.free.FitsUnder(r.smallest, g.cluster, g.slot, 1, 0)
}

// takeGroup takes the entries of one group by deadline, and forgets the jobs that
// are done.
func (r *round) takeGroup(g group) {
	if r.full(g) {
		return
	}
	list := r.active[g.curve][g.slot]
	kept := list[:0]
	for _, j := range list {
		if r.need[j] > r.enough[j] {
			r.take(int(j), g)
			kept = append(kept, j)
		}
	}
	r.active[g.curve][g.slot] = kept
}

// takeMerged takes the entries of several groups of one value by deadline, then
// slot, job and step.
func (r *round) takeMerged(groups []group) {
	type entry struct {
		job int
		g   group
	}
	var entries []entry
	for _, g := range groups {
		if r.full(g) {
			continue
		}
		for _, j := range r.active[g.curve][g.slot] {
			if r.need[j] > r.enough[j] {
				entries = append(entries, entry{int(j), g})
			}
		}
	}
	sort.SliceStable(entries, func(a, b int) bool {
		x, y := entries[a], entries[b]
		switch {
		case r.jobs[x.job].last != r.jobs[y.job].last:
			return r.jobs[x.job].last < r.jobs[y.job].last
		case x.g.slot != y.g.slot:
			return x.g.slot < y.g.slot
		case x.job != y.job:
			return r.p.Jobs[x.job].ID < r.p.Jobs[y.job].ID
		case x.g.cluster != y.g.cluster:
			return x.g.cluster < y.g.cluster
		}
		return x.g.step < y.g.step
	})
	for _, e := range entries {
		r.take(e.job, e.g)
	}
}

// before orders jobs by deadline, then by ID.
func (r *round) before(a, b int) bool {
	if r.jobs[a].last != r.jobs[b].last {
		return r.jobs[a].last < r.jobs[b].last
	}
	return r.p.Jobs[a].ID < r.p.Jobs[b].ID
}

// take gives job j the entry if it may have it.
func (r *round) take(j int, g group) {
	if r.need[j] <= r.enough[j] {
		return
	}
	job := &r.p.Jobs[j]
	if r.home[j] >= 0 && r.home[j] != g.cluster || !job.Allows(r.p.Clusters[g.cluster].Name) {
		return
	}
	u, running := r.uses[j][g.slot]
	if running && (u.cluster != g.cluster || u.steps != g.step) || !running && g.step != 0 {
		return // a migratable job uses one cluster in a slot; steps are taken in order
	}
	more, done := job.MinWorkers, job.Curve[0]
	if g.step > 0 {
		x := r.curves[g.curve].further[g.step-1]
		more, done = x.Workers(), workload.Throughput(job.Curve[x.From+1:], 1, x.Workers())
	}
	r.considered++
	if !r.free.FitsUnder(j, g.cluster, g.slot, more, 0) {
		return
	}
	r.free.Take(j, g.cluster, g.slot, more)
	if r.uses[j] == nil {
		r.uses[j] = map[int]use{}
	}
	u = use{cluster: g.cluster, steps: g.step + 1, workers: u.workers + more, before: u.workers, fraction: 1}
	if done > r.need[j] {
		u.fraction = r.need[j] / done
	}
	r.uses[j][g.slot] = u
	r.need[j] = math.Max(0, r.need[j]-done)
	if !job.Migratable {
		r.home[j] = g.cluster
	}
}

// listCurves lists the curves of the jobs that may scale or pause.
func (r *round) listCurves() {
	number := map[string]int{}
	for j := range r.jobs {
		job := &r.p.Jobs[j]
		if r.jobs[j].dropped || job.Kind == workload.Rigid {
			continue
		}
		values := job.Curve
		if job.Kind != workload.Elastic {
			values = values[:1]
		}
		var key strings.Builder
		for _, v := range values {
			key.WriteString(strconv.FormatFloat(v/values[0], 'g', -1, 64))
			key.WriteByte(' ')
		}
		n, known := number[key.String()]
		if !known {
			n = len(r.curves)
			number[key.String()] = n
			normal := make([]float64, len(values))
			for k, v := range values {
				normal[k] = v / values[0]
			}
			r.curves = append(r.curves, curve{further: workload.Increments(normal)})
		}
		r.curves[n].jobs = append(r.curves[n].jobs, j)
	}
	for _, c := range r.curves {
		sort.Slice(c.jobs, func(a, b int) bool { return r.before(c.jobs[a], c.jobs[b]) })
	}
}

// groups lists all groups by falling value.
func (r *round) groups() []group {
	var out []group
	for n := range r.curves {
		from, last := r.p.Grid.N, 0
		for _, j := range r.curves[n].jobs {
			from, last = min(from, r.p.Jobs[j].Arrival), max(last, r.jobs[j].last)
		}
		gains := []float64{1}
		for _, x := range r.curves[n].further {
			gains = append(gains, min(1, x.PerWorker()))
		}
		for c := range r.p.Clusters {
			for t := from; t < last; t++ {
				for step, gain := range gains {
					value := math.Inf(1)
					if ci := r.p.Clusters[c].Intensity[t] * r.p.Clusters[c].PUE; ci > 0 {
						value = gain / ci
					}
					out = append(out, group{value, n, step, t, c})
				}
			}
		}
	}
	slices.SortFunc(out, func(x, y group) int {
		return cmp.Or(cmp.Compare(y.value, x.value), x.slot-y.slot, x.cluster-y.cluster, x.step-y.step, x.curve-y.curve)
	})
	return out
}

// placeRigid places the jobs that cannot pause or scale.
func (r *round) placeRigid() {
	var order []int
	for j := range r.jobs {
		if r.p.Jobs[j].Kind == workload.Rigid && !r.jobs[j].dropped {
			order = append(order, j)
		}
	}
	slack := func(j int) int { return r.jobs[j].last - r.p.Jobs[j].Slots() - r.p.Jobs[j].Arrival }
	sort.Slice(order, func(a, b int) bool {
		if x, y := slack(order[a]), slack(order[b]); x != y {
			return x < y
		}
		return r.p.Jobs[order[a]].ID < r.p.Jobs[order[b]].ID
	})
	for _, j := range order {
		segments, _, n, ok := r.free.CheapestRun(r.p, j, r.p.Jobs[j].Arrival, r.jobs[j].last, 0)
		r.considered += n
		if ok {
			r.free.TakeAll(j, segments)
			r.rigid[j], r.need[j] = segments, 0
		}
	}
}

// incomplete are the jobs with work left.
func (r *round) incomplete() []int {
	var out []int
	for j := range r.jobs {
		if !r.jobs[j].dropped && r.need[j] > r.enough[j] {
			out = append(out, j)
		}
	}
	return out
}

func (r *round) result(considered int64) plan.Result {
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	for j := range r.jobs {
		switch {
		case r.jobs[j].dropped:
			unplaced = append(unplaced, plan.Unplaced{Job: j, Why: fmt.Sprintf("the increments that it could have by slot %d do not complete it", r.jobs[j].last)})
		case r.rigid[j] != nil:
			placed = append(placed, plan.JobPlan{Job: j, Segments: r.rigid[j]})
		default:
			placed = append(placed, plan.JobPlan{Job: j, Segments: r.segments(j)})
		}
	}
	res := plan.Finish(r.p, placed, unplaced)
	res.Considered = considered
	return res
}

func (r *round) segments(j int) []plan.Segment {
	slots := make([]int, 0, len(r.uses[j]))
	for t := range r.uses[j] {
		slots = append(slots, t)
	}
	sort.Ints(slots)
	var out []plan.Segment
	for _, t := range slots {
		u := r.uses[j][t]
		out = append(out, plan.Segment{Slot: t, Cluster: u.cluster, Workers: u.workers, Fraction: u.fraction})
		if rest := 1 - u.fraction; rest > 0 && u.steps > 1 {
			out = append(out, plan.Segment{Slot: t, Cluster: u.cluster, Workers: u.before, Fraction: rest})
		}
	}
	return out
}
