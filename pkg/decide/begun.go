package decide

import (
	"math"
	"time"

	"lull.dev/lull/pkg/workload"
)

// begin states in a job what its task does now: where it runs or was paused, what of the work that is
// left a pause or a move would lose, and from which slot on it may change. Of a task without a cluster
// that has carbon data, or that stays where it is, loses nothing and restarts for nothing, it states nothing. With
// Caspian's objective, neither restarts nor lost work count.
func (w *decider) begin(i int, j *workload.Job) {
	s, t := w.s, &w.s.Tasks[i]
	if s.soft() || t.State != Running && !t.Paused || w.curves[w.place(t.Cluster)] == nil {
		return
	}
	begun := &workload.Begun{Cluster: s.Place(t.Cluster).Name, Paused: t.State != Running}
	if t.RestartKWh+t.TransferKWh > 0 || t.Migratable {
		j.Begun = begun
	}
	if t.State != Running {
		return
	}
	starts := w.items[i].starts
	all, on := t.Remaining+max(t.startOf(false), starts), w.ahead(i)+max(t.startOf(true), starts)
	if p, slots := w.fixed(i); slots > 0 {
		done := t.workIn([]Phase{p})
		j.Arrival, j.Waited, all, on = slots, 0, all-done, on-done
	}
	ahead := math.Max(float64(on)/float64(w.grid.Slot), minLength)
	j.Length = math.Max(float64(all)/float64(w.grid.Slot), ahead)
	if begun.Lost = j.Length - ahead; begun.Lost > 0 {
		j.Begun = begun
	}
}

// stays says until when a running task stays as it is: the last change was within the least time of
// a run, or is still under way; zero if it may change now. A task that asks for more workers than found nodes changes at once.
func (w *decider) stays(i int) time.Time {
	t := &w.s.Tasks[i]
	var until time.Time
	if t.Scaling != nil && t.Workers > t.Scaling.MaxWorkers {
		return until
	}
	if !t.Changed.IsZero() {
		until = t.Changed.Add(w.s.MinRun)
	}
	if next := w.s.Now.Add(w.s.Slot); t.Changing && until.Before(next) {
		until = next
	}
	if !until.After(w.s.Now.Add(rounding)) {
		return time.Time{} // what waits for its room would wait for a moment, and look as if it found none
	}
	return until
}

// keepTooSoon lets tasks go on that are done before they may change.
func (w *decider) keepTooSoon() {
	for i := range w.items {
		t, x := &w.s.Tasks[i], &w.items[i]
		if x.state != open || t.State != Running || t.Kind == workload.Rigid || w.s.soft() {
			continue
		}
		if on := []Phase{w.on(i)}; !w.stays(i).Before(on[0].To) && w.inTime(i, on) && w.fits(w.ledger, i, on) {
			x.state, x.code, x.phases = kept, CodeTooSoon, on
			w.take(w.ledger, i, on, 1)
		}
	}
}

// fixed is what a running task does in the whole slots in which it stays as it is, and how many they
// are; 0 if it may change in the present slot. The task does not end in them. What is left of the last slot is not
// known to the planner: see tooSoon.
func (w *decider) fixed(i int) (p Phase, slots int) {
	t := &w.s.Tasks[i]
	if t.State != Running || t.Kind == workload.Rigid || w.s.soft() || w.curves[w.place(t.Cluster)] == nil {
		return Phase{}, 0
	}
	until := w.stays(i)
	if until.Before(w.s.Now.Add(w.s.Slot)) {
		return Phase{}, 0
	}
	p = w.on(i)
	if !until.Before(p.To) {
		until = p.To.Add(-1)
	}
	slots = min(int(until.Sub(w.s.Now)/w.s.Slot), w.grid.N-1)
	p.To = w.grid.Time(slots)
	return p, slots
}

// takeFixed counts what the listed tasks do before they may change, or gives it back.
func (w *decider) takeFixed(list []int, sign float64) {
	for _, i := range list {
		if p, slots := w.fixed(i); slots > 0 {
			w.take(w.ledger, i, []Phase{p}, sign)
		}
	}
}
