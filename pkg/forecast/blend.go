package forecast

import (
	"fmt"
	"math"
	"sync"
)

func tooShort(model string, days int) error {
	return fmt.Errorf("%w: %s needs about %d days", ErrHistory, model, days)
}

// Blend is the mean of other models, weighted for each day ahead by their
// recent skill: the inverse of their decayed mean squared error to the power of
// sharpness. With History.Weather, a WeatherRidge is mixed in. Errors are those of forecasts that were issued slot by slot from
// what was known then. A model that cannot predict yet has no weight. It is
// safe for concurrent use.
//
// Source: Bates and Granger, The combination of forecasts, Operational Research
// Quarterly 20(4), 1969. Complexity: a prediction of every model for each slot
// that is learnt; memory O(models x leads^2) for the forecasts under way.
type Blend struct {
	Models []Model
	// Window is how many days of a long history the models learn from: that many, or up to a third
	// more, so that what was learnt stands for a month or so. A WeatherRidge learns from all. 0 means
	// all for all.
	Window int

	memo    memo
	leads   int
	perDay  int
	issued  [][]float64 // by model: ring of forecasts, leads^2, NaN where none
	squared [][]float64 // by model and lead: decayed mean squared error
	weight  [][]float64 // the decayed count behind it
	errors  *Errors     // of the blend itself
	weather weatherMix

	// turn is held from a prediction until what it left behind has been read.
	turn sync.Mutex
}

// sharpness turns the blend from a mean (0) towards the best model alone.
const sharpness = 6

// NewBlend returns a blend of all models of this package that work live.
func NewBlend() *Blend {
	return &Blend{Models: []Model{
		SeasonalNaive{Days: 1}, SeasonalNaive{Days: 7}, DayWeighted{}, MovingAverage{N: 24}, &HoltWinters{}, &Ridge{},
	}}
}

// unknownSpread is how far a forecast may be off while no errors are known.
var unknownSpread = Spread{Low: 0.5, High: 1.6}

// Band forecasts n slots with their quantiles, from the blend's own past errors
// at each lead time. Errors: as for Predict.
func (m *Blend) Band(h History, n int) (Band, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	out := make([]float64, n)
	if err := m.predictInTurn(h, out); err != nil {
		return Band{}, err
	}
	m.memo.mu.Lock()
	defer m.memo.mu.Unlock()
	return m.pastErrors().Around(out, 0, unknownSpread), nil
}

// Accuracy is the recent mean absolute percentage error (a share) of forecasts
// up to leads slots ahead, and how many values it rests on.
func (m *Blend) Accuracy(leads int) (mape float64, n int) {
	m.memo.mu.Lock()
	defer m.memo.mu.Unlock()
	if m.errors == nil {
		return 0, 0
	}
	return m.pastErrors().MAPE(leads)
}

// Predict implements Model.
func (m *Blend) Predict(h History, out []float64) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	return m.predictInTurn(h, out)
}

// predictInTurn predicts. The caller holds turn.
func (m *Blend) predictInTurn(h History, out []float64) error {
	if h.Weather.known() {
		return m.withWeather(h, out)
	}
	recent, _, err := m.recent(h)
	if err != nil {
		return err
	}
	return m.memo.run(m, recent, out)
}

// recent is the part of h that the models learn from, and the slot at which it begins.
func (m *Blend) recent(h History) (History, int, error) {
	perDay, err := h.perDay()
	if err != nil || m.Window <= 0 {
		return h, 0, err
	}
	window, move := m.Window*perDay, max(1, m.Window*perDay/3)
	from := max(0, len(h.Values)-window) / move * move
	return h.since(from), from, nil
}

// pastErrors returns the errors of the models that made the last prediction.
func (m *Blend) pastErrors() *Errors {
	if m.weather.errors != nil {
		return m.weather.errors
	}
	return m.errors
}

func (m *Blend) reset(_ History, perDay, leads int) {
	m.leads, m.perDay = leads, perDay
	m.issued, m.squared, m.weight = nil, nil, nil
	for range len(m.Models) + 1 { // the last one is the blend
		m.issued = append(m.issued, nans(leads*leads))
		m.squared = append(m.squared, make([]float64, leads))
		m.weight = append(m.weight, make([]float64, leads))
	}
	m.errors = NewErrors(leads)
	m.weather.reset()
}

func nans(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// ring is the row of the forecast that was issued when slot n began.
func (m *Blend) ring(model, n int) []float64 {
	r := n % m.leads
	return m.issued[model][r*m.leads : (r+1)*m.leads]
}

func (m *Blend) learn(h History, n int) {
	if y := h.Values[n]; !math.IsNaN(y) {
		for model := range m.issued {
			for k := range min(m.leads, n+1) {
				f := m.ring(model, n-k)[k]
				if math.IsNaN(f) {
					continue
				}
				if model == len(m.Models) {
					m.errors.Add(k, f, y)
					continue
				}
				w := &m.weight[model][k]
				*w = *w*skillMemory + 1
				s := &m.squared[model][k]
				*s += ((f-y)*(f-y) - *s) / *w
			}
		}
	}
	known := h.until(n + 1)
	for model, other := range m.Models {
		row := m.ring(model, n+1)
		if err := other.Predict(known, row); err != nil {
			copy(row, nans(m.leads))
		}
	}
	row := m.ring(len(m.Models), n+1)
	m.mix(row, n+1)
	m.weather.keep(row, n+1, m.perDay)
}

// mix fills out with the weighted mean of the forecasts issued at slot n; NaN
// where no model has one. Weights are those of whole days ahead: weights that
// change from slot to slot would disturb the order of the slots, which is what
// scheduling needs.
func (m *Blend) mix(out []float64, n int) {
	weights := make([]float64, len(m.Models))
	for k := range out {
		if k%m.perDay == 0 {
			m.weigh(weights, k, min(k+m.perDay, len(out)))
		}
		sum, total := 0.0, 0.0
		for model, w := range weights {
			if f := m.ring(model, n)[k]; !math.IsNaN(f) {
				sum += w * f
				total += w
			}
		}
		out[k] = sum / total
	}
}

// weigh fills weights from the skill at leads [from, to).
func (m *Blend) weigh(weights []float64, from, to int) {
	for model := range weights {
		weights[model] = 1e-30 // untested: counts only where nothing else does
		squared, count := 0.0, 0.0
		for k := from; k < to; k++ {
			squared += m.squared[model][k] * m.weight[model][k]
			count += m.weight[model][k]
		}
		if count >= float64(m.perDay) {
			weights[model] = math.Pow(squared/count+1e-6, -sharpness)
		}
	}
}

func (m *Blend) predict(h History, out []float64) error {
	copy(out, m.ring(len(m.Models), len(h.Values)))
	if hasGap(out) {
		return tooShort("the blend", 7)
	}
	return nil
}
