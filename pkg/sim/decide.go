package sim

import (
	"context"
	"fmt"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// decide takes a decision as a controller does: it observes, has the plans checked that stand, calls
// decide.Decide, keeps the plans that it made and carries the actions out. all hands every
// job in the system over to have its plan checked; otherwise those that are due are.
//
// Where capacity is endless, jobs do not depend on each other: a decision is then on those jobs alone that
// are planned anew or whose plan now starts, stops or changes something.
func (e *engine) decide(ctx context.Context, all bool) error {
	e.list(all)
	if len(e.tasks) == 0 {
		return nil
	}
	for c := range e.base {
		e.base[c].Starts = e.rooms[c].starts
	}
	e.foresee()
	s := decide.Snapshot{
		Now: e.at(e.now), Slot: e.cfg.Slot, Margin: e.cfg.Margin, Objective: e.cfg.Objective, Horizon: e.cfg.Horizon,
		MinRun: e.cfg.MinRun, MinPause: e.cfg.MinPause, MinSaving: e.cfg.MinSaving, SavingConfidence: e.cfg.SavingConfidence, Clusters: e.base, Tasks: e.tasks,
	}
	e.round.Snapshot = &s
	e.round.Rules = track.Rules{Forecast: e.forecast, Threshold: e.cfg.Deviation, EverySlot: e.cfg.Revise == EverySlot}
	e.round.Prepare()
	e.makeRoom()
	if !e.limited {
		e.leaveOut(&s)
	}
	for _, l := range e.due {
		l.due = false
	}
	e.due = e.due[:0]
	if len(s.Tasks) == 0 {
		return nil
	}
	e.res.Decisions++
	d, err := decide.Decide(withoutDeadline{ctx}, s, e.cfg.Planner)
	if err != nil {
		if e.cfg.RunAll && ctx.Err() == nil {
			return e.runAll(&s, err)
		}
		return err
	}
	if e.cfg.Decided != nil {
		e.cfg.Decided(s, d)
	}
	wake := e.round.Keep(&d, func(i int, _ track.Trigger) {
		e.res.Planned++
		if l := e.lives[i]; l.expected == 0 && l.runs == nil && l.workers == 0 {
			l.expected = float64(d.Actions[i].Reason.ExpectedG)
		}
	})
	e.wake = e.clock(wake)
	for _, i := range d.Order {
		l, a := e.lives[i], &d.Actions[i]
		if err := e.take(l, a); err != nil {
			return err
		}
		if !e.limited {
			e.sleep(l, &s.Tasks[i], a, &d)
		}
	}
	return nil
}

// runAll has every task run, and the next decision follow with the next slot, as where a policy cannot decide.
func (e *engine) runAll(s *decide.Snapshot, cause error) error {
	if e.res.Failed++; e.res.Failure == nil {
		e.res.Failure = cause
	}
	d := decide.RunAll(*s, decide.CodePlannerFailed)
	e.wake = time.Duration(e.slot+1) * e.cfg.Slot
	for _, i := range d.Order {
		if l := e.lives[i]; e.submitted(l.job) <= e.now {
			if err := e.take(l, &d.Actions[i]); err != nil {
				return err
			}
		}
		if l := e.lives[i]; !e.limited && e.movable(l) {
			l.wake = e.wake
			e.events.push(l.wake, l, wakes)
		}
	}
	return nil
}

// list observes the tasks of a decision.
func (e *engine) list(all bool) {
	e.tasks, e.lives = e.tasks[:0], e.lives[:0]
	e.round.Records, e.round.Seen = e.round.Records[:0], e.round.Seen[:0]
	from := e.due
	if all {
		from = e.active
	}
	for _, l := range from {
		if l == nil || !e.limited && !e.movable(l) {
			continue
		}
		done := e.progress(l)
		e.tasks = append(e.tasks, e.task(l, done))
		e.lives = append(e.lives, l)
		e.round.Records = append(e.round.Records, &l.record)
		seen := track.Observation{Done: done, Source: "simulated", Running: l.workers, Wanted: l.want, Speed: 1}
		if l.workers > 0 {
			seen.Since = e.at(l.since)
		}
		e.round.Seen = append(e.round.Seen, seen)
	}
}

// leaveOut drops the tasks for which nothing is to be done.
func (e *engine) leaveOut(s *decide.Snapshot) {
	n := 0
	for i, l := range e.lives {
		if !l.due && e.round.Triggers[i].Reason == "" {
			continue
		}
		s.Tasks[n], e.lives[n], e.round.Records[n], e.round.Seen[n], e.round.Triggers[n] = s.Tasks[i], l, e.round.Records[i], e.round.Seen[i], e.round.Triggers[i]
		n++
	}
	s.Tasks, e.lives = s.Tasks[:n], e.lives[:n]
	e.round.Records, e.round.Seen, e.round.Triggers = e.round.Records[:n], e.round.Seen[:n], e.round.Triggers[:n]
}

// sleep sees to the next decision on l alone: when its plan starts, stops or changes something, or its
// latest start comes.
func (e *engine) sleep(l *live, t *decide.Task, a *decide.Action, d *decide.Decision) {
	l.wake = -1
	if !e.movable(l) {
		return
	}
	boundary := time.Duration(e.slot+1) * e.cfg.Slot
	at := boundary
	if next := l.record.Next(e.at(e.now)); !next.IsZero() {
		at = e.clock(next)
	}
	for _, latest := range []time.Time{a.Reason.LatestStart, t.LatestStart.Add(-e.cfg.Margin)} {
		if !l.released && latest.After(e.at(e.now)) {
			at = min(at, e.clock(latest))
		}
	}
	switch a.Reason.Code {
	case decide.CodeTooSoon, decide.CodeNextPeriod:
		if wake := e.clock(d.Wake); wake > e.now {
			at = min(at, wake)
		}
	}
	if at <= e.now {
		at = boundary
	}
	l.wake = at
	e.events.push(at, l, wakes)
}

// take carries out an action.
func (e *engine) take(l *live, a *decide.Action) error {
	j := &e.cfg.Jobs[l.job]
	switch a.Verb {
	case decide.Wait, decide.Pause:
		e.pause(l)
	case decide.Release, decide.Resume, decide.Continue, decide.Scale, decide.Move:
		if e.submitted(l.job) > e.now {
			return fmt.Errorf("job %q is released (%s) at %s, before its submission at %s", j.ID, a.Reason.Code, e.at(e.now).Format(time.RFC3339), j.Submitted.Format(time.RFC3339))
		}
		cluster := l.cluster
		if a.Cluster != "" {
			cluster = e.names[a.Cluster]
		}
		e.ask(l, cluster, max(a.Workers, j.least()))
	}
	return nil
}

// task is what a controller would observe of l, which has done some work.
func (e *engine) task(l *live, done time.Duration) decide.Task {
	j := &e.cfg.Jobs[l.job]
	left := e.estimate(l, done)
	t := decide.Task{
		ID: j.ID, Submitted: j.Submitted, Remaining: left, Kind: j.Kind, Request: j.Request, Watts: j.Watts,
		PriorityClass: j.PriorityClass, State: decide.Waiting, Clusters: j.Clusters,
		Migratable: j.Migratable, RestartKWh: j.RestartKWh, TransferKWh: j.TransferKWh,
	}
	if j.Kind != workload.Rigid {
		t.Restart = e.cfg.Overhead
		t.RestartKWh += e.startupKWh(l)
		t.AtRisk, t.Checkpoint = e.atRisk(l), j.Checkpoint
		t.Remaining += t.AtRisk
	}
	if j.HeldOut {
		t.HeldOut = true
	} else if !l.released || j.Kind != workload.Rigid {
		t.Quantiles = e.quantiles(j, done, t.AtRisk)
	}
	if e.submitted(l.job) > e.now {
		t.NotBefore = j.Submitted
	}
	switch {
	case j.HeldOut: // nobody asks when it is due
	case !j.Deadline.IsZero():
		t.Deadline = j.Deadline
	case j.bounded():
		t.Deadline = j.Submitted.Add(j.MaxDelay + done + left)
		if e.cfg.Lengths != nil || j.Estimate != j.Length { // the run time is not known for sure
			t.LatestStart = j.Submitted.Add(j.MaxDelay + done)
		}
	}
	if j.Scale != nil {
		t.Scaling = e.scalingOf(j.Scale)
	}
	if l.changed >= 0 {
		t.Changed = e.at(l.changed)
	}
	if l.released {
		t.State, t.Unscheduled = decide.Running, l.workers == 0
		if j.Scale != nil {
			if t.Workers = l.want; !t.Unscheduled {
				t.Lacking = max(0, l.want-l.workers)
			}
			t.Changing = l.workers > 0 && e.now < l.counted
		}
		switch {
		case t.Restart == 0:
		case l.workers > 0:
			t.Starting = min(t.Restart, max(0, l.counted-e.now))
		case l.runs != nil:
			t.Starting = t.Restart
		}
	}
	t.Paused = !l.released && l.runs != nil
	if l.cluster >= 0 {
		t.Cluster = e.cfg.Clusters[l.cluster].Name
	}
	return t
}

// startupKWh is the energy of Config.Overhead, without PUE, at the scale of l, or at its least one while it does not run.
// Controllers learn how long starts take, and tell planners that each restart costs this.
func (e *engine) startupKWh(l *live) float64 {
	if e.cfg.Overhead == 0 {
		return 0
	}
	j, c := &e.cfg.Jobs[l.job], &e.cfg.Clusters[max(0, l.cluster)]
	workers := max(l.workers, j.least())
	watts := units.Power(float64(workers) * float64(c.Power.Of(j.Request)) / c.pue())
	switch {
	case j.Watts > 0:
		watts = units.Power(j.Watts)
	case j.Scale != nil && j.Scale.Watts != nil:
		watts = units.Power(j.Scale.Watts[workers-j.Scale.MinWorkers])
	}
	return float64(watts.Over(e.cfg.Overhead))
}

func (e *engine) scalingOf(s *Scale) *decide.Scaling {
	out := e.scaling[s]
	if out == nil {
		out = &decide.Scaling{MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers, Curve: s.Curve, Watts: s.Watts}
		e.scaling[s] = out
	}
	return out
}

// estimate is the work that l is taken to have left when some is done.
func (e *engine) estimate(l *live, done time.Duration) time.Duration {
	j := &e.cfg.Jobs[l.job]
	estimate := j.Estimate
	if e.cfg.Lengths != nil {
		estimate = e.cfg.Lengths.Estimate(j, done)
	}
	switch left := estimate - done; {
	case left > 0:
		return left
	case estimate == j.Length:
		return 1 // it ends at this moment
	}
	return e.cfg.Slot // it should be done by now: any moment
}

// quantiles are those of the work that j has left when some is done and a part of it is at risk.
func (e *engine) quantiles(j *Job, done, atRisk time.Duration) (out []decide.Quantile) {
	of := j.Quantiles
	if u, ok := e.cfg.Lengths.(Uncertain); ok {
		of = u.Quantiles(j, done)
	}
	for _, q := range of {
		out = append(out, decide.Quantile{P: q.P, Remaining: max(0, q.Length-done) + atRisk})
	}
	return out
}

// renew takes up the outlooks of now, and notes when one of them changes next.
func (e *engine) renew() {
	e.renewal = -1
	for c, o := range e.told {
		if o == nil {
			continue
		}
		series, next := o.At(e.at(e.now))
		e.base[c].Carbon = series
		if p, ok := o.(PathsOutlook); ok {
			e.base[c].CarbonPaths = p.Paths(e.at(e.now))
		}
		if next.IsZero() {
			continue
		}
		if t := e.clock(next); e.renewal < 0 || t < e.renewal {
			e.renewal = t
		}
	}
	e.forecast = e.outlooks.Name(e.base, e.at(e.now), e.cfg.Deviation)
}

// withoutDeadline is a context that ends with its parent, but states no deadline. Planner joint uses
// the time that a context gives it: one decision would use the time of the whole simulation.
type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
