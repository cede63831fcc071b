package forecast

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// Scores is how good a model was over a backtest. Intensities are gCO2eq/kWh.
type Scores struct {
	// Forecasts counts the forecasts issued, Skipped those that the model could
	// not make or whose truth has gaps.
	Forecasts, Skipped int
	// MAPE, MAE and Bias (forecast less truth) are over all slots of all
	// forecasts; slots of zero intensity do not count in MAPE.
	MAPE, MAE, Bias float64
	// Rank is the mean rank correlation (Spearman) of forecast and truth within
	// a forecast: scheduling needs the order more than the level.
	Rank float64
	// Regret is what scheduling on the forecast costs: the mean, over forecasts,
	// of how much more the window of least forecast mean emits than the truly
	// best window, relative to the latter. RegretAgnostic is the same for
	// starting at once.
	Regret, RegretAgnostic float64
}

// Backtest issues a forecast of lead slots every stride slots over
// values[start:], from values before the issue time alone, and scores it. window
// is the length of the windows that Regret compares, in slots.
//
// Errors: parameters outside the values; a model that fails for another reason
// than ErrHistory. Complexity: O(forecasts x (cost of the model + lead log lead)).
func Backtest(m Model, h History, start, lead, stride, window int) (Scores, error) {
	if lead < 2 || stride < 1 || window < 1 || window > lead || start < 1 || start+lead > len(h.Values) {
		return Scores{}, fmt.Errorf("backtest: start %d, lead %d, stride %d, window %d do not fit %d values", start, lead, stride, window, len(h.Values))
	}
	var s Scores
	out := make([]float64, lead)
	slots, percents := 0, 0
	for at := start; at+lead <= len(h.Values); at += stride {
		truth := h.Values[at : at+lead]
		if hasGap(truth) {
			s.Skipped++
			continue
		}
		if err := m.Predict(History{Step: h.Step, Values: h.Values[:at]}, out); err != nil {
			if errors.Is(err, ErrHistory) {
				s.Skipped++
				continue
			}
			return Scores{}, err
		}
		s.Forecasts++
		for i, v := range truth {
			e := out[i] - v
			s.MAE += math.Abs(e)
			s.Bias += e
			slots++
			if v > 0 {
				s.MAPE += math.Abs(e) / v
				percents++
			}
		}
		s.Rank += spearman(out, truth)
		best := windowMean(truth, bestWindow(truth, window), window)
		if best > 0 {
			s.Regret += windowMean(truth, bestWindow(out, window), window)/best - 1
			s.RegretAgnostic += windowMean(truth, 0, window)/best - 1
		}
	}
	if s.Forecasts == 0 {
		return s, fmt.Errorf("backtest: %w: no forecast could be scored, %d were skipped", ErrHistory, s.Skipped)
	}
	n := float64(s.Forecasts)
	s.MAE, s.Bias = s.MAE/float64(slots), s.Bias/float64(slots)
	s.MAPE /= math.Max(1, float64(percents))
	s.Rank, s.Regret, s.RegretAgnostic = s.Rank/n, s.Regret/n, s.RegretAgnostic/n
	return s, nil
}

func hasGap(values []float64) bool {
	for _, v := range values {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}

// bestWindow returns the start of the window of least sum, the first of equals.
func bestWindow(values []float64, window int) int {
	sum := 0.0
	for _, v := range values[:window] {
		sum += v
	}
	best, at := sum, 0
	for t := window; t < len(values); t++ {
		sum += values[t] - values[t-window]
		if sum < best-1e-9*math.Abs(best) {
			best, at = sum, t-window+1
		}
	}
	return at
}

func windowMean(values []float64, start, window int) float64 {
	sum := 0.0
	for _, v := range values[start : start+window] {
		sum += v
	}
	return sum / float64(window)
}

// spearman is the rank correlation of two samples of equal length, ties sharing
// their mean rank; 0 where one of them is constant.
func spearman(a, b []float64) float64 {
	ra, rb := ranks(a), ranks(b)
	mean := float64(len(a)+1) / 2
	var cov, va, vb float64
	for i := range ra {
		x, y := ra[i]-mean, rb[i]-mean
		cov += x * y
		va += x * x
		vb += y * y
	}
	if va == 0 || vb == 0 {
		return 0
	}
	return cov / math.Sqrt(va*vb)
}

func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(x, y int) bool { return values[order[x]] < values[order[y]] })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}
