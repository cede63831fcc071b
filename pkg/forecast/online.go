package forecast

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// learner is a model that learns slot by slot. memo drives it, so that Predict
// stays a function of the history alone: what was learnt from a history that
// this one continues is kept, anything else is learnt anew.
type learner interface {
	// reset forgets everything; forecasts will reach at most leads slots. h tells
	// the step, the start and the location.
	reset(h History, perDay, leads int)
	// learn takes in slot n; h.Values[:n+1] is known then.
	learn(h History, n int)
	// predict fills out for the slots after the end of h, all of which is learnt.
	predict(h History, out []float64) error
}

// memo remembers which history a learner has seen.
type memo struct {
	mu       sync.Mutex
	start    time.Time
	step     time.Duration
	location string
	leads    int
	exog     int // History.covariates
	seen     []float64
	offsets  []time.Duration // looked up once: time zones are slow
}

// run brings l up to h and predicts.
//
// Complexity: O(len(h.Values)) comparisons, and one learn for each slot that is
// new; all of them when the history is not one that continues the last.
func (m *memo) run(l learner, h History, out []float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	perDay, err := h.perDay()
	if err != nil {
		return err
	}
	if _, ok := latest(h.Values); !ok {
		return fmt.Errorf("%w: no value", ErrHistory)
	}
	if !m.continues(h) || len(out) > m.leads {
		m.start, m.step, m.location, m.seen = h.Start, h.Step, h.Location.String(), m.seen[:0]
		m.exog = h.covariates()
		m.offsets = m.offsets[:0]
		m.leads = max(m.leads, len(out))
		l.reset(h, perDay, m.leads)
	}
	if h.Location != nil && len(h.offsets) == 0 {
		for i := len(m.offsets); i < len(h.Values)+m.leads+1; i++ {
			m.offsets = append(m.offsets, h.utcOffset(i))
		}
		h.offsets = m.offsets
	}
	for n := len(m.seen); n < len(h.Values); n++ {
		l.learn(h, n)
		m.seen = append(m.seen, h.Values[n])
	}
	return l.predict(h, out)
}

// continues reports whether h begins with all that was seen. A revised value in
// the past makes it another history.
func (m *memo) continues(h History) bool {
	if m.leads == 0 || !m.start.Equal(h.Start) || m.step != h.Step || m.location != h.Location.String() || m.exog != h.covariates() || len(h.Values) < len(m.seen) {
		return false
	}
	for i, v := range m.seen {
		if v != h.Values[i] && !(math.IsNaN(v) && math.IsNaN(h.Values[i])) {
			return false
		}
	}
	return true
}

// covariates counts what a history has beside its values: a learner starts anew if that
// changes.
func (h History) covariates() int {
	if h.Weather.known() {
		return len(h.Exogenous) + 1
	}
	return len(h.Exogenous)
}

// clip keeps a prediction finite and at least 0; what is not a number becomes
// the stand-in.
func clip(v, standIn float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return standIn
	}
	return math.Max(0, v)
}
