package decide_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/workload"
)

var guarded = plan.Guarded{Planner: cheapest.Planner{}, Probability: plan.SafeProbability}

func verified(t *testing.T, s decide.Snapshot, p plan.Planner) decide.Decision {
	t.Helper()
	d, err := decide.Decide(context.Background(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range decide.Verify(s, d) {
		t.Errorf("%v", v)
	}
	return d
}

// TestQuantileMovesTheLatestStart: the intensity falls at 10 h, the deadline is at 14 h. A task of 2 h that
// takes up to 5 h must start by 9 h less the margin: the planner, the latest safe start and its commitment
// say the same, for each kind. A planner that does not know of quantiles may plan a later start; then too the
// task starts at its latest safe start.
func TestQuantileMovesTheLatestStart(t *testing.T) {
	margin := 5 * time.Minute
	latest := at(9).Add(-margin)
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
		for _, planner := range []plan.Planner{guarded, cheapest.Planner{}} {
			x := task("a", at(2), at(14), 2*time.Hour)
			x.Kind = kind
			x.Quantiles = []decide.Quantile{{P: 0.5, Remaining: 90 * time.Minute}, {P: 0.9, Remaining: 4 * time.Hour}, {P: 0.95, Remaining: 5 * time.Hour}, {P: 0.99, Remaining: 11 * time.Hour}}
			name := fmt.Sprintf("%s, %T", kind, planner)
			a := verified(t, snapshot(t, at(2), x), planner).Actions[0]
			if _, knows := planner.(plan.Guarded); knows {
				if !a.Reason.LatestStart.Equal(latest) || a.Reason.Guard != x.Quantiles[2] || a.Phases[0].From.After(latest) {
					t.Errorf("%s: %s, starts at %v, latest start %v, guard %v; want %v and the 95 %% quantile", name, a.Verb, a.Phases[0].From, a.Reason.LatestStart, a.Reason.Guard, latest)
				}
				if text := a.Reason.Message(); kind == workload.Rigid && !strings.Contains(text, "starts by 2023-05-10T08:55:00Z at the latest, as it may still take 5h0m0s (95 % quantile)") {
					t.Errorf("%s: message %q", name, text)
				}
			}
			a = verified(t, snapshot(t, latest, x), planner).Actions[0]
			if a.Verb != decide.Release || a.Reason.Code != decide.CodeLatestStart || !strings.Contains(a.Reason.Message(), "95 % quantile") {
				t.Errorf("%s: at its latest start: %s, %q", name, a.Verb, a.Reason.Message())
			}
			x.Quantiles = nil
			a = verified(t, snapshot(t, at(2), x), planner).Actions[0]
			if !a.Reason.LatestStart.Equal(at(12).Add(-margin)) || a.Reason.Guard != (decide.Quantile{}) || strings.Contains(a.Reason.Message(), "quantile") {
				t.Errorf("%s: without quantiles: %v, %q", name, a.Reason.LatestStart, a.Reason.Message())
			}
		}
	}
}

// TestGuardOfAnElasticTask: what the quantile exceeds the mean is counted at the fastest scale.
func TestGuardOfAnElasticTask(t *testing.T) {
	x := task("a", at(2), at(14), 4*time.Hour)
	x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 1}}
	x.Quantiles = []decide.Quantile{{P: 0.95, Remaining: 10 * time.Hour}}
	a := verified(t, snapshot(t, at(2), x), guarded).Actions[0]
	if want := at(9).Add(-5 * time.Minute); !a.Reason.LatestStart.Equal(want) {
		t.Errorf("latest start %v, want the deadline less 10 h at twice the speed and the margin, %v", a.Reason.LatestStart, want)
	}
}

