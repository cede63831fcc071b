package decide

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// adjust deviates from plans where that is better than following them,
// and only into room that is free beside all other plans:
//
//   - A change that comes too soon after the last one, or while one is under way, is put off.
//   - A task that would wait long for a place beside the reserve, without cleaner power, starts.
//   - A task whose plan saves less than the least saving (Snapshot.MinSaving) starts, or runs on.
//
// Complexity: O(tasks x steps); O(tasks^2 x steps) if each change that is put off makes room for one other.
func (w *decider) adjust() {
	var again []int // what found no room may find some that another one has left
	for i := range w.items {
		x := &w.items[i]
		if len(x.phases) == 0 || x.queued || x.state == committed || x.state == unplaced || x.state == kept {
			continue
		}
		t := &w.s.Tasks[i]
		if x.state == placed && t.restartsToScale() {
			w.take(w.ledger, i, x.phases, -1)
			x.phases = w.priced(w.settle(i, x.phases))
			w.take(w.ledger, i, x.phases, 1)
		}
		if t.State != Running && x.state == placed {
			w.spareSlack(i)
		}
		if w.savesTooLittle(i) {
			continue
		}
		if until, early := w.tooSoon(i); early {
			if !w.putOff(i, until) {
				again = append(again, i)
			}
		}
	}
	for tried := 0; len(again) > 0 && len(again) != tried; {
		tried = len(again)
		again = slices.DeleteFunc(again, func(i int) bool {
			until, early := w.tooSoon(i)
			return !early || w.putOff(i, until)
		})
	}
}

// changes reports whether the plan of a running task changes now what it does.
func (w *decider) changes(i int) bool {
	t, p := &w.s.Tasks[i], &w.items[i].phases[0]
	return p.From.After(w.s.Now) || w.moves(i) || t.Scaling != nil && p.Workers != t.Workers
}

func (w *decider) moves(i int) bool {
	t, p := &w.s.Tasks[i], &w.items[i].phases[0]
	return t.Cluster != "" && p.Cluster != t.Cluster
}

func (w *decider) pauses(i int) bool { return w.items[i].phases[0].From.After(w.s.Now) }

// try replaces the phases of a task if the others find room; false if not.
func (w *decider) try(i int, phases []Phase, code Code) bool {
	x := &w.items[i]
	w.take(w.ledger, i, x.phases, -1)
	free := w.inTime(i, phases) || w.s.soft()
	if free && w.fits(w.ledger, i, phases) {
		x.phases, x.code = w.priced(phases), code
		w.take(w.ledger, i, x.phases, 1)
		return true
	}
	w.take(w.ledger, i, x.phases, 1)
	return false
}

// tooSoon says until when a running or paused task stays as it is. The planner knows that of a running
// task in whole slots; here it is of plans that stand, and of the rest of a slot.
func (w *decider) tooSoon(i int) (until time.Time, early bool) {
	t := &w.s.Tasks[i]
	switch {
	case t.State == Running && w.changes(i):
		until = w.stays(i)
	case t.State == Waiting && t.Paused && !w.pauses(i):
		until = w.items[i].earliest // a repair ignores the least pause, as a deadline outranks it
		if slot := w.s.Now.Add(w.s.Slot); t.Changing && until.Before(slot) {
			until = slot
		}
	}
	return until, until.After(w.s.Now)
}

// putOff has a task stay as it is until a time and follow its plan from then on, less the work
// done until then, or later by what is not done; false if there is no room for that.
func (w *decider) putOff(i int, until time.Time) bool {
	phases := w.putOffTo(i, until)
	if len(phases) == 0 || !w.try(i, phases, CodeTooSoon) {
		return false
	}
	w.soonest(until)
	return true
}

// putOffTo returns the phases of a task that is put off until a time.
func (w *decider) putOffTo(i int, until time.Time) []Phase {
	t, x := &w.s.Tasks[i], &w.items[i]
	var phases []Phase
	left := float64(t.Remaining)
	add := func(p Phase) {
		rate := t.rate(p.Workers)
		if end := p.From.Add(time.Duration(math.Ceil(left / rate))); end.Before(p.To) {
			p.To = end
		}
		if !p.To.After(p.From) {
			return
		}
		left -= rate * float64(p.To.Sub(p.From))
		phases = append(phases, p)
	}
	if t.State == Running {
		now := w.unchanged(i)
		if now.To.After(until) {
			now.To = until
		}
		add(now)
	}
	for _, p := range x.phases {
		if p.From.Before(until) {
			p.From = until
		}
		if p.To.After(p.From) && left > 0 {
			add(p)
		}
	}
	if n := len(x.phases); len(phases) == 0 && n > 0 { // its plan ends by then: all of it comes later
		last := x.phases[n-1]
		last.From, last.To = until, until
		phases = append(phases, last)
	}
	if left > 0 && len(phases) > 0 {
		last := &phases[len(phases)-1]
		last.To = last.To.Add(time.Duration(math.Ceil(left / t.rate(last.Workers))))
	}
	if t.Checkpoint+t.Restart > 0 && len(phases) > 0 {
		phases = t.finish(phases, w.s.Now)
	}
	return phases
}

// grams is what the phases of a task emit.
func (w *decider) grams(i int, phases []Phase) float64 {
	sum := 0.0
	for k := range phases {
		p := &phases[k]
		c := w.place(p.Cluster)
		if w.curves[c] == nil {
			continue
		}
		sum += w.watts(i, c, p.Workers) / 1000 * w.curves[c].Integral(p.From, p.To)
	}
	return sum
}

// price states the mean intensity of a phase.
func (w *decider) price(p *Phase) {
	if c := w.curves[w.place(p.Cluster)]; c != nil {
		p.Intensity = units.CarbonIntensity(c.Mean(p.From, p.To))
	}
}

// barsOf returns error bars on the grid. A slot that the series of bars does not have is at least as
// uncertain, relative to its value, as the least certain slot that it has.
//
// Complexity: O(slots x log samples), once a cluster and series.
func (w *decider) barsOf(cluster int, s *carbon.Series, farther func(a, b float64) float64) []float64 {
	if known, ok := w.bars[s]; ok {
		return known
	}
	values := w.filled[cluster].Values
	out, missing := s.OnGrid(w.grid)
	gone := make(map[int]bool, len(missing))
	for _, t := range missing {
		gone[t] = true
	}
	widest := 1.0
	for t, v := range out {
		if !gone[t] && values[t] > 0 {
			widest = farther(widest, v/values[t])
		}
	}
	for t := range out {
		_, made := w.filled[cluster].Filled[t]
		if gone[t] || made {
			out[t] = values[t] * widest
		}
	}
	w.bars[s] = out
	return out
}
