package decide

import (
	"cmp"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// Where a decision deviates from the planner, it keeps the reserve as planners do: Snapshot.Reserve.

// besideReserve is what a task takes on a cluster at a scale together with the reserve of the resources
// that it takes, and how often.
func (w *decider) besideReserve(l *capacity.Ledger, i, c, workers int) (need []capacity.Need, times float64) {
	t, cl := &w.s.Tasks[i], &w.s.Clusters[c]
	n := t.workersOf(&Phase{Workers: workers})
	if w.s.Reserve == 0 {
		return w.items[i].need, n
	}
	with := make(map[string]float64, len(t.Request))
	for r, amount := range t.Request {
		if amount > 0 {
			with[r] = n*amount + w.s.Reserve*cl.CapacityNow(r)
		}
	}
	return l.Demand(with), 1
}

// roomiest lists the clusters that a task may use. With a reserve, the one comes first of which the least
// share of what the task needs is in use: what has to start now takes as little of a reserve as possible.
func (w *decider) roomiest(l *capacity.Ledger, i int) []int {
	t, x := &w.s.Tasks[i], &w.items[i]
	out := w.allowed(t)
	if w.s.Reserve == 0 || len(out) < 2 {
		return out
	}
	share := make(map[int]float64, len(out))
	for _, c := range out {
		share[c] = l.Share(l.Cluster(w.s.Clusters[c].Name), x.need, x.earliest)
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(share[a], share[b]) })
	return out
}

// patience is the share of its slack that a task may wait for a place beside the reserve that is no cleaner
// than now. Where much of the capacity is in use most of the time, a reserve would else have all tasks
// wait until their latest start.
const patience = 0.75

// spareSlack starts a waiting task now, if there is room, in the reserve too, that would wait beyond patience
// for no cleaner power. It reports whether the task starts.
func (w *decider) spareSlack(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	if w.s.Reserve == 0 || w.s.soft() || x.earliest.After(w.s.Now) || !w.pauses(i) {
		return false
	}
	slack := x.latest.Sub(t.Submitted)
	if !x.phases[0].From.After(t.Submitted.Add(time.Duration(patience * float64(slack)))) {
		return false
	}
	planned := w.grams(i, x.phases)
	for _, c := range w.roomiest(w.ledger, i) {
		now := []Phase{w.phase(i, c, w.s.Now, t.Remaining, max(x.phases[0].Workers, t.least()))}
		if w.curves[c] != nil && w.grams(i, now) <= planned*(1+equalGrams) && w.try(i, now, "") {
			return true
		}
	}
	return false
}

// equalGrams is the relative difference up to which emissions are the same.
const equalGrams = 1e-9
