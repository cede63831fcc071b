package sim

import (
	"math"
	"time"

	"lull.dev/lull/pkg/workload"
)

// follow carries standing plans into the slot that begins, and finds the jobs that are
// to be planned anew.
func (e *engine) follow() {
	renewed := e.renewal >= 0 && e.now >= e.renewal
	if renewed {
		e.renew()
	}
	for _, l := range e.active {
		j := &e.cfg.Jobs[l.job]
		if l.released && j.Kind == workload.Rigid {
			continue
		}
		if renewed || e.cfg.Revise == EverySlot || (l.plan == nil && !l.released) {
			e.makeDue(l)
			continue
		}
		if l.plan != nil {
			e.step(l)
		}
	}
}

// step follows the standing plan of l into the current slot.
func (e *engine) step(l *live) {
	j := &e.cfg.Jobs[l.job]
	for l.at < len(l.plan) && l.base+l.plan[l.at].Slot < e.slot {
		s := &l.plan[l.at]
		l.left -= j.Scale.told(max(s.Workers, j.least())) * s.Fraction * e.cfg.Slot.Hours()
		l.at++
	}
	if l.ran && j.Kind != workload.Rigid {
		l.ran = false
		left := e.estimate(l)
		if left > l.left+workload.Eps*l.total || left < l.left*(1-e.cfg.Deviation) {
			e.makeDue(l)
			return
		}
	}
	if l.at == len(l.plan) {
		e.makeDue(l)
		return
	}
	if s := l.plan[l.at]; l.base+s.Slot == e.slot {
		e.ask(l, s.Cluster, s.Workers)
		e.partly(l)
		return
	}
	if latest, ok := e.latest(l); ok && latest <= e.now {
		e.makeDue(l)
		return
	}
	e.pause(l)
	e.watch(l)
}

// partly sees to the end of a slot that is used in part. The last segment of a plan runs
// on: it ends with the job.
func (e *engine) partly(l *live) {
	l.partEnd = 0
	s := l.plan[l.at]
	if s.Fraction >= 1-workload.Eps || l.at+1 == len(l.plan) {
		return
	}
	end := max(e.now, time.Duration(e.slot)*e.cfg.Slot) + time.Duration(math.Round(s.Fraction*float64(e.cfg.Slot)))
	if end < time.Duration(e.slot+1)*e.cfg.Slot {
		l.partEnd = end
		if l.workers > 0 && l.workers == l.want {
			e.events.push(end, l, slotUsed)
		}
	}
}

// watch sees to a decision in the middle of a slot where the delay of l is used up in it.
func (e *engine) watch(l *live) {
	if latest, ok := e.latest(l); ok && latest > e.now && latest < time.Duration(e.slot+1)*e.cfg.Slot {
		e.events.push(latest, l, usedUp)
	}
}

// latest is when the delay of l is used up, where it is bounded and the run time not
// known for sure.
func (e *engine) latest(l *live) (time.Duration, bool) {
	j := &e.cfg.Jobs[l.job]
	if e.cfg.Lengths == nil && j.Estimate == j.Length || e.cfg.atOnce || !j.bounded() {
		return 0, false
	}
	return j.Submitted.Sub(e.start) + j.MaxDelay + hours(e.progress(l)) - e.cfg.Margin, true
}

// partEnded goes on to what the plan has for the rest of the slot.
func (e *engine) partEnded(l *live) {
	l.partEnd = 0
	if l.at+1 >= len(l.plan) {
		return
	}
	if s := l.plan[l.at+1]; l.base+s.Slot == e.slot {
		e.ask(l, s.Cluster, s.Workers)
		return
	}
	e.pause(l)
	e.watch(l)
}

// estimate is the work that l is taken to have left, hours at its least scale.
func (e *engine) estimate(l *live) float64 {
	j := &e.cfg.Jobs[l.job]
	done := e.progress(l)
	estimate := j.Estimate
	if e.cfg.Lengths != nil {
		estimate = e.cfg.Lengths.Estimate(j, hours(done))
	}
	if left := estimate.Hours() - done; left > workload.Eps {
		return left
	}
	if estimate == j.Length {
		return workload.Eps
	}
	return e.cfg.Slot.Hours() // it should be done by now: any moment
}
