package forecast

import (
	"math"
	"slices"
)

const (
	// errorsKept is how many past errors of a lead time are remembered: about a
	// month of hourly forecasts.
	errorsKept = 720
	// errorsNeeded is how many errors a quantile rests on at the least.
	errorsNeeded = 24
)

// Quantiles that a band states.
const (
	LowQuantile  = 0.1
	HighQuantile = 0.9
)

// Band is a forecast with its 10 % and 90 % quantiles, gCO2eq/kWh.
type Band struct{ Low, Expected, High []float64 }

// Errors remembers how far forecasts were off, by lead time, as the ratio of
// what came to what was forecast, and the mean of their absolute percentage
// errors, of which a half is forgotten in three weeks of hourly slots.
type Errors struct {
	leads []pastErrors
	// conformal takes the quantiles of the errors and one more, which nobody knows: few
	// errors seem closer together than those to come.
	conformal bool
}

type pastErrors struct {
	ratios []float64 // ring, in the order of arrival
	next   int
	sorted []float64
	ape    float64
	weight float64
}

// NewErrors remembers errors of up to leads slots ahead.
func NewErrors(leads int) *Errors { return &Errors{leads: make([]pastErrors, max(1, leads))} }

// Add remembers that forecast was issued for the slot lead slots ahead (0 is the
// first one), and what came. Leads beyond those kept count as the last one.
// Values of zero are left out: a ratio says nothing there.
func (e *Errors) Add(lead int, forecast, actual float64) {
	if !(forecast > 0) || !(actual > 0) || math.IsInf(forecast, 0) || math.IsInf(actual, 0) {
		return
	}
	r := &e.leads[e.index(lead)]
	ratio := actual / forecast
	if len(r.ratios) < errorsKept {
		r.ratios = append(r.ratios, ratio)
	} else {
		old, _ := slices.BinarySearch(r.sorted, r.ratios[r.next])
		r.sorted = slices.Delete(r.sorted, old, old+1)
		r.ratios[r.next] = ratio
		r.next = (r.next + 1) % errorsKept
	}
	at, _ := slices.BinarySearch(r.sorted, ratio)
	r.sorted = slices.Insert(r.sorted, at, ratio)
	r.weight = r.weight*skillMemory + 1
	r.ape += (math.Abs(actual-forecast)/actual - r.ape) / r.weight
}

func (e *Errors) index(lead int) int { return min(max(0, lead), len(e.leads)-1) }

// MAPE is the mean absolute percentage error (a share) of the first leads, and
// how many forecasts it rests on.
func (e *Errors) MAPE(leads int) (share float64, n int) {
	sum, weights := 0.0, 0.0
	for _, r := range e.leads[:min(leads, len(e.leads))] {
		sum += r.ape * r.weight
		weights += r.weight
		n += len(r.ratios)
	}
	if weights == 0 {
		return 0, 0
	}
	return sum / weights, n
}

// Ratios returns the 10 % and 90 % quantiles of what came over what was forecast
// at a lead time. Where fewer than a day of errors are known, those of the
// longest shorter lead with enough are widened with the root of the lead time,
// as errors that add up do; false where there is none.
func (e *Errors) Ratios(lead int) (low, high float64, ok bool) {
	at := e.index(lead)
	known := at
	for known >= 0 && len(e.leads[known].sorted) < errorsNeeded {
		known--
	}
	if known < 0 {
		return 0, 0, false
	}
	sorted := e.leads[known].sorted
	grow := math.Sqrt(float64(max(lead, known)+1) / float64(known+1))
	lowest, highest := LowQuantile, HighQuantile
	if e.conformal {
		lowest = conformal(LowQuantile, len(sorted))
		highest = 1 - lowest
	}
	return math.Pow(quantile(sorted, lowest), grow), math.Pow(quantile(sorted, highest), grow), true
}

// conformal is the share of n sorted values below which one more lies with probability q, of
// a half or less.
func conformal(q float64, n int) float64 {
	return math.Max(0, (q*float64(n+1)-1)/float64(n-1))
}

// quantile interpolates between the order statistics of a sorted sample.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Spread is how far an intensity may be off, as factors of the expected one,
// where no past errors tell.
type Spread struct{ Low, High float64 }

// Around states a band around a forecast whose first value is lead slots ahead,
// from the errors of the past where enough are known, else from unknown. It
// always contains the forecast.
//
// Complexity: O(len(expected)).
func (e *Errors) Around(expected []float64, lead int, unknown Spread) Band {
	b := Band{Low: make([]float64, len(expected)), Expected: expected, High: make([]float64, len(expected))}
	for i, v := range expected {
		low, high, ok := e.Ratios(lead + i)
		if !ok {
			low, high = unknown.Low, unknown.High
		}
		b.Low[i], b.High[i] = v*math.Min(1, low), v*math.Max(1, high)
	}
	return b
}
