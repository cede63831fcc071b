package forecast

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

var monday = time.Date(2023, 1, 2, 0, 0, 0, 0, time.UTC)

// synthetic is a daily and a weekly season with a slow swing and seeded noise.
func synthetic(n int, noise float64) History {
	rng := rand.New(rand.NewPCG(1, 2))
	h := History{Start: monday, Step: time.Hour}
	swing := 0.0
	for i := range n {
		swing = 0.98*swing + noise*rng.NormFloat64()
		v := 300 + 80*math.Sin(2*math.Pi*float64(i%24)/24) + swing
		if i/24%7 >= 5 {
			v -= 60
		}
		h.Values = append(h.Values, math.Max(1, v))
	}
	return h
}

func learners() map[string]func() Model {
	return map[string]func() Model{
		"holt-winters": func() Model { return &HoltWinters{} },
		"ridge":        func() Model { return &Ridge{} },
		"blend":        func() Model { return NewBlend() },
	}
}

// TestSeasonsAreLearnt: without noise, a daily and weekly pattern is predicted
// closely, four days ahead and across a weekend.
func TestSeasonsAreLearnt(t *testing.T) {
	full := synthetic(30*7*24, 0)
	for name, m := range learners() {
		at := 28*7*24 + 4*24 // a Friday
		got := predict(t, m(), full.until(at), 96)
		off := 0.0
		for k, v := range got {
			off += math.Abs(v-full.Values[at+k]) / float64(len(got))
		}
		if off > 12 { // of a swing of 160 and a weekend of -60
			t.Errorf("%s: off by %.1f in the mean", name, off)
		}
	}
}

// TestMemoryChangesNothing: a model that followed the history slot by slot, one
// that is new, and one that saw another history before predict the same bytes;
// a revised value in the past is noticed.
func TestMemoryChangesNothing(t *testing.T) {
	h := synthetic(40*24, 8)
	h.Values[300], h.Values[555] = math.NaN(), math.NaN()
	revised := synthetic(40*24, 8)
	revised.Values[700] = 900
	for name, m := range learners() {
		t.Run(name, func(t *testing.T) {
			old := m()
			for n := 30 * 24; n <= len(h.Values); n += 5 {
				_ = old.Predict(h.until(n), make([]float64, 24))
			}
			if got, want := predict(t, old, h, 24), predict(t, m(), h, 24); !reflect.DeepEqual(got, want) {
				t.Errorf("followed: %v\nnew: %v", got, want)
			}
			if got, want := predict(t, old, revised, 24), predict(t, m(), revised, 24); !reflect.DeepEqual(got, want) {
				t.Errorf("after a revision: %v\nnew: %v", got, want)
			}
			if got, want := predict(t, old, revised, 30), predict(t, m(), revised, 30); !reflect.DeepEqual(got, want) {
				t.Errorf("longer: %v\nnew: %v", got, want)
			}
		})
	}
}

// TestScaleOfTheUnitDoesNotMatter: ten times the intensities, ten times the
// forecast; a zone of 20 g is predicted as well as one of 700.
func TestScaleOfTheUnitDoesNotMatter(t *testing.T) {
	h := synthetic(40*24, 8)
	small := h
	small.Values = nil
	for _, v := range h.Values {
		small.Values = append(small.Values, v/10)
	}
	for name, m := range learners() {
		big, little := predict(t, m(), h, 24), predict(t, m(), small, 24)
		for k := range big {
			if math.Abs(big[k]-10*little[k]) > 1e-6*big[k] {
				t.Errorf("%s, %d h ahead: %v and %v", name, k, big[k], little[k])
				break
			}
		}
	}
}

