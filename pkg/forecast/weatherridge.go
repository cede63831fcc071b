package forecast

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// WeatherRidge is a linear regression for each lead time on weather, generation and the
// past, fitted in one go on the forecasts that could have been issued at the same hour
// of each day before. It minimises
//
//	sum_i 2^(-age(i)/halfLife) (z_i - a - b'x_i)^2 + lambda |b|^2
//
// where z is the logarithm of the intensity over the mean of the week before the issue,
// and x are standardised features, clipped to featureBound standard deviations: the last
// values and means; the same local time on earlier days; the calendar; power curves of
// wind, sun, heating and cooling degrees and dew point at the time predicted and at those
// earlier times; shares of generation. A forecast stays within the range of z that was
// learnt.
//
// It fits at fixed slots, every refitDays, so that equal histories give equal forecasts,
// and keeps the fits: one for each slot of the day that forecasts are issued at. It needs
// History.Weather and weatherWarmup days. It is safe for concurrent use.
//
// Source: Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970. The features
// are our own. Complexity: a fit of d days, p features and L leads is O(L p^2 (d + p)), a
// prediction O(L p); memory O(d p + L p).
type WeatherRidge struct {
	mu       sync.Mutex
	start    time.Time
	step     time.Duration
	location string
	columns  int
	horizon  int
	seen     []float64
	fits     map[int]*weatherFit // by slot of the day of the issue
}

const (
	weatherLambda   = 30.0 // in units of one observation of a standardised feature
	weatherHalfLife = 240  // days
	refitDays       = 28
	// earlyRefitDays is how often it fits while it knows fewer than fewDays, and has fewer
	// features and fewLambda times the penalty.
	earlyRefitDays = 7
	fewDays        = 270
	fewLambda      = 3
	// weatherWarmup is the days before which nothing is fitted.
	weatherWarmup = 60
	// weatherReach is how many days features reach back.
	weatherReach = 29
	// featureBound is how far a standardised feature counts.
	featureBound = 4.0
	// fewestIssues is how many past forecasts a fit rests on at the least.
	fewestIssues = 20
)

// weatherFit is what was learnt until slot at.
type weatherFit struct {
	at    int
	t     transform
	floor float64
	leads []leadFit
}

// leadFit predicts intercept + b'x for one lead, x standardised, within [low, high].
type leadFit struct {
	mean, inverse, b     []float64 // inverse of the standard deviation, 0 if that is 0
	intercept, low, high float64
}

// anchor is the slot at which the coefficients for an issue at slot n are fitted.
func anchor(n, perDay int) int {
	days, every := n/perDay, refitDays
	if days < fewDays {
		every = earlyRefitDays
	}
	return days/every*every*perDay + n%perDay
}

// Predict implements Model. A history without weather is ErrHistory.
func (m *WeatherRidge) Predict(h History, out []float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	perDay, err := h.perDay()
	if err != nil {
		return err
	}
	if !h.Weather.known() {
		return fmt.Errorf("%w: no weather", ErrHistory)
	}
	n := len(h.Values)
	at := anchor(n, perDay)
	if at < weatherWarmup*perDay || !slices.ContainsFunc(h.Values[n-weatherReach*perDay:], isKnown) {
		return tooShort("ridge regression with weather", weatherWarmup)
	}
	m.recall(h)
	fit := m.fits[n%perDay]
	if fit == nil || fit.at != at || len(fit.leads) < len(out) {
		if fit = fitWeather(h.until(at), len(out), perDay); fit == nil {
			return tooShort("ridge regression with weather", weatherWarmup)
		}
		m.fits[n%perDay] = fit
	}
	f := newFrame(h, n-(weatherReach+1)*perDay, n, len(out), perDay, fit.floor, fit.t)
	var x []float64
	for k := range out {
		x = f.features(x[:0], n, n+k)
		out[k] = clip(math.Exp(f.base(n)+fit.leads[k].predict(x)), math.Exp(f.base(n)))
	}
	return nil
}

func isKnown(v float64) bool { return !math.IsNaN(v) }

// recall forgets the fits if h is not a part or a continuation of what was seen.
func (m *WeatherRidge) recall(h History) {
	known := min(len(m.seen), len(h.Values))
	columns := len(h.Weather.columns()) + len(h.Weather.Generation)
	if m.fits != nil && m.start.Equal(h.Start) && m.step == h.Step && m.location == h.Location.String() &&
		m.columns == columns && m.horizon == h.Weather.Horizon && same(m.seen[:known], h.Values[:known]) {
		m.seen = append(m.seen, h.Values[known:]...)
		return
	}
	m.start, m.step, m.location, m.columns, m.horizon = h.Start, h.Step, h.Location.String(), columns, h.Weather.Horizon
	m.seen = append(m.seen[:0], h.Values...)
	m.fits = map[int]*weatherFit{}
}

// same compares two stretches of values, gaps included.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

// fitWeather learns from all of h, forecasts of the given leads. It returns nil if a lead
// has too few values.
func fitWeather(h History, leads, perDay int) *weatherFit {
	n := len(h.Values)
	few := n < fewDays*perDay
	lambda := weatherLambda
	if few {
		lambda *= fewLambda
	}
	fit := &weatherFit{at: n, t: newTransform(h.Weather, n, few), floor: floorOf(h.Values), leads: make([]leadFit, leads)}
	f := newFrame(h, 0, n, 0, perDay, fit.floor, fit.t)
	var s sample
	for k := range fit.leads {
		s.reset()
		for at := n - perDay; at >= weatherReach*perDay; at -= perDay {
			if at+k >= n || math.IsNaN(h.Values[at+k]) {
				continue
			}
			s.x = f.features(s.x, at, at+k)
			s.y = append(s.y, f.log[at+k]-f.base(at))
			s.w = append(s.w, math.Pow(0.5, float64(n-at)/float64(weatherHalfLife*perDay)))
		}
		if len(s.y) < fewestIssues {
			return nil
		}
		fit.leads[k] = s.fit(lambda)
	}
	return fit
}

func (l *leadFit) predict(x []float64) float64 {
	sum := l.intercept
	for j, v := range x {
		sum += l.b[j] * standard(v, l.mean[j], l.inverse[j])
	}
	return math.Min(l.high, math.Max(l.low, sum))
}
