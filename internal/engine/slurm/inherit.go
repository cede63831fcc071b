package slurm

import (
	"time"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
)

// inheritance is what a controller has taken over from the one before, by the marks of jobs. A mark does not say on which forecast its plan rests.
type inheritance struct {
	// plans are those that were taken over and stand, by task.
	plans map[string]*inherited
	// answered says that the provider has told what the hours to come rest on since the start; first says that this is so for the first time, after a look without.
	looked, answered, first bool
}

// inherited is a plan that was taken over. whole says that its begin is all of it.
type inherited struct {
	standing *decide.Standing
	whole    bool
}

// hear notes on what the outlook of a look rests.
func (k *inheritance) hear(basis carbon.Basis) {
	told := basis != carbon.Climatology && basis != carbon.Constant
	k.first = told && k.looked && !k.answered
	k.looked, k.answered = true, k.answered || told
}

// restored is the record of a job that this controller sees for the first time. A controller before it may have planned the job: the mark has when it begins.
func (c *Controller) restored(in *slurm.Input, view *slurm.View, i int) *track.Record {
	begin, why, whole, planned := view.Jobs[i].Begins(in)
	if !planned {
		return &track.Record{}
	}
	t := &view.Snapshot.Tasks[i]
	workers, length := 1, t.Remaining
	if t.Scaling != nil {
		if workers = t.Scaling.MaxWorkers; view.Jobs[i].Size != nil {
			workers = view.Jobs[i].Size.Workers()
		}
		length = time.Duration(float64(length) / max(1, t.Scaling.Rate(workers)))
	}
	standing := &decide.Standing{
		Phases: []decide.Phase{{From: begin, To: begin.Add(length), Cluster: slurm.ClusterName, Workers: workers}},
		Reason: decide.Reason{Code: why, PlannedStart: begin},
	}
	rec := track.Restore(standing, t, &view.Seen[i], c.round.Rules, in.Now)
	if c.inherits.plans == nil {
		c.inherits.plans = map[string]*inherited{}
	}
	c.inherits.plans[t.ID] = &inherited{standing, whole}
	return &rec
}

// prepare keeps the plans that were taken over when the provider first answers, if they are as good by that forecast as new ones would be. If only the begin of a
// plan is known, the plan is made anew at that time.
func (k *inheritance) prepare(in *slurm.Input, view *slurm.View, r *track.Round) {
	if len(k.plans) == 0 {
		return
	}
	stand := make(map[string]*inherited, len(k.plans))
	for i := range r.Snapshot.Tasks {
		t := &r.Snapshot.Tasks[i]
		of := k.plans[t.ID]
		if of == nil || r.Records[i].Standing() != of.standing {
			continue
		}
		if ph := &of.standing.Phases[0]; k.first && r.Triggers[i].Reason == track.NewForecast && good(in, ph, view.Jobs[i].Latest) {
			r.Stand(i)
		} else if !of.whole && !ph.From.After(in.Now) {
			r.Renew(i, track.Trigger{Reason: track.PlanEnded, Message: "of the plan of the controller before, only the begin is known"})
		}
		if r.Triggers[i].Reason == "" {
			stand[t.ID] = of
		}
	}
	k.plans = stand
}

// good reports whether no begin, up to the latest start, is cleaner than that of a phase by more than the threshold.
func good(in *slurm.Input, ph *decide.Phase, latest time.Time) bool {
	series, length := in.Carbon.Expected, ph.To.Sub(ph.From)
	if series == nil || length <= 0 {
		return false
	}
	mean, covered := series.Mean(ph.From, ph.To)
	if covered < length {
		return false
	}
	for at := in.Now; !at.After(latest); at = at.Add(in.Slot) {
		if other, all := series.Mean(at, at.Add(length)); all == length && float64(other) < (1-threshold)*float64(mean) {
			return false
		}
	}
	return true
}