// TestOddHistoriesGiveFiniteForecasts: gaps, zeros, huge values, flat series and short ones never
// give anything but finite values of at least 0, or ErrHistory.
func TestOddHistoriesGiveFiniteForecasts(t *testing.T) {
	odd := map[string]History{"short": synthetic(30, 5), "two days": synthetic(48, 5), "month": synthetic(31*24, 30), "no value": {Start: monday, Step: time.Hour, Values: []float64{math.NaN()}}}
	flat, zero, gaps, huge, weeks := synthetic(31*24, 0), synthetic(31*24, 0), synthetic(31*24, 5), synthetic(31*24, 5), synthetic(31*24, 5)
	for i := range flat.Values {
		flat.Values[i], zero.Values[i] = 250, 0
		if i%3 != 0 || (i > 200 && i < 400) {
			gaps.Values[i] = math.NaN()
		}
		if i > 300 && i < 300+15*24 {
			weeks.Values[i] = math.NaN()
		}
	}
	huge.Values[333] = 1e12
	odd["flat"], odd["zero"], odd["gaps"], odd["huge"], odd["weeks of gaps"] = flat, zero, gaps, huge, weeks
	for name, m := range learners() {
		for kind, h := range odd {
			out := make([]float64, 48)
			if err := m().Predict(h, out); err != nil {
				if !errors.Is(err, ErrHistory) {
					t.Errorf("%s on %s: %v", name, kind, err)
				}
				continue
			}
			for k, v := range out {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Errorf("%s on %s, %d h ahead: %v", name, kind, k, v)
					break
				}
				if (kind == "flat" && math.Abs(v-250) > 1) || (kind == "zero" && v > 1e-6) {
					t.Errorf("%s on %s, %d h ahead: %v", name, kind, k, v)
					break
				}
			}
		}
	}
}

// TestRidgeUsesCovariates: where wind drives the intensity, knowing the wind of
// tomorrow makes the forecast far better.
func TestRidgeUsesCovariates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	h := synthetic(90*24, 0)
	wind := make([]float64, len(h.Values))
	for i := range wind {
		if i%24 == 0 {
			wind[i] = 10 * rng.Float64()
		} else {
			wind[i] = wind[i-1]
		}
		h.Values[i] -= 15 * wind[i]
	}
	blind, err := Backtest(&Ridge{}, h, 60*24, 24, 24, 6)
	if err != nil {
		t.Fatal(err)
	}
	h.Exogenous = [][]float64{wind}
	seeing, err := Backtest(&Ridge{}, h, 60*24, 24, 24, 6)
	if err != nil {
		t.Fatal(err)
	}
	// Covariates may come, and go again, while a model is in use.
	m := &Ridge{}
	for _, exogenous := range [][][]float64{nil, {wind}, {wind, wind}, nil} {
		h.Exogenous = exogenous
		if got, want := predict(t, m, h.until(80*24), 24), predict(t, &Ridge{}, h.until(80*24), 24); !reflect.DeepEqual(got, want) {
			t.Errorf("with %d covariates: %v, a new model %v", len(exogenous), got, want)
		}
	}
	if seeing.MAE > 0.3*blind.MAE {
		t.Errorf("mean absolute error %.2f with the wind, %.2f without", seeing.MAE, blind.MAE)
	}
}

// TestBlendFollowsSkill: among one model that is right and two that are wrong,
// the blend is as good as the right one, and its band is calibrated.
func TestBlendFollowsSkill(t *testing.T) {
	h := synthetic(120*24, 10)
	best := math.Inf(1)
	for _, m := range []Model{SeasonalNaive{Days: 1}, &HoltWinters{}, &Ridge{}} {
		s, err := Backtest(m, h, 60*24, 24, 1, 6)
		if err != nil {
			t.Fatal(err)
		}
		best = math.Min(best, s.MAE)
	}
	s, err := Backtest(NewBlend(), h, 60*24, 24, 1, 6)
	if err != nil {
		t.Fatal(err)
	}
	if s.MAE > 1.03*best {
		t.Errorf("blend %.2f, best member %.2f", s.MAE, best)
	}
	if s.Coverage < 0.72 || s.Coverage > 0.88 {
		t.Errorf("%.0f %% of the truth lies between the 10 %% and 90 %% quantiles", 100*s.Coverage)
	}
	m := NewBlend()
	b, err := m.Band(h, 96)
	if err != nil {
		t.Fatal(err)
	}
	if near, far := b.High[0]-b.Low[0], b.High[47]-b.Low[47]; far < 1.5*near {
		t.Errorf("the band does not grow: %.1f at once, %.1f two days ahead", near, far)
	}
	if mape, n := m.Accuracy(24); n == 0 || mape <= 0 || mape > 0.2 {
		t.Errorf("accuracy %v of %d", mape, n)
	}
}

