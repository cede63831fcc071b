package slurm

import (
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// task is the job as a task, and what is seen of its progress. It sets Latest.
func (g *Governed) task(in *Input, capacity map[string]float64) (decide.Task, track.Observation) {
	if g.Scale != nil {
		return g.scaled(in)
	}
	if g.Size != nil {
		return g.sized(in)
	}
	j := g.Job
	each := in.places.request(j, 1)
	width, waves := g.shape(each, capacity)
	work := g.work(in, waves)
	t := decide.Task{
		ID: g.id(), Submitted: g.Submitted(), Deadline: g.deadline(in, waves), Kind: workload.Rigid,
		Request: in.places.request(j, float64(width)), State: decide.Waiting,
	}
	if in.throttles[j.Number] > 0 {
		t.Request[throttleOf(j.Number)] = float64(width)
	}
	switch {
	case g.pace > 0: // a pause would have it start again with few tasks, if nobody gave the others back
		t.Remaining = time.Duration(float64(max(0, work-g.saved())) / g.pace)
		t.Remaining = max(0, t.Remaining-g.ran(in))
	case g.interruptible():
		t.Kind, t.Checkpoint = workload.Interruptible, g.Options.Checkpoint
		t.Remaining = work - g.done(in)
		t.AtRisk = min(g.atRisk(in), t.Remaining)
	default:
		t.Remaining = max(0, work-g.ran(in))
	}
	g.Latest = t.Deadline.Add(-t.Remaining)
	if t.HeldOut = g.HeldOut(in.Config); t.HeldOut {
		t.Deadline = time.Time{}
	}
	seen := track.Observation{Source: "model", Speed: 1, Done: max(0, work-t.Remaining)}
	switch {
	case j.State == stateCompleting: // it is being requeued
		t.State, t.Cluster, t.Changing = decide.Running, ClusterName, true
	case !j.Pending():
		t.State, t.Cluster, t.Changed = decide.Running, ClusterName, j.Started
		seen.Running, seen.Wanted, seen.Since = 1, 1, j.Started
	case g.released(in.Now):
		t.State, t.Cluster, t.Unscheduled = decide.Running, ClusterName, true
		seen.Wanted = 1
	case g.paused():
		t.Paused, t.Cluster, t.Changed = true, ClusterName, g.pausedAt()
	}
	return t, seen
}

// shape is how many tasks of a job run at a time, and how often in succession: the tasks of an array run beside each other, as many as its
// throttle and its partition let.
func (g *Governed) shape(each, capacity map[string]float64) (width, waves int) {
	width = g.Job.Tasks
	if g.Job.Throttle > 0 {
		width = min(width, g.Job.Throttle)
	}
	for r, amount := range each {
		if fit := capacity[r] / amount; fit < float64(width) {
			width = int(fit)
		}
	}
	width = max(1, width)
	return width, (g.Job.Tasks + width - 1) / width
}

// released reports whether a pending job may start now: it is in Slurm's queue.
func (g *Governed) released(now time.Time) bool {
	switch g.Mark.Phase {
	case Released:
		return true
	case Held, Paused:
		return !g.Mark.Begin.After(now)
	}
	return false
}

func (g *Governed) paused() bool { return g.Mark.Phase == Pausing || g.Mark.Phase == Paused }

// pausedAt is when a paused job was requeued; zero for one that is to go on at once with another number of tasks.
func (g *Governed) pausedAt() time.Time {
	if g.Mark.Phase == Pausing && g.Mark.To > 0 {
		return time.Time{}
	}
	return g.Job.Submitted
}
