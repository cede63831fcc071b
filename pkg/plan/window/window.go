// Package window is the time-shifting method of Piontek et al.: non-critical
// jobs wait for the cleanest window of the day.
package window

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/plan"
)

// Source names what the method is taken from.
const Source = "Piontek, Haghshenas, Aiello: Carbon emission-aware job scheduling for Kubernetes deployments, J. Supercomputing 80, 2024, Algorithm 1"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner window")

// Defaults of the paper's implementation (Section 4.1).
const (
	DefaultTimeFrame   = 24 * time.Hour
	DefaultWindowFrame = 6 * time.Hour
	DefaultMaxStale    = 24 * time.Hour
	// Reserve is the share of the cluster that non-critical jobs never use.
	Reserve = 0.05
	// CriticalReserve is the further share kept for critical jobs where the
	// load is expected to reach the whole capacity.
	CriticalReserve = 0.10
)

// Params are the parameters of Algorithm 1; the zero value of a field stands
// for the paper's.
type Params struct {
	// TimeFrame is how far ahead a window is looked for, counted from the
	// arrival of the job; WindowFrame is the length of the window.
	TimeFrame, WindowFrame time.Duration
	// MaxStale is how long a job may wait before it is treated as critical.
	MaxStale time.Duration
	// ExpectedLoad is the forecast share of the capacity in use, 0..1; at 1 the
	// further reserve for critical jobs applies.
	ExpectedLoad float64
	// CriticalClasses are the priority classes that never wait.
	CriticalClasses []string
}

// Planner is the method with its parameters, in slots when used.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams that names the field.
func New(params Params) (Planner, error) {
	for name, d := range map[string]*time.Duration{
		"timeFrame": &params.TimeFrame, "windowFrame": &params.WindowFrame, "maxStale": &params.MaxStale,
	} {
		if *d < 0 {
			return Planner{}, fmt.Errorf("%w: %s: %v; accepted: above 0", ErrParams, name, *d)
		}
	}
	setDefault(&params.TimeFrame, DefaultTimeFrame)
	setDefault(&params.WindowFrame, DefaultWindowFrame)
	setDefault(&params.MaxStale, DefaultMaxStale)
	if params.WindowFrame > params.TimeFrame {
		return Planner{}, fmt.Errorf("%w: windowFrame: %v; accepted: at most timeFrame (%v)", ErrParams, params.WindowFrame, params.TimeFrame)
	}
	if math.IsNaN(params.ExpectedLoad) || params.ExpectedLoad < 0 || params.ExpectedLoad > 1 {
		return Planner{}, fmt.Errorf("%w: expectedLoad: %v; accepted: 0 to 1", ErrParams, params.ExpectedLoad)
	}
	return Planner{params}, nil
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

// Plan applies Algorithm 1 to every job:
//
//	critical class, or no slack       -> as soon as it fits
//	waited MaxStale                   -> as soon as it fits
//	inside the window of lowest mean intensity within TimeFrame of its arrival,
//	and use stays under 1 - reserve   -> start
//	otherwise                         -> wait
//
// Critical jobs are placed first, then the others in order of arrival. When the
// limit keeps a job out of its window, the best window of what is left of its
// time frame is next. Jobs run in one piece at MinWorkers, whatever their kind:
// the method only shifts starts.
//
// Ties: the cluster first in the problem, then the earlier window.
//
// Deviations from the source: a window never begins past the latest start that
// keeps the deadline, and a job that would miss it otherwise starts as early as
// it must (the paper bounds the wait by 24 h and knows no completion deadline);
// the limit includes the job that asks; with several clusters the window is the
// best over all allowed ones; the forecast is the intensity in the problem.
//
// Errors: that of ctx. Complexity: O(jobs x clusters x T) for T slots a frame.
// Source: see Source; reserves from Section 4.1.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	s := scheduler{p: p, free: plan.NewFree(p), Params: pl.params, reserve: Reserve}
	s.frame, s.window, s.stale = s.slots(s.TimeFrame), s.slots(s.WindowFrame), s.slots(s.MaxStale)
	if s.ExpectedLoad >= 1 {
		s.reserve += CriticalReserve
	}
	var placed []plan.JobPlan
	var unplaced []plan.Unplaced
	order := plan.ByArrival(p)
	for _, critical := range []bool{true, false} {
		for _, j := range order {
			if s.critical(j) != critical {
				continue
			}
			if err := ctx.Err(); err != nil {
				return plan.Result{}, err
			}
			segments, ok := s.place(j, critical)
			if !ok {
				unplaced = append(unplaced, plan.Unplaced{Job: j, Why: plan.WhyNot(p, j)})
				continue
			}
			s.free.TakeAll(j, segments)
			placed = append(placed, plan.JobPlan{Job: j, Segments: segments})
		}
	}
	res := plan.Finish(p, placed, unplaced)
	res.Considered = s.considered
	return res, nil
}

