package track

import (
	"fmt"
	"maps"
	"math"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// Restore returns a record with a plan that somebody else kept, made at a time when some work
// was done.
func Restore(standing *decide.Standing, t *decide.Task, o *Observation, rules Rules, at time.Time) Record {
	r := Record{}
	r.keep(standing, t, o, rules, at)
	return r
}

// Standing returns the plan that is kept; nil if there is none.
func (r *Record) Standing() *decide.Standing { return r.standing }

// MostWorkers returns the most workers that the task may ask for, because more found no node
// a while ago; 0 if there is no such limit.
func (r *Record) MostWorkers() int { return r.most }

// Measured returns the throughput that the last check measured; false if it measured none.
func (r *Record) Measured() (Rate, bool) { return r.rate, r.rate.Workers > 0 }

// Next returns the next time at which the plan starts, stops or changes something; zero if
// there is no such time.
func (r *Record) Next(now time.Time) time.Time {
	if r.standing == nil {
		return time.Time{}
	}
	_, next, _ := r.standing.At(now)
	return next
}

// Expected returns the work that the plan would have done by now, as run time at the least
// scale; what was done when it was made is part of it.
//
// Complexity: O(phases).
func (r *Record) Expected(now time.Time) time.Duration {
	if r.standing == nil {
		return r.doneThen
	}
	sum := 0.0
	for i := range r.standing.Phases {
		ph := &r.standing.Phases[i]
		from, to := ph.From, ph.To
		if from.Before(r.plannedAt) {
			from = r.plannedAt
		}
		if to.After(now) {
			to = now
		}
		if !to.After(from) {
			continue
		}
		rate := 1.0
		if r.scaling != nil {
			rate = r.scaling.Rate(ph.Workers)
		}
		sum += rate * r.speed * float64(to.Sub(from))
	}
	return r.doneThen + time.Duration(sum)
}

// check says why a task is to be planned anew. The trigger has no reason if the plan stands.
func (r *Record) check(t *decide.Task, o *Observation, s *decide.Snapshot, rules *Rules, slotBegan time.Time, issued string) Trigger {
	r.rate = Rate{}
	switch {
	case r.standing == nil:
		return Trigger{Reason: Submitted}
	case !r.holds(t, o):
		return Trigger{ObjectChanged, "the workload states other requirements than before"}
	case r.basis.forecast != rules.Forecast:
		return Trigger{NewForecast, issued}
	}
	if t.State == decide.Running && t.Kind == workload.Rigid {
		return Trigger{}
	}
	began := r.plannedAt.Before(slotBegan)
	switch {
	case began && s.Objective.Kind == plan.MOSP:
		return Trigger{NewPeriod, "with Caspian's objective, Lull plans all waiting work together in every slot"}
	case began && rules.EverySlot:
		return Trigger{NewPeriod, "the planner plans all tasks again in every slot"}
	}
	if t.Unscheduled {
		return Trigger{} // the queue of its cluster says when it starts: its plan is compared with what it does from then on
	}
	if message := r.denied(t, o, s); message != "" {
		return Trigger{ScaleUpDenied, message}
	}
	if message := r.length(t, o, s, rules); message != "" {
		return Trigger{ObjectChanged, message}
	}
	// Progress is compared from the slot after the plan was made on: each start makes it lag a
	// little.
	if began || tight(t, s, slotBegan) {
		if message := r.throughput(t, o, s, rules); message != "" {
			return Trigger{ThroughputDeviates, message}
		}
		if message := r.deviates(t, o, s, rules); message != "" {
			return Trigger{ProgressDeviates, message}
		}
	}
	switch phase, _, done := r.standing.At(s.Now); {
	case done:
		return Trigger{PlanEnded, "the plan has ended, but the work has not"}
	case phase == nil && t.State == decide.Running && t.PauseLoses():
		return Trigger{PauseWouldLose, fmt.Sprintf("a pause would lose %v of work under way", t.AtRisk.Round(time.Second))}
	}
	pause, move := r.standing.Interrupts(t, s.Now)
	switch {
	case pause && t.Scaling != nil && t.Scaling.Restarts:
		return Trigger{PauseWouldLose, fmt.Sprintf("a start at another scale would lose %v of work under way", t.AtRisk.Round(time.Second))}
	case move && s.Objective.Kind != plan.MOSP:
		return Trigger{MoveWouldCost, "a move is due, and its present cost is compared with its saving"}
	}
	return Trigger{}
}

// tight reports whether a task cannot wait for the next slot: it would take until its deadline or longer
// even if it then ran as fast as it can.
func tight(t *decide.Task, s *decide.Snapshot, slotBegan time.Time) bool {
	if t.Deadline.IsZero() {
		return false
	}
	rate := 1.0
	if t.Scaling != nil {
		rate = math.Max(rate, t.Scaling.Rate(t.Scaling.MaxWorkers))
	}
	return time.Duration(float64(t.Remaining)/rate) > t.Deadline.Add(-s.Margin).Sub(slotBegan.Add(s.Slot))
}

// basisOf returns what a plan of the task rests on.
func basisOf(t *decide.Task, forecast string) basis {
	b := basis{forecast: forecast, deadline: t.Deadline, kind: string(t.Kind), request: t.Request}
	if t.Scaling != nil {
		b.minWorkers = t.Scaling.MinWorkers
	}
	return b
}

// holds reports whether the task asks for the same as before. Deadlines are compared by the second. One
// that rests on the expected run time moves with it, by as much: length watches over that.
func (r *Record) holds(t *decide.Task, o *Observation) bool {
	b, least := &r.basis, 0
	if t.Scaling != nil {
		least = t.Scaling.MinWorkers
	}
	if b.kind != string(t.Kind) || b.minWorkers != least {
		return false
	}
	if t.LatestStart.IsZero() && b.deadline.Unix() != t.Deadline.Unix() {
		moved, longer := t.Deadline.Sub(b.deadline), lengthOf(t, o)-r.lengthThen
		if t.AtRisk > 0 || r.lengthThen == 0 || (moved-longer).Abs() > time.Second {
			return false
		}
	}
	return maps.Equal(b.request, t.Request)
}

// lengthOf is the whole work of a task as it is expected now.
func lengthOf(t *decide.Task, o *Observation) time.Duration {
	return o.Done + time.Duration(float64(t.Remaining)*o.Speed)
}

// guardedOf is the whole work of a task that its latest safe start leaves room for, and its probability.
func guardedOf(t *decide.Task, o *Observation) (time.Duration, float64) {
	remaining, p := t.Guarded()
	return o.Done + time.Duration(float64(remaining)*o.Speed), p
}

// length says how the expected or the guarded run time differs from that of the plan, if by more than the threshold of
// it and of a slot. A task with work at risk is left out: its remaining work changes with each part that it
// ends or begins.
func (r *Record) length(t *decide.Task, o *Observation, s *decide.Snapshot, rules *Rules) string {
	if t.AtRisk > 0 || r.lengthThen == 0 {
		return ""
	}
	now := lengthOf(t, o)
	if math.Abs(float64(now-r.lengthThen)) > rules.Threshold*float64(max(r.lengthThen, s.Slot)) {
		return fmt.Sprintf("the work is expected to take %v, was %v", now.Round(time.Second), r.lengthThen.Round(time.Second))
	}
	if now, p := guardedOf(t, o); math.Abs(float64(now-r.guardedThen)) > rules.Threshold*float64(max(r.guardedThen, s.Slot)) {
		return fmt.Sprintf("the work may take %v (%.4g %% quantile), was %v", now.Round(time.Second), 100*p, r.guardedThen.Round(time.Second))
	}
	return ""
}

// deviates says how progress differs from the plan, if by more than the threshold of what
// should have been done since, and by more than is noise: a slot's worth of the threshold.
func (r *Record) deviates(t *decide.Task, o *Observation, s *decide.Snapshot, rules *Rules) string {
	if t.State != decide.Running || t.Changing {
		return ""
	}
	want := r.Expected(s.Now)
	if math.Abs(float64(o.Done-want)) <= rules.Threshold*float64(max(want-r.doneThen, s.Slot)) {
		return ""
	}
	return fmt.Sprintf("%v of work done (%s), %v were planned", o.Done.Round(time.Second), o.Source, want.Round(time.Second))
}

// deniedFor is how long (grid time) no more workers are asked for than run, after some were denied.
const deniedFor = time.Hour

// denied notices workers that no node has room for; those that run are the most for a while.
func (r *Record) denied(t *decide.Task, o *Observation, s *decide.Snapshot) string {
	if r.most > 0 && !s.Now.Before(r.mostUntil) {
		r.most = 0
		return "Lull may ask for more workers again"
	}
	if t.Scaling == nil || t.State != decide.Running || o.Denied == 0 || o.Running < t.Scaling.MinWorkers || r.most == o.Running {
		return ""
	}
	r.most, r.mostUntil = o.Running, s.Now.Add(deniedFor)
	return fmt.Sprintf("%d of %d workers found no node", o.Denied, t.Workers)
}

// throughput compares what the task itself says of its progress with what its scale should do, and says
// so if that differs by more than the threshold. Record.Measured returns each measurement.
func (r *Record) throughput(t *decide.Task, o *Observation, s *decide.Snapshot, rules *Rules) string {
	steady := t.State == decide.Running && t.Scaling != nil && !t.Changing && o.Running >= o.Wanted && o.Measured
	if !steady || r.sample.workers != t.Workers || r.sample.from.Before(o.Since) {
		r.sample = sample{}
		if steady {
			r.sample = sample{workers: t.Workers, from: s.Now, last: o.Done}
		}
		return ""
	}
	// A measurement begins and ends when the task states more than before, and takes at least a slot: between such
	// moments a progress that comes in steps is older than it looks.
	if o.Done == r.sample.last {
		return ""
	}
	begun, done := r.sample.at, r.sample.done
	r.sample.last = o.Done
	if begun.IsZero() {
		r.sample.at, r.sample.done = s.Now, o.Done
		return ""
	}
	span, gain := s.Now.Sub(begun), o.Done-done
	if span < s.Slot || gain <= 0 {
		return ""
	}
	r.rate = Rate{t.Workers, float64(gain) / float64(span)}
	r.sample.at, r.sample.done = s.Now, o.Done
	model := t.Scaling.Rate(t.Workers) * o.Speed
	if math.Abs(r.rate.Value/model-1) <= rules.Threshold {
		return ""
	}
	return fmt.Sprintf("%d workers do %.2f times the work of the least scale, %.2f were expected", t.Workers, r.rate.Value, model)
}

// keep takes a plan over; nil for none.
func (r *Record) keep(standing *decide.Standing, t *decide.Task, o *Observation, rules Rules, now time.Time) {
	r.standing, r.basis = standing, basisOf(t, rules.Forecast)
	r.plannedAt, r.doneThen, r.lengthThen, r.guardedThen = now, o.Done, 0, 0
	if t.AtRisk == 0 {
		r.lengthThen = lengthOf(t, o)
		r.guardedThen, _ = guardedOf(t, o)
	}
	r.scaling, r.speed = t.Scaling, o.Speed
}

// slotOf is when the slot of a snapshot's present began.
func slotOf(s *decide.Snapshot) time.Time { return timegrid.Align(s.Now, s.Slot) }
