package gaia

import (
	"context"
	"errors"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// problem is jobs of the given lengths that arrive at slot 0, on one cluster with
// room for so many at a time.
func problem(room float64, deadline int, intensity []float64, lengths ...float64) *plan.Problem {
	var jobs []workload.Job
	for i, l := range lengths {
		jobs = append(jobs, plantest.Job(string(rune('a'+i)), workload.Rigid, 0, deadline, l))
	}
	return plantest.OneCluster(room, intensity, jobs...)
}

func planner(t testing.TB, params Params) Planner {
	t.Helper()
	m, err := New(params)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// starts are the first slots of all jobs.
func starts(t *testing.T, m Planner, p *plan.Problem) []int {
	t.Helper()
	res, err := m.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, jp := range res.Plan.Jobs {
		start, _ := jp.Start()
		out = append(out, start)
	}
	return out
}

// The three policies differ on one series: the cleanest slot, the cleanest three
// slots, and the most saved for the least waiting.
func TestGaiaPoliciesDiffer(t *testing.T) {
	intensity := []float64{100, 50, 60, 70, 10, 90, 30, 30, 30, 95}
	// Saving: W = 210 at once; 180 at 1 (30 a slot), 140 at 2 (35 a slot), 170 at 3,
	// 130 at 4 (20 a slot), 90 at 6 (20 a slot).
	for policy, want := range map[Policy]int{LowestSlot: 4, LowestWindow: 6, Saving: 2} {
		if got := starts(t, planner(t, Params{Policy: policy, Oracle: true}), problem(1, 10, intensity, 3))[0]; got != want {
			t.Errorf("%s starts at %d, want %d", policy, got, want)
		}
	}
	// Waiting that saves nothing is not done.
	if got := starts(t, planner(t, Params{Policy: Saving, Oracle: true}), problem(1, 6, []float64{1, 2, 3, 4, 5, 6}, 2))[0]; got != 0 {
		t.Errorf("saving starts at %d in a rising series", got)
	}
}

// "selecting the best start time based on the mean job length" (CarbonFlex,
// Section 6.1): the short job is placed as if it were longer.
func TestStartIsChosenByTheMeanLength(t *testing.T) {
	intensity := []float64{90, 10, 90, 90, 40, 40, 40, 90, 90, 90}
	short := problem(2, 10, intensity, 1, 5)
	if got := starts(t, planner(t, Params{Policy: LowestWindow, Oracle: true}), short)[0]; got != 1 {
		t.Errorf("with its true length the short job starts at %d, want 1", got)
	}
	if got := starts(t, planner(t, Params{Policy: LowestWindow}), short)[0]; got != 4 {
		t.Errorf("with the mean length of 3 it starts at %d, want 4", got)
	}
	if got := starts(t, planner(t, Params{Policy: LowestWindow, MeanLength: 3 * time.Hour}), problem(1, 10, intensity, 1))[0]; got != 4 {
		t.Errorf("with a stated mean of 3 h it starts at %d, want 4", got)
	}
}

// "We augment the policy with resource limits and use FCFS when multiple jobs want
// to run in the same time slot" (CarbonFlex, Section 6.1).
func TestFirstComeFirstServed(t *testing.T) {
	got := starts(t, planner(t, Params{Policy: LowestSlot, Oracle: true}), problem(1, 8, []float64{9, 9, 9, 1, 9, 9, 9, 9}, 2, 2))
	if got[0] != 3 || got[1] != 5 {
		t.Errorf("starts %v, want 3 and, when there is room again, 5", got)
	}
	// When waiting for room would cost the deadline, the earliest room is taken.
	got = starts(t, planner(t, Params{Policy: LowestSlot, Oracle: true}), problem(1, 6, []float64{9, 9, 9, 1, 9, 9}, 2, 2))
	if got[1] != 0 {
		t.Errorf("starts %v, want the second job at 0", got)
	}
}

func TestLaws(t *testing.T) {
	for _, policy := range []Policy{LowestSlot, LowestWindow, Saving} {
		for _, oracle := range []bool{false, true} {
			m := planner(t, Params{Policy: policy, Oracle: oracle})
			plantest.Laws(t, m, 150, plantest.Options{})
			plantest.Laws(t, m, 80, plantest.Options{Objective: plan.MOSP})
		}
	}
}

func TestParams(t *testing.T) {
	for _, bad := range []Params{{}, {Policy: "best"}, {Policy: Saving, MeanLength: -1}} {
		if _, err := New(bad); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, policy := range []Policy{LowestSlot, LowestWindow, Saving} {
		b.Run("policy="+string(policy), func(b *testing.B) { plantest.Bench(b, planner(b, Params{Policy: policy})) })
	}
}