// TestGuardHasNoEffectWhereItCannot: where a bounded delay moves the deadline, deadlines are soft, or the quantile does not exceed
// the mean, it has no effect.
func TestGuardHasNoEffectWhereItCannot(t *testing.T) {
	plain := task("a", at(2), at(14), 2*time.Hour)
	plain.LatestStart = at(12)
	for name, change := range map[string]func(x *decide.Task, s *decide.Snapshot){
		"bounded delay": func(*decide.Task, *decide.Snapshot) {},
		"below the mean": func(x *decide.Task, _ *decide.Snapshot) {
			x.LatestStart, x.Quantiles[0].Remaining = time.Time{}, time.Hour
		},
		"soft deadline": func(x *decide.Task, s *decide.Snapshot) {
			x.LatestStart = time.Time{}
			s.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{0.5, 1, 1}}
		},
	} {
		s, without := snapshot(t, at(2), plain), snapshot(t, at(2), plain)
		s.Tasks[0].Quantiles = []decide.Quantile{{P: 0.95, Remaining: 9 * time.Hour}}
		change(&s.Tasks[0], &s)
		without.Objective, without.Tasks[0].LatestStart = s.Objective, s.Tasks[0].LatestStart
		got, want := verified(t, s, guarded).Actions[0], verified(t, without, guarded).Actions[0]
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: with quantiles %+v, without %+v", name, got, want)
		}
	}
}

// TestGuardYieldsToDeadlines: two tasks, one place. That which may take long would have to run at once, but
// the other one would be late then. It gives up its guard, not the other's deadline.
func TestGuardYieldsToDeadlines(t *testing.T) {
	long, due := task("long", at(2), at(9), 2*time.Hour), task("due", at(2), at(5), 2*time.Hour+30*time.Minute)
	long.Request, due.Request = map[string]float64{"cpu": 10}, map[string]float64{"cpu": 10}
	long.Quantiles = []decide.Quantile{{P: 0.95, Remaining: 7 * time.Hour}}
	d := verified(t, snapshot(t, at(2), long, due), guarded)
	if d.Actions[1].Verb != decide.Release || d.Actions[0].Verb != decide.Wait || d.Actions[0].Phases[0].To.After(at(9)) {
		t.Errorf("actions %+v, want the second now and the first after it, in time", d.Actions)
	}
}

// TestInvalidQuantiles: an error names the task, the quantile, the value and what is accepted.
func TestInvalidQuantiles(t *testing.T) {
	for want, quantiles := range map[string][]decide.Quantile{
		"quantiles[0]: p: 0; accepted: above 0, below 1, rising":                 {{P: 0, Remaining: 1}},
		"quantiles[0]: p: -0.5; accepted: above 0, below 1, rising":              {{P: -0.5, Remaining: 1}},
		"quantiles[0]: p: 1; accepted: above 0, below 1, rising":                 {{P: 1, Remaining: 1}},
		"quantiles[0]: p: NaN; accepted: above 0, below 1, rising":               {{P: math.NaN(), Remaining: 1}},
		"quantiles[1]: p: +Inf; accepted: above 0, below 1, rising":              {{P: 0.5, Remaining: 1}, {P: math.Inf(1), Remaining: 1}},
		"quantiles[1]: p: 0.5; accepted: above 0, below 1, rising":               {{P: 0.5, Remaining: 1}, {P: 0.5, Remaining: 2}},
		"quantiles[0]: remaining: -1ns; accepted: at least 0, not falling":       {{P: 0.5, Remaining: -1}},
		"quantiles[1]: remaining: 59m59s; accepted: at least 0, not falling":     {{P: 0.5, Remaining: time.Hour}, {P: 0.9, Remaining: time.Hour - time.Second}},
		"quantiles[0]: remaining: -2562047h47m16.854775808s; accepted: at least": {{P: 0.5, Remaining: math.MinInt64}},
	} {
		x := task("a", at(2), at(14), time.Hour)
		x.Quantiles = quantiles
		_, err := decide.Decide(context.Background(), snapshot(t, at(2), x), guarded)
		if !errors.Is(err, decide.ErrSnapshot) || !strings.Contains(err.Error(), `task "a": `+want) {
			t.Errorf("%v: error %v, want %q", quantiles, err, want)
		}
	}
}

