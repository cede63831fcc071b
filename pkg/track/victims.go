package track

import (
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// Needs returns the least scale at which a task must run until a time to end by its deadline, less a margin, if it then
// goes on as fast as it can; 0 where it may wait until then.
func Needs(t *decide.Task, until time.Time, margin time.Duration) int {
	slack := t.Deadline.Add(-margin).Sub(until) // for what is left then
	if t.Scaling == nil {
		if t.Remaining > slack {
			return 1
		}
		return 0
	}
	s := t.Scaling
	best, fastest := s.MinWorkers, 0.0
	for n := s.MinWorkers; n <= s.MaxWorkers; n++ {
		if r := s.Rate(n); r > fastest+workload.Eps {
			best, fastest = n, r
		}
	}
	if float64(t.Remaining) <= float64(slack)*fastest {
		return 0
	}
	if slack > 0 {
		return s.MinWorkers // it must begin; its scale is the planner's
	}
	return best
}

// Stoppable returns what a task uses of a resource and what a pause would lose, for capacity.Victims; false if it does not run.
// It is kept if it cannot be paused, may not wait, or cannot wait until a time.
func Stoppable(t *decide.Task, resource string, until time.Time, margin time.Duration) (capacity.Running, bool) {
	if t.State != decide.Running || t.Changing || t.Unscheduled {
		return capacity.Running{}, false
	}
	use := t.Request[resource]
	if t.Scaling != nil {
		use *= float64(max(t.Workers, t.Scaling.MinWorkers))
	}
	keep := t.Kind == workload.Rigid || t.Deadline.IsZero() || Needs(t, until, margin) > 0
	return capacity.Running{Use: use, Lost: t.AtRisk.Hours(), Keep: keep}, true
}
