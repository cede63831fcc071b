package joint_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// leftOutInOrder counts the jobs that find no place when each gets its earliest in the given order.
func leftOutInOrder(p *plan.Problem, order []int) (unplaced int) {
	free := plan.NewFree(p)
	for _, j := range order {
		if segments, ok := free.Earliest(p, j, p.Jobs[j].Arrival, p.LastSlot(j), 0, false); ok {
			free.TakeAll(j, segments)
		} else {
			unplaced++
		}
	}
	return unplaced
}

// fewest is how many jobs the best of three simple rules leaves out: as soon as possible, earliest deadline
// first, and latest start first.
func fewest(t testing.TB, p *plan.Problem) int {
	t.Helper()
	res, err := asap.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	deadlines := plan.ByArrival(p)
	slices.SortStableFunc(deadlines, func(a, b int) int { return p.Jobs[a].Deadline - p.Jobs[b].Deadline })
	starts := make([]int, len(p.Jobs))
	for j := range starts {
		starts[j] = j
	}
	latest := func(j int) int { return p.LastSlot(j) - p.Jobs[j].Slots() }
	slices.SortFunc(starts, func(a, b int) int { return cmp.Or(latest(a)-latest(b), strings.Compare(p.Jobs[a].ID, p.Jobs[b].ID)) })
	return min(len(res.Unplaced), leftOutInOrder(p, deadlines), leftOutInOrder(p, starts))
}

// checkPlaced checks that a plan is feasible for what it places, and leaves out no more
// jobs than the simple rules do.
func checkPlaced(t *testing.T, p *plan.Problem, res plan.Result, what string) {
	t.Helper()
	if most := fewest(t, p); len(res.Unplaced) > most {
		t.Errorf("%s: %d jobs left out, %d by a simple rule", what, len(res.Unplaced), most)
	}
	out := map[int]bool{}
	for _, u := range res.Unplaced {
		out[u.Job] = true
	}
	if len(out)+len(res.Plan.Jobs) != len(p.Jobs) {
		t.Errorf("%s: %d jobs planned and %d left out, of %d", what, len(res.Plan.Jobs), len(out), len(p.Jobs))
	}
	e := plan.Evaluate(p, res.Plan)
	if err := plan.Check(p, res.Plan); err != nil && len(out) == 0 {
		t.Errorf("%s: %v", what, err)
	} else if err != nil && strings.Count(err.Error(), "\n") >= len(out) { // one fault for each left out
		t.Errorf("%s: %v", what, err)
	}
	if res.Bound != nil && *res.Bound > e.Cost(p.Objective)*(1+plantest.BoundRounding) {
		t.Errorf("%s: bound %v above the plan's %v", what, *res.Bound, e.Cost(p.Objective))
	}
}

func TestPlacesWhatAsapPlaces(t *testing.T) {
	p := instance(t, generate.Options{Seed: 2, Jobs: 5000, Clusters: 1, Slots: 168, Load: 0.5})
	res, err := joint.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, p, res, "5000 jobs on one cluster")
	if len(res.Unplaced) > 0 {
		t.Errorf("%d jobs left out", len(res.Unplaced))
	}
}

// crowded draws an instance of high load, with tight deadlines or large requests.
func crowded(t testing.TB, seed uint64) *plan.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x77))
	o := generate.Options{
		Seed: seed, Jobs: 20 + rng.IntN(120), Clusters: 1 + rng.IntN(3), Slots: 24 + rng.IntN(48),
		Load: 0.3 + 0.65*rng.Float64(), Kinds: allKinds[:1+rng.IntN(3)], MaxLength: 2 + rng.IntN(8),
		Memory: rng.IntN(3) == 0, Varying: rng.IntN(3) == 0,
	}
	if rng.IntN(2) == 0 {
		o.SlackLow, o.SlackHigh = 1, 1.5+rng.Float64()
	}
	if rng.IntN(2) == 0 {
		o.MaxRequest = 5 + rng.IntN(12)
	}
	p := instance(t, o)
	for c := range p.Clusters {
		for i, v := range p.Clusters[c].Intensity {
			if rng.IntN(4) == 0 {
				p.Clusters[c].Intensity[i] = math.Max(0, v*float64(rng.IntN(2)))
			}
		}
	}
	return p
}

