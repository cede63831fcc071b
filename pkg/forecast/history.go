// Package forecast predicts carbon intensity from its own past, measures how
// good such predictions are for scheduling, and states how far they may be off.
package forecast

import (
	"errors"
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// ErrHistory marks a past that a model cannot predict from.
var ErrHistory = errors.New("history too short")

// History is past intensities on a regular grid, oldest first, gCO2eq/kWh; NaN
// marks a gap. The last value is that of the slot that ends when the forecast
// is issued.
type History struct {
	// Start is when slot 0 begins; the zero time where only order matters.
	Start  time.Time
	Step   time.Duration
	Values []float64
	// Location is whose clock people live by: the same hour of another day is the
	// same hour of this clock, also across a change of daylight saving time. Nil
	// means UTC.
	Location *time.Location
	// Exogenous[j][i] is covariate j (irradiance, wind, temperature) in slot i, of
	// the past and, as far as it is forecast, beyond the end of Values; NaN where
	// unknown. Models that know no covariates ignore it.
	Exogenous [][]float64
	// Weather is weather and generation, nil if unknown. Models that know none ignore it.
	Weather *Weather

	// offsets[i] is utcOffset(i), as far as it was looked up before.
	offsets []time.Duration
}

// FromSeries samples the n slots of the given length that end at issued. Slots
// that the series does not touch are gaps; irregular steps are averaged.
func FromSeries(s *carbon.Series, issued time.Time, step time.Duration, n int) (History, error) {
	start := issued.Add(-time.Duration(n) * step)
	grid, err := timegrid.New(start, step, n)
	if err != nil {
		return History{}, err
	}
	values, missing := s.OnGrid(grid)
	for _, t := range missing {
		values[t] = math.NaN()
	}
	return History{Start: start, Step: step, Values: values}, nil
}

// perDay returns the slots of a day, or an error when a day is no whole number
// of slots.
func (h History) perDay() (int, error) {
	const day = 24 * time.Hour
	if h.Step <= 0 || day%h.Step != 0 {
		return 0, fmt.Errorf("forecast: step: %v; accepted: a whole fraction of a day", h.Step)
	}
	return int(day / h.Step), nil
}

// until is the history as it was when slot n began.
func (h History) until(n int) History {
	h.Values = h.Values[:n]
	return h
}

// since is the history from slot n on.
func (h History) since(n int) History {
	if n == 0 {
		return h
	}
	h.Start = h.Start.Add(time.Duration(n) * h.Step)
	h.Values, h.Exogenous = h.Values[n:], columnsSince(h.Exogenous, n)
	h.offsets = h.offsets[min(n, len(h.offsets)):]
	if h.Weather != nil {
		w := *h.Weather
		w.Wind, w.Temperature, w.DewPoint, w.Irradiance = columnSince(w.Wind, n), columnSince(w.Temperature, n), columnSince(w.DewPoint, n), columnSince(w.Irradiance, n)
		w.Generation = columnsSince(w.Generation, n)
		h.Weather = &w
	}
	return h
}

// columnSince is a column from slot n on; nil if it is not known at all.
func columnSince(v []float64, n int) []float64 { return v[min(n, len(v)):] }

func columnsSince(columns [][]float64, n int) [][]float64 {
	var out [][]float64
	for _, c := range columns {
		out = append(out, columnSince(c, n))
	}
	return out
}

// utcOffset is how far the local clock is ahead of UTC when slot i begins.
func (h History) utcOffset(i int) time.Duration {
	if h.Location == nil {
		return 0
	}
	if i >= 0 && i < len(h.offsets) {
		return h.offsets[i]
	}
	_, seconds := h.Start.Add(time.Duration(i) * h.Step).In(h.Location).Zone()
	return time.Duration(seconds) * time.Second
}

// daysBefore returns the slot that shows the same local time as slot i, the
// given number of days earlier; it may lie before the history. On the day of
// 23 or 25 hours itself the hour that is missing or doubled takes a neighbour.
func (h History) daysBefore(i, days, perDay int) int {
	j := i - days*perDay
	if h.Location != nil {
		j += int((h.utcOffset(i) - h.utcOffset(j)) / h.Step)
	}
	return j
}

// latest returns the last value that is no gap.
func latest(values []float64) (float64, bool) {
	for i := len(values) - 1; i >= 0; i-- {
		if !math.IsNaN(values[i]) {
			return values[i], true
		}
	}
	return 0, false
}

func hasGap(values []float64) bool {
	for _, v := range values {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}
