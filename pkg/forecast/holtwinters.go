package forecast

import (
	"math"
	"time"
)

// HoltWinters is exponential smoothing with a daily and a weekly season and an
// autoregressive error, additive:
//
//	e_t = y_t - (l + D_d + W_w + phi e_{t-1})
//	l  += alpha e_t,  D_d += delta e_t,  W_w += omega e_t
//	y_{t+k} = l + D_{d(t+k)} + W_{w(t+k)} + phi^k r_t
//
// r_t is y_t less level and seasons, d and w the slot of the local day and week.
// Of a small grid of parameters the set with the least recent squared error a
// day ahead is used. It is safe for concurrent use.
//
// Source: Taylor, Short-term electricity demand forecasting using double
// seasonal exponential smoothing, JORS 54(8), 2003. Complexity: O(1) a slot for
// each of the parameter sets.
type HoltWinters struct {
	memo memo
	bank []smoother
	day  int // slots of a day
	base slotClock
}

// smoothing is one set of parameters.
type smoothing struct{ alpha, delta, omega, phi float64 }

// smoothings is the grid that is tried; hourly gains.
var smoothings = func() (out []smoothing) {
	for _, alpha := range []float64{0.005, 0.02} {
		for _, delta := range []float64{0.03, 0.1} {
			for _, omega := range []float64{0.02, 0.1} {
				for _, phi := range []float64{0.9, 0.97} {
					out = append(out, smoothing{alpha, delta, omega, phi})
				}
			}
		}
	}
	return out
}()

// skillMemory is the decay of an old squared error, per slot of an hour: a half
// is forgotten in three weeks.
var skillMemory = math.Pow(0.5, 1.0/(21*24))

type smoother struct {
	smoothing
	level     float64
	day, week []float64
	visits    []int // of each slot of the week
	residual  float64
	errorEMA  float64
	ahead     []float64 // ring: what was forecast for each slot, a day ahead
	started   bool
}

// slotClock tells the slot of the local day and week.
type slotClock struct{ perDay int }

func (c slotClock) week(h History, i int) int {
	// The Unix epoch was a Thursday; weeks begin on Monday.
	at := time.Duration(h.Start.Unix())*time.Second + time.Duration(i)*h.Step + h.utcOffset(i) + 3*24*time.Hour
	slots := int(at / h.Step)
	n := 7 * c.perDay
	return ((slots % n) + n) % n
}

// Predict implements Model.
func (m *HoltWinters) Predict(h History, out []float64) error { return m.memo.run(m, h, out) }

func (m *HoltWinters) reset(_ History, perDay, _ int) {
	m.day, m.base = perDay, slotClock{perDay}
	m.bank = m.bank[:0]
	for _, p := range smoothings {
		m.bank = append(m.bank, smoother{
			smoothing: p, day: make([]float64, perDay), week: make([]float64, 7*perDay), visits: make([]int, 7*perDay),
			ahead: make([]float64, perDay+1),
		})
	}
}

func (m *HoltWinters) learn(h History, n int) {
	y, w, ahead := h.Values[n], m.base.week(h, n), m.base.week(h, n+m.day)
	for i := range m.bank {
		m.bank[i].learn(y, n, w, ahead, m.day)
	}
}

func (s *smoother) learn(y float64, n, w, ahead, perDay int) {
	d := w % perDay
	if math.IsNaN(y) {
		s.residual *= s.phi // what is unknown teaches nothing; the disturbance fades
	} else {
		if !s.started {
			s.level, s.started = y, true
		}
		if n >= perDay {
			e := y - s.ahead[n%len(s.ahead)]
			s.errorEMA = skillMemory*s.errorEMA + (1-skillMemory)*e*e
		}
		e := y - (s.level + s.day[d] + s.week[w])
		// The first rounds learn faster: a season is the mean of what was seen.
		visits := float64(s.visits[w] + 1)
		s.level += math.Max(s.alpha, 1/float64(n+2)) * e
		s.day[d] += math.Max(s.delta, 0.5/visits) * e
		s.week[w] += math.Max(s.omega, 0.2/visits) * e
		s.visits[w]++
		s.residual = y - (s.level + s.day[d] + s.week[w])
	}
	s.ahead[(n+perDay)%len(s.ahead)] = s.at(perDay, ahead, perDay)
}

// at predicts k slots ahead, the slot w of the week.
func (s *smoother) at(k, w, perDay int) float64 {
	return s.level + s.day[w%perDay] + s.week[w] + math.Pow(s.phi, float64(k))*s.residual
}

func (m *HoltWinters) predict(h History, out []float64) error {
	best := 0
	for i := range m.bank {
		if m.bank[i].errorEMA < m.bank[best].errorEMA {
			best = i
		}
	}
	n := len(h.Values)
	for i := range out {
		s := &m.bank[best]
		out[i] = clip(s.at(i+1, m.base.week(h, n+i), m.day), s.level)
	}
	return nil
}
