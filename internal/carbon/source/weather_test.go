package source

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// hoursOfWeather is n hours of weather from a start, with wind from first upwards.
func hoursOfWeather(start time.Time, first, n int) provider.Weather {
	w := provider.Weather{Start: start, Wind: make([]float64, n), Temperature: make([]float64, n), Irradiance: make([]float64, n)}
	for i := range w.Wind {
		w.Wind[i] = float64(first + i)
	}
	return w
}

// TestWeatherIsKept: newer weather stands over older, and older hours stay, up to as many as
// the own forecast learns from. Weather after a gap begins anew.
func TestWeatherIsKept(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	joined := joinWeather(hoursOfWeather(start, 0, 100), hoursOfWeather(start.Add(24*time.Hour), 1000, 100))
	if !joined.Start.Equal(start) || len(joined.Wind) != 124 || len(joined.Temperature) != 124 || joined.Wind[23] != 23 || joined.Wind[24] != 1000 {
		t.Errorf("joined: %v, %d hours, %v", joined.Start, len(joined.Wind), joined.Wind[20:30])
	}
	later := hoursOfWeather(start.Add(200*time.Hour), 0, 10)
	if got := joinWeather(joined, later); !got.Start.Equal(later.Start) || len(got.Wind) != 10 {
		t.Errorf("after a gap: %v, %d hours", got.Start, len(got.Wind))
	}
	long := joinWeather(hoursOfWeather(start, 0, learnAtMost+500), hoursOfWeather(start.Add((learnAtMost+200)*time.Hour), 0, 10))
	if len(long.Wind) != learnAtMost+10 || long.Wind[0] != 200 {
		t.Errorf("long: %d hours from %v", len(long.Wind), long.Wind[0])
	}
}

// TestOwnForecastKnowsTheWeather: a zone whose intensity follows the wind is forecast three
// days ahead from the wind to come, which without weather nobody can know.
func TestOwnForecastKnowsTheWeather(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const past, all = 85 * 24, 92 * 24
	rng := rand.New(rand.NewPCG(1, 2))
	w := hoursOfWeather(start, 0, all)
	wind := 5.0
	for i := range w.Wind {
		wind = math.Min(16, math.Max(0, wind+0.1*(5-wind)+0.6*rng.NormFloat64()))
		w.Wind[i] = wind
	}
	intensity := func(i int) float64 { return 500 - 25*w.Wind[i] }
	var history []carbon.Sample
	for i := range past {
		at := start.Add(time.Duration(i) * time.Hour)
		history = append(history, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(intensity(i))})
	}
	off := func(weather provider.Weather) float64 {
		f := newFeed(Config{Zone: "DE"}, nil, "")
		series, err := carbon.NewSeries(carbon.Provenance{Zone: "DE"}, slices.Clone(history))
		if err != nil {
			t.Fatal(err)
		}
		f.series, f.weather = series, weather
		pieces := f.ownPieces()
		if len(pieces) != ownLeads {
			t.Fatalf("%d hours of forecast", len(pieces))
		}
		sum := 0.0
		for i, p := range pieces[48:72] {
			sum += math.Abs(float64(p.Value)-intensity(past+48+i)) / 24
		}
		return sum
	}
	if with, without := off(w), off(provider.Weather{}); with > 0.5*without {
		t.Errorf("off by %.1f with weather, %.1f without", with, without)
	}
}
