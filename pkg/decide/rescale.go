package decide

import (
	"cmp"
	"slices"
	"time"
)

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

// What settle tries is bounded, whatever the plan: it leaves out changes one by one from a plan of mostSettled phases at most, and tries mostScales scales for all of it.
const (
	mostSettled = 12
	mostScales  = 16
)

// settle leaves out changes of scale that do not pay, of a task that restarts to scale: each has to save pauseSaves of the task's emissions more than its restart and
// the lost work emit. It also leaves out those whose restarts make the plan late. What takes their place finds room in the ledger, which has no phases of the task.
// A plan of many phases is made coarser first.
//
// Complexity: O(phases^2 + mostSettled^2 x (mostSettled + mostScales) x log steps).
func (w *decider) settle(i int, phases []Phase) []Phase {
	t := &w.s.Tasks[i]
	if !t.restartsToScale() || w.s.soft() || len(phases) == 0 {
		return phases
	}
	if coarse := w.coarser(i, phases); len(coarse) < len(phases) && w.settles(i, phases, coarse) {
		phases = coarse
	}
	for range mostSettled {
		best := w.calmest(i, phases)
		if best == nil {
			break
		}
		phases = best
	}
	return phases
}

// calmest is the plan with fewer restarts that emits least, if it takes the place of phases; nil if none does.
func (w *decider) calmest(i int, phases []Phase) []Phase {
	t := &w.s.Tasks[i]
	before := t.pauses(phases) + t.stopsNow(phases, w.s.Now)
	late := t.lags(phases, w.s.Now) || phases[len(phases)-1].To.After(t.planEnd(w.s.Margin))
	most := w.cost(i, phases) * (1 + equalGrams)
	type priced struct {
		phases []Phase
		grams  float64
	}
	var list []priced
	for _, other := range w.calmer(i, phases) {
		fewer := before - t.pauses(other) - t.stopsNow(other, w.s.Now)
		if fewer <= 0 && !late {
			continue
		}
		if grams := w.cost(i, other) * (1 - pauseSaves*float64(fewer)); late || grams <= most {
			list = append(list, priced{other, grams})
		}
	}
	slices.SortStableFunc(list, func(a, b priced) int { return cmp.Compare(a.grams, b.grams) })
	for _, x := range list {
		if w.settles(i, phases, x.phases) {
			return x.phases
		}
	}
	return nil
}

// coarser is a plan of mostSettled phases at most: of those that follow one another, the two whose scales differ least become one, at the larger scale.
func (w *decider) coarser(i int, phases []Phase) []Phase {
	t, out := &w.s.Tasks[i], slices.Clone(phases)
	for len(out) > mostSettled {
		best, least := -1, 0
		for k := 1; k < len(out); k++ {
			a, b := &out[k-1], &out[k]
			if differs := max(a.Workers-b.Workers, b.Workers-a.Workers); a.Cluster == b.Cluster && a.To.Equal(b.From) && (best < 0 || differs < least) {
				best, least = k, differs
			}
		}
		if best < 0 {
			break
		}
		out[best-1].To, out[best-1].Workers = out[best].To, max(out[best-1].Workers, out[best].Workers)
		out = slices.Delete(out, best, best+1)
	}
	if len(out) == len(phases) {
		return phases
	}
	if out = t.atCheckpoints(out, w.s.Now); len(out) > 0 {
		out = t.finish(out, w.s.Now)
	}
	return out
}

// settles reports whether phases may take the place of others: they do the work of the task, end with the margin kept, or no later than the others if these are in
// time without it, and find room.
func (w *decider) settles(i int, before, phases []Phase) bool {
	t := &w.s.Tasks[i]
	if len(phases) == 0 {
		return false
	}
	by := t.planEnd(w.s.Margin)
	if end := before[len(before)-1].To; end.After(by) && w.inTime(i, before) {
		by = end.Add(-1)
	}
	return !t.lags(phases, w.s.Now) && !phases[len(phases)-1].To.After(by) && w.fits(w.ledger, i, phases)
}

// stopsNow is 1 if phases begin with a restart of a running task, else 0.
func (t *Task) stopsNow(phases []Phase, now time.Time) int {
	if t.runs() && !t.goesOnWith(phases, now) {
		return 1
	}
	return 0
}

// calmer lists the plans of a task that have fewer changes of scale: two runs that follow one another at the scale of one of them, the first one at the scale at which
// the task runs, or all of it at one scale.
func (w *decider) calmer(i int, phases []Phase) (out [][]Phase) {
	t := &w.s.Tasks[i]
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
	first := &phases[0]
	if t.runs() && first.Cluster == w.s.Place(t.Cluster).Name && !first.From.After(w.s.Now) {
		if first.Workers != t.Workers {
			add(0, 0, t.Workers)
		}
		out = append(out, []Phase{w.unchanged(i)})
	}
	for n, step := t.Scaling.MaxWorkers, (t.Scaling.MaxWorkers-t.Scaling.MinWorkers+mostScales-1)/mostScales; n >= t.Scaling.MinWorkers; n -= max(1, step) {
		out = append(out, []Phase{w.phase(i, w.place(first.Cluster), first.From, t.Remaining, n)})
	}
	for k := 1; k < min(len(phases), 2*mostSettled); k++ { // of a plan that cannot be made coarser, the first ones
		if a, b := &phases[k-1], &phases[k]; a.Cluster == b.Cluster && a.Workers != b.Workers {
			add(k-1, k, a.Workers)
			add(k-1, k, b.Workers)
		}
	}
	return out
}
