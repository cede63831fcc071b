package forecast

import (
	"math"
)

// Ridge is a linear regression for each lead time on what is known when the
// forecast is issued: the last values, means of the last hours, days and week,
// the same local time on earlier days, the time of day and of the week, and
// covariates at the time predicted, where there are any. It minimises
//
//	sum_i decay^age(i) (y_i - b'x_i)^2 + lambda |b|^2
//
// over all that was observed so far, by recursive normal equations; values are
// divided by their running mean, so that lambda has no unit. It is safe for
// concurrent use.
//
// Source: Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970.
// Complexity: for p features and L leads, O(L p^2) a slot to learn and O(L p^3)
// once a day to solve; memory O(L p^2).
type Ridge struct {
	memo  memo
	clock slotClock
	leads []normal
	p     int
	full  []float64 // values with gaps filled
	sum   []float64 // prefix sums of full
	x     []float64
	scale float64
	count float64
	sines [][4]float64 // by slot of the day
}

const (
	// ridgeLambda is the penalty, in units of one observation of mean size.
	ridgeLambda = 1.0
	// ridgeWarmup is the days of history before which nothing is fitted.
	ridgeWarmup = 10
	fixed       = 17 // features without covariates
)

// ridgeMemory forgets half of an observation in 120 days of hourly slots.
var ridgeMemory = math.Pow(0.5, 1.0/(120*24))

// normal is the normal equations of one lead: lower triangle of X'X, and X'y.
type normal struct {
	xx, xy []float64
	b      []float64
	n      float64
}

// Predict implements Model.
func (m *Ridge) Predict(h History, out []float64) error { return m.memo.run(m, h, out) }

func (m *Ridge) reset(h History, perDay, leads int) {
	m.clock = slotClock{perDay}
	m.p = fixed + len(h.Exogenous)
	m.leads = make([]normal, leads)
	for k := range m.leads {
		m.leads[k] = normal{xx: make([]float64, m.p*(m.p+1)/2), xy: make([]float64, m.p)}
	}
	m.full, m.sum, m.x = m.full[:0], append(m.sum[:0], 0), make([]float64, m.p)
	m.scale, m.count = 0, 0
	m.sines = make([][4]float64, perDay)
	for s := range m.sines {
		a := 2 * math.Pi * float64(s) / float64(perDay)
		m.sines[s] = [4]float64{math.Sin(a), math.Cos(a), math.Sin(2 * a), math.Cos(2 * a)}
	}
}

// mean of the last n values before slot end.
func (m *Ridge) mean(end, n int) float64 {
	from := max(0, end-n)
	if end <= from {
		return 0
	}
	return (m.sum[end] - m.sum[from]) / float64(end-from)
}

// value is a filled value; the first known one before the history.
func (m *Ridge) value(i int) float64 {
	if i < 0 {
		return m.full[0]
	}
	return m.full[i]
}

// features fills m.x for a forecast issued when slot end begins, for slot at.
// end and at-end days are at least ridgeWarmup days into the history.
func (m *Ridge) features(h History, end, at int) {
	perDay, perHour := m.clock.perDay, max(1, m.clock.perDay/24)
	ahead := (at-end)/perDay + 1 // whole days back until the day is known
	day := func(n int) float64 {
		j := h.daysBefore(at, n, perDay)
		return m.value(min(j, end-1)) / m.scale
	}
	week := 7 * ((ahead + 6) / 7)
	slot := m.clock.week(h, at)
	sines := m.sines[slot%perDay]
	weekend, target := 0.0, m.clock.week(h, at)/perDay
	if target >= 5 {
		weekend = 1
	}
	sunday := 0.0
	if target == 6 {
		sunday = 1
	}
	var days float64
	for n := range 5 {
		days += day(ahead + n)
	}
	x := m.x
	x[0] = 1
	x[1] = m.value(end-1) / m.scale
	x[2] = m.mean(end, 3*perHour) / m.scale
	x[3] = m.mean(end, perDay) / m.scale
	x[4] = m.mean(end, 3*perDay) / m.scale
	x[5] = m.mean(end, 7*perDay) / m.scale
	x[6] = m.mean(end, 28*perDay) / m.scale
	x[7] = day(ahead)
	x[8] = day(ahead + 1)
	x[9] = day(week)
	x[10] = days / 5
	x[11] = m.value(end-perDay) / m.scale // with x[1]: how far now is from yesterday
	copy(x[12:16], []float64{sines[0], sines[1], sines[2], sines[3]})
	x[16] = weekend + sunday*0.5
	for j, covariate := range h.Exogenous {
		x[fixed+j] = 0
		if at < len(covariate) && at < h.Weather.limit(end) && !math.IsNaN(covariate[at]) {
			x[fixed+j] = covariate[at]
		}
	}
}

