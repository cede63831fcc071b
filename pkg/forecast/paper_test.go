package forecast

import (
	"errors"
	"math"
	"testing"
	"time"
)

func predict(t *testing.T, m Model, h History, n int) []float64 {
	t.Helper()
	out := make([]float64, n)
	if err := m.Predict(h, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func hourly(values ...float64) History { return History{Step: time.Hour, Values: values} }

// days builds hourly values: value(day, hour).
func days(n int, value func(day, hour int) float64) History {
	h := History{Step: time.Hour}
	for d := range n {
		for hour := range 24 {
			h.Values = append(h.Values, value(d, hour))
		}
	}
	return h
}

// Piontek et al., Eq. 8, worked by hand: n = 3, P = 10, 20, 60 (latest last):
// (3*60 + 2*20 + 1*10) / 6 = 230/6.
func TestMovingAverageIsEquation8(t *testing.T) {
	got := predict(t, MovingAverage{N: 3}, hourly(999, 10, 20, 60), 2)
	if want := 230.0 / 6; math.Abs(got[0]-want) > 1e-12 || got[1] != got[0] {
		t.Errorf("forecast %v, want %v throughout", got, want)
	}
	// A gap carries no weight: (3*60 + 1*10) / 4.
	if got := predict(t, MovingAverage{N: 3}, hourly(10, math.NaN(), 60), 1); math.Abs(got[0]-47.5) > 1e-12 {
		t.Errorf("with a gap %v, want 47.5", got[0])
	}
}

// "We weigh the current day as 40% of the final value, while the preceding and
// following days are weighted 20%, and 10% for the next and previous days."
func TestCentredWeights(t *testing.T) {
	h := days(5, func(day, _ int) float64 { return []float64{100, 200, 400, 300, 500}[day] })
	got := Centred(h.Values, 24)
	if want := 0.4*400 + 0.2*(200+300) + 0.1*(100+500); math.Abs(got[2*24+7]-want) > 1e-9 {
		t.Errorf("middle day %v, want %v", got[2*24+7], want)
	}
	// The first day has no days before: the weights that remain are 0.4, 0.2, 0.1.
	if want := (0.4*100 + 0.2*200 + 0.1*400) / 0.7; math.Abs(got[3]-want) > 1e-9 {
		t.Errorf("first day %v, want %v", got[3], want)
	}
}

// The form for live use sees only the past.
func TestDayWeightedUsesThePastOnly(t *testing.T) {
	h := days(4, func(day, hour int) float64 { return float64(100*(day+1) + hour) })
	got := predict(t, DayWeighted{}, h, 30)
	for i, v := range got {
		hour := float64(i % 24)
		if want := (0.4*400+0.2*300+0.1*200)/0.7 + hour; math.Abs(v-want) > 1e-9 {
			t.Fatalf("slot %d: %v, want %v", i, v, want)
		}
	}
}

func TestNaiveModels(t *testing.T) {
	h := days(8, func(day, hour int) float64 { return float64(1000*day + hour) })
	for i, v := range predict(t, Persistence{}, h, 5) {
		if v != 7023 {
			t.Errorf("persistence, slot %d: %v", i, v)
		}
	}
	if got := predict(t, SeasonalNaive{Days: 1}, h, 30); got[3] != 7003 || got[27] != 7003 {
		t.Errorf("day before: %v and %v, want 7003", got[3], got[27])
	}
	if got := predict(t, SeasonalNaive{Days: 7}, h, 30); got[3] != 1003 || got[27] != 2003 {
		t.Errorf("week before: %v and %v, want 1003 and 2003", got[3], got[27])
	}
	h.Values[7*24+3] = math.NaN()
	if got := predict(t, SeasonalNaive{Days: 1}, h, 4); got[3] != 6003 {
		t.Errorf("a gap is filled with %v, want the day before it, 6003", got[3])
	}
}

func TestTooLittleHistory(t *testing.T) {
	gaps := hourly(math.NaN(), math.NaN())
	for name, m := range map[string]Model{
		"persistence": Persistence{}, "seasonal": SeasonalNaive{Days: 1}, "average": MovingAverage{}, "days": DayWeighted{},
	} {
		for _, h := range []History{hourly(), gaps} {
			if err := m.Predict(h, make([]float64, 3)); !errors.Is(err, ErrHistory) {
				t.Errorf("%s on %v: error %v, want ErrHistory", name, h.Values, err)
			}
		}
	}
	odd := History{Step: 7 * time.Minute, Values: []float64{1, 2}}
	if err := (SeasonalNaive{}).Predict(odd, make([]float64, 1)); err == nil || errors.Is(err, ErrHistory) {
		t.Errorf("a step of 7 minutes: error %v", err)
	}
}

// TestBacktestScoresKnownModels: a perfect model has no error, full rank correlation and no
// regret; one that has the level wrong but the order right has no regret either.
func TestBacktestScoresKnownModels(t *testing.T) {
	shape := func(_, hour int) float64 { return 300 + 100*math.Sin(float64(hour)/24*2*math.Pi) }
	h := days(20, shape)
	s, err := Backtest(SeasonalNaive{Days: 1}, h, 10*24, 24, 1, 6)
	if err != nil {
		t.Fatal(err)
	}
	if s.MAPE > 1e-12 || s.MAE > 1e-9 || s.Regret > 1e-12 || s.Rank < 1-1e-12 || s.Skipped != 0 || s.Forecasts != 9*24+1 {
		t.Errorf("a periodic series is not predicted perfectly: %+v", s)
	}
	if s.RegretAgnostic < 0.1 {
		t.Errorf("starting at once costs %v, expected much more", s.RegretAgnostic)
	}
	flat, err := Backtest(Persistence{}, h, 10*24, 24, 24, 6)
	if err != nil {
		t.Fatal(err)
	}
	if flat.Rank != 0 || math.Abs(flat.Regret-flat.RegretAgnostic) > 1e-12 {
		t.Errorf("a flat forecast is as good as none: %+v", flat)
	}
	h.Values[15*24] = math.NaN()
	if s, err = Backtest(SeasonalNaive{Days: 1}, h, 10*24, 24, 1, 6); err != nil || s.Skipped != 24 {
		t.Errorf("a gap in the truth skips %d forecasts (%v), want the 24 that contain it", s.Skipped, err)
	}
	for _, bad := range [][4]int{{0, 24, 1, 6}, {10, 1, 1, 1}, {10, 24, 0, 6}, {10, 24, 1, 25}, {470, 24, 1, 6}} {
		if _, err := Backtest(Persistence{}, h, bad[0], bad[1], bad[2], bad[3]); err == nil {
			t.Errorf("parameters %v were accepted", bad)
		}
	}
}

// TestSpearman compares with values worked by hand.
func TestSpearman(t *testing.T) {
	for _, tc := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1}, {[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 3, 2, 4}, 0.8}, {[]float64{5, 5, 5}, []float64{1, 2, 3}, 0},
		{[]float64{1, 1, 2}, []float64{1, 2, 3}, math.Sqrt(0.75)},
	} {
		if got := spearman(tc.a, tc.b); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("spearman(%v, %v) = %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

// BenchmarkYear issues a day-ahead forecast every hour of a year (the paper's
// prototype takes about 200 ms for its year).
func BenchmarkYear(b *testing.B) {
	h := days(366+3, func(day, hour int) float64 { return float64(100 + (day*7+hour*13)%300) })
	for name, m := range map[string]Model{"average": MovingAverage{N: 24}, "days": DayWeighted{}} {
		b.Run("model="+name, func(b *testing.B) {
			out := make([]float64, 1)
			for b.Loop() {
				for at := 72; at < 72+8760; at++ {
					if err := m.Predict(History{Step: h.Step, Values: h.Values[:at]}, out); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
