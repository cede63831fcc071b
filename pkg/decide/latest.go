package decide

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/workload"
)

// limits is what the clusters have free when none of the tasks runs. It says how late a task can start.
type limits struct {
	s *Snapshot
	l *capacity.Ledger
	// changes are the times after now at which capacity or load change, by cluster of the snapshot.
	changes [][]time.Time
	// steady: nothing changes on any cluster.
	steady bool
}

// newLimits takes a ledger without tasks.
func newLimits(s *Snapshot, empty *capacity.Ledger) *limits {
	m := &limits{s: s, l: empty, changes: make([][]time.Time, len(s.Clusters)), steady: true}
	for c := range s.Clusters {
		m.changes[c] = empty.Changes(empty.Cluster(s.Clusters[c].Name), s.Now, s.Now.AddDate(50, 0, 0))
		m.steady = m.steady && len(m.changes[c]) == 0
	}
	return m
}

// latestStart returns when a task must run at the latest: an elastic one at the fastest scale for which there is
// room, to end by its deadline with the margin kept even if it takes the guarded run time. need is its request in
// the ledger. If no such start is known to be safe, as of lastStart, ok is false.
func (m *limits) latestStart(t *Task, need []capacity.Need) (at time.Time, ok bool) {
	if !t.LatestStart.IsZero() {
		return t.LatestStart.Add(-m.s.Margin), true
	}
	guarded, _ := t.Guarded()
	return m.lastStart(t, need, guarded, t.Deadline.Add(-m.s.Margin))
}

// lastStart returns the last time from which a task can do some work, as run time at MinWorkers, by a time if no
// other task runs. If there is none that is known to be safe, as the clusters do not have the room, ok is false,
// and it counts with a run at MinWorkers.
//
// Complexity: O(clusters x changes of capacity during the run), with a small constant.
func (m *limits) lastStart(t *Task, need []capacity.Need, work time.Duration, by time.Time) (at time.Time, ok bool) {
	if t.Scaling == nil && m.steady {
		return by.Add(-work - t.startOf(false)), true
	}
	for c := range m.s.Clusters {
		if !m.s.MayUse(t, c) {
			continue
		}
		if on, found := m.lastStartOn(c, t, need, work, by); found && (!ok || on.After(at)) {
			at, ok = on, true
		}
	}
	if !ok {
		at = by.Add(-work - t.startOf(false))
	}
	return at, ok
}

// lastStartOn is lastStart on one cluster; false if there is none. It goes back from the end, through the times
// between two changes of capacity. A rigid task runs in one piece. A pause of another one may lose all up to a
// checkpoint, and takes a restart. The result may lie before now, unless there is a time without room.
func (m *limits) lastStartOn(c int, t *Task, need []capacity.Need, work time.Duration, by time.Time) (time.Time, bool) {
	changes := m.changes[c]
	k, _ := slices.BinarySearchFunc(changes, by, time.Time.Compare)
	left, to, paused, full, after := float64(work), by, false, false, 0.0 // after is the rate after a pause
	for ; k >= 0; k-- {
		from := m.s.Now
		if k > 0 {
			from = changes[k-1]
		}
		rate := m.rate(c, t, need, from, to)
		if rate == 0 {
			if t.Kind == workload.Rigid {
				left = float64(work)
			}
			paused, full = left < float64(work), true
		} else {
			if paused || t.restartsToScale() && after > 0 && rate != after {
				left, paused = left+float64(t.Checkpoint)+float64(t.Restart)*after, false
			}
			length := t.startOf(false) + time.Duration(math.Ceil(left/rate))
			if left < float64(work) {
				length = max(length, t.startOf(false)+leastPiece) // a repair changes nothing for less
			}
			if length <= to.Sub(from) || k == 0 && !full {
				return to.Add(-length), true
			}
			left, after = left-rate*float64(to.Sub(from)), rate
		}
		to = from
	}
	return time.Time{}, false
}

// rate is how many times as fast as at its least scale a task can run on a cluster all through a time; 0 if it
// has no room.
func (m *limits) rate(c int, t *Task, need []capacity.Need, from, to time.Time) float64 {
	if !to.After(from) {
		to = from.Add(tick)
	}
	most := 1
	if t.Scaling != nil {
		most = t.Scaling.MaxWorkers
	}
	n := m.l.Room(m.l.Cluster(m.s.Clusters[c].Name), need, most, from, to)
	switch {
	case n < t.least():
		return 0
	case t.Scaling == nil:
		return 1
	}
	_, rate := t.Scaling.UpTo(n).fastest()
	return rate
}

// Slacks returns a function that says how much later than now a task may start, the margin kept: 0 if it may not
// wait.
func (s *Snapshot) Slacks() func(t *Task) time.Duration {
	l := s.ledger()
	m := newLimits(s, l)
	return func(t *Task) time.Duration {
		if t.HeldOut || t.Deadline.IsZero() {
			return 0
		}
		latest, _ := m.latestStart(t, l.Demand(t.Request))
		return max(0, latest.Sub(s.Now))
	}
}

// most is the largest capacity that the cluster is to have, from the current slot on.
func (c *Cluster) most(resource string) float64 {
	if at := c.CapacityAt[resource]; len(at) > 0 {
		return slices.Max(at)
	}
	return c.Capacity[resource]
}

// most is the largest scale of an elastic task for which a cluster that it may use ever has room, or at which it
// runs.
func (s *Snapshot) most(t *Task) int {
	most := 0
	if t.State == Running {
		most = t.Workers
	}
	for c := range s.Clusters {
		if most >= t.Scaling.MaxWorkers {
			break
		}
		if !s.MayUse(t, c) {
			continue
		}
		n := float64(t.Scaling.MaxWorkers)
		for r, q := range t.Request {
			if q > 0 {
				n = min(n, math.Floor(s.Clusters[c].most(r)/q+workload.Eps))
			}
		}
		most = max(most, int(n))
	}
	return most
}

// withScales returns the snapshot with elastic tasks that have no more workers than there is room for: what is
// never possible is not part of a plan, and no deadline counts on it.
func (s Snapshot) withScales() Snapshot {
	copied := false
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Scaling == nil {
			continue
		}
		limited := t.Scaling.UpTo(s.most(t))
		if limited == t.Scaling {
			continue
		}
		if !copied {
			s.Tasks, copied = slices.Clone(s.Tasks), true
		}
		s.Tasks[i].Scaling = limited
	}
	return s
}
