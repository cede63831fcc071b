package forecast

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// weatherYear is days of hourly intensities that wind, sun and cold drive.
func weatherYear(days int) History {
	rng := rand.New(rand.NewPCG(5, 6))
	h := History{Start: monday, Step: hourly().Step, Weather: &Weather{Generation: make([][]float64, 3)}}
	wind, cold := 5.0, 0.0
	for i := range days * 24 {
		wind = math.Max(0, wind+0.1*(5-wind)+0.6*rng.NormFloat64())
		cold = 0.99*cold + 0.3*rng.NormFloat64()
		sun := math.Max(0, 600*math.Sin(2*math.Pi*float64(i%24-6)/24))
		temperature := 10 - 10*math.Cos(2*math.Pi*float64(i)/8766) + cold
		w := h.Weather
		w.Wind, w.Temperature = append(w.Wind, wind), append(w.Temperature, temperature)
		w.DewPoint, w.Irradiance = append(w.DewPoint, temperature-3), append(w.Irradiance, sun)
		v := 500 - 30*wind - 0.2*sun + 3*math.Max(0, 15-temperature) + 5*rng.NormFloat64()
		h.Values = append(h.Values, math.Max(20, v))
		for j := range w.Generation {
			w.Generation[j] = append(w.Generation[j], 1000+50*wind*float64(j)+10*rng.NormFloat64())
		}
	}
	return h
}

// copyWeather is a copy that a test may change.
func copyWeather(w *Weather) *Weather {
	out := &Weather{Horizon: w.Horizon, Wind: slices.Clone(w.Wind), Temperature: slices.Clone(w.Temperature), DewPoint: slices.Clone(w.DewPoint), Irradiance: slices.Clone(w.Irradiance)}
	for _, g := range w.Generation {
		out.Generation = append(out.Generation, slices.Clone(g))
	}
	return out
}

func weatherModels() map[string]func() Model {
	return map[string]func() Model{
		"ridge": func() Model { return &WeatherRidge{} },
		"blend": func() Model { return NewBlend() },
	}
}

// TestWeatherIsUsed: where weather drives the intensity, knowing it takes 40 % off the error of
// forecasts four days ahead, with all features and with the few of the first months.
func TestWeatherIsUsed(t *testing.T) {
	full := weatherYear(320)
	for _, start := range []int{120, 300} {
		blind := full.until((start + 18) * 24)
		seeing := blind
		blind.Weather = nil
		score := func(m Model, h History) float64 {
			s, err := Backtest(m, h, start*24, 96, 24, 6)
			if err != nil {
				t.Fatal(err)
			}
			return s.MAE
		}
		without := score(NewBlend(), blind)
		for name, m := range weatherModels() {
			if with := score(m(), seeing); with > 0.6*without {
				t.Errorf("%s from day %d: mean absolute error %.1f with weather, %.1f without", name, start, with, without)
			}
		}
	}
}

// TestWeatherOfTheFutureIsNotSeen: weather beyond the horizon and generation after the
// issue do not count; weather within the horizon does.
func TestWeatherOfTheFutureIsNotSeen(t *testing.T) {
	h := weatherYear(130)
	const n = 120 * 24
	h.Weather.Horizon = 48
	for name, m := range weatherModels() {
		want := predict(t, m(), h.until(n), 96)
		for _, tc := range []struct {
			from int
			seen bool
		}{{n + 48, false}, {n + 30, true}} {
			other := h
			other.Weather = copyWeather(h.Weather)
			for _, g := range other.Weather.Generation {
				for i := n; i < len(g); i++ {
					g[i] = 7
				}
			}
			for i := tc.from; i < len(h.Values); i++ {
				other.Weather.Wind[i], other.Weather.Temperature[i], other.Weather.Irradiance[i], other.Weather.DewPoint[i] = 30, -20, 1000, 20
			}
			if got := predict(t, m(), other.until(n), 96); reflect.DeepEqual(got, want) == tc.seen {
				t.Errorf("%s: weather from %d h ahead: seen %v, want %v", name, tc.from-n, !tc.seen, tc.seen)
			}
		}
	}
}

