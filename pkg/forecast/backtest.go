package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
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
	// RegretDay is Regret within the first day alone, if FirstDay says how long that is.
	RegretDay float64
	// Coverage is the share of the truth between the 10 % and 90 % quantiles, for
	// models that state them (80 % would be perfect), else NaN.
	Coverage float64
	// Leads are the scores by lead time; Leads[k] is of the slot k slots ahead.
	Leads []LeadScores
}

// LeadScores are the scores of one lead time. Rank is the correlation between
// forecasts and truth over all forecasts.
type LeadScores struct{ MAPE, MAE, Bias, Rank float64 }

// Scorer collects forecasts and what came, all of one length and windows.
type Scorer struct {
	window, day       int
	scores            Scores
	forecasts, truths [][]float64 // by lead
	covered, banded   int
}

// NewScorer scores forecasts of lead slots by windows of the given slots.
func NewScorer(lead, window int) *Scorer {
	return &Scorer{window: window, forecasts: make([][]float64, lead), truths: make([][]float64, lead)}
}

// FirstDay says how many slots a day has, for RegretDay: no fewer than the window and no
// more than the lead.
func (s *Scorer) FirstDay(slots int) { s.day = slots }

// Skip counts a forecast that cannot be scored.
func (s *Scorer) Skip() { s.scores.Skipped++ }

// Add scores a forecast; low and high are its quantiles or nil. All have the
// length of a lead, truth has no gaps.
func (s *Scorer) Add(forecast, low, high, truth []float64) {
	s.scores.Forecasts++
	for k, v := range truth {
		s.forecasts[k] = append(s.forecasts[k], forecast[k])
		s.truths[k] = append(s.truths[k], v)
		if low != nil {
			s.banded++
			if v >= low[k] && v <= high[k] {
				s.covered++
			}
		}
	}
	s.scores.Rank += spearman(forecast, truth)
	best := windowMean(truth, bestWindow(truth, s.window), s.window)
	if day := truth[:s.day]; s.day >= s.window {
		least := windowMean(day, bestWindow(day, s.window), s.window)
		if least > 0 {
			s.scores.RegretDay += windowMean(day, bestWindow(forecast[:s.day], s.window), s.window)/least - 1
		}
	}
	if best > 0 {
		s.scores.Regret += windowMean(truth, bestWindow(forecast, s.window), s.window)/best - 1
		s.scores.RegretAgnostic += windowMean(truth, 0, s.window)/best - 1
	}
}

// Scores sums up. Errors: ErrHistory when nothing was added.
//
// Complexity: O(leads x forecasts log forecasts).
func (s *Scorer) Scores() (Scores, error) {
	out := s.scores
	if out.Forecasts == 0 {
		return out, fmt.Errorf("backtest: %w: no forecast could be scored, %d were skipped", ErrHistory, out.Skipped)
	}
	n := float64(out.Forecasts)
	out.Rank, out.Regret, out.RegretAgnostic = out.Rank/n, out.Regret/n, out.RegretAgnostic/n
	out.RegretDay /= n
	out.Leads = make([]LeadScores, len(s.truths))
	percents := 0
	for k, truth := range s.truths {
		l, m := &out.Leads[k], 0
		for i, v := range truth {
			e := s.forecasts[k][i] - v
			l.MAE += math.Abs(e)
			l.Bias += e
			if v > 0 {
				l.MAPE += math.Abs(e) / v
				m++
			}
		}
		out.MAE, out.Bias, out.MAPE, percents = out.MAE+l.MAE, out.Bias+l.Bias, out.MAPE+l.MAPE, percents+m
		l.MAE, l.Bias, l.MAPE = l.MAE/n, l.Bias/n, l.MAPE/math.Max(1, float64(m))
		l.Rank = spearman(s.forecasts[k], truth)
	}
	slots := n * float64(len(s.truths))
	out.MAE, out.Bias, out.MAPE = out.MAE/slots, out.Bias/slots, out.MAPE/math.Max(1, float64(percents))
	out.Coverage = math.NaN()
	if s.banded > 0 {
		out.Coverage = float64(s.covered) / float64(s.banded)
	}
	return out, nil
}

// ErrGaps marks values whose gaps leave nothing to score a forecast by.
var ErrGaps = errors.New("gaps in the values")

// banded is a model that states quantiles.
type banded interface {
	Band(h History, n int) (Band, error)
}

// Backtest issues a forecast of lead slots every stride slots over
// values[start:], from values before the issue time alone, and scores it. window
// is the length of the windows that Regret compares, in slots. Covariates of h
// are given to the model as they are, the future included.
//
// Errors: parameters outside the values; a model that fails for another reason
// than ErrHistory; ErrGaps where each stretch that is forecast has a gap; ErrHistory
// where the model can make no forecast. Complexity: O(forecasts x (cost of the model + lead log lead)).
func Backtest(m Model, h History, start, lead, stride, window int) (Scores, error) {
	if lead < 2 || stride < 1 || window < 1 || window > lead || start < 1 || start+lead > len(h.Values) {
		return Scores{}, fmt.Errorf("backtest: start %d, lead %d, stride %d, window %d do not fit %d values", start, lead, stride, window, len(h.Values))
	}
	s, gaps := NewScorer(lead, window), 0
	if perDay, err := h.perDay(); err == nil && perDay <= lead && perDay >= window {
		s.FirstDay(perDay)
	}
	for at := start; at+lead <= len(h.Values); at += stride {
		truth := h.Values[at : at+lead]
		if hasGap(truth) {
			s.Skip()
			gaps++
			continue
		}
		b, err := predictBand(m, h.until(at), lead)
		switch {
		case errors.Is(err, ErrHistory):
			s.Skip()
		case err != nil:
			return Scores{}, err
		default:
			s.Add(b.Expected, b.Low, b.High, truth)
		}
	}
	if n := s.scores.Skipped; s.scores.Forecasts == 0 && gaps == n {
		first := start + slices.IndexFunc(h.Values[start:], math.IsNaN)
		return Scores{}, fmt.Errorf("backtest: %w: each of the %d forecasts of %d slots runs into one, the first at %s; accepted: at least %d values in a row, or a shorter lead",
			ErrGaps, n, lead, h.Start.Add(time.Duration(first)*h.Step).Format(time.RFC3339), lead)
	}
	return s.Scores()
}

// predictBand is Predict, with quantiles where the model states them.
func predictBand(m Model, h History, lead int) (Band, error) {
	if b, ok := m.(banded); ok {
		return b.Band(h, lead)
	}
	out := make([]float64, lead)
	return Band{Expected: out}, m.Predict(h, out)
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
