package decide

import (
	"time"

	"lull.dev/lull/pkg/units"
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
// left, does not hold the task so long that it would miss its deadline, and does not pause it
// where that would lose work. A plan that was late when it was made, because no place in time was
// found, is followed until the latest safe start.
func (s *Snapshot) stands(t *Task) bool {
	if t.Standing == nil {
		return false
	}
	phase, _, done := t.Standing.At(s.Now)
	if done || phase != nil || s.soft() {
		return !done
	}
	if t.State == Running && t.AtRisk > 0 {
		return false
	}
	ahead := s.Now.Before(t.latestStart(s.Margin))
	if !t.LatestStart.IsZero() || t.Standing.Reason.Code == CodeDeadlineAtRisk && ahead {
		return ahead
	}
	end := t.Standing.Phases[len(t.Standing.Phases)-1].To
	return !end.After(t.Deadline.Add(rounding))
}
