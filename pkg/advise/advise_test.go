package advise_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/waitawhile"
	"lull.dev/lull/pkg/workload"
)

var start = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC)

func year(n int) []float64 {
	rng := rand.New(rand.NewPCG(4, 4))
	out := make([]float64, n)
	for t := range out {
		out[t] = 300 + 150*math.Sin(float64(t)/24*2*math.Pi) + 50*rng.Float64()
	}
	return out
}

func elastic(planner plan.Planner, slack int) advise.Study {
	return advise.Study{
		Job: advise.Job{
			Length: 6, Kind: workload.Elastic, Request: map[string]float64{"worker": 1}, MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 0.9, 0.8, 0.5},
		},
		Slot: time.Hour, Slack: slack, Method: advise.Method{Name: "m", Planner: planner},
		Place: advise.Place{Zone: "X", Start: start, Intensity: year(500), Watts: map[string]float64{"worker": 100}, PUE: 1.2},
	}
}

func run(t *testing.T, s advise.Study) []advise.Outcome {
	t.Helper()
	out, err := advise.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOutcomesAreThePlans: each start is planned on its own stretch of the series and
// priced as plan.Evaluate prices it.
func TestOutcomesAreThePlans(t *testing.T) {
	s := elastic(joint.Planner{}, 5)
	out := run(t, s)
	if len(out) != 500-11+1 || len(out) != s.Starts() {
		t.Fatalf("%d outcomes", len(out))
	}
	for _, i := range []int{0, 1, 77, 489} {
		at := 0.0
		for h := range 6 {
			at += 100 * 1.2 / 1000 * s.Place.Intensity[i+h]
		}
		if math.Abs(out[i].Agnostic-at) > 1e-9*at {
			t.Errorf("start %d: agnostic %v, want %v", i, out[i].Agnostic, at)
		}
		one := s
		one.Place.Intensity = s.Place.Intensity[i : i+11]
		if alone := run(t, one); len(alone) != 1 || math.Abs(alone[0].Grams-out[i].Grams) > 1e-9*at {
			t.Errorf("start %d: %v, alone %v", i, out[i].Grams, alone)
		}
	}
	asap := run(t, elastic(asap.Planner{}, 5))
	for i, o := range asap {
		if math.Abs(o.Saving()) > 1e-12 || o.Delay != 0 || o.Workers != o.WorkersAtOnce {
			t.Fatalf("start %d: as soon as possible saves %v, delay %v", i, o.Saving(), o.Delay)
		}
	}
}

// TestMoreSlackSavesMore, and no method saves more than joint, which is exact for one job.
func TestMoreSlackSavesMore(t *testing.T) {
	last := -1.0
	for _, slack := range []int{0, 3, 6, 12, 24} {
		best := advise.Summarize(run(t, elastic(joint.Planner{}, slack)))
		for name, p := range map[string]plan.Planner{"carbonscaler": carbonscaler.Planner{}, "waitawhile": waitawhile.Deadline{}} {
			if s := advise.Summarize(run(t, elastic(p, slack))); s.Total > best.Total+1e-9 {
				t.Errorf("slack %d: %s saves %v, joint %v", slack, name, s.Total, best.Total)
			}
		}
		if best.Saving.Mean < last || best.Late > 0 {
			t.Errorf("slack %d: saves %v, with less slack %v; %d late", slack, best.Saving.Mean, last, best.Late)
		}
		last = best.Saving.Mean
	}
}

// TestStartThatSavesLessRunsAtOnce: a start whose plan saves less runs at once, all others run as planned.
func TestStartThatSavesLessRunsAtOnce(t *testing.T) {
	for name, s := range map[string]advise.Study{
		"elastic":  elastic(joint.Planner{}, 12),
		"one slot": {Job: advise.Job{Length: 0.5, Kind: workload.Rigid, Request: map[string]float64{"worker": 1}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}}},
	} {
		if name == "one slot" {
			one := elastic(joint.Planner{}, 8)
			one.Job = s.Job
			s = one
		}
		all := run(t, s)
		s.MinSaving = 0.2
		held, at := 0, 0
		for i, o := range run(t, s) {
			switch {
			case o == all[i]:
				held++
			case o.Wait != 0:
				t.Fatalf("%s, start %d: %+v; planned %+v", name, i, o, all[i])
			default:
				at++
			}
			// The plan saves less than that against the best run at once, so that it saves no more than this one and that.
			if o != all[i] && all[i].Grams <= o.Grams*(1-s.MinSaving) {
				t.Errorf("%s, start %d: runs at once with %v g, the plan has %v g", name, i, o.Grams, all[i].Grams)
			}
			if s.Job.MaxWorkers == 1 && o.Wait > 0 && o.Saving() < s.MinSaving-1e-9 {
				t.Errorf("%s, start %d: waits to save %v", name, i, o.Saving())
			}
		}
		if held == 0 || at == 0 {
			t.Errorf("%s: %d starts as planned, %d at once", name, held, at)
		}
	}
}

