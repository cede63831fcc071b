package decide

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// Phase is a time at one cluster and scale, in grid time, half-open.
type Phase struct {
	From, To time.Time
	Cluster  string
	Workers  int
	// Intensity is the mean over the phase, in gCO2eq/kWh, as the plan expects it.
	Intensity units.CarbonIntensity
}

// Standing is a plan made earlier that goes on until something changes: Decide follows it
// instead of planning the task anew, and plans the others around it. If the task is to be
// planned anew (Task.Replan), it is what remains possible when no better plan is found.
type Standing struct {
	// Phases in order of time, at least one.
	Phases []Phase
	// Reason of the plan.
	Reason Reason
}

// At returns what the plan does at a time: the phase that runs, or nil between phases, and
// the next change. done says that the plan has nothing left.
func (st *Standing) At(now time.Time) (phase *Phase, next time.Time, done bool) {
	for i := range st.Phases {
		p := &st.Phases[i]
		switch {
		case now.Before(p.From):
			return nil, p.From, false
		case now.Before(p.To):
			return p, p.To, false
		}
	}
	return nil, time.Time{}, true
}

// Interrupts reports whether the plan, if it is followed at a time, pauses a running task where that
// loses work, or moves it at a cost: at once, or by a pause from which it goes on elsewhere. A change of scale that restarts the task counts as such a pause.
func (st *Standing) Interrupts(t *Task, now time.Time) (pause, move bool) {
	costs := t.PauseLoses() || t.RestartKWh+t.TransferKWh > 0 || t.restartsToScale()
	if t.State != Running || !costs {
		return false, false
	}
	ahead := st.from(now)
	if len(ahead) == 0 {
		return false, false
	}
	move = t.Cluster != "" && ahead[0].Cluster != t.Cluster
	if ahead[0].From.After(now) {
		return t.PauseLoses(), move
	}
	return t.restartsToScale() && ahead[0].Workers != t.Workers, move
}

// from returns what the plan does from a time on. The caller must not change it.
func (st *Standing) from(at time.Time) []Phase {
	if len(st.Phases) > 0 && !st.Phases[0].From.Before(at) {
		return st.Phases
	}
	var out []Phase
	for _, p := range st.Phases {
		if !p.To.After(at) {
			continue
		}
		if p.From.Before(at) {
			p.From = at
		}
		out = append(out, p)
	}
	return out
}

// stands reports whether the standing plan of a task can be followed. It can if it has something
// left, does the work in time, and neither pauses the task where that would lose work nor moves it at a cost:
// what that costs now is weighed anew. A plan that was late when it was made, because no place in time was
// found, is followed until the latest safe start.
func (w *decider) stands(i int) bool {
	s, t := w.s, &w.s.Tasks[i]
	if t.Standing == nil || t.leftToQueue() {
		return false
	}
	phase, _, done := t.Standing.At(s.Now)
	if done || s.soft() {
		return !done
	}
	if pause, move := t.Standing.Interrupts(t, s.Now); pause || move {
		return false
	}
	ahead := s.Now.Before(w.items[i].latest)
	if !t.LatestStart.IsZero() || t.Standing.Reason.Code == CodeDeadlineAtRisk && ahead {
		return phase != nil || ahead
	}
	phases := t.Standing.from(s.Now)
	return t.missing(phases, s.Now) <= s.Slot && !t.endOf(phases, s.Now).After(t.Deadline.Add(rounding))
}

// possible reports whether phases use only clusters of the snapshot that the task may use, one of them if it
// cannot migrate.
func (s *Snapshot) possible(t *Task, phases []Phase) bool {
	for k := range phases {
		if !s.mayUse(t, phases[k].Cluster) || k > 0 && !t.Migratable && phases[k].Cluster != phases[k-1].Cluster {
			return false
		}
	}
	return true
}

// withPossible returns the snapshot without standing plans that are for clusters that their tasks may not use,
// that begin before their tasks may, that interrupt a task that cannot be interrupted, or that have more workers than there will ever
// be room for (withScales).
func (s Snapshot) withPossible() Snapshot {
	impossible := func(t *Task) bool {
		if t.Standing == nil {
			return false
		}
		ahead := t.Standing.from(s.Now)
		tooWide := func(p Phase) bool { return t.Scaling != nil && p.Workers > t.Scaling.MaxWorkers }
		return !s.possible(t, ahead) || t.Kind == workload.Rigid && len(ahead) > 1 || len(ahead) > 0 && t.State == Waiting && ahead[0].From.Before(t.NotBefore) ||
			slices.ContainsFunc(ahead, tooWide)
	}
	if !s.anyTask(impossible) {
		return s
	}
	s.Tasks = slices.Clone(s.Tasks)
	for i := range s.Tasks {
		if t := &s.Tasks[i]; impossible(t) {
			t.Standing = nil
		}
	}
	return s
}

// leftToQueue reports whether a task that has not started is released as submitted, so that the queue of a
// cluster starts it: its standing plan says when that is expected to be, but it is released when it arrives.
func (t *Task) leftToQueue() bool {
	if t.State != Waiting || t.Paused || t.Standing == nil {
		return false
	}
	code := t.Standing.Reason.Code
	return code == CodeClusterQueue || code == CodeNoRoom
}
