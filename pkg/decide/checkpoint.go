package decide

import (
	"math"
	"slices"
	"time"
)

// A task that is paused or moved loses the work that it did since its last checkpoint
// (Task.Checkpoint). Plans count that loss, and pause at checkpoints.

// littleAtRisk is work that a pause may lose as if it lost nothing.
const littleAtRisk = time.Second

// PauseLoses reports whether a pause or move of the task now would lose work.
func (t *Task) PauseLoses() bool { return t.AtRisk > littleAtRisk && t.untilSaved() == 0 }

// justShort is how much work a run may be short of a checkpoint that a plan pauses at: the clock that it ran by has
// nanoseconds, plans have microseconds, and progress is counted in floating point.
const justShort = rounding / 4

// untilSaved is how long a running task still runs to its next checkpoint and a tick more, if it is just short of it; else 0.
func (t *Task) untilSaved() time.Duration {
	short := t.Checkpoint - t.AtRisk
	if t.State != Running || t.Checkpoint == 0 || t.AtRisk == 0 || short <= 0 || short > 2*justShort {
		return 0
	}
	return t.runtime(short, max(t.Workers, t.least())) + tick
}

// withSaved returns the snapshot in which what is just short of a checkpoint is saved. Such a task is paused or moved
// when it is: see saveFirst.
func (s Snapshot) withSaved() Snapshot {
	short := func(t Task) bool { return t.untilSaved() > 0 }
	if !slices.ContainsFunc(s.Tasks, short) {
		return s
	}
	s.Tasks = slices.Clone(s.Tasks)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.savedIn = t.untilSaved(); t.savedIn == 0 {
			continue
		}
		t.Quantiles = slices.Clone(t.Quantiles)
		for k := range t.Quantiles {
			t.Quantiles[k].Remaining = max(0, t.Quantiles[k].Remaining-t.AtRisk)
		}
		t.Remaining, t.AtRisk = t.Remaining-t.AtRisk, 0
	}
	return s
}

// saveFirst puts a pause or move of a task off until its checkpoint, if it is just short of it.
func (w *decider) saveFirst(i int, a *Action) {
	t := &w.s.Tasks[i]
	if t.savedIn == 0 || a.Verb != Pause && a.Verb != Move && (a.Verb != Scale || !t.restartsToScale()) {
		return
	}
	until := w.s.Now.Add(t.savedIn)
	saves := w.phase(i, w.place(t.Cluster), w.s.Now, 0, max(t.Workers, t.least()))
	saves.To = until
	code := CodeTooSoon
	if a.Reason.Code == CodeDeadlineAtRisk {
		code = CodeDeadlineAtRisk // the reason that matters more
	}
	a.Verb, a.Cluster, a.Workers, a.Reason.Code = Continue, t.Cluster, 0, code
	if a.Phases = w.priced(behind(saves, a.Phases)); a.Plan != nil {
		a.Plan = w.priced(behind(saves, a.Plan))
	}
	if t.Scaling != nil {
		a.Workers = t.Workers
	}
	w.soonest(until)
}

// behind returns a phase and those that follow it: what would begin before it ends begins later, as long as it is.
func behind(first Phase, phases []Phase) []Phase {
	out, end := []Phase{first}, first.To
	for _, p := range phases {
		if after := end.Sub(p.From); after > 0 {
			p.From, p.To = end, p.To.Add(after)
		}
		out, end = append(out, p), p.To
	}
	return out
}

// progress returns the work of phases that remains done if they are followed from now on, as run time at
// MinWorkers. What a running task has at risk counts if the first phase goes on with it.
func (t *Task) progress(phases []Phase, now time.Time) time.Duration {
	saved, unsaved, _ := t.savedBy(phases, now)
	return saved + unsaved
}

// savedBy splits the work of phases into what is saved, and what the last run did since its last checkpoint. starting is for how long
// the last run has still to start at its end.
func (t *Task) savedBy(phases []Phase, now time.Time) (saved, unsaved, starting time.Duration) {
	run := 0.0 // work since the run began, what was at risk then included
	starting = t.firstStart(phases, now)
	if t.goesOnWith(phases, now) {
		run = float64(t.AtRisk)
	}
	for k := range phases {
		if k > 0 && t.interrupted(&phases[k-1], &phases[k]) {
			saved, run, starting = saved+t.checkpointed(run), 0, t.Restart
		}
		length := phases[k].To.Sub(phases[k].From)
		starts := min(starting, length)
		run, starting = run+t.rate(phases[k].Workers)*float64(length-starts), starting-starts
	}
	at := t.checkpointed(run)
	return saved + at, time.Duration(math.Round(run)) - at, starting
}

