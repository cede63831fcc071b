package slurm

import (
	"context"
	"fmt"
	"time"

	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/track"
)

const (
	// keptFor is how long licences are reserved at least, keptPast how long past the next look: if no controller goes on reserving them, Slurm gives them
	// back then.
	keptFor, keptPast = 6 * time.Minute, 5 * time.Minute
	// keptAgain is how old a reservation becomes before it is extended.
	keptAgain = 2 * time.Minute
)

// Capacity bounds how many CPUs the jobs that may wait use at a time: each takes a licence for each of its CPUs, and those that are not to be used are
// reserved.
type Capacity struct {
	Curve   *curve.Local
	Licence string
	// Maximum is the capacity of the curve, Total how many licences there are.
	Maximum, Total int
	// Planner says that the planner of the curve replaces that of the controller: planner carbonflex takes the capacity as the curve has set it.
	Planner bool

	revision string
	// set says that reserved are reserved until then, or longer if somebody else has set a later end.
	set      bool
	reserved int
	until    time.Time
	said     string
	// theirs are the licences of the reservation if somebody else has changed it, so that it is left as it is; 0 otherwise.
	theirs int
}

// bounded is a look at the curve: what it allows, and what may be planned with.
type bounded struct {
	value float64
	now   curve.Now
	// needed are the licences without which a job would be late: see View.Needed.
	needed int
}

// kept is how long licences are reserved. Those that jobs need for a latest start before are not.
func (c *Controller) kept() time.Duration { return max(keptFor, c.o.Interval+keptPast) }

// leaves is how many licences all jobs may have by the number of an operator in the reservation; nil if the number is that of Lull.
func (k *Capacity) leaves() *int {
	if k.theirs == 0 {
		return nil
	}
	n := max(0, k.Total-k.theirs)
	return &n
}

// look asks the curve, and bounds the snapshot by it.
func (c *Controller) look(ctx context.Context, in *slurm.Input, view *slurm.View) bounded {
	s := &view.Snapshot
	d := curve.Demand{Tasks: s.Tasks, Margin: s.Margin, Power: s.Clusters[0].Power, Runtime: make([]time.Duration, len(s.Tasks)), Phases: make([][]decide.Phase, len(s.Tasks))}
	for i := range s.Tasks {
		d.Runtime[i] = s.Tasks[i].Remaining + view.Seen[i].Done
		if rec := c.records[s.Tasks[i].ID]; rec != nil && rec.Standing() != nil {
			d.Phases[i] = rec.Standing().Phases
		}
	}
	d.Until = s.Now.Add(c.kept()) // as enforce reserves
	beside, known := view.Beside(in, d.Until)
	if !known {
		beside = c.o.Capacity.Maximum
	}
	d.Beside = float64(beside)
	value, now := c.o.Capacity.Curve.Look(ctx, s.Now, in.Carbon, d)
	s.Clusters[0].CapacityAt = now.Capacity(timegrid.Align(s.Now, s.Slot), s.Slot)
	next := d.Until
	if now.End().After(next) {
		next = now.End()
	}
	return bounded{value, now, view.Needed(in, next)}
}

// replan has tasks planned anew when the curve has changed. What the first capacity after a start has changed is not known: plans of the controller before stand
// beside it, as far as it has room.
func (b *bounded) replan(c *Capacity, r *track.Round, of *inheritance) {
	changed, first := c.revision != b.now.Revision, c.revision == ""
	c.revision = b.now.Revision
	for i := range r.Snapshot.Tasks {
		t := &r.Snapshot.Tasks[i]
		again := b.now.Replans(t)
		t.KeepsRoom = !again
		if changed && again && r.Triggers[i].Reason == "" && (!first || of.plans[t.ID] == nil) {
			r.Renew(i, track.Trigger{Reason: track.NewCapacity, Message: "the capacity of " + b.now.Revision})
		}
	}
}

// planner is the one to decide with.
func (b *bounded) planner(c *Capacity, otherwise plan.Planner) plan.Planner {
	if c.Planner && b.now.Planner != nil {
		return plan.ForSequence(b.now.Planner)
	}
	return otherwise
}

// enforce reserves the licences that are not to be used. Those of CPUs above the maximum of the curve are reserved too.
func (c *Controller) enforce(ctx context.Context, b *bounded, now time.Time) error {
	k := c.o.Capacity
	allowed := min(k.Maximum, max(int(b.value), b.needed))
	reserve := k.Total - allowed
	st := k.Curve.Status()
	said := fmt.Sprintf("%d %s %s", allowed, st.Reason, st.Message)
	metrics.SlurmCapacity.Set(float64(allowed))
	if said != k.said {
		k.said = said
		c.o.Log.Info("Capacity", "cpus", allowed, "of", k.Maximum, "reason", st.Reason, "wanted", st.Wanted, "floor", st.Floor, "needed", b.needed, "message", st.Message)
	}
	if c.o.DryRun || k.set && reserve == k.reserved && (reserve == 0 || k.until.Sub(now) > c.kept()-keptAgain) {
		return nil
	}
	until := now.Add(c.kept())
	r, there, err := c.o.Client.Reserved(ctx, k.Licence)
	if err != nil {
		return err
	}
	if there && k.set && k.reserved > 0 && r.Count != k.reserved {
		return c.keep(ctx, r, reserve, until)
	}
	k.theirs = 0
	if ends := k.ends(r, there, until); ends.Equal(until) || r.Count != reserve {
		err = c.o.Client.Reserve(ctx, k.Licence, reserve, ends)
	}
	k.set, k.reserved, k.until = err == nil, reserve, until
	return err
}

// keep extends a reservation whose number somebody else has set, as it is, unless it ends later by itself. Its licences are not given to jobs that reach their latest
// start either: whoever has set it has decided that.
func (c *Controller) keep(ctx context.Context, r slurm.Reservation, wanted int, until time.Time) error {
	k := c.o.Capacity
	if k.theirs != r.Count {
		k.theirs = r.Count
		c.o.Log.Warn("Somebody else has changed the reservation of licences; Lull keeps it as it is. Delete it to have Lull set it again", "licence", k.Licence, "reserved", r.Count, "wanted", wanted)
	}
	if r.Count == 0 || until.Sub(k.until) < keptAgain {
		return nil
	}
	var err error
	if r.Ends.Before(until) {
		err = c.o.Client.Reserve(ctx, k.Licence, r.Count, until)
	}
	if err == nil {
		k.until = until
	}
	return err
}

// ends is when a reservation is to end: then, or when somebody else has set it to end, if that is later. The first time, it may be that of a controller before: with
// a longer --interval that has given it a later end, by at most 15 minutes, and the licences stay reserved until then.
func (k *Capacity) ends(r slurm.Reservation, there bool, until time.Time) time.Time {
	const grain = time.Second // of Slurm
	if there && (!k.set || k.reserved > 0) && r.Ends.After(until) && r.Ends.After(k.until.Add(grain)) {
		return r.Ends
	}
	return until
}
