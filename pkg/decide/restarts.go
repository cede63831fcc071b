package decide

import "time"

// A start after a pause or move takes time (Task.Restart) in which no work is done. Phases include it: the first phase of
// such a run begins with it.

// MaxRestart bounds Task.Restart.
const MaxRestart = 24 * time.Hour

// runs reports whether a task has found room, so that a pause or move of it costs a restart.
func (t *Task) runs() bool { return t.State == Running && !t.Unscheduled }

// startOf is how long a task takes to start before it works: what is left of a start under way if it goes on as it is.
func (t *Task) startOf(goesOn bool) time.Duration {
	switch {
	case t.Paused, t.runs() && !goesOn:
		return t.Restart
	case t.State == Running:
		return t.Starting
	}
	return 0
}

// firstStart is how long the first of some phases takes to start.
func (t *Task) firstStart(phases []Phase, now time.Time) time.Duration {
	return t.startOf(t.goesOnWith(phases, now))
}

// lastRun is the index of the first phase of the last run of phases, which are not empty.
func (t *Task) lastRun(phases []Phase) int {
	k := len(phases) - 1
	for k > 0 && !t.interrupted(&phases[k-1], &phases[k]) {
		k--
	}
	return k
}

// withoutIdle returns phases without their last run if that would end before it has done any work to speak of. What runs already may
// end at any time.
func (t *Task) withoutIdle(phases []Phase, now time.Time) []Phase {
	if t.Restart == 0 || len(phases) == 0 {
		return phases
	}
	k, start := t.lastRun(phases), t.Restart
	if k == 0 {
		start = t.firstStart(phases, now)
	}
	if start == 0 || phases[len(phases)-1].To.Sub(phases[k].From) >= start+leastPiece {
		return phases
	}
	return phases[:k]
}

// startsIn is the work, as run time at MinWorkers, that phases would do in the time that their starts take.
func (t *Task) startsIn(phases []Phase, now time.Time) time.Duration {
	if t.Restart == 0 || len(phases) == 0 {
		return 0
	}
	exact := *t
	exact.Checkpoint = 0
	atOnce := exact
	atOnce.Restart, atOnce.Starting = 0, 0
	return atOnce.progress(phases, now) - exact.progress(phases, now)
}
