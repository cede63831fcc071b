package forecast

import (
	"errors"
	"math"
)

// weatherMix is what a Blend keeps to take in a WeatherRidge. The lock of the blend's memo
// guards it, except for the ridge, which has its own.
type weatherMix struct {
	ridge WeatherRidge
	// rows are past forecasts of the other models' blend, by slot of issue modulo their
	// number; nil where there is none. They are kept without weather, too, for Paths.
	rows [][]float64
	// tried are past forecasts of the ridge, by slot of issue.
	tried  map[int][]float64
	errors *Errors // of the mix, at the slot of the day of the last forecast
	// ratios are what came over what the mix had forecast, by past forecast and lead.
	ratios [][]float64
}

const (
	// mixDays is how many days of past forecasts the weights of the mix rest on.
	mixDays = 56
	// mixNeeded is how many of them make a ridge count.
	mixNeeded = 14
	// mixSharpness is the power of the squared error that weights are the inverse of. On the
	// half years before the test periods of forecast-bench, 2 is worse, and the ridge alone no
	// better in regret.
	mixSharpness = 4.0
)

// reset forgets what was kept.
func (x *weatherMix) reset() { x.rows, x.tried, x.errors, x.ratios = nil, nil, nil, nil }

// keep remembers the forecast of the other models that was issued when slot n began.
func (x *weatherMix) keep(row []float64, n, perDay int) {
	if x.rows == nil {
		x.rows = make([][]float64, (mixDays+1)*perDay)
	}
	at := n % len(x.rows)
	x.rows[at] = append(x.rows[at][:0], row...)
}

// withWeather forecasts as the blend of the other models and the ridge regression with
// weather do together: their mean, weighted for each day ahead by the inverse of the mean
// squared error of forecasts issued at the same slot of the days before, to the power of
// mixSharpness. If the ridge cannot predict yet, the others stand alone.
func (m *Blend) withWeather(h History, out []float64) error {
	if h.Exogenous == nil {
		h.Exogenous = h.Weather.covariates()
	}
	recent, from, err := m.recent(h)
	if err != nil {
		return err
	}
	if err := m.memo.run(m, recent, out); err != nil {
		return err
	}
	m.memo.mu.Lock()
	defer m.memo.mu.Unlock()
	x, n := &m.weather, len(h.Values)
	x.errors, x.ratios = nil, nil
	past, err := x.past(h, from, len(out), m.perDay)
	if err != nil {
		return err
	}
	ridge := make([]float64, len(out))
	if err := x.ridge.Predict(h, ridge); err != nil {
		if errors.Is(err, ErrHistory) {
			return nil
		}
		return err
	}
	x.tried[n] = append([]float64(nil), ridge...)
	if len(past) < mixNeeded {
		return nil
	}
	share := make([]float64, len(out)) // of the ridge
	for k := 0; k < len(out); k += m.perDay {
		s := shareOf(h, past, k, min(k+m.perDay, len(out)))
		for j := k; j < min(k+m.perDay, len(out)); j++ {
			share[j] = s
		}
	}
	x.errors, x.ratios = NewErrors(len(out)), nil
	x.errors.conformal = true
	for _, p := range past {
		ratios := nans(len(out))
		for k := 0; k < len(out) && p.at+k < n; k++ {
			f := mean2(p.others[k], p.ridge[k], share[k])
			if y := h.Values[p.at+k]; isKnown(y) && f > 0 {
				x.errors.Add(k, f, y)
				ratios[k] = y / f
			}
		}
		if !hasGap(ratios) {
			x.ratios = append(x.ratios, ratios)
		}
	}
	for k := range out {
		out[k] = mean2(out[k], ridge[k], share[k])
	}
	return nil
}

