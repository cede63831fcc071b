package plantest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/workload"
)

// Laws checks on random instances what every planner must obey:
//
//   - a result says feasible only if Check accepts the plan, and infeasible
//     only with the jobs named; a job is planned or named, never neither;
//   - the problem is not modified;
//   - the same problem gives the same bytes, also where two ask at once, and with the jobs
//     in another order;
//   - doubling every intensity doubles the emissions and changes no placement;
//   - a bound, where there is one, is not beaten, and a plan is called optimal only if
//     it attains it;
//   - if restarts and lost work are weighed after planning (plan.KeepRunning, plan.WithRestarts), the plan
//     stays feasible, costs no more and leaves out no more jobs;
//   - with Options.PlacesAll, no job is named that running as soon as possible places.
//
// With the carbon objective, jobs run or are paused already in a quarter of the instances.
//
// The environment variable LULL_RANDOM overrides the number of instances.
func Laws(t *testing.T, planner plan.Planner, instances int, o Options) {
	t.Helper()
	instances = Instances(instances)
	leftOut := 0
	for seed := range uint64(instances) {
		o := o
		o.Begun = o.Begun || seed%4 > 2 && o.Objective != plan.MOSP
		p := Random(seed, o)
		res := solve(t, planner, p)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		checkResult(t, p, res)
		if len(res.Unplaced) > 0 && p.Objective.Kind == plan.Carbon && AsapPlacesAll(p) {
			leftOut++
			if o.PlacesAll {
				t.Errorf("jobs unplaced that run in time as soon as possible: %v", res.Unplaced)
			}
		}
		if !reflect.DeepEqual(p, Random(seed, o)) {
			t.Fatalf("seed %d: the planner modified its problem", seed)
		}
		checkAtOnce(t, planner, p, res)
		checkKept(t, planner, p, res)
		checkPermuted(t, planner, p, res, seed)
		checkScaled(t, planner, p, res)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if leftOut > 0 {
		t.Logf("%T left jobs out in %d of %d instances in which all run in time as soon as possible", planner, leftOut, instances)
	}
}

// AsapPlacesAll reports whether every job of p finds a place as soon as possible, in
// order of arrival.
func AsapPlacesAll(p *plan.Problem) bool {
	free := plan.NewFree(p)
	for _, j := range plan.ByArrival(p) {
		segments, ok := free.Earliest(p, j, p.Jobs[j].Arrival, p.LastSlot(j), 0, p.Objective.Kind == plan.MOSP)
		if !ok {
			return false
		}
		free.TakeAll(j, segments)
	}
	return true
}

func solve(t *testing.T, planner plan.Planner, p *plan.Problem) plan.Result {
	t.Helper()
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	return res
}

// checkAtOnce plans p twice at the same time.
func checkAtOnce(t *testing.T, planner plan.Planner, p *plan.Problem, res plan.Result) {
	t.Helper()
	var both sync.WaitGroup
	var again [2]plan.Result
	var failed [2]error
	for i := range again {
		both.Go(func() { again[i], failed[i] = planner.Plan(context.Background(), p) })
	}
	both.Wait()
	for i := range again {
		if failed[i] != nil {
			t.Fatalf("Plan: %v", failed[i])
		}
		if first, second := text(t, p, res), text(t, p, again[i]); first != second {
			t.Fatalf("two runs differ:\n%s\n%s", first, second)
		}
	}
}

func text(t *testing.T, p *plan.Problem, res plan.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := planio.WritePlan(&b, p, "x", res); err != nil {
		t.Fatalf("WritePlan: %v", err)
	}
	return b.String()
}

// optimalGap is the relative gap to its bound at which a plan may be called optimal.
const optimalGap = 1e-6

func checkResult(t *testing.T, p *plan.Problem, res plan.Result) {
	t.Helper()
	named := map[int]bool{}
	for _, u := range res.Unplaced {
		if u.Why == "" || named[u.Job] {
			t.Errorf("job %d: unplaced without a reason, or twice", u.Job)
		}
		named[u.Job] = true
	}
	for _, jp := range res.Plan.Jobs {
		if named[jp.Job] {
			t.Errorf("job %d is planned and unplaced", jp.Job)
		}
		named[jp.Job] = true
	}
	if len(named) != len(p.Jobs) {
		t.Errorf("%d of %d jobs are planned or named", len(named), len(p.Jobs))
	}
	checkStated(t, p, res)
}

// checkStated checks the status, the plan and the bound of a result.
func checkStated(t *testing.T, p *plan.Problem, res plan.Result) {
	t.Helper()
	infeasible := len(res.Unplaced) > 0 && p.Objective.Kind == plan.Carbon
	if infeasible != (res.Status == plan.Infeasible) {
		t.Errorf("status %s with %d jobs unplaced", res.Status, len(res.Unplaced))
	}
	// What is planned must be feasible even when not everything is.
	part := *p
	if infeasible {
		part = Without(p, res.Unplaced)
		res.Plan = renumber(p, &part, res.Plan)
	}
	if err := plan.Check(&part, res.Plan); err != nil {
		t.Errorf("Check: %v", err)
	}
	e := plan.Evaluate(&part, res.Plan)
	if cost := e.Cost(part.Objective); res.Bound != nil && !infeasible && (part.Objective.Kind == plan.Carbon || part.Objective.PriceWeight > 0) && *res.Bound > cost+1e-9*math.Abs(cost) {
		t.Errorf("bound %v above the cost %v", *res.Bound, cost)
	} else if res.Bound != nil && res.Status == plan.Optimal && part.Objective.Kind == plan.Carbon && cost-*res.Bound > optimalGap*math.Abs(cost) {
		t.Errorf("called optimal at a cost of %v with a bound of %v", cost, *res.Bound)
	}
	if res.Bound != nil && part.Objective.PriceWeight == 0 && part.Objective.Kind == plan.MOSP && part.Objective.Theta != nil && *res.Bound < e.ZTotal*(1-1e-9) {
		t.Errorf("bound %v below the plan's Z of %v", *res.Bound, e.ZTotal)
	}
}

// checkKept checks that weighing restarts and lost work after planning breaks nothing, costs no more and
// leaves out no more jobs.
func checkKept(t *testing.T, planner plan.Planner, p *plan.Problem, res plan.Result) {
	t.Helper()
	if p.Objective.Kind != plan.Carbon || !slices.ContainsFunc(p.Jobs, func(j workload.Job) bool { return j.Begun != nil }) {
		return
	}
	again, err := plan.WithRestarts(context.Background(), planner, p)
	if err != nil {
		t.Errorf("WithRestarts: %v", err)
	}
	for name, kept := range map[string]plan.Result{"KeepRunning": plan.KeepRunning(p, res), "WithRestarts": again} {
		before, after := plan.Evaluate(p, res.Plan), plan.Evaluate(p, kept.Plan)
		if after.Planned < before.Planned {
			t.Errorf("%s: %d jobs planned, without it %d", name, after.Planned, before.Planned)
		}
		if a, b := after.Cost(p.Objective), before.Cost(p.Objective); a > b+1e-9*math.Abs(b) && after.Planned == before.Planned {
			t.Errorf("%s: the plan costs %v, without it %v", name, a, b)
		}
		checkStated(t, p, kept)
	}
}

// Without returns a copy of p that lacks the unplaced jobs.
func Without(p *plan.Problem, unplaced []plan.Unplaced) plan.Problem {
	drop := map[int]bool{}
	for _, u := range unplaced {
		drop[u.Job] = true
	}
	out := *p
	out.Jobs = nil
	for j := range p.Jobs {
		if !drop[j] {
			out.Jobs = append(out.Jobs, p.Jobs[j])
		}
	}
	return out
}

// renumber maps a plan of one problem onto another with the same jobs by ID.
func renumber(from, to *plan.Problem, pl plan.Plan) plan.Plan {
	index := map[string]int{}
	for j := range to.Jobs {
		index[to.Jobs[j].ID] = j
	}
	out := plan.Plan{}
	byJob := make([]*plan.JobPlan, len(to.Jobs))
	for _, jp := range pl.Jobs {
		at := index[from.Jobs[jp.Job].ID]
		byJob[at] = &plan.JobPlan{Job: at, Segments: jp.Segments}
	}
	for _, jp := range byJob {
		if jp != nil {
			out.Jobs = append(out.Jobs, *jp)
		}
	}
	return out
}

func checkPermuted(t *testing.T, planner plan.Planner, p *plan.Problem, res plan.Result, seed uint64) {
	t.Helper()
	q := *p
	q.Jobs = append([]workload.Job(nil), p.Jobs...)
	rng := rand.New(rand.NewPCG(seed, 7))
	rng.Shuffle(len(q.Jobs), func(a, b int) { q.Jobs[a], q.Jobs[b] = q.Jobs[b], q.Jobs[a] })
	permuted := solve(t, planner, &q)
	if got, want := fmt.Sprint(renumber(&q, p, permuted.Plan)), fmt.Sprint(res.Plan); got != want {
		t.Errorf("jobs in another order give another plan:\n%s\n%s", got, want)
	}
}

func checkScaled(t *testing.T, planner plan.Planner, p *plan.Problem, res plan.Result) {
	t.Helper()
	if p.Objective.Kind != plan.Carbon || p.Objective.PriceWeight > 0 {
		return // Z is not linear in the intensity, nor is a price
	}
	q := *p
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	for c := range q.Clusters {
		scaled := make([]float64, len(q.Clusters[c].Intensity))
		for i, v := range q.Clusters[c].Intensity {
			scaled[i] = 2 * v // exact in binary: comparisons cannot change
		}
		q.Clusters[c].Intensity = scaled
	}
	double := solve(t, planner, &q)
	e, d := plan.Evaluate(p, res.Plan), plan.Evaluate(&q, double.Plan)
	if math.Abs(d.CarbonG-2*e.CarbonG) > 1e-9*math.Max(1, d.CarbonG) {
		t.Errorf("twice the intensity emits %v, want twice %v", d.CarbonG, e.CarbonG)
	}
	if fmt.Sprint(double.Plan) != fmt.Sprint(res.Plan) {
		t.Errorf("scaling all intensities moved jobs")
	}
}