// TestForecastErrorsNeverSaveMore of what planners are told: they never save more, and the work is done.
func TestForecastErrorsNeverSaveMore(t *testing.T) {
	s := elastic(carbonscaler.Planner{}, 12)
	right := advise.Summarize(run(t, s))
	noisy := s
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range s.Place.Intensity {
		noisy.Place.Told = append(noisy.Place.Told, v*(0.7+0.6*rng.Float64()))
	}
	if got := advise.Summarize(run(t, noisy)); got.Total >= right.Total {
		t.Errorf("with wrong intensities %v saved, with right ones %v", got.Total, right.Total)
	}
	wrong := s
	wrong.Job.Told = []float64{1, 1, 1, 1}
	for i, o := range run(t, wrong) {
		if o.Workers < 6-1e-6 { // six hours of work at no more than the throughput of one a worker
			t.Fatalf("start %d: only %v worker-hours", i, o.Workers)
		}
	}
}

func TestSummaries(t *testing.T) {
	s := advise.SpreadOf([]float64{5, 1, 4, 2, 3})
	if s.Mean != 3 || s.Median != 3 || s.P5 != 1 || s.P95 != 5 {
		t.Errorf("%+v", s)
	}
	if advise.SpreadOf(nil) != (advise.Spread{}) {
		t.Error("a spread of nothing")
	}
	daily, whole := advise.Variation([]float64{1, 3, 2, 2}, 2)
	if math.Abs(daily-0.25) > 1e-12 || math.Abs(whole-math.Sqrt(0.5)/2) > 1e-12 {
		t.Errorf("variation %v within days, %v in all", daily, whole)
	}
	got := advise.Pareto([]float64{0.1, 0.3, 0.2, 0.3}, []float64{0, 5, 5, 6}, []float64{1, 1, 1, 1})
	if !reflect.DeepEqual(got, []int{1, 0}) {
		t.Errorf("not beaten: %v", got)
	}
}

func TestStudyErrors(t *testing.T) {
	for name, breakIt := range map[string]func(*advise.Study){
		"short series":   func(s *advise.Study) { s.Place.Intensity = s.Place.Intensity[:5] },
		"told too short": func(s *advise.Study) { s.Place.Told = []float64{1} },
		"no watts":       func(s *advise.Study) { s.Place.Watts = map[string]float64{"worker": math.NaN()} },
		"no length":      func(s *advise.Study) { s.Job.Length = 0 },
	} {
		s := elastic(asap.Planner{}, 3)
		breakIt(&s)
		if _, err := advise.Run(context.Background(), s); !errors.Is(err, advise.ErrStudy) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// BenchmarkYear is one job of 24 h over the starts of a year.
func BenchmarkYear(b *testing.B) {
	for name, p := range map[string]plan.Planner{"asap": asap.Planner{}, "waitawhile-deadline": waitawhile.Deadline{}, "carbonscaler": carbonscaler.Planner{}, "joint": joint.Planner{}} {
		b.Run("planner="+name, func(b *testing.B) {
			s := elastic(p, 12)
			s.Job.Length, s.Place.Intensity = 24, year(8760+35)
			for b.Loop() {
				if _, err := advise.Run(context.Background(), s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestUnknownSlotsWithholdStarts: a start that may use a slot without an intensity is not
// stated: neither in the sums nor in the distribution.
func TestUnknownSlotsWithholdStarts(t *testing.T) {
	s := elastic(joint.Planner{}, 5)
	want := run(t, s)
	s.Place.Unknown = make([]bool, 500)
	s.Place.Unknown[100] = true
	s.Place.Intensity = append([]float64(nil), s.Place.Intensity...)
	s.Place.Intensity[100] = 0 // what it holds does not matter
	got := run(t, s)
	var kept []advise.Outcome
	for i, o := range got {
		if touches := i <= 100 && 100 < i+11; o.Withheld != touches {
			t.Errorf("start %d: withheld %v, want %v", i, o.Withheld, touches)
		}
		if !o.Withheld {
			kept = append(kept, want[i])
		}
	}
	a, b := advise.Summarize(got), advise.Summarize(kept)
	if a.Withheld != 11 || a.Starts != len(kept) || a.Total != b.Total || a.Saving != b.Saving || a.Delay != b.Delay {
		t.Errorf("%+v\nwant %+v", a, b)
	}
	s.Place.Unknown = []bool{true}
	if _, err := advise.Run(context.Background(), s); !errors.Is(err, advise.ErrStudy) {
		t.Errorf("as many unknown as slots are needed: %v", err)
	}
	if all := advise.Summarize([]advise.Outcome{{Withheld: true}}); all.Starts != 0 || all.Withheld != 1 || !math.IsNaN(all.Total) {
		t.Errorf("nothing but withheld: %+v", all)
	}
}

// TestLateSaysHowMuch: the worst and the mean of those that are late, in slots.
func TestLateSaysHowMuch(t *testing.T) {
	s := advise.Summarize([]advise.Outcome{{Grams: 1, Agnostic: 1, WorkersAtOnce: 1, Late: 2}, {Grams: 1, Agnostic: 1, WorkersAtOnce: 1}, {Grams: 1, Agnostic: 1, WorkersAtOnce: 1, Late: 4}})
	if s.Late != 2 || s.WorstLate != 4 || s.MeanLate != 3 {
		t.Errorf("%+v", s)
	}
}