// Paths returns what may come in the n slots after h, gCO2eq/kWh, each path as likely as
// the others: the forecast times what came over what was forecast, slot by slot, after each
// forecast issued at the same slot of the last days. So the errors of a path hang together
// as they did then, and sums over hours have the right spread.
//
// Errors: as for Predict; ErrHistory with fewer than mixNeeded such forecasts. Complexity: that of Predict, and O(mixDays x n).
func (m *Blend) Paths(h History, n int) ([][]float64, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	out := make([]float64, n)
	if err := m.predictInTurn(h, out); err != nil {
		return nil, err
	}
	m.memo.mu.Lock()
	defer m.memo.mu.Unlock()
	past := m.weather.ratios
	if !h.Weather.known() || m.weather.errors == nil { // the other models stand alone
		_, from, err := m.recent(h)
		if err != nil {
			return nil, err
		}
		past = m.weather.othersRatios(h, from, n, m.perDay)
	}
	if len(past) < mixNeeded {
		return nil, tooShort("the spread of a forecast", weatherWarmup+mixNeeded)
	}
	paths := make([][]float64, len(past))
	for i, ratios := range past {
		paths[i] = make([]float64, n)
		for k, v := range out {
			paths[i][k] = v * ratios[k]
		}
	}
	return paths, nil
}

// othersRatios are what came over what the other models had forecast, by lead, after forecasts issued at the same slot of the last
// days of h. Forecasts of which a part is not known are left out. The other models learnt from slot from on.
func (x *weatherMix) othersRatios(h History, from, leads, perDay int) [][]float64 {
	n := len(h.Values)
	var out [][]float64
	for at := n - mixDays*perDay; at+leads <= n; at += perDay {
		if at < from || x.rows == nil {
			continue
		}
		row := x.rows[(at-from)%len(x.rows)]
		if len(row) < leads {
			continue
		}
		ratios := make([]float64, leads)
		for k := range ratios {
			if ratios[k] = h.Values[at+k] / row[k]; !isKnown(h.Values[at+k]) || !(row[k] > 0) {
				ratios[k] = math.NaN()
			}
		}
		if !hasGap(ratios) {
			out = append(out, ratios)
		}
	}
	return out
}

func mean2(a, b, share float64) float64 { return a + share*(b-a) }

// pastForecast is what both predicted when slot at began.
type pastForecast struct {
	at            int
	others, ridge []float64
}

// past returns the forecasts issued at the same slot of the last mixDays days, oldest
// first: those of the ridge are made now where they were not before, from what was known
// then. The other models learnt from slot from on.
func (x *weatherMix) past(h History, from, leads, perDay int) ([]pastForecast, error) {
	if x.tried == nil {
		x.tried = map[int][]float64{}
	}
	n := len(h.Values)
	var out []pastForecast
	for at := n - mixDays*perDay; at < n; at += perDay {
		if at < weatherWarmup*perDay || at < from || x.rows == nil {
			continue
		}
		others := x.rows[(at-from)%len(x.rows)]
		if len(others) < leads || hasGap(others) {
			continue
		}
		ridge := x.tried[at]
		if len(ridge) < leads {
			ridge = make([]float64, leads)
			if err := x.ridge.Predict(h.until(at), ridge); errors.Is(err, ErrHistory) {
				continue
			} else if err != nil {
				return nil, err
			}
			x.tried[at] = ridge
		}
		out = append(out, pastForecast{at, others, ridge})
	}
	for at := range x.tried {
		if at < n-(mixDays+1)*perDay {
			delete(x.tried, at)
		}
	}
	return out, nil
}

// shareOf is the weight of the ridge at leads [from, to), from 0 to 1.
func shareOf(h History, past []pastForecast, from, to int) float64 {
	others, ridge := 0.0, 0.0
	for _, p := range past {
		for k := from; k < to && p.at+k < len(h.Values); k++ {
			if y := h.Values[p.at+k]; isKnown(y) {
				others += (p.others[k] - y) * (p.others[k] - y)
				ridge += (p.ridge[k] - y) * (p.ridge[k] - y)
			}
		}
	}
	if others+ridge == 0 {
		return 0.5
	}
	a, b := math.Pow(others, mixSharpness), math.Pow(ridge, mixSharpness)
	return a / (a + b)
}
