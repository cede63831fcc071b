// Package reserve learns from the recent past which share of capacity plans should keep free for
// work to come.
//
//	l, err := reserve.New(reserve.Default())
//	l.Observe(now, arrivals) // at each decision: what came that nobody knew of and could not wait
//	snapshot.Reserve = l.Share()
//	kept := l.State() // after a restart: reserve.Restore(reserve.Default(), kept)
//
// Of each hour the Learner keeps the peak: the largest share of the capacity that urgent arrivals
// took at the same time. An arrival counts from when it came, while it runs, for Ahead at most: from
// then on plans are made beside it. The share to keep free is a quantile of the peaks of the last
// Hours hours. Unknown hours count as Params.Start, so that a short past does not
// make the reserve smaller than it was at the start.
//
// The package is pure. A Learner is bounded in memory, and the same observations give the same share.
// It is not safe for concurrent use.
package reserve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrParams marks parameters that make no sense, ErrState a state that cannot be restored.
var (
	ErrParams = errors.New("invalid parameters of a learned reserve")
	ErrState  = errors.New("invalid state of a learned reserve")
)

const (
	// Hours is how many hours the Learner remembers.
	Hours = 7 * 24
	// Ahead is how soon an arrival must start to be urgent, and how long it counts at most.
	Ahead = time.Hour
	// bin is the resolution at which arrivals run at the same time.
	bin  = 5 * time.Minute
	bins = int(Ahead/bin) + 1
	// steps is to how many parts of the capacity peaks are rounded up, so that a state is short and a
	// restored Learner says what the first one said.
	steps = 1000
)

// Params say how a reserve follows from what was observed. All are shares, 0 to 1.
type Params struct {
	// Quantile of the hourly peaks that the reserve covers.
	Quantile float64
	// Least and Most bound the reserve. Start counts for unknown hours.
	Least, Most, Start float64
}

// Default returns the parameters that controllers and simulator use.
func Default() Params { return Params{Quantile: 0.99, Least: 0.05, Most: 0.7, Start: 0.5} }

func (p Params) validate() error {
	switch {
	case !(p.Quantile > 0 && p.Quantile <= 1):
		return fmt.Errorf("%w: quantile: %v; accepted: above 0, at most 1", ErrParams, p.Quantile)
	case !(p.Least >= 0 && p.Least <= p.Most):
		return fmt.Errorf("%w: least: %v; accepted: 0 to most (%v)", ErrParams, p.Least, p.Most)
	case !(p.Most < 1):
		return fmt.Errorf("%w: most: %v; accepted: below 1", ErrParams, p.Most)
	case !(p.Start >= p.Least && p.Start <= p.Most):
		return fmt.Errorf("%w: start: %v; accepted: least to most (%v to %v)", ErrParams, p.Start, p.Least, p.Most)
	}
	return nil
}

// Arrival is work that came unannounced and had to start within Ahead.
type Arrival struct {
	// Share of the capacity of all clusters that it may use, 0 to 1, by the scarcest of its resources.
	Share float64
	// Alone is that share of the cluster on which it is least. A reserve is kept on each cluster, so
	// this much is needed however many clusters there are.
	Alone float64
	// Length is how long it is expected to run.
	Length time.Duration
}

// State is what a Learner knows.
type State struct {
	// Until is when it observed last.
	Until time.Time
	// Peaks of the last hours, in thousandths of the capacity, the hour of Until last. Of the hours
	// before them nothing is known.
	Peaks []int
}

// Learner learns a reserve. New and Restore make one.
type Learner struct {
	params Params
	since  time.Time
	until  time.Time
	peaks  []int // of the last hours, newest last; at most Hours
	// taken is the share that urgent arrivals take in the bins from first on: see slot.
	taken [bins]float64
	first int64
	// unobserved says that nobody observed from until on: the state was restored.
	unobserved bool
	share      float64
	stale      bool // peaks have changed since share was worked out
}

// New returns a Learner that has observed nothing, or an error wrapping ErrParams.
func New(p Params) (*Learner, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &Learner{params: p, stale: true}, nil
}

