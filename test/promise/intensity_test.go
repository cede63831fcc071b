package promise_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/test/data"
)

// day0 is the midnight that instances count from.
var day0 = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

// at is a time of an instance, written as a duration after day0.
func at(text string) time.Time { return day0.Add(dur(text)) }

// dur reads a duration that is part of a test.
func dur(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// Days of intensities before and after day0.
const (
	daysBefore = 8
	daysAfter  = 40
)

// wave is an intensity that repeats: values of equal steps from day0 on, and back.
type wave struct {
	step   time.Duration
	values []float64
}

// value is the intensity i steps after day0; i may be below 0.
func (w wave) value(i int) float64 {
	n := len(w.values)
	return w.values[((i%n)+n)%n]
}

// series returns the samples from daysBefore before day0 to daysAfter after it.
func (w wave) series(zone string) *carbon.Series { return w.until(zone, daysAfter) }

func (w wave) until(zone string, days int) *carbon.Series {
	perDay := int(24 * time.Hour / w.step)
	samples := make([]carbon.Sample, 0, (daysBefore+days)*perDay)
	for i := -daysBefore * perDay; i < days*perDay; i++ {
		from := day0.Add(time.Duration(i) * w.step)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(w.step), Value: units.CarbonIntensity(w.value(i))})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: zone, Source: "promise test"}, samples)
	if err != nil {
		panic(err)
	}
	return s
}

// flat is the same intensity at all times.
func flat(v float64) wave { return wave{step: time.Hour, values: []float64{v}} }

// sunny is 400 g/kWh at night and 100 from 10 to 16 h.
func sunny() wave {
	values := make([]float64, 24)
	for h := range values {
		values[h] = 400
		if h >= 10 && h < 16 {
			values[h] = 100
		}
	}
	return wave{step: time.Hour, values: values}
}

// randomWave returns a wave of a random shape; recorded ones are among them where known.
func randomWave(rng *rand.Rand, recorded [][]float64) wave {
	step := []time.Duration{time.Hour, time.Hour, 30 * time.Minute, 5 * time.Minute}[rng.IntN(4)]
	perHour := int(time.Hour / step)
	n := 24 * perHour * (1 + rng.IntN(9))
	mean, swing, phase := 50+450*rng.Float64(), rng.Float64(), 24*rng.Float64()
	values := make([]float64, n)
	shape := rng.IntN(6)
	if shape == 5 && len(recorded) == 0 {
		shape = 1
	}
	level := mean
	for i := range values {
		hour := float64(i) / float64(perHour)
		switch shape {
		case 0:
			values[i] = mean
		case 1:
			values[i] = mean * (1 + swing*math.Sin((hour-phase)/24*2*math.Pi))
		case 2: // zero hours
			values[i] = mean * math.Max(0, math.Sin((hour-phase)/24*2*math.Pi))
		case 3: // steps
			if rng.IntN(6*perHour) == 0 {
				level = mean * 3 * rng.Float64()
			}
			values[i] = level
		case 4:
			values[i] = mean * (1 + swing*math.Sin((hour-phase)/24*2*math.Pi)) * (0.5 + rng.Float64())
		}
		values[i] = math.Max(0, math.Round(values[i]*10)/10)
	}
	if shape == 5 {
		all := recorded[rng.IntN(len(recorded))]
		weeks := 24 * 7 * 4
		from := rng.IntN(len(all) - weeks)
		return wave{step: time.Hour, values: all[from : from+weeks]}
	}
	return wave{step: step, values: values}
}

// recordedZones are the zones whose recorded intensities are used.
var recordedZones = []string{"DE", "AU-SA", "CA-ON"}

// recorded reads recorded hourly intensities; none if there are none.
func recorded(t testing.TB) [][]float64 {
	t.Helper()
	dir, err := data.Find("carbon")
	if err != nil {
		t.Logf("without recorded intensities: %v", err)
		return nil
	}
	var out [][]float64
	for _, zone := range recordedZones {
		f, err := os.Open(filepath.Join(dir, "carbon", zone, "2022.csv"))
		if err != nil {
			t.Logf("recorded intensities of %s are left out: %v", zone, err)
			continue
		}
		s, err := carbon.ReadCSV(f, carbon.Provenance{Zone: zone})
		f.Close()
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", zone, err))
		}
		values := make([]float64, s.Len())
		for i := range values {
			values[i] = float64(s.Sample(i).Value)
		}
		out = append(out, values)
	}
	return out
}
