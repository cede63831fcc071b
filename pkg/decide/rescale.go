package decide

import "time"

// A change of scale may end the run of a task and begin another one (Scaling.Restarts), as where a job is requeued to get another size. Phases count such a
// change as a pause of no length. Planners do not know what it costs: settle leaves out the changes of a plan that do not pay.

// restartsToScale reports whether a change of scale restarts the task.
func (t *Task) restartsToScale() bool { return t.Scaling != nil && t.Scaling.Restarts }

// soonestScale is how a task that restarts to scale is done soonest if it runs from now on: at its scale, or at the widest that there is room for.
func (w *decider) soonestScale(i, home int) Phase {
	t, on := &w.s.Tasks[i], w.unchanged(i)
	if n := w.widest(w.ledger, i, home); n != t.Workers {
		if wide := w.phase(i, home, w.s.Now, t.Remaining, n); wide.To.Before(on.To) {
			return wide
		}
	}
	return on
}

// settle leaves out changes of scale that do not pay, of a task that restarts to scale: each has to save pauseSaves of the task's emissions more than its restart and
// the lost work emit. What takes their place is in time, and finds room beside all others.
//
// Complexity: O(phases^3 x log steps).
func (w *decider) settle(i int) {
	t, x := &w.s.Tasks[i], &w.items[i]
	if !t.restartsToScale() || w.s.soft() {
		return
	}
	for {
		best, least := []Phase(nil), 0.0
		for _, other := range w.calmer(i) {
			count := t.pauses(other) + t.stopsNow(other, w.s.Now) - t.pauses(x.phases) - t.stopsNow(x.phases, w.s.Now)
			grams := w.cost(i, other) * (1 + pauseSaves*float64(count))
			if count >= 0 || best != nil && grams >= least || grams > w.cost(i, x.phases)*(1+equalGrams) || !w.settles(i, other) {
				continue
			}
			best, least = other, grams
		}
		if best == nil {
			return
		}
		w.take(w.ledger, i, x.phases, -1)
		x.phases, x.goesOn = w.priced(best), false
		w.take(w.ledger, i, x.phases, 1)
	}
}

// settles reports whether phases may take the place of the plan of a task: they do its work, end no later than the plan or with the margin kept, and find room.
func (w *decider) settles(i int, phases []Phase) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	by := t.planEnd(w.s.Margin)
	if end := x.phases[len(x.phases)-1].To; end.After(by) {
		by = end
	}
	if len(phases) == 0 || t.lags(phases, w.s.Now) || phases[len(phases)-1].To.After(by) {
		return false
	}
	w.take(w.ledger, i, x.phases, -1)
	free := w.fits(w.ledger, i, phases)
	w.take(w.ledger, i, x.phases, 1)
	return free
}

// stopsNow is 1 if phases begin with a restart of a running task, else 0.
func (t *Task) stopsNow(phases []Phase, now time.Time) int {
	if t.runs() && !t.goesOnWith(phases, now) {
		return 1
	}
	return 0
}

// calmer lists the plans of a task that have one change of scale less: two runs that follow one another at the scale of one of them, or the first one at the scale at
// which the task runs.
func (w *decider) calmer(i int) (out [][]Phase) {
	t, phases := &w.s.Tasks[i], w.items[i].phases
	add := func(k, last, workers int) { // phases k to last become one
		other := append([]Phase(nil), phases[:k]...)
		p := phases[k]
		p.To, p.Workers = phases[last].To, workers
		for _, next := range append([]Phase{p}, phases[last+1:]...) {
			if n := len(other); n > 0 && !t.interrupted(&other[n-1], &next) {
				other[n-1].To = next.To
			} else {
				other = append(other, next)
			}
		}
		if other = t.atCheckpoints(other, w.s.Now); len(other) > 0 {
			out = append(out, t.finish(other, w.s.Now))
		}
	}
	if t.runs() && phases[0].Cluster == w.s.Place(t.Cluster).Name && !phases[0].From.After(w.s.Now) && phases[0].Workers != t.Workers {
		add(0, 0, t.Workers)
	}
	for k := 1; k < len(phases); k++ {
		if a, b := &phases[k-1], &phases[k]; a.Cluster == b.Cluster && a.Workers != b.Workers {
			add(k-1, k, a.Workers)
			add(k-1, k, b.Workers)
		}
	}
	return out
}
