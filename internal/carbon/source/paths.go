package source

import (
	"math"
	"time"

	"lull.dev/lull/pkg/carbon"
)

// pathsNeeded is how many past forecasts of a provider its paths rest on at the least.
const pathsNeeded = 10

// forecastPaths are the paths of the provider's forecast, and what they rest on.
type forecastPaths struct {
	issued, scored time.Time
	paths          *carbon.Paths
}

// paths are those of the forecast that the hours to come rest on, nil if too few of its errors are known.
func (f *Feed) paths(basis carbon.Basis) *carbon.Paths {
	switch {
	case f.series != nil:
		return nil
	case basis == carbon.OwnForecast:
		return f.own.paths
	case basis == carbon.LiveForecast || basis == carbon.CachedForecast:
		if !f.published.issued.Equal(f.issuedAt) || !f.published.scored.Equal(f.scored) {
			f.published = forecastPaths{f.issuedAt, f.scored, f.publishedPaths()}
		}
		return f.published.paths
	}
	return nil
}

// publishedPaths are the provider's forecast times what came over what it had forecast, hour by hour, after each forecast that it
// issued at about the same time of the day.
//
// Complexity: O(forecasts kept x hours x log samples).
func (f *Feed) publishedPaths() *carbon.Paths {
	now, err := carbon.NewSeries(carbon.Provenance{}, f.forecast)
	if err != nil || now.Len() == 0 {
		return nil
	}
	actual, err := carbon.NewSeries(carbon.Provenance{}, f.history)
	if err != nil {
		return nil
	}
	start := now.Start().Truncate(time.Hour)
	if start.Before(now.Start()) {
		start = start.Add(time.Hour)
	}
	values := hourly(now, start, min(int(now.End().Sub(start)/time.Hour), maxLeads))
	var paths [][]float64
	for _, x := range f.issues {
		if !sameHour(x.At, f.issuedAt) {
			continue
		}
		said, err := carbon.NewSeries(carbon.Provenance{}, x.samples)
		if err != nil {
			continue
		}
		then := start.Add(x.At.Sub(f.issuedAt).Round(time.Hour))
		forecast, came := hourly(said, then, len(values)), hourly(actual, then, len(values))
		if path := followed(values, forecast, came); path != nil {
			paths = append(paths, path)
		}
	}
	if len(paths) < pathsNeeded {
		return nil
	}
	p, err := carbon.NewPaths(start, time.Hour, paths)
	if err != nil {
		return nil // a ratio of a value near zero is too large
	}
	return p
}

// sameHour reports whether two forecasts were issued at about the same time of the day, which their errors depend on.
func sameHour(a, b time.Time) bool {
	apart := a.Sub(b).Abs() % (24 * time.Hour)
	return min(apart, 24*time.Hour-apart) <= 3*time.Hour
}

// hourly are the means of n hours; NaN where one is not wholly known.
func hourly(s *carbon.Series, from time.Time, n int) []float64 {
	out := make([]float64, max(0, n))
	for k := range out {
		at := from.Add(time.Duration(k) * time.Hour)
		v, known := s.Mean(at, at.Add(time.Hour))
		if out[k] = float64(v); known < time.Hour {
			out[k] = math.NaN()
		}
	}
	return out
}

// followed is a forecast times what came over what was forecast then; nil if a part of that is not known.
func followed(forecast, then, came []float64) []float64 {
	out := make([]float64, len(forecast))
	for k, v := range forecast {
		if out[k] = v * came[k] / then[k]; !(then[k] > 0) || math.IsNaN(out[k]) {
			return nil
		}
	}
	return out
}
