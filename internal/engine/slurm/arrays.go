package slurm

import (
	"cmp"
	"slices"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// array is what an array with a throttle would have done as submitted: as many tasks at a time as the throttle of its user lets, each as soon as one before
// it has ended. Tasks come in the order in which they started, and take as long as they took.
type array struct {
	// whole says that none of its tasks had started when it was seen first. What is not known as a whole is left out.
	whole bool
	// free is when each of the places at a time is free again as submitted, from when the array could start; busy for one that has a task.
	free []time.Duration
	// at is when each task got its place, by name. of is which, and gone once the task has ended.
	at map[string]time.Duration
	of map[string]int
}

const (
	busy = -1 * time.Nanosecond
	gone = -1
)

// taskChange is a start or an end of a task.
type taskChange struct {
	at   time.Time
	ends bool
	job  *slurm.Job
}

// throttles notes the arrays that are throttled and what their tasks have done since the last look, and forgets what is not in the queue any more. The
// tasks of an array have new names as others leave it: what is blocked is forgotten by its number.
func (r *round) throttles() {
	there, begun := map[int]bool{}, map[int]bool{}
	for _, list := range [][]slurm.Job{r.in.Queue.Jobs, r.in.Queue.Ended} {
		for i := range list {
			j := &list[i]
			there[j.Number] = true
			begun[j.Number] = begun[j.Number] || !j.Pending() || slurm.ReadMark(j.AdminComment).Phase == slurm.Released
		}
	}
	for i := range r.in.Queue.Jobs {
		j := &r.in.Queue.Jobs[i]
		if limit := slurm.UserThrottle(j); limit > 0 && j.Tasks > limit && r.arrays[j.Number] == nil {
			known := !begun[j.Number] || !r.began.IsZero() && j.Submitted.After(r.began)
			r.arrays[j.Number] = &array{whole: known, free: make([]time.Duration, limit), at: map[string]time.Duration{}, of: map[string]int{}}
		}
	}
	if r.began.IsZero() {
		r.began = r.in.Now
	}
	forget(r.freed, there)
	forget(r.arrays, there)
	for id, number := range r.blocked {
		if !there[number] {
			delete(r.blocked, id)
		}
	}
	for _, c := range r.taskChanges() {
		r.arrays[c.job.Number].take(&c)
	}
}

// forget drops what is of numbers that are not there.
func forget[V any](of map[int]V, there map[int]bool) {
	for number := range of {
		if !there[number] {
			delete(of, number)
		}
	}
}

// taskChanges are the starts and ends of tasks of throttled arrays, in the order of time: of those at the same time, ends come first.
func (r *round) taskChanges() (out []taskChange) {
	for _, list := range [][]slurm.Job{r.in.Queue.Jobs, r.in.Queue.Ended} {
		for i := range list {
			j := &list[i]
			if a := r.arrays[j.Number]; a == nil || !a.whole || j.Pending() || j.Started.IsZero() {
				continue
			}
			out = append(out, taskChange{j.Started, false, j})
			if j.Over() && !j.Ended.IsZero() {
				out = append(out, taskChange{j.Ended, true, j})
			}
		}
	}
	slices.SortFunc(out, func(a, b taskChange) int {
		if a.ends != b.ends && a.at.Equal(b.at) && a.job != b.job {
			if a.ends {
				return -1
			}
			return 1
		}
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.job.Number, b.job.Number), cmp.Compare(len(a.job.ID), len(b.job.ID)), cmp.Compare(a.job.ID, b.job.ID), compareBool(a.ends, b.ends))
	})
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// take takes up a start or an end. A task that starts gets the place that is free first; one for which none is, such as after a requeue, is left out.
func (a *array) take(c *taskChange) {
	id := c.job.ID
	place, known := a.of[id]
	switch {
	case !c.ends && !known:
		best := gone
		for i, free := range a.free {
			if free != busy && (best == gone || free < a.free[best]) {
				best = i
			}
		}
		if best != gone {
			a.at[id], a.of[id], a.free[best] = a.free[best], best, busy
		}
	case c.ends && known && place != gone:
		a.free[place], a.of[id] = a.at[id]+max(0, c.job.Ended.Sub(c.job.Started)), gone
	}
}

// leavesOut reports whether it is not known when a job would have had a place in its throttled array as submitted. One that waits has none yet.
func (r *round) leavesOut(j *slurm.Job) bool {
	a := r.arrays[j.Number]
	if a == nil {
		return false
	}
	_, known := a.of[j.ID]
	return !known
}
