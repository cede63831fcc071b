package source

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// wave is a provider whose values go up and down between two bounds each day; spoilt replaces them in an outage.
type wave struct {
	low, high float64
	signal    carbon.Signal
	factor    carbon.Factor
	spoilt    func(at time.Time, value float64) float64
}

func (p wave) Name() string { return "wave" }
func (p wave) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: "X", Signal: p.signal, Factor: p.factor, Source: "a test"}
}
func (p wave) Identity() []string { return nil }
func (p wave) Forecasts() bool    { return true }

func (p wave) Fetch(_ context.Context, _ provider.Getter, q provider.Query) (a provider.Answer, _ error) {
	of := p.Provenance()
	of.IssuedAt = q.Now
	hours := func(from, to time.Time) (out []carbon.Sample) {
		for at := from; !at.Add(time.Hour).After(to); at = at.Add(time.Hour) {
			v := p.low + (p.high-p.low)*(1+math.Sin(float64(at.Hour())/12*math.Pi))/2
			if p.spoilt != nil {
				v = p.spoilt(at, v)
			}
			out = append(out, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(v), Of: &of})
		}
		return out
	}
	for _, x := range append(q.Again, carbon.Interval{From: q.Since, To: q.Now}) {
		a.Past = append(a.Past, hours(x.From, x.To)...)
	}
	a.Forecast = hours(q.Now.Truncate(time.Hour), q.Now.Add(24*time.Hour))
	return a, nil
}

// TestUnbelievableValuesAreReplaced: what is far from all that a zone has ever had is not believed, and something else stands in; what the zone may
// well have is.
func TestUnbelievableValuesAreReplaced(t *testing.T) {
	zero := func(time.Time, float64) float64 { return 0 }
	for name, tc := range map[string]struct {
		wave
		with     func(at time.Time, value float64) float64
		believed bool
	}{
		"zeros":                         {wave{100, 500, carbon.Average, carbon.Lifecycle, nil}, zero, false},
		"zeros, direct":                 {wave{20, 300, carbon.Average, carbon.Direct, nil}, zero, false},
		"zeros of a marginal signal":    {wave{100, 500, carbon.Marginal, carbon.Direct, nil}, zero, true},
		"zeros of a zone near zero":     {wave{4, 60, carbon.Average, carbon.Direct, nil}, zero, true},
		"zeros of a zone that has them": {wave{0, 400, carbon.Average, carbon.Direct, nil}, zero, true},
		"a zone that is always zero":    {wave{0, 0, carbon.Average, carbon.Direct, nil}, zero, true},
		"ones":                          {wave{100, 500, carbon.Average, carbon.Lifecycle, nil}, func(time.Time, float64) float64 { return 1 }, false},
		"a clean day":                   {wave{100, 500, carbon.Average, carbon.Lifecycle, nil}, func(_ time.Time, v float64) float64 { return v / 4 }, true},
		"a dry year of a hydro zone":    {wave{20, 40, carbon.Average, carbon.Lifecycle, nil}, func(_ time.Time, v float64) float64 { return 5 * v }, true},
		"thousands":                     {wave{20, 40, carbon.Average, carbon.Lifecycle, nil}, func(time.Time, float64) float64 { return 2900 }, false},
		"thousands of a marginal one":   {wave{20, 40, carbon.Marginal, carbon.Direct, nil}, func(time.Time, float64) float64 { return 2900 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 1)
			w.cfg.Key, w.cfg.Zone, w.cfg.Signal, w.cfg.Factor, w.cfg.Provider = name, "X", tc.signal, tc.factor, tc.wave
			o := w.hours(24)
			if o.Degraded || o.Err != nil {
				t.Fatalf("at first: %s %v", o.Why, o.Err)
			}
			outage := w.at
			spoilt := tc.wave
			spoilt.spoilt = func(at time.Time, v float64) float64 {
				if at.Before(outage.Truncate(time.Hour)) {
					return v
				}
				return tc.with(at, v)
			}
			w.cfg.Provider = spoilt
			o = w.hours(4)
			last := w.feed().history[len(w.feed().history)-1]
			if tc.believed {
				if o.Degraded || o.Basis != carbon.LiveForecast || last.From.Before(outage.Truncate(time.Hour)) {
					t.Errorf("not believed: %s (%s)", o.Basis, o.Why)
				}
				return
			}
			w.whole(o)
			if !errors.Is(o.Err, ErrImplausible) || !o.Degraded || !strings.Contains(o.Why, "the zone has had") || !strings.Contains(o.Why, "the hours to come rest on CachedForecast") {
				t.Errorf("%s degraded=%v: %s", o.Basis, o.Degraded, o.Why)
			}
			if !last.From.Before(outage.Truncate(time.Hour)) {
				t.Errorf("taken in: %+v", last)
			}
			w.cfg.Provider = tc.wave
			if o = w.hours(3); o.Degraded || o.Basis != carbon.LiveForecast || len(o.Expected.Gaps(outage, w.at.Truncate(time.Hour))) > 0 {
				t.Errorf("afterwards: %s (%s), gaps %v", o.Basis, o.Why, o.Expected.Gaps(outage, w.at.Truncate(time.Hour)))
			}
		})
	}
}

// TestDoubtAtFirst: an outage in, or as, the very first answer is not believed either.
func TestDoubtAtFirst(t *testing.T) {
	for name, zero := range map[string]func(at time.Time) bool{
		"some": func(at time.Time) bool {
			return at.After(begin.AddDate(0, 0, -3)) && at.Before(begin.AddDate(0, 0, -2))
		},
		"all": func(time.Time) bool { return true },
	} {
		w := newWorldOf(t, 1)
		w.cfg.Key, w.cfg.Provider = name, wave{100, 500, carbon.Average, carbon.Lifecycle, func(at time.Time, v float64) float64 {
			if zero(at) {
				return 0
			}
			return v
		}}
		o := w.hours(1)
		w.whole(o)
		if !errors.Is(o.Err, ErrImplausible) || !o.Degraded {
			t.Errorf("%s: %s (%s)", name, o.Basis, o.Why)
		}
		for _, x := range w.feed().history {
			if x.Value == 0 {
				t.Errorf("%s: taken in: %+v", name, x)
				break
			}
		}
	}
}
