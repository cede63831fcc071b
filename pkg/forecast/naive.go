package forecast

import (
	"fmt"
	"math"
)

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
	for i := range out {
		v, ok := h.back(len(h.Values)+i, max(1, m.Days), perDay)
		if !ok {
			return fmt.Errorf("%w: no value %d days before slot %d", ErrHistory, max(1, m.Days), i)
		}
		out[i] = v
	}
	return nil
}

// back looks for a value at the same time a whole number of periods, of the
// given days each, before slot at.
func (h History) back(at, days, perDay int) (float64, bool) {
	for n := days; ; n += days {
		i := h.daysBefore(at, n, perDay)
		switch {
		case i < 0:
			return 0, false
		case i < len(h.Values) && !math.IsNaN(h.Values[i]):
			return h.Values[i], true
		}
	}
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
			j := h.daysBefore(at, day+1, perDay)
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
