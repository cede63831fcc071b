package decide

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// soonestFit places a task as soon as possible so that it ends by a time: in one piece, or if
// it can be interrupted, in the pieces that are free.
func (w *decider) soonestFit(l *capacity.Ledger, i int, by time.Time) ([]Phase, bool) {
	t := &w.s.Tasks[i]
	best, _ := w.onePiece(l, i, by, t.scales(), false)
	if t.Kind == workload.Rigid {
		return w.priced(best), best != nil
	}
	for _, across := range []bool{false, true} {
		if across && w.inTime(i, best) {
			break
		}
		for _, c := range w.roomiest(l, i) {
			if phases := w.pieces(l, i, c, by, across); len(phases) > 0 && (best == nil || phases[len(phases)-1].To.Before(best[len(best)-1].To)) {
				best = phases
			}
		}
	}
	return w.priced(best), best != nil
}

// leastPiece is the shortest run between two pauses that a repair makes.
const leastPiece = time.Minute

// pieces fills what is free on a cluster from the earliest start on, an elastic task at the
// largest scale that fits, each piece up to its last checkpoint; nil if the work is not done by the given time. A run begins where
// the room of one step is long enough for it, or if across is set, that of steps which follow one another: it is free then from the first of many short
// steps on. Such runs are for tasks that have no other place in time. They change their scale often, and emitted 1 % more in "lull reproduce carbonflex fig11" where
// all tasks could have them.
func (w *decider) pieces(l *capacity.Ledger, i, c int, by time.Time, across bool) []Phase {
	t, x := &w.s.Tasks[i], &w.items[i]
	if by.Before(x.earliest) { // also without any work that is left, a phase would end before it begins
		return nil
	}
	cluster, left := l.Cluster(w.s.Clusters[c].Name), float64(t.Remaining)
	most := 1
	if t.Scaling != nil {
		most, _ = t.Scaling.fastest()
	}
	var out []Phase
	starting := time.Duration(0) // for how long the last run still starts
	from := x.earliest
	steps := append(slices.Clone(l.Changes(cluster, from, by)), by)
	room := func(k int) int { // the workers that fit in a step, 0 if it has no room for the task
		start := x.earliest
		if k > 0 {
			start = steps[k-1]
		}
		if t.Scaling == nil {
			if l.Fits(cluster, x.need, 1, start, steps[k]) {
				return 1
			}
		} else if n := l.Room(cluster, x.need, most, start, steps[k]); n >= t.Scaling.MinWorkers {
			return n
		}
		return 0
	}
	for k := 0; k < len(steps); k++ {
		to, workers := steps[k], room(k)
		if workers == 0 {
			from = to
			continue
		}
		joins := len(out) > 0 && out[len(out)-1].To.Equal(from) && (!t.restartsToScale() || out[len(out)-1].Workers == workers)
		if t.Checkpoint+t.Restart > 0 && !joins {
			out = t.cut(out, w.s.Now)
			var saved, unsaved time.Duration
			saved, unsaved, starting = t.savedBy(append(out, Phase{From: from, To: from, Cluster: w.s.Clusters[c].Name, Workers: workers}), w.s.Now)
			left = float64(t.Remaining - saved - unsaved)
		}
		if !joins {
			if last, work := t.runIn(steps, room, k, from, starting, across && !t.restartsToScale()); steps[last].Sub(from) < starting+leastPiece && work < left {
				k, from = last, steps[last]
				continue
			}
		}
		rate := t.rate(workers)
		end := from.Add(starting + time.Duration(math.Ceil(left/rate)))
		if end.After(to) {
			end = to
		}
		left, starting = left-rate*float64(max(0, end.Sub(from)-starting)), max(0, starting-end.Sub(from))
		if joins && out[len(out)-1].Workers == workers {
			out[len(out)-1].To = end
		} else {
			out = append(out, Phase{From: from, To: end, Cluster: w.s.Clusters[c].Name, Workers: workers})
		}
		if left <= 0 {
			return out
		}
		from = to
	}
	return nil
}

// runIn is the last of the steps with room that follow one another from step k on, and the work that a run in them does; of step k alone if across is
// not set. What others leave has boundaries where as much is free before and after. The steps that it looks at are as long as a start and leastPiece, and one more.
func (t *Task) runIn(steps []time.Time, room func(k int) int, k int, from time.Time, starting time.Duration, across bool) (last int, work float64) {
	for at := from; k < len(steps) && at.Sub(from) < starting+leastPiece; k++ {
		workers := room(k)
		if workers == 0 {
			break
		}
		work += t.rate(workers) * float64(max(0, steps[k].Sub(at)-max(0, starting-at.Sub(from))))
		if at, last = steps[k], k; !across {
			break
		}
	}
	return last, work
}
