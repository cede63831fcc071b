// Package waitawhile implements Wait Awhile: jobs that can be paused run when the
// intensity is below a threshold, or in the cheapest slots before their deadline.
package waitawhile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "Wiesner et al., Let's Wait Awhile, Middleware 2021, in the forms that CarbonScaler (2023) and CarbonFlex (2025) compare with"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner waitawhile")

// Deadline is the deadline form: each job takes the k cheapest slots before its
// deadline. Its zero value is ready.
type Deadline struct{}

// Plan gives each job, in order of arrival, the slots of least emissions that the
// jobs before it have left: the k cheapest of a job that can be paused, the
// cheapest contiguous run of a rigid one. It does not scale. Ties: the earlier
// slot.
//
// Deviations from the source: jobs with a choice of cluster take the one on which
// they emit least.
//
// Errors: that of ctx. Complexity: O(jobs x clusters x T log T).
func (Deadline) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	return plan.PlaceEach(ctx, p, free, func(j, last int) (best []plan.Segment, considered int64, ok bool) {
		job := &p.Jobs[j]
		if job.Kind == workload.Rigid {
			segments, _, n, ok := free.CheapestRun(p, j, job.Arrival, last, 0)
			return segments, n, ok
		}
		least := math.Inf(1)
		for _, clusters := range p.Choices(j) {
			segments, grams, n, found := free.CheapestSlots(p, j, job.MinWorkers, clusters, job.Arrival, last, 0)
			considered += n
			if found && grams < least {
				best, least, ok = segments, grams, true
			}
		}
		return best, considered, ok
	})
}

// Threshold is the threshold form.
type Threshold struct {
	percentile float64
	ahead      time.Duration
}

// Params of the threshold form. Zero values mean the defaults.
type Params struct {
	// Percentile of the intensities ahead below which a job runs, above 0 to 100;
	// by default the 30th.
	Percentile float64
	// Ahead is how far those intensities reach; by default 24 h.
	Ahead time.Duration
}

// NewThreshold returns the planner, or an error wrapping ErrParams that names the
// parameter.
func NewThreshold(params Params) (Threshold, error) {
	if params.Percentile == 0 {
		params.Percentile = 30
	}
	if params.Ahead == 0 {
		params.Ahead = 24 * time.Hour
	}
	if !(params.Percentile > 0 && params.Percentile <= 100) {
		return Threshold{}, fmt.Errorf("%w: percentile: %v; accepted: above 0, at most 100", ErrParams, params.Percentile)
	}
	if params.Ahead < 0 {
		return Threshold{}, fmt.Errorf("%w: ahead: %v; accepted: above 0", ErrParams, params.Ahead)
	}
	return Threshold{params.Percentile, params.Ahead}, nil
}

// Plan runs each job, in order of arrival, in slots whose intensity is at or below
// the percentile of the hours ahead of that slot, and without a pause once its
// slack is gone. A rigid job starts in the first such slot in which its whole run
// finds room, or at its latest start.
//
// Deviations from the source: a job that finds no room as the rule wants runs as
// soon as it can; jobs with a choice of cluster take the one on which they then
// emit least, and do not move between clusters.
//
// Errors: that of ctx. Complexity: O(clusters x T x A) for A slots ahead, and
// O(clusters x T) a job.
func (m Threshold) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	thresholds := make([][]float64, len(p.Clusters))
	for c := range p.Clusters {
		thresholds[c] = m.thresholds(p.Clusters[c].Intensity, max(1, int(m.ahead/p.Grid.Slot)))
	}
	free := plan.NewFree(p)
	return plan.PlaceEach(ctx, p, free, func(j, last int) (best []plan.Segment, considered int64, ok bool) {
		least := math.Inf(1)
		for _, c := range p.Allowed(j) {
			segments := m.run(p, free, j, c, last, thresholds[c])
			considered += int64(max(0, last-p.Jobs[j].Arrival))
			if segments == nil {
				continue
			}
			grams := 0.0
			for _, s := range segments {
				grams += s.Fraction * p.SlotGrams(j, c, s.Slot, s.Workers)
			}
			if grams < least {
				best, least = segments, grams
			}
		}
		if best == nil {
			best, _ = free.Earliest(p, j, p.Jobs[j].Arrival, last, 0, false)
		}
		return best, considered, best != nil
	})
}

// thresholds is the percentile of the values ahead of each slot, itself included;
// fewer where the horizon ends.
func (m Threshold) thresholds(intensity []float64, ahead int) []float64 {
	out := make([]float64, len(intensity))
	window := append(make([]float64, 0, ahead), intensity[:min(len(intensity), ahead)]...)
	sort.Float64s(window)
	for t := range out {
		// Nearest rank: the least value that the given share does not exceed.
		out[t] = window[max(0, int(math.Ceil(m.percentile/100*float64(len(window))))-1)]
		at := sort.SearchFloat64s(window, intensity[t])
		window = append(window[:at], window[at+1:]...)
		if next := t + ahead; next < len(intensity) {
			window = slices.Insert(window, sort.SearchFloat64s(window, intensity[next]), intensity[next])
		}
	}
	return out
}

// run is the job on one cluster, or nil where it finds no room in time.
func (m Threshold) run(p *plan.Problem, free *plan.Free, j, c, last int, threshold []float64) []plan.Segment {
	job := &p.Jobs[j]
	need := job.Slots()
	intensity := p.Clusters[c].Intensity
	var slots []int
	if job.Kind == workload.Rigid {
		for t := job.Arrival; t+need <= last; t++ {
			if (intensity[t] <= threshold[t] || t+need == last) && free.FitsRun(j, c, t, need, job.MinWorkers, 0) < 0 {
				for i := range need {
					slots = append(slots, t+i)
				}
				break
			}
		}
	} else {
		for t := job.Arrival; t < last && len(slots) < need; t++ {
			noSlack := last-t <= need-len(slots)
			if (intensity[t] <= threshold[t] || noSlack) && free.FitsUnder(j, c, t, job.MinWorkers, 0) {
				slots = append(slots, t)
			}
		}
	}
	if len(slots) < need || need == 0 {
		return nil
	}
	clusters := make([]int, need)
	for i := range clusters {
		clusters[i] = c
	}
	return plan.Place(job, slots, clusters)
}
