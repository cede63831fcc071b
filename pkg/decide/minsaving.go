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
// Complexity: O(clusters x scales x log steps), and with a confidence O(paths x phases) for a plan that was not judged before.
func (w *decider) savesTooLittle(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	if w.s.MinSaving == 0 && w.s.SavingConfidence == 0 || w.s.soft() || w.s.Objective.PriceWeight > 0 || x.earliest.After(w.s.Now) || t.Unscheduled {
		return false
	}
	now := []Phase(nil)
	if t.State == Running {
		if t.Kind == workload.Rigid || !w.pauses(i) && !w.moves(i) {
			return false
		}
		if on := []Phase{w.on(i)}; w.curves[w.place(on[0].Cluster)] != nil && (!w.savesEnough(i, on) || !w.sureEnough(i, on)) {
			now = on
		}
	} else if w.pauses(i) {
		now = w.cheapestNow(i)
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

// savesEnough reports whether the plan of a task saves the least saving against a run that begins now.
func (w *decider) savesEnough(i int, now []Phase) bool {
	return w.grams(i, w.items[i].phases) <= w.grams(i, now)*(1-w.s.MinSaving)*(1+equalGrams)
}

// sureEnough reports whether the plan of a task saves in enough of the paths against a run that begins now.
func (w *decider) sureEnough(i int, now []Phase) bool {
	return w.s.SavingConfidence == 0 || w.odds(i, w.items[i].phases, now).Confident(w.s.SavingConfidence)
}

// judgedSure reports whether the standing plan of a waiting task was found to save in enough of the paths when it was made. It is not
// judged again: with a new comparison in each decision, every plan would fail one sooner or later.
func (w *decider) judgedSure(i int) bool {
	return w.items[i].state == followed && w.s.Tasks[i].Standing.Reason.Odds.Confident(w.s.SavingConfidence)
}

// cheapestNow is the run of a waiting task that begins now and emits least, if the plan of the task saves too little against it, or not
// surely enough; nil if there is none.
func (w *decider) cheapestNow(i int) (best []Phase) {
	t, x := &w.s.Tasks[i], &w.items[i]
	scales := t.scales()
	if n := x.phases[0].Workers; t.Scaling != nil && !slices.Contains(scales, n) {
		scales = append(scales, n)
	}
	sure := w.s.SavingConfidence == 0 || w.judgedSure(i)
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
			if sure && w.savesEnough(i, now) || best != nil && grams >= least || now[0].To.After(t.planEnd(w.s.Margin)) || !w.fitsBesideReserve(w.ledger, i, c, &now[0]) {
				continue
			}
			best, least = now, grams
		}
	}
	if best != nil && !sure && w.savesEnough(i, best) && w.sureEnough(i, best) {
		return nil
	}
	return best
}

// fitsBesideReserve reports whether a phase of a task finds room and leaves the reserve free.
func (w *decider) fitsBesideReserve(l *capacity.Ledger, i, c int, p *Phase) bool {
	need, times := w.besideReserve(l, i, c, p.Workers)
	return l.Fits(l.Cluster(p.Cluster), need, times, p.From, p.To)
}