func (m *Ridge) learn(h History, n int) {
	perDay := m.clock.perDay
	y := h.Values[n]
	m.fill(h, n)
	if !math.IsNaN(y) {
		m.count++
		m.scale += (math.Max(y, 1e-3) - m.scale) / math.Min(m.count, float64(ridgeWarmup*perDay))
		if m.count > float64(ridgeWarmup*perDay) && n > 0 {
			for k := range m.leads {
				if end := n - k; end >= ridgeWarmup*perDay {
					m.features(h, end, n)
					m.leads[k].add(m.x, y/m.scale)
				}
			}
		}
	}
	if (n+1)%perDay == 0 {
		for k := range m.leads {
			m.leads[k].solve(m.p)
		}
	}
}

// fill appends slot n: its value, else that of the day before, else the last.
func (m *Ridge) fill(h History, n int) {
	v := h.Values[n]
	if math.IsNaN(v) {
		switch j := h.daysBefore(n, 1, m.clock.perDay); {
		case j >= 0 && j < n:
			v = m.full[j]
		case n > 0:
			v = m.full[n-1]
		default:
			v = 0
		}
	}
	m.full = append(m.full, v)
	m.sum = append(m.sum, m.sum[n]+v)
}

func (e *normal) add(x []float64, y float64) {
	i := 0
	for r, xr := range x {
		e.xy[r] = e.xy[r]*ridgeMemory + xr*y
		for _, xc := range x[:r+1] {
			e.xx[i] = e.xx[i]*ridgeMemory + xr*xc
			i++
		}
	}
	e.n = e.n*ridgeMemory + 1
}

// solve finds the coefficients by Cholesky's decomposition; equations that are
// not positive definite in spite of the penalty keep the last coefficients.
func (e *normal) solve(p int) {
	if e.n < float64(2*p) {
		return
	}
	l := append([]float64(nil), e.xx...)
	row := func(r int) []float64 { return l[r*(r+1)/2 : r*(r+1)/2+r+1] }
	for r := range p {
		if r > 0 {
			row(r)[r] += ridgeLambda
		}
		for c := range r + 1 {
			sum := row(r)[c]
			for k := range c {
				sum -= row(r)[k] * row(c)[k]
			}
			if c < r {
				row(r)[c] = sum / row(c)[c]
				continue
			}
			if !(sum > 1e-12) {
				return
			}
			row(r)[r] = math.Sqrt(sum)
		}
	}
	b := append([]float64(nil), e.xy...)
	for r := range p {
		for k := range r {
			b[r] -= row(r)[k] * b[k]
		}
		b[r] /= row(r)[r]
	}
	for r := p - 1; r >= 0; r-- {
		for k := r + 1; k < p; k++ {
			b[r] -= row(k)[r] * b[k]
		}
		b[r] /= row(r)[r]
	}
	e.b = b
}

func (m *Ridge) predict(h History, out []float64) error {
	end := len(h.Values)
	if end < ridgeWarmup*m.clock.perDay {
		return tooShort("ridge regression", ridgeWarmup)
	}
	for k := range out {
		e := &m.leads[k]
		if e.b == nil {
			return tooShort("ridge regression", ridgeWarmup+5)
		}
		m.features(h, end, end+k)
		v := 0.0
		for i, x := range m.x {
			v += e.b[i] * x
		}
		out[k] = clip(v*m.scale, m.value(end-1))
	}
	return nil
}
