package carbon

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

var t0 = time.Date(2023, 11, 14, 11, 0, 0, 0, time.UTC)

// hourly builds a series of one sample an hour; NaN leaves a gap.
func hourly(t *testing.T, values ...float64) *Series {
	t.Helper()
	var samples []Sample
	for i, v := range values {
		if !math.IsNaN(v) {
			from := t0.Add(time.Duration(i) * time.Hour)
			samples = append(samples, Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(v)})
		}
	}
	s, err := NewSeries(Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSeriesRejects(t *testing.T) {
	at := func(h int) time.Time { return t0.Add(time.Duration(h) * time.Hour) }
	for name, samples := range map[string][]Sample{
		"NaN":       {{From: at(0), To: at(1), Value: units.CarbonIntensity(math.NaN())}},
		"infinite":  {{From: at(0), To: at(1), Value: units.CarbonIntensity(math.Inf(1))}},
		"negative":  {{From: at(0), To: at(1), Value: -0.1}},
		"empty":     {{From: at(0), To: at(0), Value: 1}},
		"reversed":  {{From: at(1), To: at(0), Value: 1}},
		"unsorted":  {{From: at(1), To: at(2), Value: 1}, {From: at(0), To: at(1), Value: 1}},
		"overlap":   {{From: at(0), To: at(2), Value: 1}, {From: at(1), To: at(3), Value: 1}},
		"duplicate": {{From: at(0), To: at(1), Value: 1}, {From: at(0), To: at(1), Value: 1}},
	} {
		if _, err := NewSeries(Provenance{}, samples); !errors.Is(err, ErrSeries) {
			t.Errorf("%s: error %v, want ErrSeries", name, err)
		}
	}
}

func TestEmptySeriesHasNothing(t *testing.T) {
	s := hourly(t)
	if _, ok := s.At(t0); ok {
		t.Error("At found a sample")
	}
	if _, covered := s.Mean(t0, t0.Add(time.Hour)); covered != 0 {
		t.Errorf("Mean covers %v", covered)
	}
	if _, ok := FillSlots(s, timegrid.Grid{Start: t0, Slot: time.Hour, N: 3}); ok {
		t.Error("FillSlots invented an intensity")
	}
	if _, ok := FillSlots(nil, timegrid.Grid{Start: t0, Slot: time.Hour, N: 3}); ok {
		t.Error("FillSlots invented an intensity from no series")
	}
	if !s.Start().IsZero() || !s.End().IsZero() {
		t.Error("an empty series has a start or an end")
	}
}

func TestGapsAreExplicit(t *testing.T) {
	nan := math.NaN()
	s := hourly(t, 100, nan, nan, 200, 300, nan, 400)
	if _, ok := s.At(t0.Add(90 * time.Minute)); ok {
		t.Error("At found a sample in a gap")
	}
	if x, ok := s.At(t0.Add(4 * time.Hour)); !ok || x.Value != 300 {
		t.Errorf("At(4h) = %v, %v; intervals are half-open, want 300", x.Value, ok)
	}
	gaps := s.Gaps(t0.Add(-time.Hour), t0.Add(8*time.Hour))
	want := []Interval{
		{t0.Add(-time.Hour), t0}, {t0.Add(1 * time.Hour), t0.Add(3 * time.Hour)},
		{t0.Add(5 * time.Hour), t0.Add(6 * time.Hour)}, {t0.Add(7 * time.Hour), t0.Add(8 * time.Hour)},
	}
	if len(gaps) != len(want) {
		t.Fatalf("gaps %v, want %v", gaps, want)
	}
	for i := range want {
		if gaps[i] != want[i] {
			t.Errorf("gap %d = %v, want %v", i, gaps[i], want[i])
		}
	}
	mean, covered := s.Mean(t0, t0.Add(7*time.Hour))
	if mean != 250 || covered != 4*time.Hour {
		t.Errorf("mean %v over %v; want 250 over the 4 h that have samples", mean, covered)
	}
	values, missing := s.OnGrid(timegrid.Grid{Start: t0, Slot: time.Hour, N: 8})
	if len(missing) != 4 || missing[0] != 1 || missing[3] != 7 || values[3] != 200 {
		t.Errorf("OnGrid values %v, missing %v", values, missing)
	}
}

func TestFillTakesTheDayBeforeThenTheMean(t *testing.T) {
	var values []float64
	for h := range 24 {
		values = append(values, float64(100+h))
	}
	s := hourly(t, values...)
	filled, ok := FillSlots(s, timegrid.Grid{Start: t0, Slot: time.Hour, N: 50})
	if !ok {
		t.Fatal("nothing filled")
	}
	if len(filled.Filled) != 26 {
		t.Errorf("%d slots filled, want 26", len(filled.Filled))
	}
	for _, slot := range []int{24, 30, 49} {
		if filled.Values[slot] != values[slot%24] || filled.Filled[slot] != FillDayBefore {
			t.Errorf("slot %d = %v (%s), want %v of the day before", slot, filled.Values[slot], filled.Filled[slot], values[slot%24])
		}
	}
	short := hourly(t, 100, 300)
	filled, _ = FillSlots(short, timegrid.Grid{Start: t0, Slot: time.Hour, N: 4})
	if filled.Values[2] != 200 || filled.Filled[2] != FillMean {
		t.Errorf("slot 2 = %v (%s), want the mean 200", filled.Values[2], filled.Filled[2])
	}
}

// TestMeanAgainstBruteForce compares the prefix sums with a loop over minutes.
// TestMeanOfEqualSamples: wherever a slot lies within equal samples, after whatever came before
// them, its mean is their value to the last bit.
func TestMeanOfEqualSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		value := rng.Float64() * 900
		values := make([]float64, 40)
		for i := range values {
			if values[i] = value; i < 20 {
				values[i] = rng.Float64() * 900
			}
		}
		s := hourly(t, values...)
		from := t0.Add(20*time.Hour + time.Duration(rng.Int64N(int64(15*time.Hour))))
		to := from.Add(1 + time.Duration(rng.Int64N(int64(4*time.Hour))))
		if got, covered := s.Mean(from, to); float64(got) != value || covered != to.Sub(from) {
			t.Fatalf("[%v, %v): %v over %v, want %v", from, to, got, covered, value)
		}
	}
}

func TestMeanAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		values := make([]float64, 30)
		for i := range values {
			values[i] = math.Round(rng.Float64() * 500)
			if rng.IntN(4) == 0 {
				values[i] = math.NaN()
			}
		}
		s := hourly(t, values...)
		from := t0.Add(time.Duration(rng.IntN(2000)-60) * time.Minute)
		to := from.Add(time.Duration(rng.IntN(900)) * time.Minute)
		sum, n := 0.0, 0
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			if x, ok := s.At(at); ok {
				sum += float64(x.Value)
				n++
			}
		}
		mean, covered := s.Mean(from, to)
		if covered != time.Duration(n)*time.Minute {
			t.Fatalf("covered %v, brute force %d min", covered, n)
		}
		if n > 0 && math.Abs(float64(mean)-sum/float64(n)) > 1e-9*sum {
			t.Fatalf("mean %v, brute force %v", mean, sum/float64(n))
		}
	}
}

func BenchmarkMean(b *testing.B) {
	samples := make([]Sample, 8760)
	for i := range samples {
		from := t0.Add(time.Duration(i) * time.Hour)
		samples[i] = Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(i % 400)}
	}
	s, err := NewSeries(Provenance{}, samples)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		from := t0.Add(time.Duration(i%8000) * time.Hour)
		s.Mean(from, from.Add(6*time.Hour))
	}
}

// TestZeroSeries: the zero value is a series of which nothing is known.
func TestZeroSeries(t *testing.T) {
	var s Series
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	if _, known := s.At(from); known {
		t.Error("a value is known")
	}
	if mean, covered := s.Mean(from, to); mean != 0 || covered != 0 {
		t.Errorf("mean %v over %v; want 0 over 0", mean, covered)
	}
	if m := s.FilledMean(from, to); m.Mean != 0 || m.Known != 0 || m.Filled != 0 || m.Unknown != to.Sub(from) {
		t.Errorf("filled mean: %+v; want all of it unknown", m)
	}
	if gaps := s.Gaps(from, to); len(gaps) != 1 || !gaps[0].From.Equal(from) || !gaps[0].To.Equal(to) {
		t.Errorf("gaps: %v; want all of it", gaps)
	}
}
