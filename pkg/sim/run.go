package sim

import (
	"math"
	"time"

	"lull.dev/lull/pkg/units"
)

// scaled is the work that is done in a time at a rate.
func scaled(d time.Duration, rate float64) time.Duration {
	if rate == 1 {
		return d
	}
	return time.Duration(math.Round(float64(d) * rate))
}

// progress is the work that l has really done by now.
func (e *engine) progress(l *live) time.Duration {
	if l.workers == 0 || e.now <= l.counted {
		return l.done
	}
	return l.done + scaled(e.now-l.counted, l.rate)
}

// remaining is how long l still runs at its scale: to the nanosecond at its least scale, and rounded up at
// others.
func (e *engine) remaining(l *live) time.Duration {
	left := e.cfg.Jobs[l.job].Length - l.done
	if l.rate != 1 {
		left = time.Duration(math.Ceil(float64(left) / l.rate))
	}
	return l.counted + max(0, left) - e.now
}

// saves is the work after which the job saves what it has done; 0 if a pause costs nothing.
func (j *Job) saves() time.Duration {
	if j.Parts > 1 {
		return j.Length / time.Duration(j.Parts)
	}
	return j.Checkpoint
}

// atRisk is the work of l since its last checkpoint, or since its last part.
func (e *engine) atRisk(l *live) time.Duration {
	every := e.cfg.Jobs[l.job].saves()
	if every == 0 || l.workers == 0 {
		return 0
	}
	return (e.progress(l) - l.saved) % every
}

// interrupt takes l off its cluster; what it did since its last checkpoint is lost.
func (e *engine) interrupt(l *live) {
	lost := e.atRisk(l)
	e.stop(l)
	l.done -= lost
}

// ask has l run on a cluster (-1: any) at a scale, as soon as there is room.
func (e *engine) ask(l *live, cluster, workers int) {
	if !l.released || workers != l.want {
		l.changed = e.now
	}
	l.want = workers
	if l.workers > 0 && cluster >= 0 && cluster != l.cluster {
		e.interrupt(l)
		l.cluster, l.changed = cluster, e.now
	}
	if l.workers > 0 {
		if workers < l.workers {
			e.scale(l, workers)
		} else if workers > l.workers {
			e.raises = append(e.raises, l)
		}
		return
	}
	if cluster >= 0 {
		l.cluster = cluster
	}
	if !l.released {
		l.released = true
		e.pending = append(e.pending, l)
	}
}

// settle gives others the room that they ask for, starts what waits for room, in order of release, then gives the further
// workers that were asked for.
func (e *engine) settle() {
	for c := range e.rooms {
		e.takeLoad(c)
	}
	defer func() {
		for _, l := range e.raises {
			if l.workers > 0 && l.want > l.workers {
				e.raise(l)
			}
		}
		clear(e.raises)
		e.raises = e.raises[:0]
	}()
	kept := e.pending[:0]
	for _, l := range e.pending {
		if l.released && l.workers == 0 && !e.begin(l) {
			kept = append(kept, l)
		}
	}
	clear(e.pending[len(kept):])
	e.pending = kept
}

// begin starts l where it fits, at the scale that fits.
func (e *engine) begin(l *live) bool {
	j := &e.cfg.Jobs[l.job]
	if e.now < l.retry {
		return false
	}
	c := l.cluster
	if c < 0 {
		if c = e.leastUsed(j, l.need); c < 0 {
			return false
		}
	}
	workers := e.grant(l, e.fits(c, l.need, l.want))
	if workers < j.least() {
		e.askAgain(l)
		return false
	}
	l.cluster, l.saved = c, l.done
	l.watts = e.wattsOf(l)
	e.rooms[c].starts++
	e.open(l, workers, l.runs != nil)
	e.askAgain(l)
	return true
}

// grant is how many of the workers asked for are granted.
func (e *engine) grant(l *live, workers int) int {
	if e.cfg.Faults.Deny == 0 {
		return workers
	}
	granted := 0
	for range workers {
		if e.rng.Float64() >= e.cfg.Faults.Deny {
			granted++
		}
	}
	e.res.Denied += workers - granted
	if granted < workers {
		l.retry = time.Duration(e.slot+1) * e.cfg.Slot
		if e.cfg.Faults.Retry > 0 {
			l.retry = e.now + e.cfg.Faults.Retry
		}
	}
	return granted
}

// askAgain sees to another attempt where not all that is wanted was granted.
func (e *engine) askAgain(l *live) {
	if l.want > l.workers && l.retry > e.now {
		e.events.push(l.retry, l, asksAgain)
	}
}

// raise adds the workers that are wanted and fit.
func (e *engine) raise(l *live) {
	if e.now < l.retry {
		return
	}
	more := e.fits(l.cluster, l.need, l.want-l.workers)
	if more = e.grant(l, more); more > 0 {
		e.scale(l, l.workers+more)
	}
	e.askAgain(l)
}

// scale goes on with another number of workers.
func (e *engine) scale(l *live, workers int) {
	e.closeRun(l)
	e.open(l, workers, true)
}

// open begins a run. overhead says whether getting going takes time again.
func (e *engine) open(l *live, workers int, overhead bool) {
	j := &e.cfg.Jobs[l.job]
	l.gramsBefore, l.kWhBefore = l.grams, l.kWh
	if n := len(l.runs); n > 0 {
		e.restart(l, l.runs[n-1])
	}
	l.workers, l.since, l.counted = workers, e.now, e.now
	l.rate = j.Scale.speedup(workers)
	if overhead {
		l.counted += e.cfg.Overhead
	}
	e.use(l.cluster, l.need, workers)
	l.version++
	e.events.push(e.now+e.remaining(l), l, completes)
}

