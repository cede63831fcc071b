package decide

import (
	"slices"
	"time"
)

// MaxRestart bounds Task.Restart.
const MaxRestart = 24 * time.Hour

// withRestarts returns the snapshot in which the start of a paused task is part of what remains.
func (s Snapshot) withRestarts() Snapshot {
	paused := func(t Task) bool { return t.Restart > 0 && t.Paused }
	if s.soft() || !slices.ContainsFunc(s.Tasks, paused) {
		return s
	}
	s.Tasks = slices.Clone(s.Tasks)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if !paused(*t) {
			continue
		}
		t.Remaining += t.restartWork()
		t.Quantiles = slices.Clone(t.Quantiles)
		for k := range t.Quantiles {
			t.Quantiles[k].Remaining += t.restartWork()
		}
	}
	return s
}

// restartWork is the work, as run time at MinWorkers, that a restart takes the time of: at the fastest scale, where it takes
// the time of most.
func (t *Task) restartWork() time.Duration {
	if t.Scaling == nil {
		return t.Restart
	}
	_, speedUp := t.Scaling.fastest()
	return time.Duration(float64(t.Restart) * max(1, speedUp))
}

// doneBy is when phases end, which are not empty, if each start after a pause or move in them takes a restart.
func (t *Task) doneBy(phases []Phase, now time.Time) time.Time {
	return phases[len(phases)-1].To.Add(t.restartsIn(phases, now))
}

// restartsIn is how long the starts after the pauses and moves of phases take.
func (t *Task) restartsIn(phases []Phase, now time.Time) time.Duration {
	if t.Restart == 0 || len(phases) == 0 {
		return 0
	}
	n := 0
	if t.State == Running && !t.goesOnWith(phases, now) {
		n++
	}
	for k := 1; k < len(phases); k++ {
		if phases[k-1].interrupted(&phases[k]) {
			n++
		}
	}
	return time.Duration(n) * t.Restart
}

// mostRestarts is the number of pauses up to which Verify asks for a place that a repair finds.
const mostRestarts = 3
