package sim_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
)

// wavy is days of hourly intensities with a course of the day and of the week, and a disturbance.
func wavy(t testing.TB, days int) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range days * 24 {
		x := float64(h)
		v := 300 + 100*math.Sin(2*math.Pi*x/24) + 30*math.Sin(2*math.Pi*x/168) + 20*math.Sin(x*x/500)
		from := t0.Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(v)})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "z"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// starts notes where the histories begin that a model is asked to predict from.
type starts struct {
	begins []time.Time
	hours  []int
}

func (m *starts) Predict(h forecast.History, out []float64) error {
	m.begins, m.hours = append(m.begins, h.Start), append(m.hours, len(h.Values))
	clear(out)
	if len(h.Values) == 0 {
		return errors.New("no history")
	}
	return nil
}

// TestModelledContinuesHistories: the history of an issue continues that of the one before, so that models learn what
// is new alone, except once in a while; it is always as long as asked for, where there is so much.
func TestModelledContinuesHistories(t *testing.T) {
	const days, history = 50, 10
	var m starts
	o := sim.Modelled(wavy(t, days), &m, time.Hour, time.Hour, history*24*time.Hour, 24*time.Hour)
	for h := range days * 24 {
		o.At(t0.Add(time.Duration(h) * time.Hour))
	}
	anew := 0
	for k, n := range m.hours {
		i := k + 1 // at the start there is no history
		if at := m.begins[k].Add(time.Duration(n) * time.Hour); !at.Equal(t0.Add(time.Duration(i) * time.Hour)) {
			t.Fatalf("issue %d: the history ends at %v", i, at)
		}
		if n < min(i, history*24) || n > 2*history*24 {
			t.Errorf("issue %d learns from %d hours; want at least %d and at most %d", i, n, min(i, history*24), 2*history*24)
		}
		if k > 0 && !m.begins[k].Equal(m.begins[k-1]) {
			anew++
		}
	}
	if len(m.hours) != days*24-1 || anew > days/history {
		t.Errorf("%d issues, of which %d learnt anew; want %d and at most %d", len(m.hours), anew, days*24-1, days/history)
	}
}

// TestModelledByTimeAlone: what is forecast depends on the time of issue, not on what was asked before.
func TestModelledByTimeAlone(t *testing.T) {
	s := wavy(t, 60)
	outlook := func() sim.Outlook {
		return sim.Modelled(s, forecast.NewBlend(), time.Hour, 6*time.Hour, 15*24*time.Hour, 24*time.Hour)
	}
	one := outlook()
	for _, day := range []int{16, 31, 32, 59, 20, 31, 45} {
		at := t0.Add(time.Duration(day)*24*time.Hour + 13*time.Hour)
		a, _ := one.At(at)
		b, _ := outlook().At(at)
		for h := range 20 {
			x, _ := a.At(at.Add(time.Duration(h) * time.Hour))
			y, ok := b.At(at.Add(time.Duration(h) * time.Hour))
			if !ok || x != y {
				t.Fatalf("day %d, %d h ahead: %v, and %v when asked first (%v)", day, h, x, y, ok)
			}
		}
	}
}

// BenchmarkModelled is the outlook of a blend that issues a forecast every hour from sixty days.
func BenchmarkModelled(b *testing.B) {
	s := wavy(b, 200)
	issues := 0
	for b.Loop() {
		o := sim.Modelled(s, forecast.NewBlend(), time.Hour, time.Hour, 60*24*time.Hour, 24*time.Hour)
		for h := 70 * 24; h < 80*24; h++ {
			o.At(t0.Add(time.Duration(h) * time.Hour))
			issues++
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(issues), "ms/issue")
}
