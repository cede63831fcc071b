package decide

import (
	"slices"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// savesTooLittle has a task start or run on now whose plan waits, pauses or moves for less than the least saving, or saves in a smaller
// share of the paths of the forecast than Snapshot.SavingConfidence. It reports whether the task does. The room must be free beside all
// others and the reserve.
//
// Complexity: O(clusters x scales x log steps), and with a confidence O(clusters x scales x paths x phases).
func (w *decider) savesTooLittle(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	if w.s.MinSaving == 0 && w.s.SavingConfidence == 0 || w.s.soft() || w.s.Objective.PriceWeight > 0 || x.earliest.After(w.s.Now) || t.Unscheduled {
		return false
	}
	planned, now := w.grams(i, x.phases), []Phase(nil)
	enough := func(now []Phase) bool {
		if planned > w.grams(i, now)*(1-w.s.MinSaving)*(1+equalGrams) {
			return false
		}
		return w.s.SavingConfidence == 0 || w.odds(i, x.phases, now).Confident(w.s.SavingConfidence)
	}
	if t.State == Running {
		if t.Kind == workload.Rigid || !w.pauses(i) && !w.moves(i) {
			return false
		}
		if on := []Phase{w.on(i)}; w.curves[w.place(on[0].Cluster)] != nil && !enough(on) {
			now = on
		}
	} else if w.pauses(i) {
		now = w.cheapestNow(i, enough)
	}
	if now == nil {
		return false
	}
	code := CodeSavingTooSmall
	if t.State == Waiting && x.phases[0].From.Before(w.s.Now.Add(w.s.Slot)) {
		code = CodeCleanNow // its time has come, but for less than a slot
	}
	return w.try(i, now, code)
}

// cheapestNow is the run of a waiting task that begins now and emits least, if the task saves less than enough by its plan; nil if
// there is none.
func (w *decider) cheapestNow(i int, enough func(now []Phase) bool) (best []Phase) {
	t, x := &w.s.Tasks[i], &w.items[i]
	scales := t.scales()
	if n := x.phases[0].Workers; t.Scaling != nil && !slices.Contains(scales, n) {
		scales = append(scales, n)
	}
	w.take(w.ledger, i, x.phases, -1)
	defer func() { w.take(w.ledger, i, x.phases, 1) }()
	least := 0.0
	for _, c := range w.allowed(t) {
		if w.curves[c] == nil {
			continue
		}
		for _, workers := range scales {
			now := []Phase{w.phase(i, c, w.s.Now, t.Remaining, workers)}
			grams := w.grams(i, now)
			if enough(now) || best != nil && grams >= least || now[0].To.After(t.planEnd(w.s.Margin)) || !w.fitsBesideReserve(w.ledger, i, c, &now[0]) {
				continue
			}
			best, least = now, grams
		}
	}
	return best
}

// fitsBesideReserve reports whether a phase of a task finds room and leaves the reserve free.
func (w *decider) fitsBesideReserve(l *capacity.Ledger, i, c int, p *Phase) bool {
	need, times := w.besideReserve(l, i, c, p.Workers)
	return l.Fits(l.Cluster(p.Cluster), need, times, p.From, p.To)
}
