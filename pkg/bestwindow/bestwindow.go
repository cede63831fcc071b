// Package bestwindow finds the time of least mean carbon intensity for one run on one
// machine. Planners (pkg/plan) place many jobs in slots under a capacity; here there is one
// run, nothing to share, and a start at any moment.
package bestwindow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// ErrRequest marks a request that no window can meet. The error names the field, its value
// and what is accepted.
var ErrRequest = errors.New("invalid request for a window")

// Reason says why a run starts when it does. The words are those of decide.Code where both
// say the same.
type Reason string

// The reasons there are.
const (
	// CleanerLater: a later start emits less, by at least Request.MinSaving.
	CleanerLater Reason = "CleanerLater"
	// CleanNow: no later start emits less.
	CleanNow Reason = "CleanNow"
	// SavingTooSmall: a later start emits less, but by less than Request.MinSaving.
	SavingTooSmall Reason = "SavingTooSmall"
	// NoSlack: the run takes all the time there is.
	NoSlack Reason = "NoSlack"
	// NoCarbonData: the intensity of a run that starts now is not known, so there is nothing
	// to compare a later start with.
	NoCarbonData Reason = "NoCarbonData"
)

// tieEps is how much cleaner, in gCO2eq/kWh, a later window must be to count as cleaner. It
// lies above the rounding of prefix sums of carbon.Series, also for windows of a second.
const tieEps = 1e-5

// Request says what is to run.
type Request struct {
	// Now is the earliest start, EndBy the latest end.
	Now, EndBy time.Time
	// Length is how long the run takes.
	Length time.Duration
	// MinSaving is the least share of the emissions, 0 to 1, for which a run waits.
	MinSaving float64
}

// LatestStart is the last moment at which a run still ends by EndBy.
func (r Request) LatestStart() time.Time { return r.EndBy.Add(-r.Length) }

func (r Request) check() error {
	switch {
	case r.Length <= 0:
		return fmt.Errorf("%w: length: %v; accepted: above 0", ErrRequest, r.Length)
	case r.LatestStart().Before(r.Now):
		return fmt.Errorf("%w: length: %v; accepted: at most the time until the latest end, %v", ErrRequest, r.Length, r.EndBy.Sub(r.Now))
	case !(r.MinSaving >= 0 && r.MinSaving <= 1):
		return fmt.Errorf("%w: least saving: %v; accepted: 0 to 1", ErrRequest, r.MinSaving)
	}
	return nil
}

// Choice is when a run starts, and why.
type Choice struct {
	// Start and End are the window of the run.
	Start, End time.Time
	// LatestStart is that of the request.
	LatestStart time.Time
	// Mean is the mean intensity over the window, MeanNow that over a run that starts at
	// Request.Now. Both are 0 if Reason is NoCarbonData, or if the curve does not cover the run.
	Mean, MeanNow units.CarbonIntensity
	// Best is the cleanest window and BestMean its mean, whether or not the run takes it.
	Best     carbon.Interval
	BestMean units.CarbonIntensity
	// Reason says why Start is what it is.
	Reason Reason
}

// Saving is the share of the emissions that the chosen window saves against a start at
// Request.Now; 0 if nothing is saved or known.
func (c Choice) Saving() float64 { return Saving(c.Mean, c.MeanNow) }

// BestSaving is the share that the cleanest window would save against a start at Request.Now.
func (c Choice) BestSaving() float64 { return Saving(c.BestMean, c.MeanNow) }

// Saving is the share by which mean is less than baseline: negative if it is more, 0 if
// baseline is 0.
func Saving(mean, baseline units.CarbonIntensity) float64 {
	if baseline <= 0 {
		return 0
	}
	return 1 - float64(mean/baseline)
}