// TestWeatherMemoryChangesNothing: models that followed a history day by day predict the
// same bytes as new ones, also after a revision, and when weather comes and goes.
func TestWeatherMemoryChangesNothing(t *testing.T) {
	h := weatherYear(125)
	h.Values[300], h.Values[2555] = math.NaN(), math.NaN()
	revised, blind := h, h
	revised.Values = slices.Clone(h.Values)
	revised.Values[700] = 900
	blind.Weather = nil
	for name, m := range weatherModels() {
		old := m()
		for n := 100 * 24; n <= 120*24; n += 12 {
			_ = old.Predict(h.until(n), make([]float64, 30))
		}
		for _, tc := range []struct {
			what   string
			h      History
			n, out int
		}{{"followed", h, 120 * 24, 30}, {"revised", revised, 120 * 24, 30}, {"longer", revised, 120 * 24, 48}, {"without weather", blind, 120 * 24, 48}, {"with it again", h, 121*24 + 5, 48}} {
			got, want := make([]float64, tc.out), make([]float64, tc.out)
			err, wantErr := old.Predict(tc.h.until(tc.n), got), m().Predict(tc.h.until(tc.n), want)
			if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v (%v)\nnew: %v (%v)", name, tc.what, got, err, want, wantErr)
			}
		}
	}
}

// TestBlendWithoutWeather: weather of which nothing is known changes no bit.
func TestBlendWithoutWeather(t *testing.T) {
	h := synthetic(40*24, 8)
	want, err := NewBlend().Band(h, 48)
	if err != nil {
		t.Fatal(err)
	}
	h.Weather = &Weather{Horizon: 3, Generation: [][]float64{nans(40 * 24)}}
	if got, err := NewBlend().Band(h, 48); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestOddWeather: gaps, missing columns, columns that end early, and constant or absurd
// weather never give anything but finite values of at least 0.
func TestOddWeather(t *testing.T) {
	h := weatherYear(100)
	const n = 96 * 24
	odd := map[string]func(*Weather){
		"gaps":          func(w *Weather) { gap(w.Wind, 0, 500); gap(w.Irradiance, 900, 1700); gap(w.Generation[1], 2000, n) },
		"unknown now":   func(w *Weather) { gap(w.Wind, n-40*24, len(w.Wind)); gap(w.Generation[0], n-40*24, n) },
		"unknown first": func(w *Weather) { gap(w.Temperature, 0, n-10*24) },
		"none":          func(w *Weather) { gap(w.Wind, 0, len(w.Wind)) },
		"wind alone":    func(w *Weather) { *w = Weather{Wind: w.Wind} },
		"cold alone":    func(w *Weather) { *w = Weather{Temperature: w.Temperature} },
		"ends early":    func(w *Weather) { w.Wind, w.Irradiance = w.Wind[:n-100], w.Irradiance[:5] },
		"constant":      func(w *Weather) { fill(w.Wind, 3); fill(w.Irradiance, 0) },
		"absurd":        func(w *Weather) { w.Wind[n+3], w.Temperature[n+4], w.Irradiance[500] = 150, -90, 2000 },
		"no horizon":    func(w *Weather) { w.Horizon = 1 },
	}
	for kind, change := range odd {
		other := h
		other.Weather = copyWeather(h.Weather)
		change(other.Weather)
		for name, m := range weatherModels() {
			if name == "blend" && kind != "unknown now" && kind != "absurd" {
				continue // it takes the ridge's forecast as it is
			}
			for i, v := range predict(t, m(), other.until(n), 96) {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v > 2000 {
					t.Errorf("%s, %s, %d h ahead: %v", name, kind, i, v)
					break
				}
			}
		}
	}
	for kind, values := range map[string][]float64{"zero": make([]float64, n), "unknown for a month": append(slices.Clone(h.Values[:n-30*24]), nans(30*24)...), "short": h.Values[:50*24]} {
		other := h
		other.Values = values
		out := make([]float64, 24)
		if err := (&WeatherRidge{}).Predict(other, out); err != nil && !errors.Is(err, ErrHistory) || err == nil && slices.ContainsFunc(out, func(v float64) bool { return !(v >= 0 && v < 1000) }) {
			t.Errorf("%s: %v, %v", kind, out, err)
		}
	}
}

func gap(v []float64, from, to int) { copy(v[from:to], nans(to-from)) }

func fill(v []float64, x float64) {
	for i := range v {
		v[i] = x
	}
}

// TestRidgeFitIsOptimal: at the coefficients of a fit, the gradient of what it minimises
// is zero. Columns that do not vary, and values that are unknown, count as nothing.
func TestRidgeFitIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const n, p, lambda = 60, 7, 3.0
	var s sample
	for range n {
		row := make([]float64, p)
		for j := range row {
			row[j] = rng.NormFloat64() * math.Pow(10, float64(j-2))
		}
		row[5] = 4
		if rng.IntN(5) == 0 {
			row[6] = math.NaN()
		}
		s.x = append(s.x, row...)
		s.y = append(s.y, 3+row[1]-0.2*row[3]+rng.NormFloat64())
		s.w = append(s.w, 0.2+rng.Float64())
	}
	l := s.fit(lambda)
	if l.b[5] != 0 {
		t.Errorf("a constant has coefficient %v", l.b[5])
	}
	l.low, l.high = math.Inf(-1), math.Inf(1)
	for j := range p {
		gradient := -lambda * l.b[j]
		for i, y := range s.y {
			row := s.x[i*p : (i+1)*p]
			gradient += s.w[i] * standard(row[j], l.mean[j], l.inverse[j]) * (y - l.predict(row))
		}
		if math.Abs(gradient) > 1e-9 {
			t.Errorf("gradient %d is %v", j, gradient)
		}
	}
}

