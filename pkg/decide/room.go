package decide

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/timegrid"
)

// tick is the resolution of the ledger.
const tick = time.Microsecond

// ledger is the capacity of the clusters from now on, less what runs there that is not among
// the tasks.
func (s *Snapshot) ledger() *capacity.Ledger {
	l := &capacity.Ledger{Tick: tick}
	start := timegrid.Align(s.Now, s.Slot)
	forever := s.Now.AddDate(100, 0, 0)
	for i := range s.Clusters {
		c := &s.Clusters[i]
		slots := 1
		for _, v := range c.CapacityAt {
			slots = max(slots, len(v))
		}
		at := func(slot int) map[string]float64 {
			out := make(map[string]float64, len(c.Capacity)+len(c.CapacityAt))
			for r, v := range c.Capacity {
				out[r] = v
			}
			for r, v := range c.CapacityAt {
				if len(v) > 0 { // as of CapacityNow
					out[r] = v[min(slot, len(v)-1)]
				}
			}
			return out
		}
		changed := func(slot int) bool {
			for _, v := range c.CapacityAt {
				if slot < len(v) && v[slot] != v[slot-1] {
					return true
				}
			}
			return false
		}
		for slot := range slots {
			if slot == 0 || changed(slot) {
				l.Offer(c.Name, start.Add(time.Duration(slot)*s.Slot), at(slot))
			}
		}
		cluster := l.Cluster(c.Name)
		l.Take(cluster, l.Demand(c.Load), 1, s.Now, forever)
		for r, v := range c.LoadAt {
			need := l.Demand(map[string]float64{r: 1})
			for from := 0; from < len(v); {
				to := from + 1
				for to < len(v) && v[to] == v[from] {
					to++
				}
				if v[from] > 0 {
					l.Take(cluster, need, v[from], start.Add(time.Duration(from)*s.Slot), start.Add(time.Duration(to)*s.Slot))
				}
				from = to
			}
		}
	}
	return l
}

// take counts the phases of a task as used, or gives them back.
func (w *decider) take(l *capacity.Ledger, i int, phases []Phase, sign float64) {
	t := &w.s.Tasks[i]
	for k := range phases {
		if p := &phases[k]; !p.moment() {
			l.Take(l.Cluster(p.Cluster), w.items[i].need, sign*t.workersOf(p), p.From, p.To)
		}
	}
}

// moment reports whether a phase is no longer than times are off by rounding: what runs on for a
// moment past its expected end must not take the place of what is planned from then on.
func (p *Phase) moment() bool { return p.To.Sub(p.From) <= rounding }

// rounding is how much later than a deadline a plan may end: times are sums of durations that
// are rounded to the clock.
const rounding = 100 * time.Microsecond

// fits reports whether the phases of a task find room.
func (w *decider) fits(l *capacity.Ledger, i int, phases []Phase) bool {
	t := &w.s.Tasks[i]
	for k := range phases {
		p := &phases[k]
		if !p.moment() && !l.Fits(l.Cluster(p.Cluster), w.items[i].need, t.workersOf(p), p.From, p.To) {
			return false
		}
	}
	return true
}

// workersOf is the number of workers of a phase, as a multiple of the task's request.
func (t *Task) workersOf(p *Phase) float64 {
	if t.Scaling == nil {
		return 1
	}
	return float64(p.Workers)
}

// runtime is how long some work, stated as run time at MinWorkers, takes at a scale.
func (t *Task) runtime(work time.Duration, workers int) time.Duration {
	if t.Scaling == nil {
		return work
	}
	return time.Duration(math.Ceil(float64(work) / t.Scaling.Rate(max(workers, t.Scaling.MinWorkers))))
}

// allowed lists the clusters, by their index in the snapshot, that a task may use from now on.
func (w *decider) allowed(t *Task) []int {
	var out []int
	for c := range w.s.Clusters {
		if w.s.MayUse(t, c) {
			out = append(out, c)
		}
	}
	return out
}

// MayUse reports whether a task may run on a cluster of the snapshot, given by its index.
func (s *Snapshot) MayUse(t *Task, cluster int) bool { return t.mayUse(s.Clusters[cluster].Name) }

// mayUse reports whether a task may run on a cluster, given by its name.
func (s *Snapshot) mayUse(t *Task, name string) bool { return s.has(name) && t.mayUse(name) }

func (t *Task) mayUse(name string) bool {
	switch {
	case t.Cluster != "" && !t.Migratable && t.Cluster != name:
		return false
	case t.Clusters != nil && t.Cluster != name && !slices.Contains(t.Clusters, name):
		return false
	}
	return true
}
