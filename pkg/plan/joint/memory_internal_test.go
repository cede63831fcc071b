package joint

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// week has one cluster of 168 hourly slots and the given jobs of an hour; it begins a number
// of hours late.
func week(late int, names ...string) *plan.Problem {
	var jobs []workload.Job
	for _, name := range names {
		jobs = append(jobs, plantest.Job(name, workload.Rigid, 0, 168, 1))
	}
	p := plantest.OneCluster(2, make([]float64, 168), jobs...)
	p.Grid.Start = p.Grid.Start.Add(time.Duration(late) * time.Hour)
	return p
}

func names(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("job-%05d", i))
	}
	return out
}

// TestWarmRemembersJobsThatAreNotPlanned: controllers keep to most plans and have a few jobs
// planned at a time. When all are planned again, the places and worths of all are known.
func TestWarmRemembersJobsThatAreNotPlanned(t *testing.T) {
	p, err := generate.Instance(generate.Options{Seed: 71, Jobs: 600, Clusters: 1, Slots: 168, Load: 0.45})
	if err != nil {
		t.Fatal(err)
	}
	few := *p
	few.Grid.Start = p.Grid.Start.Add(20 * time.Minute)
	few.Jobs = slices.Clone(p.Jobs[:3])
	for j := range few.Jobs {
		few.Jobs[j].ID += "-new"
	}
	w := NewWarm(Planner{})
	step := func(p *plan.Problem) plan.Result {
		t.Helper()
		res, err := w.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := step(p)
	worth := w.memory.worth
	step(&few)
	if len(w.memory.jobs) != 603 || w.memory.worth != worth {
		t.Errorf("after a plan of 3 other jobs, %d jobs are known, want 603; worths of 600 jobs kept: %v", len(w.memory.jobs), w.memory.worth == worth)
	}
	again := step(p)
	if !reflect.DeepEqual(again.Plan, first.Plan) {
		t.Error("planned again, jobs have other places")
	}
	if again.Considered > first.Considered/20 {
		t.Errorf("%d places considered at first, %d again", first.Considered, again.Considered)
	}
}

// TestMemoryForgetsPassedPlaces: places that have passed, and more than a bound, whatever is planned.
func TestMemoryForgetsPassedPlaces(t *testing.T) {
	w := NewWarm(Planner{})
	most := 0
	for day := range 60 {
		if _, err := w.Plan(context.Background(), week(24*day, names(100*day, 100*day+100)...)); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(w.memory.jobs))
	}
	if most > 3000 { // 700 are ahead
		t.Errorf("%d jobs are remembered", most)
	}
	m, next := Remember(week(0), plan.Plan{}), Remember(week(0), plan.Plan{})
	next.worth = &worth{}
	for i, name := range names(0, 50) {
		m.jobs[name] = remembered{frame: frameOf(week(i % 25))}
	}
	m.learn(week(0), next, 10)
	if len(m.jobs) != 10 {
		t.Fatalf("%d jobs are remembered, want 10", len(m.jobs))
	}
	for name, r := range m.jobs {
		if r.frame.start.Before(week(20).Grid.Start) {
			t.Errorf("%s is remembered, which is due before others", name)
		}
	}
}

// TestWorthIsBetweenItsNeighbours: where capacity has no price, its worth is between those around it and no
// higher than its cost; prices follow when costs change, or when slots begin at another time.
func TestWorthIsBetweenItsNeighbours(t *testing.T) {
	cost := []float64{9, 2, 4, 12, 3, 9}
	got := worths(cost, []float64{0, 6, 0, 0, 2, 0})
	for i, want := range []float64{8, 8, 4, 6, 5, 5} {
		if got[i] != want {
			t.Errorf("slot %d: worth %v, want %v", i, got[i], want)
		}
	}
	if got := worths(cost, make([]float64, 6)); len(got) != 0 {
		t.Errorf("without prices: %v", got)
	}
	w := &worth{start: time.Unix(0, 0), slot: time.Hour, slots: 6}
	for _, c := range []struct {
		from, slot time.Duration
		want       float64
	}{
		{time.Hour, time.Hour, 8}, {90 * time.Minute, time.Hour, 6}, {-5 * time.Hour, time.Hour, 8}, {50 * time.Hour, time.Hour, 5},
		{time.Hour, 2 * time.Hour, 12}, {75 * time.Minute, 15 * time.Minute, 2}, {105 * time.Minute, 30 * time.Minute, 3},
	} {
		if v := w.through(got, w.start.Add(c.from), c.slot); math.Abs(v-c.want) > 1e-9 {
			t.Errorf("a slot of %v from %v: worth %v, want %v", c.slot, c.from, v, c.want)
		}
	}
}