// TestNeverLeavesOutMore: cold, with a reserve, and warm after an hour has passed.
func TestNeverLeavesOutMore(t *testing.T) {
	for seed := range size.Of[uint64](20, 60) {
		p := crowded(t, seed)
		planner := joint.Planner{Effort: 0.3, Reserve: 0.2 * float64(seed%3)}
		checkCrowded(t, p, planner)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestLentReserveIsHeldForFallbacks: in these instances jobs that may pause left a place beside the reserve for a job
// that needs it, and have to return there when they give the reserve back.
func TestLentReserveIsHeldForFallbacks(t *testing.T) {
	for _, seed := range []uint64{191, 404, 943} {
		checkCrowded(t, crowded(t, seed), joint.Planner{Effort: 0.3, Reserve: 0.2 * float64(seed%3)})
	}
}

// checkCrowded checks the plan of p and those of the hours after it, which begin at the plan before.
func checkCrowded(t *testing.T, p *plan.Problem, planner joint.Planner) {
	t.Helper()
	warm := joint.NewWarm(planner)
	for q := p; q.Grid.N > 6 && q.Grid.N >= p.Grid.N-7; {
		res := planned(t, warm, q)
		checkPlaced(t, q, res, fmt.Sprintf("%d slots after", p.Grid.N-q.Grid.N))
		checkReserve(t, q, res, warm, planner.Reserve)
		q = later(q, res.Plan)
	}
}

// checkReserve checks the plan res that warm made of p. In the plan before jobs that may pause have moved into
// the reserve, every slot in which the reserve is used has a job that needs it: taken out, it has no place
// beside the reserve. Rigid jobs use no more of the reserve afterwards. That jobs that moved can give the
// reserve back is shown by TestPlanThatLendsTheReserveIsFeasible.
//
// The plan afterwards may have a place for a job that needs the reserve. It stays in the reserve if jobs that
// moved have to return to that place when they give the reserve back.
func checkReserve(t *testing.T, p *plan.Problem, res plan.Result, warm *joint.Warm, reserve float64) {
	t.Helper()
	if reserve == 0 {
		return
	}
	beside := warm.BesideReserve(p)
	checkNeeded(t, p, beside, reserve)
	rigid := func(pl plan.Plan) *plan.Free {
		free := plan.NewFree(p.WithReserve(reserve))
		for _, jp := range pl.Jobs {
			if p.Jobs[jp.Job].Kind == workload.Rigid {
				free.TakeAll(jp.Job, jp.Segments)
			}
		}
		return free
	}
	before, after := rigid(beside), rigid(res.Plan)
	for c := range p.Clusters {
		for slot := range p.Grid.N {
			if used := after.Used(c, slot); used > 1+1e-9 && used > before.Used(c, slot)+1e-9 {
				t.Errorf("cluster %d, slot %d: rigid jobs use more of the reserve once others have moved into it", c, slot)
			}
		}
	}
}

// checkNeeded checks that in every slot in which pl uses the reserve some job needs it.
func checkNeeded(t *testing.T, p *plan.Problem, pl plan.Plan, reserve float64) {
	t.Helper()
	free := plan.NewFree(p.WithReserve(reserve))
	in := map[[2]int][]plan.JobPlan{}
	for _, jp := range pl.Jobs {
		free.TakeAll(jp.Job, jp.Segments)
		for _, s := range jp.Segments {
			in[[2]int{s.Cluster, s.Slot}] = append(in[[2]int{s.Cluster, s.Slot}], jp)
		}
	}
	give := func(jp plan.JobPlan, sign int) {
		for i, s := range jp.Segments {
			if i == 0 || jp.Segments[i-1].Slot != s.Slot {
				free.Take(jp.Job, s.Cluster, s.Slot, sign*s.Workers)
			}
		}
	}
	for at, jobs := range in {
		if free.Used(at[0], at[1]) <= 1+1e-9 {
			continue
		}
		needed := false
		for _, jp := range jobs {
			give(jp, -1)
			_, elsewhere := free.Earliest(p, jp.Job, p.Jobs[jp.Job].Arrival, p.LastSlot(jp.Job), 0, false)
			give(jp, 1)
			needed = needed || !elsewhere
		}
		if !needed {
			t.Errorf("cluster %d, slot %d: the reserve is used by none that needs it", at[0], at[1])
		}
	}
}

// ticking runs a test in virtual time, which passes by a millisecond each time that a planner reports its progress, and
// not otherwise: a deadline then ends a search after so many reports, however busy the machine is.
func ticking(t *testing.T, test func(t *testing.T, tick func(share float64))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, func(float64) { time.Sleep(time.Millisecond) })
	})
}