// BenchmarkWeatherRidge fits a year, and forecasts four days with what was fitted.
func BenchmarkWeatherRidge(b *testing.B) {
	h := weatherYear(370)
	out := make([]float64, 96)
	past := h.until(364 * 24)
	for _, m := range []*WeatherRidge{nil, {}} {
		name := "fit"
		if m != nil {
			name = "predict"
		}
		b.Run(name+"/days=364/leads=96", func(b *testing.B) {
			for b.Loop() {
				model := m
				if m == nil {
					model = &WeatherRidge{}
				}
				if err := model.Predict(past, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestPathsCoverSums: of the sums of 6 h of what came, about 80 % lie between the 10 % and
// the 90 % quantiles of those of the paths, as of the hours.
func TestPathsCoverSums(t *testing.T) {
	h := weatherYear(190)
	s, covered := backtestSums(t, NewBlend(), h.until(170*24), 120*24)
	if covered < 0.68 || covered > 0.92 || s.Coverage < 0.68 || s.Coverage > 0.92 {
		t.Errorf("%.0f %% of sums, %.0f %% of hours", 100*covered, 100*s.Coverage)
	}
	blind := h.until(170 * 24)
	blind.Weather = nil
	if s, covered := backtestSums(t, NewBlend(), blind, 120*24); covered < 0.68 || covered > 0.92 || s.Coverage < 0.68 || s.Coverage > 0.92 {
		t.Errorf("without weather: %.0f %% of sums, %.0f %% of hours", 100*covered, 100*s.Coverage)
	}
	if _, err := NewBlend().Paths(blind.until(13*24), 24); !errors.Is(err, ErrHistory) {
		t.Errorf("after 13 days: error %v, want ErrHistory", err)
	}
}

// TestPathsWithoutWeatherAreOfPastErrors: each path is the forecast times what came over what was forecast on one of the last days.
func TestPathsWithoutWeatherAreOfPastErrors(t *testing.T) {
	h := weatherYear(100)
	h.Weather = nil
	const leads = 48
	m := NewBlend()
	paths, err := m.Paths(h, leads)
	if err != nil {
		t.Fatal(err)
	}
	now := make([]float64, leads)
	if err := m.Predict(h, now); err != nil {
		t.Fatal(err)
	}
	if want := mixDays - 1; len(paths) != want { // the forecast of the last day has not ended
		t.Fatalf("%d paths, want %d", len(paths), want)
	}
	for i, path := range paths {
		at := len(h.Values) - (mixDays-i)*24
		then := make([]float64, leads)
		if err := NewBlend().Predict(h.until(at), then); err != nil {
			t.Fatal(err)
		}
		for k := range path {
			if want := now[k] * h.Values[at+k] / then[k]; math.Abs(path[k]-want) > 1e-6*want {
				t.Fatalf("path %d, lead %d: %v, want %v", i, k, path[k], want)
			}
		}
	}
	gap := h.since(0)
	gap.Values = slices.Clone(gap.Values)
	gap.Values[len(gap.Values)-30*24] = math.NaN() // the forecasts that reach over it are left out
	if paths, err := NewBlend().Paths(gap, leads); err != nil || len(paths) != mixDays-1-2 {
		t.Errorf("%d paths (%v) with a gap, want %d", len(paths), err, mixDays-3)
	}
}

// TestPathsAreOfTheirForecast: paths that are asked for while others predict fewer slots have as many slots as were asked for.
func TestPathsAreOfTheirForecast(t *testing.T) {
	h := weatherYear(100)
	m := NewBlend()
	want, err := m.Paths(h, 30)
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		others.Go(func() {
			for out := make([]float64, 3); ; {
				select {
				case <-done:
					return
				default:
					_ = m.Predict(h, out)
				}
			}
		})
	}
	defer others.Wait()
	defer close(done)
	for range 50 {
		got, err := m.Paths(h, 30)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%d paths (%v), want %d", len(got), err, len(want))
		}
	}
}

// TestWindow: the other models learn from the last days of a long history alone, as if there were no more, and the regression
// with weather from all of it.
func TestWindow(t *testing.T) {
	h := weatherYear(170)
	windowed := func(n int) *Blend {
		m := NewBlend()
		m.Window = n
		return m
	}
	blind := h.until(165 * 24)
	blind.Weather = nil
	short := blind
	short.Start, short.Values = h.Start.AddDate(0, 0, 60), blind.Values[60*24:]
	if got, want := predict(t, windowed(90), blind, 48), predict(t, NewBlend(), short, 48); !reflect.DeepEqual(got, want) {
		t.Errorf("of a window: %v\nof the last days: %v", got[:5], want[:5])
	}
	if got, want := predict(t, windowed(200), h.until(165*24), 48), predict(t, NewBlend(), h.until(165*24), 48); !reflect.DeepEqual(got, want) {
		t.Errorf("of a window longer than the history: %v\nof none: %v", got[:5], want[:5])
	}
	followed := windowed(90)
	for n := 115 * 24; n <= 160*24; n += 12 {
		_ = followed.Predict(h.until(n), make([]float64, 48))
	}
	if got, want := predict(t, followed, h.until(165*24), 48), predict(t, windowed(90), h.until(165*24), 48); !reflect.DeepEqual(got, want) {
		t.Errorf("followed: %v\nnew: %v", got[:5], want[:5])
	}
	score := func(m *Blend, h History, start int) float64 {
		s, err := Backtest(m, h, start, 96, 24, 6)
		if err != nil {
			t.Fatal(err)
		}
		return s.MAE
	}
	long := h.until(170 * 24)
	all, some := score(NewBlend(), long, 155*24), score(windowed(60), long, 155*24)
	if some > 1.1*all {
		t.Errorf("mean absolute error %.2f with a window, %.2f without", some, all)
	}
}
