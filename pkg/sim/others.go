package sim

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/track"
)

// This file is what others do to the capacity of a cluster: they use a part of it, and announce changes.

// mostForeseen is for how many slots decisions know the capacity and the load to come, as the live controllers do.
const mostForeseen = 1 << 12

// checkOthers checks the load of others. It also checks that announced changes and load begin and end at boundaries of slots, as
// a decision has one value for each slot.
func (e *engine) checkOthers() error {
	aligned := func(t time.Time) bool { return timegrid.Align(t, e.cfg.Slot).Equal(t) }
	for c := range e.cfg.Clusters {
		cl := &e.cfg.Clusters[c]
		for i, x := range cl.Changes {
			if cl.Announced && !aligned(x.At) {
				return fmt.Errorf("%w: cluster %s: changes[%d]: at %s; accepted: a boundary of slots, as changes are announced", ErrConfig, cl.Name, i, x.At.Format(time.RFC3339))
			}
		}
		for i, x := range cl.Load {
			switch {
			case cl.Capacity == nil:
				return fmt.Errorf("%w: cluster %s: load: %d; accepted: none, as there is room for everything", ErrConfig, cl.Name, len(cl.Load))
			case !x.To.After(x.From):
				return fmt.Errorf("%w: cluster %s: load[%d]: from %s to %s; accepted: a time after the other", ErrConfig, cl.Name, i, x.From.Format(time.RFC3339), x.To.Format(time.RFC3339))
			case x.Announced && (!aligned(x.From) || !aligned(x.To)):
				return fmt.Errorf("%w: cluster %s: load[%d]: from %s to %s; accepted: boundaries of slots, as it is announced", ErrConfig, cl.Name, i, x.From.Format(time.RFC3339), x.To.Format(time.RFC3339))
			}
			for r, v := range x.Amount {
				if !(v >= 0) {
					return fmt.Errorf("%w: cluster %s: load[%d]: %v %s; accepted: at least 0", ErrConfig, cl.Name, i, v, r)
				}
			}
		}
	}
	return nil
}

// used is what jobs use of a resource of a cluster.
func (e *engine) used(c, resource int) float64 {
	return e.present.Used(c, resource, 0) - e.rooms[c].load[resource]
}

// takeLoad gives others what they ask for of a cluster, as far as there is room, and takes back what they no longer ask for.
func (e *engine) takeLoad(c int) {
	if len(e.cfg.Clusters[c].Load) == 0 {
		return
	}
	r := &e.rooms[c]
	for i := range e.resources {
		more := r.asked[i] - r.load[i]
		if more > 0 {
			more = min(more, max(0, e.present.Free(c, i, 0)))
		}
		e.present.Take(c, []capacity.Need{capacity.NeedOf(i, more)}, 1, 0)
		r.load[i] += more
	}
}

// foresee states what decisions know of the capacity to come, and of what others use of it.
func (e *engine) foresee() {
	from := e.at(time.Duration(e.slot) * e.cfg.Slot)
	for c := range e.base {
		cl, b := &e.cfg.Clusters[c], &e.base[c]
		if cl.Announced && e.foreseen != e.slot {
			b.CapacityAt = e.capacityAhead(c, from)
		}
		if len(cl.Load) == 0 {
			continue
		}
		announced := e.loadAhead(c, from)
		if e.foreseen != e.slot {
			b.LoadAt = announced
		}
		b.Load = make(map[string]float64, len(e.resources))
		for i, name := range e.resources { // what is there and was not announced
			now := 0.0
			if at := announced[name]; len(at) > 0 {
				now = at[0]
			}
			b.Load[name] = max(0, e.rooms[c].load[i]-now)
		}
	}
	e.foreseen = e.slot
}

// capacityAhead is what a cluster has in the slots from a time on. The last value goes on.
func (e *engine) capacityAhead(c int, from time.Time) map[string][]float64 {
	changes := e.cfg.Clusters[c].Changes
	for len(changes) > 0 && !changes[0].At.After(from) {
		changes = changes[1:]
	}
	if len(changes) == 0 {
		return nil
	}
	slots := min(mostForeseen, int(changes[len(changes)-1].At.Sub(from)/e.cfg.Slot)+1)
	out := make(map[string][]float64, len(e.resources))
	for _, name := range e.resources {
		next, whole := 0, e.rooms[c].whole[name]
		for t := range slots {
			for at := from.Add(time.Duration(t) * e.cfg.Slot); next < len(changes) && !changes[next].At.After(at); next++ {
				whole = changes[next].Capacity[name]
			}
			out[name] = append(out[name], max(0, whole-e.rooms[c].lost[name]))
		}
	}
	return out
}

// loadAhead is the load of a cluster that was announced, in the slots from a time on. Nothing goes on after the last.
func (e *engine) loadAhead(c int, from time.Time) map[string][]float64 {
	out := map[string][]float64{}
	for _, x := range e.cfg.Clusters[c].Load {
		if !x.Announced || !x.To.After(from) {
			continue
		}
		first, end := max(0, int(x.From.Sub(from)/e.cfg.Slot)), min(mostForeseen, int(x.To.Sub(from)/e.cfg.Slot))
		for _, name := range e.resources {
			if x.Amount[name] == 0 {
				continue
			}
			if short := end - len(out[name]); short > 0 {
				out[name] = append(out[name], make([]float64, short)...)
			}
			for t := first; t < end; t++ {
				out[name][t] += x.Amount[name]
			}
		}
	}
	return out
}

// makeRoom has running tasks keep the room of a capacity that was announced to fall (decide.Task.KeepsRoom), except those
// that are to make room. If others are to make room than before, they and what waits are planned anew.
func (e *engine) makeRoom() {
	s, before := e.round.Snapshot, e.victims
	e.victims = nil
	kept := make([]bool, len(e.base))
	for c := range e.base {
		if kept[c] = e.cfg.Clusters[c].Announced; kept[c] && e.present.Overfull(c, 0) {
			e.addVictims(c)
		}
	}
	renews := false
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.KeepsRoom = t.State == decide.Running && e.lives[i].cluster >= 0 && kept[e.lives[i].cluster] && !e.victims[t.ID]
		renews = renews || e.victims[t.ID] && !before[t.ID]
	}
	if !renews {
		return
	}
	trigger := track.Trigger{Reason: track.NewCapacity, Message: fmt.Sprintf("%d make room", len(e.victims))}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.State == decide.Waiting || e.victims[t.ID] {
			e.round.Renew(i, trigger)
		}
	}
}

// addVictims adds the tasks that make room on a cluster where more is in use than the capacity.
func (e *engine) addVictims(c int) {
	s := e.round.Snapshot
	until := e.at(time.Duration(e.slot+1) * e.cfg.Slot)
	for r, name := range e.resources {
		excess := -e.present.Free(c, r, 0)
		var running []capacity.Running
		var ids []string
		for i := range s.Tasks {
			t := &s.Tasks[i]
			if x, runs := track.Stoppable(t, name, until, s.Margin); runs && e.lives[i].cluster == c {
				running, ids = append(running, x), append(ids, t.ID)
			}
		}
		for _, i := range capacity.Victims(running, excess) {
			if e.victims == nil {
				e.victims = map[string]bool{}
			}
			e.victims[ids[i]] = true
		}
	}
}
