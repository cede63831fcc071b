package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/units"
)

// Outlook is what planners are told of a zone's intensity. It serves one simulation.
type Outlook interface {
	// At returns what is known at now, nil where nothing is, and when that changes
	// next; the zero time for never.
	At(now time.Time) (*carbon.Series, time.Time)
}

// PathsOutlook is an Outlook that also knows courses that the intensity may take.
type PathsOutlook interface {
	Outlook
	// Paths returns those that are known at now, nil where none are.
	Paths(now time.Time) *carbon.Paths
}

// Noisy is the actual series with errors of up to share of each value, up or down,
// uniformly distributed (CarbonScaler, Section 5.6).
//
// Errors: share outside 0..1. Complexity: O(n).
func Noisy(actual *carbon.Series, share float64, seed uint64) (*carbon.Series, error) {
	if !(share >= 0 && share <= 1) {
		return nil, fmt.Errorf("%w: forecast error: %v; accepted: 0 to 1", ErrConfig, share)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6e6f697379))
	samples := make([]carbon.Sample, actual.Len())
	for i := range samples {
		samples[i] = actual.Sample(i)
		samples[i].Value *= units.CarbonIntensity(1 + share*(2*rng.Float64()-1))
	}
	return carbon.NewSeries(actual.Provenance, samples)
}

// issues is an outlook of series that are issued one after the other.
type issues struct {
	at     []time.Time
	series func(i int) (*carbon.Series, *carbon.Paths)
	last   int
	kept   *carbon.Series
	paths  *carbon.Paths
}

// At implements Outlook.
func (o *issues) At(now time.Time) (*carbon.Series, time.Time) {
	i := sort.Search(len(o.at), func(i int) bool { return o.at[i].After(now) }) - 1
	var next time.Time
	if i+1 < len(o.at) {
		next = o.at[i+1]
	}
	if i < 0 {
		return nil, next
	}
	if i != o.last {
		o.last = i
		o.kept, o.paths = o.series(i)
	}
	return o.kept, next
}

// Paths implements PathsOutlook.
func (o *issues) Paths(now time.Time) *carbon.Paths {
	if series, _ := o.At(now); series == nil {
		return nil
	}
	return o.paths
}

// pastDays are how many days of the past an outlook holds beside the forecast.
const pastDays = 8

// join is what happened up to a time, then a forecast from it on, which rests on a basis.
func join(actual *carbon.Series, at time.Time, step time.Duration, values []float64, basis carbon.Basis) *carbon.Series {
	var samples []carbon.Sample
	from := at.AddDate(0, 0, -pastDays)
	for i := actual.IndexAt(from); i < actual.Len(); i++ {
		x := actual.Sample(i)
		if x.To.After(at) {
			break
		}
		if !x.From.Before(from) {
			samples = append(samples, x)
		}
	}
	for k, v := range values {
		if math.IsNaN(v) {
			continue
		}
		t := at.Add(time.Duration(k) * step)
		samples = append(samples, carbon.Sample{From: t, To: t.Add(step), Value: min(units.CarbonIntensity(math.Max(0, v)), units.MaxCarbonIntensity), Estimated: true})
	}
	p := actual.Provenance
	p.Basis, p.IssuedAt = basis, at
	s, err := carbon.NewSeries(p, samples)
	if err != nil {
		return nil // as nothing known: forecasts of a model are finite and in order
	}
	return s
}

// Recorded is the outlook of forecasts as they were published, each known from its
// time of issue on, with the actual past. Each is news to plans, as one that a provider issues is to the
// controllers; a forecast of Modelled is if it differs enough (track.Outlooks).
func Recorded(actual *carbon.Series, forecasts []forecast.Issued) Outlook {
	o := &issues{last: -1}
	for _, f := range forecasts {
		o.at = append(o.at, f.At)
	}
	o.series = func(i int) (*carbon.Series, *carbon.Paths) {
		f := &forecasts[i]
		return join(actual, f.At, f.Step, f.Values, carbon.LiveForecast), nil
	}
	return o
}

// Modelled is the outlook of a model that forecasts ahead every so often from the
// actual past. It learns from as much of the past as history says at least, and from
// twice as much at most: as in live forecasts, the start of what is learnt moves rarely,
// so that models learn only what is new. What is forecast depends on the time of issue
// alone. If the model cannot forecast yet, only the past is known. Paths are known of a model that states some, as forecast.Blend does.
//
// Complexity: that of the model, once for each issue that is looked at, and O(history)
// to begin anew once in a history.
func Modelled(actual *carbon.Series, m forecast.Model, step, every, history, ahead time.Duration) Outlook {
	o := &issues{last: -1}
	for at := actual.Start(); at.Before(actual.End()); at = at.Add(every) {
		o.at = append(o.at, at)
	}
	spread, _ := m.(interface {
		Paths(h forecast.History, n int) ([][]float64, error)
	})
	o.series = func(i int) (*carbon.Series, *carbon.Paths) {
		at := o.at[i]
		values := make([]float64, max(1, int(ahead/step)))
		past := at.Sub(actual.Start())
		if begun := past / max(history, step); begun > 1 {
			past -= (begun - 1) * max(history, step)
		}
		n := int(past / step)
		h, err := forecast.FromSeries(actual, at, step, n)
		if err == nil {
			err = m.Predict(h, values)
		}
		if err != nil {
			return join(actual, at, step, nil, carbon.OwnForecast), nil
		}
		var paths *carbon.Paths
		if spread != nil {
			if courses, err := spread.Paths(h, len(values)); err == nil {
				paths, _ = carbon.NewPaths(at, step, courses) // none if a value is not finite
			}
		}
		return join(actual, at, step, values, carbon.OwnForecast), paths
	}
	return o
}

// Outage is an outlook whose provider does not answer in [From, To): what was known
// before stays known.
type Outage struct {
	Of       Outlook
	From, To time.Time
}

// At implements Outlook.
func (o Outage) At(now time.Time) (*carbon.Series, time.Time) {
	if now.Before(o.From) || !now.Before(o.To) {
		return o.Of.At(now)
	}
	s, _ := o.Of.At(o.From.Add(-1))
	return s, o.To
}

// Paths implements PathsOutlook.
func (o Outage) Paths(now time.Time) *carbon.Paths {
	of, ok := o.Of.(PathsOutlook)
	switch {
	case !ok:
		return nil
	case now.Before(o.From) || !now.Before(o.To):
		return of.Paths(now)
	}
	return of.Paths(o.From.Add(-1))
}