// Restore returns a Learner with a state. Of the time from then until it first observes, nothing is known.
//
// It returns an error wrapping ErrParams or ErrState, which names what is not accepted.
func Restore(p Params, s State) (*Learner, error) {
	l, err := New(p)
	switch {
	case err != nil:
		return nil, err
	case len(s.Peaks) > Hours:
		return nil, fmt.Errorf("%w: peaks: %d; accepted: at most %d", ErrState, len(s.Peaks), Hours)
	case s.Until.IsZero() != (len(s.Peaks) == 0):
		return nil, fmt.Errorf("%w: until: %s with %d peaks; accepted: a time with peaks, or neither", ErrState, s.Until.Format(time.RFC3339), len(s.Peaks))
	}
	for i, v := range s.Peaks {
		if v < 0 || v > steps {
			return nil, fmt.Errorf("%w: peaks[%d]: %d; accepted: 0 to %d", ErrState, i, v, steps)
		}
	}
	l.since, l.until, l.peaks, l.unobserved = s.Until, s.Until, slices.Clone(s.Peaks), len(s.Peaks) > 0
	return l, nil
}

// State returns what the Learner knows; the zero State before it has observed.
func (l *Learner) State() State { return State{l.until, slices.Clone(l.peaks)} }

// Since returns the time from which on arrivals count: work that was submitted before was there when
// the Learner first observed, or known to the one whose state it has. It is zero before that.
func (l *Learner) Since() time.Time { return l.since }

// Observe takes in what came since the last observation. The first observation takes in no arrivals:
// nobody made plans before it. An observation earlier than the last counts as one at that time; one at
// the zero time is ignored.
//
// Complexity: O(arrivals), and O(Hours) once an hour.
func (l *Learner) Observe(now time.Time, came []Arrival) {
	switch {
	case now.IsZero():
		return
	case l.until.IsZero():
		l.since, l.until, l.first, l.peaks, l.stale = now, now, binOf(now), []int{0}, true
		return
	}
	l.advance(now)
	highest := 0.0
	for i := range came {
		a := &came[i]
		highest = max(highest, proper(a.Alone))
		for k := range int64(bins) {
			if k > 0 && time.Duration(k)*bin >= a.Length {
				break
			}
			*l.slot(l.first + k) += proper(a.Share)
		}
	}
	if len(came) == 0 {
		return // what runs at the same time grows with arrivals only
	}
	highest = min(1, max(highest, *l.slot(l.first)))
	peak := rounded(highest)
	if last := &l.peaks[len(l.peaks)-1]; peak > *last {
		*last, l.stale = peak, true
	}
}

// proper returns a share as far as it is one.
func proper(share float64) float64 {
	if !(share > 0) {
		return 0
	}
	return min(1, share)
}

// rounded returns a share in steps, rounded up.
func rounded(share float64) int { return int(math.Ceil(share*steps - 1e-9)) }

// advance moves the hours and bins on to now.
func (l *Learner) advance(now time.Time) {
	if !now.After(l.until) {
		return
	}
	hours := hourOf(now) - hourOf(l.until)
	between := 0
	if l.unobserved {
		between, l.first, l.taken, l.unobserved = rounded(l.params.Start), binOf(now), [bins]float64{}, false
	}
	if hours = min(hours, Hours); hours > 0 {
		for range hours - 1 {
			l.peaks = append(l.peaks, between)
		}
		l.peaks, l.stale = append(l.peaks, 0), true // the hour of now
	}
	if extra := len(l.peaks) - Hours; extra > 0 {
		l.peaks = slices.Delete(l.peaks, 0, extra)
	}
	k := binOf(now)
	for l.first = max(l.first, k-int64(bins)); l.first < k; l.first++ {
		*l.slot(l.first) = 0
	}
	l.until = now
}

// slot returns what is taken in a bin, counted from 1970.
func (l *Learner) slot(k int64) *float64 { return &l.taken[(k%int64(bins)+int64(bins))%int64(bins)] }

func binOf(at time.Time) int64  { return floorDiv(at.Unix(), int64(bin/time.Second)) }
func hourOf(at time.Time) int64 { return floorDiv(at.Unix(), int64(time.Hour/time.Second)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Share returns the share of capacity to keep free: the quantile of the hourly peaks, within the
// bounds. It is the smallest of the peaks that no more than 1 - Quantile of the hours exceed.
//
// Complexity: O(Hours log Hours) after a peak has changed, O(1) else.
func (l *Learner) Share() float64 {
	if l.stale {
		start := l.params.Start * steps
		all := make([]float64, Hours)
		for i := range all {
			all[i] = start
		}
		for i, v := range l.peaks {
			all[Hours-len(l.peaks)+i] = float64(v)
		}
		slices.Sort(all)
		rank := int(math.Ceil(l.params.Quantile*Hours - 1e-9))
		l.share = min(l.params.Most, max(l.params.Least, all[max(1, rank)-1]/steps))
		l.stale = false
	}
	return l.share
}