// Find returns the start in [Now, EndBy-Length] of least mean intensity over the run, or Now
// if that saves less than MinSaving.
//
//	minimize  1/L * integral of ci(t) dt over [s, s+L)
//	s.t.      Now <= s <= EndBy - L,  the curve covers [s, s+L)
//
// The objective is continuous and linear between the starts at which the start or the end of
// the run meets a boundary of a sample, so one of those, or a bound of s, is the optimum; the
// start needs no grid.
//
// The curve may have gaps and may end before EndBy: windows that it does not cover in full are
// left out. If it does not cover [Now, Now+L), the run starts at Now with NoCarbonData. A nil
// curve is one without samples.
//
// Ties: the earliest start. Errors: Find returns ErrRequest if no run can end in time.
//
// Complexity: O(n log n) for n samples between Now and EndBy.
func Find(curve *carbon.Series, r Request) (Choice, error) {
	if err := r.check(); err != nil {
		return Choice{}, err
	}
	c := Choice{Start: r.Now, End: r.Now.Add(r.Length), LatestStart: r.LatestStart(), Reason: NoCarbonData}
	c.Best = carbon.Interval{From: c.Start, To: c.End}
	now, known := mean(curve, r.Now, r.Length)
	c.Mean, c.MeanNow, c.BestMean = now, now, now
	switch {
	case r.LatestStart().Equal(r.Now):
		c.Reason = NoSlack
		return c, nil
	case !known:
		return c, nil
	}
	start, best, _ := cleanest(curve, r.Now, r.LatestStart(), r.Length)
	c.Best, c.BestMean = carbon.Interval{From: start, To: start.Add(r.Length)}, best
	switch {
	case start.Equal(r.Now):
		c.Reason = CleanNow
	case c.BestSaving() < r.MinSaving:
		c.Reason = SavingTooSmall
	default:
		c.Reason, c.Start, c.End, c.Mean = CleanerLater, c.Best.From, c.Best.To, best
	}
	return c, nil
}

// Revise returns the start of a run that waits for planned, on a newer curve. The delay until
// planned was accepted before, so Revise takes the cleanest start in [Now, planned] whatever
// it saves. It takes a start after planned only if this saves at least MinSaving against that:
// forecasts that change cannot put off a run again and again for little. If the curve does not
// cover a run at planned, planned stands.
//
// Ties, errors and complexity are those of Find.
func Revise(curve *carbon.Series, r Request, planned time.Time) (Choice, error) {
	if err := r.check(); err != nil {
		return Choice{}, err
	}
	if planned.After(r.LatestStart()) {
		planned = r.LatestStart()
	}
	if planned.Before(r.Now) {
		planned = r.Now
	}
	start := planned
	at, known := mean(curve, planned, r.Length)
	if known {
		start, at, _ = cleanest(curve, r.Now, planned, r.Length)
		if later, m, ok := cleanest(curve, planned, r.LatestStart(), r.Length); ok && m < at-tieEps && Saving(m, at) >= r.MinSaving {
			start, at = later, m
		}
	}
	c := Choice{Start: start, End: start.Add(r.Length), LatestStart: r.LatestStart(), Mean: at, Reason: CleanerLater}
	c.MeanNow, _ = mean(curve, r.Now, r.Length)
	c.Best, c.BestMean = carbon.Interval{From: c.Start, To: c.End}, at
	switch {
	case !start.Equal(r.Now):
	case r.LatestStart().Equal(r.Now):
		c.Reason = NoSlack
	case known:
		c.Reason = CleanNow
	default:
		c.Reason = NoCarbonData
	}
	return c, nil
}

// mean is the mean intensity of a run; false unless the curve covers all of it.
func mean(curve *carbon.Series, start time.Time, length time.Duration) (units.CarbonIntensity, bool) {
	if curve == nil || curve.Len() == 0 {
		return 0, false
	}
	m, covered := curve.Mean(start, start.Add(length))
	if covered < length {
		return 0, false
	}
	return m, true
}

// cleanest returns the start in [low, high] of least mean; false if the curve covers none.
func cleanest(curve *carbon.Series, low, high time.Time, length time.Duration) (start time.Time, best units.CarbonIntensity, ok bool) {
	if curve == nil {
		return low, 0, false
	}
	starts := []time.Time{low, high}
	add := func(boundary time.Time) {
		for _, s := range [2]time.Time{boundary, boundary.Add(-length)} {
			if s.After(low) && s.Before(high) {
				starts = append(starts, s)
			}
		}
	}
	for i := curve.IndexAt(low); i < curve.Len() && curve.Sample(i).From.Before(high.Add(length)); i++ {
		add(curve.Sample(i).From)
		add(curve.Sample(i).To)
	}
	slices.SortFunc(starts, time.Time.Compare)
	best = units.CarbonIntensity(math.Inf(1))
	start = low
	for _, s := range starts {
		if m, known := mean(curve, s, length); known && m < best-tieEps {
			start, best, ok = s, m, true
		}
	}
	return start, best, ok
}