// TestReserveIsKeptJobByJob: one job that has no place beside the reserve uses it, alone.
func TestReserveIsKeptJobByJob(t *testing.T) {
	intensity := make([]float64, 24)
	for i := range intensity {
		intensity[i] = 300
	}
	intensity[10], intensity[11] = 50, 60
	var jobs []workload.Job
	for i := range 100 {
		jobs = append(jobs, plantest.Job("j"+strconv.Itoa(100+i), workload.Rigid, 0, 24, 1))
	}
	big := plantest.Job("big", workload.Rigid, 3, 4, 1)
	big.Request = map[string]float64{"server": 70}
	p := plantest.OneCluster(80, intensity, append(jobs, big)...)
	planner := joint.Planner{Reserve: 0.3}
	check := func(t *testing.T, what string, ctx context.Context, with *joint.Warm) {
		t.Helper()
		res, err := with.Plan(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		checkPlaced(t, p, res, what)
		checkReserve(t, p, res, with, planner.Reserve)
		free := plan.NewFree(p)
		for _, jp := range res.Plan.Jobs {
			free.TakeAll(jp.Job, jp.Segments)
		}
		for slot := range 24 {
			if used := 80 * free.Used(0, slot); slot != 3 && used > 56+1e-6 {
				t.Errorf("%s: %v of 80 used in slot %d, want at most 56", what, used, slot)
			}
		}
		// What is proven holds without the reserve, too: 80 in the cleanest slot, 20 next.
		if all := 80*50 + 20*60 + 70*300.; res.Bound == nil || *res.Bound > all*(1+1e-9) || *res.Bound < 0.99*all {
			t.Errorf("%s: bound %v, want %v", what, res.Bound, all)
		}
	}
	warm := joint.NewWarm(planner)
	check(t, "cold", context.Background(), joint.NewWarm(planner))
	check(t, "warm, first", context.Background(), warm)
	check(t, "warm, again", context.Background(), warm)
	ticking(t, func(t *testing.T, tick func(float64)) {
		limited, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		ticked := planner
		ticked.Progress, ticked.Now = tick, time.Now
		check(t, "limited", limited, joint.NewWarm(ticked))
		if end, _ := limited.Deadline(); time.Now().Before(end) {
			t.Error("the search ended before its deadline")
		}
	})
}

// TestWithoutAClockADeadlineOnlyEndsTheSearch: a planner that is not told the time plans with a deadline as without one.
func TestWithoutAClockADeadlineOnlyEndsTheSearch(t *testing.T) {
	p := instance(t, generate.Options{Seed: 3, Jobs: 200, Clusters: 3, Slots: 40, Load: 0.6})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, err := joint.Planner{Effort: 0.1}.Plan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := joint.Planner{Effort: 0.1}.Plan(ctx, p)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v; %d places considered, %d without a deadline", err, got.Considered, want.Considered)
	}
}

// TestUsesItsTime: with a deadline the search goes on where it would have ended, to the deadline, or to the gap wanted.
func TestUsesItsTime(t *testing.T) {
	p := instance(t, generate.Options{Seed: 3, Jobs: 200, Clusters: 3, Slots: 40, Load: 0.6})
	short, err := joint.Planner{Effort: 0.1}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	ticking(t, func(t *testing.T, tick func(float64)) {
		const limit = time.Second
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		long, err := joint.Planner{Effort: 0.1, Progress: tick, Now: time.Now}.Plan(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		// A report or two come after the deadline.
		if took := time.Since(begin); took < limit || took > limit+5*time.Millisecond || long.Considered <= short.Considered {
			t.Errorf("ended after %v of %v; %d places considered, %d without a deadline", took, limit, long.Considered, short.Considered)
		}
		ample, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := (joint.Planner{Effort: 0.1, Gap: 0.5, Progress: tick, Now: time.Now}).Plan(ample, p); err != nil || ample.Err() != nil {
			t.Errorf("the gap wanted does not end the search: %v", err)
		}
	})
}