// TestRandomQuantilesBreakNoInvariant: whatever valid quantiles say, no decision breaks an invariant, no latest start is
// later than without them, and each is the deadline less the margin and the guarded run time, unless the
// plan gives up a part of the guard. Deadlines in time without quantiles stay in time.
func TestRandomQuantilesBreakNoInvariant(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 4))
	moved, gaveUp := 0, 0
	for range 4000 {
		now := at(2 + 6*rng.Float64())
		s := snapshot(t, now)
		for i := range 1 + rng.IntN(9) {
			x := task(fmt.Sprint("t", i), at(1), now.Add(time.Duration((3+30*rng.Float64())*float64(time.Hour))), time.Duration((0.1+5*rng.Float64())*float64(time.Hour)))
			switch rng.IntN(3) {
			case 0:
				x.Kind = workload.Interruptible
			case 1:
				x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 0.9, 0.5}}
			}
			s.Tasks = append(s.Tasks, x)
		}
		plain := verified(t, s, guarded)
		for i := range s.Tasks {
			last := 0.0
			for p := 0.2 * rng.Float64(); p < 1 && rng.IntN(4) > 0; p += 0.01 + 0.5*rng.Float64() {
				if p > 0 {
					last += 3 * rng.ExpFloat64()
					s.Tasks[i].Quantiles = append(s.Tasks[i].Quantiles, decide.Quantile{P: p, Remaining: time.Duration(last * float64(time.Hour))})
				}
			}
			if rng.IntN(12) == 0 {
				s.Tasks[i].Quantiles = []decide.Quantile{{P: 0.97, Remaining: math.MaxInt64}}
			}
		}
		d := verified(t, s, guarded)
		for i := range s.Tasks {
			x, r := &s.Tasks[i], &d.Actions[i].Reason
			remaining, p := x.Guarded()
			if remaining < x.Remaining || (p > 0) != (remaining > x.Remaining) {
				t.Fatalf("guarded %v with %v of %v, %v", remaining, p, x.Remaining, x.Quantiles)
			}
			if late(x, &d.Actions[i]) && !late(x, &plain.Actions[i]) {
				t.Errorf("task %d of %d is late with quantiles only", i, len(s.Tasks))
			}
			if d.Actions[i].Verb != decide.Wait || r.Code == decide.CodeDeadlineAtRisk || p == 0 {
				continue
			}
			speed := 1.0
			if x.Scaling != nil {
				speed = 2.4
			}
			guard := time.Duration(float64(remaining-x.Remaining) / speed)
			want := x.Deadline.Add(-s.Margin - time.Duration(float64(x.Remaining)/speed)).Add(-guard)
			switch off := r.LatestStart.Sub(want); {
			case off.Abs() < time.Millisecond && (r.Guard != decide.Quantile{P: p, Remaining: remaining}):
				t.Errorf("guard %v, want the quantile %v, %v", r.Guard, p, remaining)
			case off.Abs() < time.Millisecond:
				moved++
			case r.LatestStart.Equal(d.Actions[i].Phases[0].From) && r.Guard == (decide.Quantile{}):
				gaveUp++
			default:
				t.Errorf("latest start %v, want %v: %v of mean %v", r.LatestStart, want, x.Quantiles, x.Remaining)
			}
		}
	}
	if moved < 100 || gaveUp < 10 {
		t.Errorf("%d latest starts moved, %d gave up their guard: too few to show anything", moved, gaveUp)
	}
}

// late reports whether an action has no plan in time.
func late(x *decide.Task, a *decide.Action) bool {
	return len(a.Phases) == 0 || a.Phases[len(a.Phases)-1].To.After(x.Deadline.Add(time.Millisecond))
}

// TestUsedUpGuardAsksOnce: a task whose guard is used up is planned to run now by one plan of all tasks, and others keep theirs.
func TestUsedUpGuardAsksOnce(t *testing.T) {
	x := task("a", at(0), at(8), 2*time.Hour)
	x.Quantiles = []decide.Quantile{{P: 0.5, Remaining: 2 * time.Hour}, {P: 0.97, Remaining: 5 * time.Hour}}
	other := task("b", at(0), at(20), time.Hour)
	other.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(9), To: at(10), Cluster: "c", Workers: 1}}, Reason: decide.Reason{Code: decide.CodeCleanerLater}}
	s := snapshot(t, at(4), x, other)
	planner := &counting{Planner: cheapest.Planner{}}
	d := must(t, s, plan.Guarded{Planner: planner, Probability: plan.SafeProbability})
	if a := d.Actions[0]; a.Verb != decide.Release || a.Reason.Code != decide.CodeLatestStart || len(planner.jobs) != 1 {
		t.Errorf("%s because %s, planned %d times; want Release because LatestStart, planned once", a.Verb, a.Reason.Code, len(planner.jobs))
	}
	if b := d.Actions[1]; b.Planned {
		t.Errorf("the other task is planned anew: %+v", b)
	}
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
}
