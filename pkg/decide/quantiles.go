package decide

import (
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// Quantile is a run time still needed at MinWorkers that is not exceeded with probability P. Like
// Task.Remaining it includes what would be done again after a pause.
type Quantile struct {
	P         float64
	Remaining time.Duration
}

// Guarded returns the run time still needed at MinWorkers that the latest safe start leaves room for:
// the quantile of plan.SafeProbability, or the largest one known, if that is more than Remaining; and its
// probability, 0 if it is Remaining. A task whose delay is bounded (LatestStart) has a deadline that moves
// with its run time: it is not guarded.
func (t *Task) Guarded() (remaining time.Duration, p float64) {
	if !t.LatestStart.IsZero() {
		return t.Remaining, 0
	}
	remaining = t.Remaining
	for _, q := range t.Quantiles {
		if remaining, p = t.Remaining, 0; q.Remaining > t.Remaining {
			remaining, p = q.Remaining, q.P
		}
		if q.P >= plan.SafeProbability {
			break
		}
	}
	return remaining, p
}

// planEnd is when the plan of a task should end: by its deadline with the margin kept, and with room for
// what the guarded run time exceeds the expected one, an elastic task at its fastest scale. Commit, the
// repair and the latest safe start use it. Like the margin, the guard yields to deadlines.
func (t *Task) planEnd(margin time.Duration) time.Time {
	guard, _ := t.Guarded()
	guard -= t.Remaining
	if t.Scaling != nil {
		_, speedUp := t.Scaling.fastest()
		guard = time.Duration(float64(guard) / speedUp)
	}
	return t.Deadline.Add(-margin).Add(-guard)
}

// quantiles converts those of a task to slots, for plan.Guarded: each exceeds the length of the job by as
// much as it exceeds Remaining. Soft deadlines are not guarded: they are terms of the objective.
func (w *decider) quantiles(t *Task, jobLength float64) []workload.Quantile {
	if len(t.Quantiles) == 0 || !t.LatestStart.IsZero() || w.s.soft() {
		return nil
	}
	out := make([]workload.Quantile, len(t.Quantiles))
	for k, q := range t.Quantiles {
		length := math.Min(math.Max(jobLength+float64(q.Remaining-t.Remaining)/float64(w.s.Slot), minLength), math.MaxInt32)
		out[k] = workload.Quantile{P: q.P, Length: length}
	}
	return out
}

const (
	// fewQuantiles are too few to know a distribution by, as of a task that states its 95th percentile alone.
	fewQuantiles = 3
	// mostWeighed bounds the tasks of a decision whose lengths are weighed.
	mostWeighed = 300
	// smallReserve is the largest reserve beside which lengths are weighed, as a share of the capacity: the least that
	// package reserve keeps. Beside a larger one it makes results worse, see design 0023.
	smallReserve = 0.05
)

// weighLengths marks the elastic tasks whose delay is bounded and whose quantiles are known: a planner that weighs lengths
// (plan.WeighsLengths) gets the quantiles of a bounded number of them, the most urgent ones. It takes all others to have their
// mean length, including those that lose work, time or energy by a pause, and those that may move.
//
// Complexity: O(tasks log tasks).
func (w *decider) weighLengths() {
	var list []int
	for i := range w.items {
		t := &w.s.Tasks[i]
		pauses := t.Restart == 0 && t.RestartKWh == 0 && t.AtRisk == 0 // at no cost
		if t.Scaling != nil && !t.LatestStart.IsZero() && len(t.Quantiles) >= fewQuantiles && pauses && !t.Migratable {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return w.s.Tasks[a].LatestStart.Compare(w.s.Tasks[b].LatestStart) })
	for _, i := range list[:min(len(list), mostWeighed)] {
		w.items[i].weighed = true
	}
}

// unknown converts the quantiles of a task that is weighed to slots.
func (w *decider) unknown(t *Task, g timegrid.Grid, j *workload.Job) *workload.Unknown {
	out := &workload.Unknown{
		Delay:    float64(t.LatestStart.Add(-w.s.Margin).Sub(g.Time(j.Arrival))) / float64(g.Slot),
		Deadline: g.CeilSlot(t.Deadline.Add(-w.s.Margin)),
	}
	for _, q := range t.Quantiles {
		out.Quantiles = append(out.Quantiles, workload.Quantile{P: q.P, Length: math.Max(float64(q.Remaining)/float64(g.Slot), minLength)})
	}
	return out
}

// keepsDelay reports whether a task lies no further behind than its delay, less the margin, at the end of each pause: it is in
// time then whatever its length turns out to be.
func (w *decider) keepsDelay(i int, phases []Phase) bool {
	t := &w.s.Tasks[i]
	latest := t.LatestStart.Add(-w.s.Margin)
	runs := w.grid.Time(max(0, w.grid.CeilSlot(w.items[i].earliest))) // it runs, or cannot run before
	for k := range phases {
		if p := &phases[k]; p.From.After(runs) && p.From.After(latest.Add(t.workIn(phases[:k])+rounding)) {
			return false
		}
		runs = phases[k].To
	}
	return true
}

// validateQuantiles reports the first quantile that is not valid.
func (t *Task) validateQuantiles() error {
	last := Quantile{}
	for k, q := range t.Quantiles {
		switch {
		case !(q.P > last.P && q.P < 1):
			return fmt.Errorf("%w: task %q: quantiles[%d]: p: %v; accepted: above 0, below 1, rising", ErrSnapshot, t.ID, k, q.P)
		case q.Remaining < last.Remaining:
			return fmt.Errorf("%w: task %q: quantiles[%d]: remaining: %v; accepted: at least 0, not falling", ErrSnapshot, t.ID, k, q.Remaining)
		}
		last = q
	}
	return nil
}
