// Package forecast predicts carbon intensity from its own past, and measures
// how good such predictions are for scheduling.
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
	Step   time.Duration
	Values []float64
}

// FromSeries samples the n slots of the given length that end at issued. Slots
// that the series does not touch are gaps; irregular steps are averaged.
func FromSeries(s *carbon.Series, issued time.Time, step time.Duration, n int) (History, error) {
	grid, err := timegrid.New(issued.Add(-time.Duration(n)*step), step, n)
	if err != nil {
		return History{}, err
	}
	values, missing := s.OnGrid(grid)
	for _, t := range missing {
		values[t] = math.NaN()
	}
	return History{Step: step, Values: values}, nil
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

// Model predicts the slots that follow a history.
type Model interface {
	// Predict fills out with the intensities of the len(out) slots after the end
	// of h: finite and at least 0. Errors: ErrHistory when h has too little to
	// predict from. It allocates nothing that grows with out.
	Predict(h History, out []float64) error
}

// Persistence predicts that nothing changes: the last known value, throughout.
type Persistence struct{}

// Predict implements Model.
func (Persistence) Predict(h History, out []float64) error {
	last, ok := latest(h.Values)
	if !ok {
		return fmt.Errorf("%w: no value", ErrHistory)
	}
	for i := range out {
		out[i] = last
	}
	return nil
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

// SeasonalNaive predicts what was Days days before at the same time: 1 for the
// day before, 7 for the same day of the week before. A gap there is filled from
// the period before it, and so on.
type SeasonalNaive struct{ Days int }

// Predict implements Model.
func (m SeasonalNaive) Predict(h History, out []float64) error {
	perDay, err := h.perDay()
	if err != nil {
		return err
	}
	period := perDay * max(1, m.Days)
	for i := range out {
		v, ok := back(h.Values, len(h.Values)+i, period)
		if !ok {
			return fmt.Errorf("%w: no value %d days before slot %d", ErrHistory, max(1, m.Days), i)
		}
		out[i] = v
	}
	return nil
}

// back looks for a value a whole number of periods before slot at.
func back(values []float64, at, period int) (float64, bool) {
	for i := at - period; i >= 0; i -= period {
		if i < len(values) && !math.IsNaN(values[i]) {
			return values[i], true
		}
	}
	return 0, false
}

// MovingAverage is the weighted moving average of Piontek et al., Eq. 8, over
// the last N values P, the latest weighted most:
//
//	WMA = (N P_M + (N-1) P_{M-1} + ... + P_{M-N+1}) / (N + (N-1) + ... + 1)
//
// It predicts that value throughout. Gaps carry no weight. N of 0 means 24.
type MovingAverage struct{ N int }

// Predict implements Model.
func (m MovingAverage) Predict(h History, out []float64) error {
	n := m.N
	if n == 0 {
		n = 24
	}
	sum, weights := 0.0, 0.0
	for k := range min(n, len(h.Values)) {
		if v := h.Values[len(h.Values)-1-k]; !math.IsNaN(v) {
			w := float64(n - k)
			sum += w * v
			weights += w
		}
	}
	if weights == 0 {
		return fmt.Errorf("%w: none of the last %d slots has a value", ErrHistory, n)
	}
	for i := range out {
		out[i] = sum / weights
	}
	return nil
}

// dayWeights are the weights of Piontek et al., Section 4.2.1: 40 % the day
// itself, 20 % each neighbouring day, 10 % each of the next ones.
var dayWeights = [3]float64{0.4, 0.2, 0.1}

// DayWeighted predicts each time of day by a weighted mean of the same time on
// the three days before, 4:2:1. It is the form of dayWeights that uses only the
// past: the published one is centred on the day that it predicts (see
// Centred) and cannot be had live. Gaps carry no weight.
type DayWeighted struct{}

// Predict implements Model. Slots more than a day ahead repeat the first day.
func (DayWeighted) Predict(h History, out []float64) error {
	perDay, err := h.perDay()
	if err != nil {
		return err
	}
	for i := range out {
		at := len(h.Values) + i%perDay
		sum, weights := 0.0, 0.0
		for day, w := range dayWeights {
			j := at - (day+1)*perDay
			if j >= 0 && j < len(h.Values) && !math.IsNaN(h.Values[j]) {
				sum += w * h.Values[j]
				weights += w
			}
		}
		if weights == 0 {
			return fmt.Errorf("%w: no value on the three days before slot %d", ErrHistory, i)
		}
		out[i] = sum / weights
	}
	return nil
}

// Centred smooths a whole series as Piontek et al. do for their experiments:
//
//	f[t] = 0.4 v[t] + 0.2 (v[t-day] + v[t+day]) + 0.1 (v[t-2day] + v[t+2day])
//
// Days outside the series and gaps carry no weight; where nothing is known the
// result is NaN. It sees the day it stands for, so it is for reproduction only.
//
// Complexity: O(len(values)).
func Centred(values []float64, perDay int) []float64 {
	out := make([]float64, len(values))
	for t := range values {
		sum, weights := 0.0, 0.0
		for day := -2; day <= 2; day++ {
			j := t + day*perDay
			if j < 0 || j >= len(values) || math.IsNaN(values[j]) {
				continue
			}
			w := dayWeights[max(day, -day)]
			sum += w * values[j]
			weights += w
		}
		out[t] = sum / weights // NaN where nothing is known
	}
	return out
}

// Hindsight "predicts" from values for the whole of the time, the future
// included: a reference to judge models against, and what the published
// experiments with Centred did. Values[i] stands for slot i of the histories
// that it is asked with.
type Hindsight struct{ Values []float64 }

// Predict implements Model.
func (m Hindsight) Predict(h History, out []float64) error {
	if len(h.Values)+len(out) > len(m.Values) {
		return fmt.Errorf("%w: hindsight ends at slot %d", ErrHistory, len(m.Values))
	}
	copy(out, m.Values[len(h.Values):])
	if hasGap(out) {
		return fmt.Errorf("%w: hindsight has a gap", ErrHistory)
	}
	return nil
}