// TestSameLocalTime: across a change of the clocks the same hour of the day is
// that of people's clocks.
func TestSameLocalTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for change, day := range map[string]time.Time{"23 hours": time.Date(2023, 3, 26, 0, 0, 0, 0, berlin), "25 hours": time.Date(2023, 10, 29, 0, 0, 0, 0, berlin)} {
		start := day.AddDate(0, 0, -9).UTC()
		h := History{Start: start, Step: time.Hour, Location: berlin}
		value := func(at time.Time) float64 { return float64(100 + at.In(berlin).Hour()) }
		issued := day.AddDate(0, 0, 1)
		for at := start; at.Before(issued); at = at.Add(time.Hour) {
			h.Values = append(h.Values, value(at))
		}
		for _, m := range []Model{SeasonalNaive{Days: 1}, SeasonalNaive{Days: 7}, DayWeighted{}} {
			for k, got := range predict(t, m, h, 24) {
				at := issued.Add(time.Duration(k) * time.Hour)
				if want := value(at); math.Abs(got-want) > 1e-9 && at.In(berlin).Hour() != 2 && at.In(berlin).Hour() != 3 {
					t.Errorf("%s, %#v, %s: %v, want %v", change, m, at.In(berlin), got, want)
				}
			}
		}
		// In UTC the same forecasts are an hour off.
		h.Location = nil
		if got, want := predict(t, SeasonalNaive{Days: 7}, h, 24)[12], value(issued.Add(12*time.Hour)); got == want {
			t.Errorf("%s: the test shows nothing", change)
		}
	}
}

