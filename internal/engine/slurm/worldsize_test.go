package slurm

import (
	"fmt"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// sized is what the world knows of a job whose number of tasks may change.
type sized struct {
	// user is how many tasks it was submitted with; 0 for other jobs. own is how many its user has set since; 0 if none.
	user, own int
	// checkpoint is how often it saves what it has done; 0 if at SIGTERM. loads is how long it loads that after a restart.
	checkpoint, loads time.Duration
	parallel          float64 // share of its work that its tasks do side by side
	last              int     // size at the last minute
}

// submitSized makes a job one whose number of tasks may change.
func (w *world) submitSized(j *slurm.Job, x *fate) {
	x.pauses, x.user, x.loads = true, 2+w.random.IntN(7), time.Minute
	x.last = x.user
	j.Size, j.Nodes, j.CPUs = x.user, 1, x.user
	j.Comment += ",interruptible,min-tasks=1,restart=1m"
	if x.parallel = 1; !w.once(3) {
		x.parallel = 0.5
		j.Comment += ",parallel=0.5"
	}
	if w.once(2) {
		x.checkpoint = w.minutes(2, 30)
		j.Comment += fmt.Sprintf(",checkpoint=%dm", int(x.checkpoint.Minutes()))
	}
	j.Limit = []time.Duration{0, x.runtime, 2 * x.runtime, 6 * x.runtime}[w.random.IntN(4)]
}

// worked counts what a job has done in a run that has ended, and how long the present one lasts with the tasks that it has.
func (w *world) worked(j *slurm.Job, x *fate) {
	now, loads := w.f.clock.Now(), time.Duration(0)
	if x.restarts > 0 {
		loads = x.loads
	}
	if j.Restarts > x.restarts {
		ran := max(0, now.Sub(j.Started)-loads)
		if x.checkpoint > 0 {
			ran = ran.Truncate(x.checkpoint)
		}
		x.restarts, x.done = j.Restarts, x.done+time.Duration(float64(ran)*x.pace(x.last))
		j.Started, loads = time.Time{}, x.loads
		if w.seen["paused"]++; slurm.ReadMark(j.AdminComment).To > 0 {
			w.seen["requeued for a size"]++
		}
	}
	if j.Size != x.last && x.own == 0 {
		w.seen["resized"]++
	}
	x.last = j.Size
	w.f.lasts[j.ID] = max(time.Second, loads+time.Duration(float64(x.runtime-x.done)/x.pace(j.Size)))
}

// pace is how much of its work a job does in an hour with some tasks.
func (s *sized) pace(tasks int) float64 {
	return slurm.SpeedOf(s.parallel, tasks) / slurm.SpeedOf(s.parallel, s.user)
}

// checkSize is what is promised of the number of tasks: that of a user stands, Slurm ends no job at its limit, and Lull takes no work for done that is not saved.
func (w *world) checkSize(j *slurm.Job, x *fate, m *slurm.Mark, fail func(string)) {
	if x.user == 0 {
		return
	}
	const grain = 2 * time.Second
	w.checkLicences(j, x, fail)
	if w.bounds && j.Size != x.user {
		w.seen["has fewer licences"]++
	}
	switch {
	case j.Size < 1 || j.Size > x.user || j.CPUs != j.Size:
		fail(fmt.Sprintf("it has %d tasks and %d CPUs; want 1 to %d", j.Size, j.CPUs, x.user))
	case x.own > 0 && j.Size != x.own:
		fail(fmt.Sprintf("it has %d tasks; its user has set %d", j.Size, x.own))
	case x.own == 0 && w.f.cpus > 1000 && j.State == "RUNNING" && j.Limit > 0 && !x.ends.IsZero() && w.f.clock.Now().Sub(j.Started) > j.Limit+time.Minute:
		fail("Slurm has ended it at its time limit")
	case x.own == 0 && m.Phase != slurm.Pausing && m.Done > x.done+grain:
		fail(fmt.Sprintf("%v count as done; %v are saved", m.Done, x.done))
	}
}
