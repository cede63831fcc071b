package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func settlement(name string, change func(*Settlement)) Settlement {
	b := Settlement{Workload: name, Settled: Settled{
		Of:   Submitted{Name: name, Namespace: "ns", Policy: "ns/p", Kind: "Job", At: at(0), Request: map[string]float64{"cpu": 2}},
		From: at(4), To: at(6), Runs: 1, OnTime: true, WorkerHours: 2, KWh: 1, Grams: 100, Uncertainty: 0.4, Signal: "average", Factor: "lifecycle",
		Counterfactual: Counterfactual{From: at(0), To: at(2), Grams: 300}, SavedGrams: 200,
	}}
	if change != nil {
		change(&b)
	}
	return b
}

func TestSummarize(t *testing.T) {
	list := []Settlement{
		settlement("a", func(b *Settlement) { b.Of.Labels = map[string]string{"team": "x", "images": "30"} }),
		settlement("b", func(b *Settlement) {
			b.Of.Namespace, b.OnTime, b.To, b.Grams, b.SavedGrams = "other", false, at(30), 250, 50
			b.MeasuredKWh, b.Uncertainty, b.Of.Labels = 1, 0.15, map[string]string{"images": "10"}
		}),
		settlement("never", func(b *Settlement) {
			*b = Settlement{Workload: "never", Settled: Settled{OnTime: true, To: at(1), Of: Submitted{At: at(1), Labels: map[string]string{"images": "0"}}}}
		}),
	}
	s, err := Summarize(list, Question{By: "namespace", Top: 1, Hardware: &Hardware{EmbodiedGrams: 1_000_000, CPUs: 100, Lifetime: 1000 * time.Hour}, Unit: "label:images"})
	if err != nil {
		t.Fatal(err)
	}
	all := s.All
	if all.Workloads != 3 || all.Late != 1 || !near(all.KWh, 2) || !near(all.MeasuredKWh, 1) || !near(all.Grams, 350) || !near(all.AsSubmittedGrams, 600) || !near(all.SavedGrams, 250) ||
		!near(all.UncertainGrams, 0.4*100+0.15*250) || !near(all.Share(), 250.0/600) || !near(all.LongestDelayHours, 28) {
		t.Errorf("in all: %+v", all)
	}
	if len(s.Groups) != 3 || s.Groups[0].Name != "other" || s.Groups[1].Name != "ns" || !near(s.Groups[1].Grams, 100) || !near(s.Groups[1].DelayHours, 4) {
		t.Errorf("groups: %+v", s.Groups)
	}
	if len(s.Days) != 2 || s.Days[0].Name != "2026-03-01" || s.Days[1].Name != "2026-03-02" || len(s.Top) != 1 || s.Top[0].Name != "b" || !s.From.Equal(at(0)) || !s.To.Equal(at(30)) {
		t.Errorf("%+v", s)
	}
	// Two workloads of 2 CPUs for 2 hours, of 100 CPUs for 1,000 hours that embody a tonne: 80 g.
	if c := s.SCI; !near(c.Operational, 350) || !near(c.Embodied, 80) || !near(c.Units, 40) || !near(c.PerUnit, 430.0/40) {
		t.Errorf("SCI: %+v", c)
	}
	// a ends 4 hours later than as submitted, b 28.
	if s, err := Summarize(list, Question{By: "team", DelayCost: "1.5"}); err != nil || !near(s.All.DelayedHours, 32) || !near(s.All.DelayCost, 48) || !near(s.All.CostPerKilogram(), 192) ||
		!near(s.All.SavedPerDelayedHour(), 250.0/32) || len(s.Groups) != 2 || s.Groups[1].Name != "x" || !near(s.Groups[1].DelayCost, 6) {
		t.Errorf("costs of delay: %+v, %v", s, err)
	}
	if s, err := Summarize(list, Question{DelayCost: "label:images"}); err != nil || !near(s.All.DelayCost, 4*30+28*10) {
		t.Errorf("costs of delay by a label: %+v, %v", s.All, err)
	}
	early := settlement("early", func(b *Settlement) { b.To, b.Counterfactual.To = at(6), at(9) })
	if s, err := Summarize([]Settlement{early}, Question{DelayCost: "1"}); err != nil || s.All.DelayedHours != 0 || s.All.DelayCost != 0 || !near(s.All.DelayHours, -3) || s.All.SavedPerDelayedHour() != 0 {
		t.Errorf("one that ended earlier: %+v, %v", s.All, err)
	}
	if s, err := Summarize(nil, Question{}); err != nil || s.All.Workloads != 0 || s.All.Share() != 0 {
		t.Errorf("of nothing: %+v, %v", s, err)
	}
	marginal := append(list, settlement("m", func(b *Settlement) { b.Signal = "marginal" }))
	if s, err := Summarize(marginal, Question{Signal: "marginal"}); err != nil || s.All.Workloads != 1 {
		t.Errorf("marginal alone: %+v, %v", s.All, err)
	}
	// A label that is no number is named, and spoils no other's figures.
	for _, q := range []Question{{DelayCost: "label:team"}, {Hardware: &Hardware{1, 1, 1}, Unit: "label:team"}} {
		if s, err := Summarize(list, q); err != nil || !strings.Contains(fmt.Sprint(s.Refused), `label team of ns/a: "x"; accepted: a number`) {
			t.Errorf("a label that is no number: %+v, %v", s.Refused, err)
		}
	}
	for want, bad := range map[string]func() error{
		"several signals":                      func() error { _, err := Summarize(marginal, Question{}); return err },
		"accepted: namespace, team, policy":    func() error { _, err := Summarize(list, Question{By: "colour"}); return err },
		"accepted: workload, worker-hour":      func() error { _, err := Summarize(list, Question{Hardware: &Hardware{1, 1, 1}, Unit: "x"}); return err },
		`delay cost: "-1"; accepted`:           func() error { _, err := Summarize(nil, Question{DelayCost: "-1"}); return err },
		"accepted: 0 g and more, CPUs and a l": func() error { _, err := Summarize(list, Question{Hardware: &Hardware{1, 0, 1}}); return err },
	} {
		if err := bad(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestIntervalCoversTheTruth: the interval covers what is true nineteen times in twenty, and few workloads are said to be
// too few.
func TestIntervalCoversTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	sample := func(n int) *HoldOut {
		var list []Settlement
		for i := range n {
			kWh := 0.1 + 3*rnd.Float64()
			held := i%10 == 0
			of := 200.0
			if held {
				of = 300
			}
			list = append(list, settlement(fmt.Sprint(i), func(b *Settlement) {
				b.Of.HeldOut, b.KWh, b.Grams = held, kWh, kWh*(of+60*rnd.NormFloat64())
				b.Counterfactual.KWh, b.Counterfactual.Grams = kWh, 310*kWh
			}))
		}
		s, err := Summarize(list, Question{})
		if err != nil {
			t.Fatal(err)
		}
		return s.HoldOut
	}
	covered := 0
	for range 400 {
		if h := sample(400); h.Low <= 100 && 100 <= h.High {
			covered++
		}
	}
	if covered < 366 || covered > 394 { // 95 % of 400, and three standard deviations
		t.Errorf("%d of 400 intervals cover what is true", covered)
	}
	h := sample(2000)
	if h.HeldOut != 200 || h.Planned != 1800 || h.TooSmall || math.Abs(h.Saved-100) > 15 || math.Abs(h.ModelSaved-110) > 8 || math.Abs(h.HeldOutMean-300) > 15 {
		t.Errorf("%+v", h)
	}
	if h := sample(100); !h.TooSmall {
		t.Errorf("ten held out are enough: %+v", h)
	}
	if s, err := Summarize([]Settlement{settlement("a", nil)}, Question{}); err != nil || s.HoldOut != nil {
		t.Errorf("nobody held out: %+v, %v", s.HoldOut, err)
	}
}

// TestUnplannedWorkIsStated: work that ran as submitted, held out or in Shadow mode, is in all sums; it is counted, and the share that the others saved is
// known without it.
func TestUnplannedWorkIsStated(t *testing.T) {
	asSubmitted := func(change func(*Submitted)) func(*Settlement) {
		return func(b *Settlement) {
			b.Grams, b.SavedGrams = b.Counterfactual.Grams, 0
			change(&b.Of)
		}
	}
	list := []Settlement{
		settlement("planned", nil),
		settlement("held out", asSubmitted(func(of *Submitted) { of.HeldOut = true })),
		settlement("shadow", asSubmitted(func(of *Submitted) { of.Shadow = true })),
		settlement("withheld", func(b *Settlement) { b.Of.HeldOut, b.Withheld, b.SavedGrams = true, "no intensities", 0 }),
	}
	s, err := Summarize(list, Question{By: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []*Totals{&s.All, &s.Groups[0]} {
		if all.Unplanned != 3 || !near(all.UnplannedKWh, 3) || !near(all.UnplannedAsSubmittedGrams, 600) || !near(all.UnplannedSavedGrams, 0) ||
			!near(all.SavedGrams, 200) || !near(all.AsSubmittedGrams, 900) || !near(all.Share(), 200./900) || !near(all.PlannedShare(), 200./300) {
			t.Errorf("%+v: shares %v and %v", all, all.Share(), all.PlannedShare())
		}
	}
	if h := s.HoldOut; h == nil || h.HeldOut != 1 || h.Planned != 1 {
		t.Errorf("%+v; want one held out beside one that Lull planned: work in Shadow mode is neither", h)
	}
}
