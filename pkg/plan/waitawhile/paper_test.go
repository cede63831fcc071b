package waitawhile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// one is a problem of one job on one cluster.
func one(kind workload.Kind, length float64, deadline int, intensity ...float64) *plan.Problem {
	return plantest.OneCluster(1, intensity, plantest.Job("j", kind, 0, deadline, length))
}

func slots(t *testing.T, planner plan.Planner, p *plan.Problem) string {
	t.Helper()
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Unplaced) > 0 {
		return res.Unplaced[0].Why
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, s := range res.Plan.Jobs[0].Segments {
		out = append(out, s.Slot)
	}
	return fmt.Sprint(out)
}

func threshold(t *testing.T, params Params) Threshold {
	t.Helper()
	m, err := NewThreshold(params)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// CarbonScaler, Section 2.3: "deadline-based methods choose the n lowest carbon
// cost periods between the arrival time and the deadline".
func TestDeadlineTakesTheCheapestSlots(t *testing.T) {
	p := one(workload.Interruptible, 3, 6, 50, 10, 40, 20, 30, 60, 1)
	if got := slots(t, Deadline{}, p); got != "[1 3 4]" {
		t.Errorf("slots %s", got)
	}
	// "shifting without interruption": the cheapest run in one piece.
	p.Jobs[0].Kind = workload.Rigid
	if got := slots(t, Deadline{}, p); got != "[1 2 3]" {
		t.Errorf("slots %s", got)
	}
}

// CarbonFlex, Section 5: "suspends the job whenever the intensity is above the
// 30th percentile of the next 24 hours, and runs to completion once slack is gone".
func TestThresholdRule(t *testing.T) {
	// Of ten values the third smallest is the 30th percentile.
	p := one(workload.Interruptible, 3, 10, 90, 30, 80, 70, 20, 60, 10, 50, 40, 100)
	if got := slots(t, threshold(t, Params{Ahead: 10 * time.Hour}), p); got != "[1 4 6]" {
		t.Errorf("slots %s, want those at or below 30, then of what is ahead", got)
	}
	// Dirty until the end: no slack is left at slot 2.
	p = one(workload.Interruptible, 2, 4, 90, 80, 70, 60, 1, 1, 1, 1, 1, 1)
	if got := slots(t, threshold(t, Params{Ahead: 10 * time.Hour}), p); got != "[2 3]" {
		t.Errorf("slots %s, want the last two before the deadline", got)
	}
	p.Jobs[0].Kind = workload.Rigid
	if got := slots(t, threshold(t, Params{Ahead: 10 * time.Hour}), p); got != "[2 3]" {
		t.Errorf("rigid: slots %s", got)
	}
	// The hundredth percentile never waits.
	if got := slots(t, threshold(t, Params{Percentile: 100, Ahead: 10 * time.Hour}), p); got != "[0 1]" {
		t.Errorf("hundredth percentile: slots %s", got)
	}
}

// A longer deadline costs waiting and saves: "a higher delay tolerance yields
// higher savings" (CarbonScaler, Section 2.3).
func TestLaterDeadlineNeverEmitsMore(t *testing.T) {
	for seed := range uint64(100) {
		p := plantest.Random(seed, plantest.Options{Kinds: []workload.Kind{workload.Interruptible}, MaxJobs: 1, Loose: true})
		res, err := Deadline{}.Plan(context.Background(), p)
		if err != nil || len(res.Unplaced) > 0 {
			continue
		}
		later := *p
		later.Jobs = append([]workload.Job(nil), p.Jobs...)
		later.Jobs[0].Deadline += 5
		more, err := Deadline{}.Plan(context.Background(), &later)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := plan.Evaluate(p, res.Plan).CarbonG, plan.Evaluate(&later, more.Plan).CarbonG; b > a*(1+1e-9) {
			t.Errorf("seed %d: %v with the deadline, %v with a later one", seed, a, b)
		}
	}
}

func TestLaws(t *testing.T) {
	for _, planner := range []plan.Planner{Deadline{}, threshold(t, Params{})} {
		plantest.Laws(t, planner, 300, plantest.Options{})
		plantest.Laws(t, planner, 150, plantest.Options{Objective: plan.MOSP})
	}
}

func TestParams(t *testing.T) {
	for _, bad := range []Params{{Percentile: -1}, {Percentile: 101}, {Ahead: -time.Hour}} {
		if _, err := NewThreshold(bad); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func BenchmarkDeadline(b *testing.B) { plantest.Bench(b, Deadline{}) }

func BenchmarkThreshold(b *testing.B) {
	m, err := NewThreshold(Params{})
	if err != nil {
		b.Fatal(err)
	}
	plantest.Bench(b, m)
}