type scheduler struct {
	Params
	p                    *plan.Problem
	free                 *plan.Free
	frame, window, stale int // slots
	reserve              float64
	considered           int64
}

// slots converts a duration to whole slots, at least one.
func (s *scheduler) slots(d time.Duration) int {
	return max(1, int(math.Round(float64(d)/float64(s.p.Grid.Slot))))
}

func (s *scheduler) critical(j int) bool {
	job := &s.p.Jobs[j]
	for _, class := range s.CriticalClasses {
		if job.PriorityClass == class {
			return true
		}
	}
	return job.LatestStart() <= job.Arrival
}

func (s *scheduler) place(j int, critical bool) ([]plan.Segment, bool) {
	job := &s.p.Jobs[j]
	cutOff := s.p.Objective.Kind == plan.MOSP
	last := s.p.LastSlot(j)
	if critical {
		return s.free.Earliest(s.p, j, job.Arrival, last, 0, cutOff)
	}
	// must is when waiting ends: stale, or the latest start.
	must := min(job.Arrival+max(0, s.stale-job.Waited), job.LatestStart(), s.p.Grid.N-1)
	frameEnd := job.Arrival + s.frame - job.Waited
	for from := job.Arrival; from < must; {
		c, start, ok := s.bestWindow(j, from, must, frameEnd)
		if !ok {
			break
		}
		for t := start; t < start+s.window && t <= must; t++ {
			if t+job.Slots() <= last && s.free.FitsRun(j, c, t, job.Slots(), job.MinWorkers, s.reserve) < 0 {
				return s.run(j, c, t), true
			}
		}
		from = start + s.window
	}
	if segments, ok := s.free.Earliest(s.p, j, max(must, job.Arrival), last, 0, cutOff); ok {
		return segments, true
	}
	// Waiting would cost the deadline: take what there is before.
	return s.free.Earliest(s.p, j, job.Arrival, last, 0, cutOff)
}

// bestWindow returns the window of lowest mean intensity among those that begin
// in [from, must] and end by frameEnd, over all allowed clusters. When what is
// left of the frame is shorter than a window, the only candidate is from.
func (s *scheduler) bestWindow(j, from, must, frameEnd int) (cluster, start int, ok bool) {
	lastStart := min(max(from, frameEnd-s.window), must)
	best := math.Inf(1)
	for _, c := range s.p.Allowed(j) {
		at, mean, found := cleanest(s.p.Clusters[c].Intensity, from, lastStart, s.window)
		s.considered += int64(max(0, lastStart-from+1))
		if found && mean < best-tieEps {
			best, cluster, start, ok = mean, c, at, true
		}
	}
	return cluster, start, ok
}

// cleanest is the window of lowest mean among those that begin in [from, last]; what would reach
// beyond the values ends with them. Ties: the earlier.
func cleanest(values []float64, from, last, window int) (start int, mean float64, ok bool) {
	sum, n, best := 0.0, 0, math.Inf(1)
	for t := from; t < min(from+window, len(values)); t++ {
		sum += values[t]
		n++
	}
	for t := from; t <= last && n > 0; t++ {
		if m := sum / float64(n); m < best-tieEps {
			best, start, ok = m, t, true
		}
		sum -= values[t]
		n--
		if next := t + window; next < len(values) {
			sum += values[next]
			n++
		}
	}
	return start, best, ok
}

// Next is Algorithm 1 where one job is asked for at a time, as a scheduler does: the first slot of
// the window to which the job is bound at slot now. values are the intensities of the job's time
// frame, from its arrival on, as far as they are known, window and now are in slots. The window is
// the one of lowest mean that lies in the frame; when it has passed without a start, that of what
// is left of the frame; a job with nothing left is bound to no window: now.
//
// Complexity: O(frame) a window that has passed.
func Next(values []float64, window, now int) int {
	for from := 0; from < len(values); {
		start, _, ok := cleanest(values, from, max(from, len(values)-window), window)
		switch {
		case !ok:
			return now
		case now < start+window:
			return start
		}
		from = start + window
	}
	return now
}

// tieEps keeps rounding of the sliding sum from deciding a tie, gCO2eq/kWh.
const tieEps = 1e-9

// run returns a run in one piece.
func (s *scheduler) run(j, c, start int) []plan.Segment {
	job := &s.p.Jobs[j]
	slots, clusters := make([]int, job.Slots()), make([]int, job.Slots())
	for i := range slots {
		slots[i], clusters[i] = start+i, c
	}
	return plan.Place(job, slots, clusters)
}
