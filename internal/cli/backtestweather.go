package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/forecast"
)

// withWeather reads the file of weather, and the traces or the intensities of that file.
func (o backtestOptions) withWeather(files []string) (h forecast.History, err error) {
	weather, err := source.ReadWeather(o.weather)
	if err != nil {
		return h, fmt.Errorf("--weather: %w", err)
	}
	if len(files) > 0 {
		h, err = traces(files)
	} else {
		h, err = o.ownIntensities(weather)
	}
	if err != nil {
		return h, err
	}
	h.Weather, err = weather.On(h, len(h.Values))
	if err != nil {
		return h, fmt.Errorf("--weather: %s: %w", o.weather, err)
	}
	if !overlaps(h.Weather) {
		return h, fmt.Errorf("--weather: %s knows nothing of %s to %s; accepted: weather of the hours that are replayed",
			o.weather, h.Start.Format(time.RFC3339), h.Start.Add(time.Duration(len(h.Values))*h.Step).Format(time.RFC3339))
	}
	h.Weather.Horizon = int(o.horizon / h.Step)
	return h, nil
}

// ownIntensities are those of the file of weather, from the first known one to the last.
func (o backtestOptions) ownIntensities(weather *forecast.WeatherFile) (forecast.History, error) {
	const ending = "_gco2eq_per_kwh"
	names := slices.Sorted(maps.Keys(weather.Intensities))
	column := "lifecycle" + ending
	switch {
	case o.factor != "":
		column = o.factor + ending
	case len(names) == 1:
		column = names[0]
	}
	values := weather.Intensities[column]
	from := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
	if from < 0 {
		accepted := "no column " + column
		if len(names) > 0 {
			accepted += " with values; it has " + strings.Join(names, ", ")
		}
		return forecast.History{}, fmt.Errorf("--weather: %s: %s; accepted: intensities in such a column (--factor lifecycle or direct picks one), or trace files", o.weather, accepted)
	}
	to := len(values)
	for math.IsNaN(values[to-1]) {
		to--
	}
	return forecast.History{Start: weather.Start.Add(time.Duration(from) * time.Hour), Step: time.Hour, Values: values[from:to]}, nil
}

// overlaps reports whether any weather is known.
func overlaps(w *forecast.Weather) bool {
	for _, column := range [][]float64{w.Wind, w.Temperature, w.DewPoint, w.Irradiance} {
		if slices.ContainsFunc(column, func(v float64) bool { return !math.IsNaN(v) }) {
			return true
		}
	}
	return false
}
