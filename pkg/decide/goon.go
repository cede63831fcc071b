package decide

import (
	"math"
	"slices"
	"time"
)

// goOnCode is the reason for which a running task goes on as it is until it is done, if its plan says so:
// CodePauseDoesNotPay or CodeMoveDoesNotPay if there are cleaner hours here or elsewhere before
// its deadline, but not by what the pause or move would cost. Otherwise it is CodeCleanNow. The
// planner has decided: this says why.
//
// Complexity: O(clusters x slots log slots).
func (w *decider) goOnCode(i int) Code {
	t, x := &w.s.Tasks[i], &w.items[i]
	if !x.goesOn || t.State != Running || w.s.soft() || t.AtRisk == 0 && t.RestartKWh+t.TransferKWh == 0 {
		return CodeCleanNow
	}
	home, on := w.place(t.Cluster), w.grams(i, x.phases)
	code, least := CodeCleanNow, on*(1-1e-9)
	for _, c := range w.allowed(t) {
		if w.curves[c] == nil {
			continue
		}
		values := slices.Clone(w.filled[c].Values[:max(1, min(w.grid.N, w.grid.CeilSlot(t.Deadline.Add(-w.s.Margin))))])
		slices.Sort(values)
		free := w.cleanestGrams(i, c, values, w.ahead(i))
		cost := t.RestartKWh * w.s.Clusters[c].pue() * values[0]
		if c != home {
			cost += t.TransferKWh * values[0] / 2
			if w.curves[home] != nil {
				cost += t.TransferKWh * w.curves[home].Mean(w.s.Now, w.s.Now.Add(w.s.Slot)) / 2
			}
		}
		if free >= least || w.cleanestGrams(i, c, values, t.Remaining)+cost < on {
			continue // no cleaner, or cleaner by more than it costs: there was no room
		}
		code, least = CodePauseDoesNotPay, free
		if c != home {
			code = CodeMoveDoesNotPay
		}
	}
	return code
}

// cleanestGrams is what some work of a task emits at MinWorkers on a cluster, in the slots of the
// least of the sorted intensities.
func (w *decider) cleanestGrams(i, c int, values []float64, work time.Duration) float64 {
	sum := 0.0
	for k := 0; work > 0; k++ {
		part := min(work, w.s.Slot)
		sum += part.Hours() * values[min(k, len(values)-1)]
		work -= part
	}
	return math.Max(0, w.watts(i, c, w.s.Tasks[i].least())/1000*sum)
}