// goesOnWith reports whether a running task goes on by its phases without a pause or move now, or a change of scale that restarts it.
func (t *Task) goesOnWith(phases []Phase, now time.Time) bool {
	return t.State == Running && len(phases) > 0 && !phases[0].From.After(now) && (t.Cluster == "" || phases[0].Cluster == t.Cluster) &&
		(!t.restartsToScale() || phases[0].Workers == t.Workers)
}

// interrupted reports whether a task is paused or moved between a phase and the next, or changes its scale by a restart.
func (t *Task) interrupted(p, next *Phase) bool {
	return next.From.After(p.To) || next.Cluster != p.Cluster || t.restartsToScale() && next.Workers != p.Workers
}

// checkpointed is the part of the work of a run that a pause after it does not lose.
func (t *Task) checkpointed(work float64) time.Duration {
	done := time.Duration(math.Round(work))
	if t.Checkpoint == 0 {
		return done
	}
	return min(done, (done+justShort)/t.Checkpoint*t.Checkpoint)
}

// missing is the work that is left of a task after its phases; negative if they do more.
func (t *Task) missing(phases []Phase, now time.Time) time.Duration {
	return t.Remaining - t.progress(phases, now)
}

// lags reports whether phases do less than the work that is left of a task.
func (t *Task) lags(phases []Phase, now time.Time) bool { return t.missing(phases, now) > rounding }

// endOf is when the work that is left of a task is done by its phases. What they do not do is done after
// them, at the scale of the last.
func (t *Task) endOf(phases []Phase, now time.Time) time.Time {
	last := &phases[len(phases)-1]
	saved, unsaved, starting := t.savedBy(phases, now)
	if missing := t.Remaining - saved - unsaved; missing > rounding {
		return last.To.Add(starting + t.runtime(missing, last.Workers))
	}
	return last.To
}

// atCheckpoints returns phases that pause and move at checkpoints, and do some work after each restart: what a run would do after its last
// checkpoint is left out, and the last run does what is missing.
func (t *Task) atCheckpoints(phases []Phase, now time.Time) []Phase {
	if t.Checkpoint == 0 && t.Restart == 0 {
		return phases
	}
	var out []Phase
	cuts := t.firstStart(phases, now) > 0
	for k, p := range phases {
		if k > 0 && t.interrupted(&phases[k-1], &p) {
			out, cuts = t.withoutIdle(t.cut(out, now), now), true
		}
		out = append(out, p)
	}
	if !cuts {
		return phases
	}
	return t.finish(out, now)
}

// cut shortens the last run of phases to its last checkpoint. The pause comes a little after it, as progress is
// counted in floating point, and at a time that the ledger of capacity can express: what starts in the room of
// the pause must not start before it.
func (t *Task) cut(phases []Phase, now time.Time) []Phase {
	_, unsaved, _ := t.savedBy(phases, now)
	if t.Checkpoint == 0 || unsaved <= rounding {
		return phases
	}
	phases = t.shorten(phases, unsaved-rounding)
	if n := len(phases); n > 0 {
		phases[n-1].To = phases[n-1].To.Truncate(tick)
	}
	return phases
}

// finish has the last run of phases end when the work is done.
func (t *Task) finish(phases []Phase, now time.Time) []Phase {
	saved, unsaved, starting := t.savedBy(phases, now)
	missing := t.Remaining - saved - unsaved
	if missing <= 0 {
		shorter := t.withoutIdle(t.shorten(phases, -missing), now)
		if n := len(shorter); n == 0 || n == len(phases) {
			return phases
		}
		return t.finish(shorter, now)
	}
	last := &phases[len(phases)-1]
	last.To = last.To.Add(starting + t.runtime(missing, last.Workers))
	return phases
}

// shorten takes work off the end of the last run of phases, at most the whole run.
func (t *Task) shorten(phases []Phase, work time.Duration) []Phase {
	for n := len(phases); work > 0 && n > 0; n = len(phases) {
		p := &phases[n-1]
		rate := t.rate(p.Workers)
		if less := time.Duration(float64(work) / rate); less < p.To.Sub(p.From)-rounding {
			p.To = p.To.Add(-less)
			return phases
		}
		work -= time.Duration(math.Round(rate * float64(p.To.Sub(p.From))))
		phases = phases[:n-1]
		if n > 1 && t.interrupted(&phases[n-2], p) {
			break
		}
	}
	return phases
}