// closeRun ends the current run and prices it.
func (e *engine) closeRun(l *live) {
	l.done = e.progress(l)
	e.use(l.cluster, l.need, -l.workers)
	if e.now > l.since {
		e.price(l, e.at(l.since), e.at(e.now))
		r := Run{From: l.since, To: e.now, Cluster: int32(l.cluster), Workers: int32(l.workers)}
		if n := len(l.runs); n > 0 && l.runs[n-1].To == r.From && l.runs[n-1].Workers == r.Workers && l.runs[n-1].Cluster == r.Cluster {
			l.runs[n-1].To = r.To
		} else {
			l.runs = append(l.runs, r)
		}
	} else { // it was stopped at the moment it started: nothing was restarted or moved
		l.grams, l.kWh = l.gramsBefore, l.kWhBefore
	}
	l.workers = 0
	l.version++
}

// stop takes l off its cluster.
func (e *engine) stop(l *live) {
	e.closeRun(l)
	l.released = false
}

// pause takes l off its cluster, or out of the queue for it.
func (e *engine) pause(l *live) {
	if l.released {
		l.changed = e.now
	}
	if l.workers > 0 {
		e.interrupt(l)
		return
	}
	if l.released {
		l.released = false // settle leaves it out
		if l.runs == nil {
			l.cluster = -1
		}
	}
}

// wattsOf is the power of one worker of l where it runs, PUE included.
func (e *engine) wattsOf(l *live) float64 {
	j, c := &e.cfg.Jobs[l.job], &e.cfg.Clusters[l.cluster]
	if j.Watts > 0 {
		return j.Watts * c.pue()
	}
	return float64(c.Power.Of(j.Request))
}

// watts is the power of l at a scale.
func (e *engine) watts(l *live, workers int) float64 {
	j := &e.cfg.Jobs[l.job]
	if j.Scale != nil && j.Scale.Watts != nil {
		return j.Scale.Watts[workers-j.Scale.MinWorkers] * e.cfg.Clusters[l.cluster].pue()
	}
	return l.watts * float64(workers)
}

func (c *Cluster) pue() float64 {
	if c.Power.PUE == 0 {
		return 1
	}
	return c.Power.PUE
}

// price counts a run at the intensity that occurred.
func (e *engine) price(l *live, from, to time.Time) {
	watts := units.Power(e.watts(l, l.workers))
	kWh, p := e.priced(l.cluster, watts, from, to)
	l.kWh += kWh
	l.grams += float64(p.Emissions)
	l.filled += p.Filled
	l.missing += p.Unknown
	e.res.Jobs[l.job].WorkerHours += float64(l.workers) * to.Sub(from).Hours()
}

// restart counts the energy of going on after a pause or elsewhere than the last run.
func (e *engine) restart(l *live, last Run) {
	j, now := &e.cfg.Jobs[l.job], e.at(e.now)
	moved := int(last.Cluster) != l.cluster
	if !moved && last.To == e.now {
		return
	}
	count := func(c int, kWh float64) {
		kWh *= e.cfg.Clusters[c].pue()
		l.kWh += kWh
		l.grams += e.gramsAt(c, kWh, now)
	}
	if j.RestartKWh > 0 {
		count(l.cluster, j.RestartKWh)
	}
	if moved && j.TransferKWh > 0 {
		count(int(last.Cluster), j.TransferKWh/2)
		count(l.cluster, j.TransferKWh/2)
	}
}

// finish writes the outcome of l down.
func (e *engine) finish(l *live) {
	j, o := &e.cfg.Jobs[l.job], &e.res.Jobs[l.job]
	submitted := j.Submitted.Sub(e.start)
	o.Runs, o.Finish = l.runs, e.now
	o.Wait = l.runs[0].From - submitted
	o.Delay = o.Finish - submitted - j.Length
	deadline := j.Deadline
	if j.bounded() {
		deadline = j.Submitted.Add(j.MaxDelay + j.Length)
	}
	// A thousandth of a second: progress is counted in floating point.
	o.Missed = !deadline.IsZero() && e.at(e.now).After(deadline.Add(time.Millisecond))
	o.Emissions, o.Energy = units.Emissions(l.grams), units.Energy(l.kWh)
	o.Expected = units.Emissions(l.expected)
	o.Filled, o.Unpriced = l.filled, l.missing
	e.res.Filled, e.res.Unpriced = addTime(e.res.Filled, l.filled), addTime(e.res.Unpriced, l.missing)
	if o.Missed {
		e.res.Missed++
	}
	e.ended = max(e.ended, e.now)
	e.left--
	if e.cfg.Lengths != nil {
		e.cfg.Lengths.Observe(j)
	}
	l.version++
	l.wake = -1
	e.free = append(e.free, l)
}

// result sums up.
func (e *engine) result() Result {
	e.idle(e.now)
	res := e.res
	res.counted = e.now
	for i := range res.Jobs {
		res.Emissions += res.Jobs[i].Emissions
		res.Energy += res.Jobs[i].Energy
		res.WorkerHours += res.Jobs[i].WorkerHours
	}
	for c := range e.rooms {
		res.IdleEnergy += units.Energy(e.rooms[c].idleKWh)
		res.IdleEmissions += units.Emissions(e.rooms[c].idleGrams)
	}
	res.Energy += res.IdleEnergy
	res.Emissions += res.IdleEmissions
	if len(res.Jobs) > 0 {
		res.MeanWait = meanOf(res.Jobs, func(o *Outcome) time.Duration { return o.Wait })
		res.MeanDelay = meanOf(res.Jobs, func(o *Outcome) time.Duration { return o.Delay })
		res.Makespan = e.ended - e.cfg.Jobs[e.order[0]].Submitted.Sub(e.start)
	}
	return res
}