// TestQuantilesMatchSortingByHand: quantiles of known ratios, against sorting by hand.
func TestQuantilesMatchSortingByHand(t *testing.T) {
	e := NewErrors(2)
	if _, _, ok := e.Ratios(0); ok {
		t.Error("quantiles of nothing")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var last []float64
	for range errorsKept + 500 {
		ratio := 0.5 + rng.Float64()
		e.Add(0, 200, 200*ratio)
		last = append(last, ratio)
	}
	e.Add(0, 0, 5)
	e.Add(0, 5, 0)
	e.Add(0, math.NaN(), 5)
	low, high, ok := e.Ratios(0)
	if !ok || math.Abs(low-0.6) > 0.03 || math.Abs(high-1.4) > 0.03 {
		t.Errorf("quantiles %v and %v, want about 0.6 and 1.4", low, high)
	}
	kept := last[len(last)-errorsKept:]
	slices.Sort(kept)
	for i, ratio := range kept {
		if math.Abs(e.leads[0].sorted[i]-ratio) > 1e-12 {
			t.Fatalf("error %d of those kept: %v, want %v", i, e.leads[0].sorted[i], ratio)
		}
	}
	b := NewErrors(2).Around([]float64{100, 100}, 1, Spread{0.2, 3})
	if b.Low[0] != 20 || b.High[1] != 300 {
		t.Errorf("band %v without past errors, want the stated spread", b)
	}
	if l, h, ok := e.Ratios(1); !ok || math.Abs(l-math.Pow(low, math.Sqrt2)) > 1e-9 || math.Abs(h-math.Pow(high, math.Sqrt2)) > 1e-9 {
		t.Errorf("a lead without errors of its own: %v and %v, want those of the one before, wider", l, h)
	}
	if mape, n := e.MAPE(1); n != errorsKept || mape < 0.2 || mape > 0.35 {
		t.Errorf("MAPE %v of %d", mape, n)
	}
}

func BenchmarkBlend(b *testing.B) {
	h := synthetic(60*24, 10)
	for _, leads := range []int{24, 96} {
		b.Run(fmt.Sprintf("days=60/leads=%d", leads), func(b *testing.B) {
			out := make([]float64, leads)
			for b.Loop() {
				if err := NewBlend().Predict(h, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestReadRecorded(t *testing.T) {
	const head = "issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n"
	got, err := ReadRecorded(strings.NewReader(head + "2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,-3,10\n2023-01-01T00:00:00Z,2023-01-01T01:00:00Z,12,\n2023-01-02T00:00:00Z,2023-01-02T00:00:00Z,5,6\n"))
	if err != nil || len(got) != 2 || got[0].Values[0] != 0 || !math.IsNaN(got[0].Actual[1]) || got[0].Step != time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
	for want, text := range map[string]string{
		`header: "a,b,c,d"; accept`:         "a,b,c,d\n",
		"header: it is empty; accepted: is": "",
		"no rows":                           head,
		"line 2":                            head + "x,2023-01-01T00:00:00Z,1,1\n",
		"accepted: finite":                  head + "2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,NaN,1\n",
		"is not after":                      head + "2023-01-02T00:00:00Z,2023-01-02T00:00:00Z,1,1\n2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,1,1\n",
		"line 3: time 2023-01-02T01":        head + "2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,1,1\n2023-01-02T00:00:00Z,2023-01-02T01:00:00Z,1,1\n",
		"line 2: time 2022-12-31T23":        head + "2023-01-01T00:00:00Z,2022-12-31T23:00:00Z,1,1\n",
		"line 5: time 2023-01-01T02":        head + "2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,1,1\n2023-01-01T00:00:00Z,2023-01-01T01:00:00Z,1,1\n2023-01-01T02:00:00Z,2023-01-01T02:00:00Z,1,1\n2023-01-01T02:00:00Z,2023-01-01T02:30:00Z,1,1\n",
		"does not lie a step af":            head + "2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,1,1\n2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,1,1\n",
	} {
		if _, err := ReadRecorded(strings.NewReader(text)); !errors.Is(err, ErrRecorded) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrRecorded with %q, got %v", want, err)
		}
	}
}

// TestActualsOnOneGrid: what lies between the steps of the first forecast is an error, not moved.
func TestActualsOnOneGrid(t *testing.T) {
	at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	issued := func(after, step time.Duration) Issued {
		return Issued{At: at.Add(after), Step: step, Values: []float64{1, 1}, Actual: []float64{1, 1}}
	}
	for name, list := range map[string][]Issued{
		"none":         nil,
		"half a step":  {issued(0, time.Hour), issued(90*time.Minute, time.Hour)},
		"another step": {issued(0, time.Hour), issued(2*time.Hour, time.Hour/2)},
		"before":       {issued(0, time.Hour), issued(-time.Hour, time.Hour), issued(time.Hour, time.Hour)},
	} {
		if _, err := Actuals(list); !errors.Is(err, ErrRecorded) {
			t.Errorf("%s: %v; want ErrRecorded", name, err)
		}
	}
	later := issued(time.Hour, time.Hour)
	later.Actual[0] = math.NaN()
	if h, err := Actuals([]Issued{issued(0, time.Hour), later}); err != nil || len(h.Values) != 3 || h.Values[1] != 1 {
		t.Errorf("a value that only the earlier forecast knows: %+v, %v", h, err)
	}
	if h, err := Actuals([]Issued{issued(0, time.Hour), issued(3*time.Hour, time.Hour)}); err != nil || len(h.Values) != 5 || !math.IsNaN(h.Values[2]) || h.Values[3] != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

func FuzzReadRecorded(f *testing.F) {
	f.Add("issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n2023-01-01T00:00:00Z,2023-01-01T00:00:00Z,-3,10\n2023-01-01T00:00:00Z,2023-01-01T01:00:00Z,12,\n2023-01-02T00:00:00Z,2023-01-02T00:00:00Z,5,6\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadRecorded(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrRecorded) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		for _, x := range got {
			if len(x.Values) == 0 || len(x.Values) != len(x.Actual) {
				t.Fatalf("%+v", x)
			}
		}
		if h, err := Actuals(got); err == nil && len(h.Values) > 0 {
			_, _ = BacktestRecorded(got, 2, 1)
		}
	})
}
