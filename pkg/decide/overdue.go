package decide

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// commitOverdue runs those elastic tasks of unknown length whose delay is used up and that the plan does not run now,
// at their least scale, and has the others planned anew; false if there are none. One for which standing plans leave
// no room takes that of plans, which are made anew. One for which what must run leaves no room is planned with the
// others: it can still be in time by its deadline.
func (w *decider) commitOverdue(list []int) bool {
	var overdue []int
	for _, i := range list {
		if t := &w.s.Tasks[i]; !w.s.soft() && t.Scaling != nil && !t.LatestStart.IsZero() && !w.items[i].crowded && w.usedUp(i) {
			overdue = append(overdue, i)
		}
	}
	if len(overdue) == 0 {
		return false
	}
	w.reopen(placed, unplaced)
	slices.SortStableFunc(overdue, func(a, b int) int { return w.items[a].latest.Compare(w.items[b].latest) })
	overdue = slices.DeleteFunc(overdue, w.runOverdue)
	if slices.ContainsFunc(overdue, w.fitsBesideCommitted()) {
		w.reopen(followed, kept)
		overdue = slices.DeleteFunc(overdue, w.runOverdue)
	}
	for _, i := range overdue {
		w.items[i].crowded, w.items[i].weighed = true, false
	}
	return true
}

// runOverdue has a task run from now on, or from its arrival, at its least scale, where it is or where the least
// share is in use; false if there is no room.
func (w *decider) runOverdue(i int) bool {
	x := &w.items[i]
	phases := w.atOnce(w.ledger, i)
	if phases == nil {
		return false
	}
	x.state, x.code, x.urgent, x.phases = committed, CodeLatestStart, true, w.priced(phases)
	w.take(w.ledger, i, x.phases, 1)
	return true
}

// atOnce is a run of an elastic task from now on, or from its arrival, at its least scale; nil if there is no room.
func (w *decider) atOnce(l *capacity.Ledger, i int) []Phase {
	t, x := &w.s.Tasks[i], &w.items[i]
	places := w.roomiest(l, i)
	if t.State == Running {
		places = append([]int{w.place(t.Cluster)}, places...)
	}
	for _, c := range places {
		phases := []Phase{w.phase(i, c, x.arrival, w.workFrom(i, c, x.arrival), t.Scaling.MinWorkers)}
		if w.fits(l, i, phases) {
			return phases
		}
	}
	return nil
}

// fitsBesideCommitted returns a function that reports whether a task could run at once if standing plans were made
// anew.
func (w *decider) fitsBesideCommitted() func(i int) bool {
	l := w.ledger.Clone()
	for i := range w.items {
		if x := &w.items[i]; x.state == followed || x.state == kept {
			w.take(l, i, x.phases, -1)
		}
	}
	return func(i int) bool { return w.atOnce(l, i) != nil }
}

// usedUp reports whether the delay of a task is used up before the next slot, given the work
// that its plan does in the slot that begins now.
func (w *decider) usedUp(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	next := w.s.Now.Add(w.s.Slot)
	done := time.Duration(0)
	for k := range x.phases {
		p := &x.phases[k]
		to := p.To
		if to.After(next) {
			to = next
		} else if k == len(x.phases)-1 {
			return false // it ends within the slot, or runs on until it is done
		}
		if to.After(p.From) {
			done += time.Duration(t.Scaling.Rate(p.Workers) * float64(to.Sub(p.From)))
		}
	}
	return x.latest.Add(done + time.Second).Before(next) // progress is counted in floating point
}
