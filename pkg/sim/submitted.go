package sim

import (
	"context"
	"time"
)

// AsSubmitted returns the same simulation with every job started as soon as
// there is room: the baseline that savings are stated against. Deadlines are
// still judged.
//
// Where there is room for everything and nothing fails, each job runs from its
// submission on, and no events are needed. Complexity: O(jobs log jobs + slots used).
func AsSubmitted(ctx context.Context, cfg Config) (Result, error) {
	cfg.atOnce = true
	e, err := newEngine(cfg)
	if err != nil {
		return Result{}, err
	}
	if !e.undisturbed() {
		if err := e.run(ctx); err != nil {
			return Result{}, err
		}
		return e.result(), nil
	}
	e.runAtOnce()
	return e.result(), nil
}

// undisturbed says that every job finds room at once and keeps it.
func (e *engine) undisturbed() bool {
	for i := range e.cfg.Clusters {
		if c := &e.cfg.Clusters[i]; c.Capacity != nil || len(c.Changes) > 0 || c.Nodes.Count > 0 {
			return false
		}
	}
	return e.cfg.Faults.Deny == 0
}

// runAtOnce runs every job from its submission on.
func (e *engine) runAtOnce() {
	runs := make([]Run, len(e.order))
	var use []map[string][]float64 // by cluster and resource: unit-hours of each slot
	if e.cfg.Observe != nil {
		use = make([]map[string][]float64, len(e.cfg.Clusters))
		for c := range use {
			use[c] = map[string][]float64{}
		}
	}
	l := &live{}
	for n, i := range e.order {
		j := &e.cfg.Jobs[i]
		c := e.leastUsed(j, nil)
		e.rooms[c].starts++
		from := j.Submitted.Sub(e.start)
		*l = live{job: i, cluster: c, workers: j.least()}
		l.watts = e.wattsOf(l)
		e.now = from + j.Length
		e.price(l, j.Submitted, e.at(e.now))
		runs[n] = Run{From: from, To: e.now, Cluster: int32(c), Workers: int32(l.workers)}
		l.runs = runs[n : n+1 : n+1]
		e.finish(l)
		e.free = e.free[:0]
		if use != nil {
			e.spread(use[c], j, from)
		}
	}
	e.now = e.ended
	e.report()
	if use != nil {
		e.observeAll(use)
	}
}

// spread adds the use of a job that runs from a time on to the slots it touches.
func (e *engine) spread(use map[string][]float64, j *Job, from time.Duration) {
	slot := e.cfg.Slot
	last := int((from + j.Length - 1) / slot)
	for r, q := range j.Request {
		row := use[r]
		for len(row) <= last {
			row = append(row, 0)
		}
		for s := int(from / slot); s <= last; s++ {
			start := time.Duration(s) * slot
			part := min(from+j.Length, start+slot) - max(from, start)
			row[s] += q * float64(j.least()) * part.Hours()
		}
		use[r] = row
	}
}

// observeAll reports the slots before the last job ends.
func (e *engine) observeAll(use []map[string][]float64) {
	for s := range int(e.ended / e.cfg.Slot) {
		for c := range use {
			now := make(map[string]float64, len(use[c]))
			for r, row := range use[c] {
				if s < len(row) {
					now[r] = row[s] / e.cfg.Slot.Hours()
				}
			}
			e.cfg.Observe(Slot{Cluster: c, At: e.at(time.Duration(s) * e.cfg.Slot), Use: now})
		}
	}
}
