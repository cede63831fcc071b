package slurm

import (
	"fmt"
	"maps"
	"math"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// Size is a job whose number of tasks (--ntasks) Lull sets by the plan: while it waits, by an update; while it runs, by a requeue, as Slurm changes the tasks of no
// running job. For planners it is an elastic task whose changes of scale are restarts: a worker is Step tasks.
//
// A size has no end in Slurm. So Lull sets none with which the job, if nobody ever changes it again, would end after its deadline, or at its time limit (see need).
type Size struct {
	// Now is how many tasks it has, User how many its user asked for, with Each CPUs each.
	Now, User, Each int
	// Step is how many tasks a worker is; Least and Most are numbers of workers.
	Step, Least, Most int

	parallel float64       // see Options.Parallel; 1 for all of the work
	crowded  bool          // other jobs wait for room
	fits     int           // how many tasks find room now
	limit    time.Duration // its time limit; 0 for none
	start    time.Duration // what a start takes that is not the first
	ends     time.Time     // its deadline, less the margin
	left     time.Duration // its work that is left, as run time with User tasks, if it goes on as it is
	atRisk   time.Duration // what a requeue now would lose of its work
	most     time.Duration // the work that it may have left at most, for its time limit: see bounded
	elapsed  time.Duration // of its present run
	runSaved time.Duration // the work of its present run that a requeue does not lose
}

// tasks is how many tasks a number of workers is.
func (s *Size) tasks(workers int) int {
	if workers >= s.Most {
		return s.User
	}
	return max(workers, s.Least) * s.Step
}

// workers is the number of workers of some tasks.
func (s *Size) workers(tasks int) int { return min(max(s.Least, tasks/s.Step), s.Most) }

// speed is how many times as fast as with one task the job runs with some (Amdahl 1967).
func (s *Size) speed(tasks int) float64 {
	return 1 / (1 - s.parallel + s.parallel/float64(tasks))
}

// curve is what the least number of workers does, and what each further one adds.
func (s *Size) curve() []float64 {
	out := make([]float64, s.Most-s.Least+1)
	for k := range out {
		out[k] = s.speed((s.Least + k) * s.Step)
		if k > 0 {
			out[k] -= s.speed((s.Least + k - 1) * s.Step)
		}
	}
	return out
}

// takes is how long work takes with some tasks.
func (s *Size) takes(work time.Duration, tasks int) time.Duration {
	return time.Duration(min(float64(mostWork), math.Ceil(float64(work)*s.speed(s.User)/s.speed(tasks))))
}

// did is the work that some tasks do in a time.
func (s *Size) did(in time.Duration, tasks int) time.Duration {
	return time.Duration(float64(in) * s.speed(tasks) / s.speed(s.User))
}

// unit is the work of the job as run time of the least number of workers.
func (s *Size) unit(work time.Duration) time.Duration { return s.takes(work, s.Least*s.Step) }

// newSize returns how a job may be sized; nil if Lull leaves its tasks alone. A job whose user has changed their number since is left as it is, as are jobs with GPUs,
// and all of a cluster with a capacity, as their licences would have to follow.
func newSize(in *Input, g *Governed, free map[string]float64) *Size {
	j, m := g.Job, &g.Mark
	if g.Options.MinTasks == 0 || !g.interruptible() || j.ofArray() || m.OwnSize || g.HeldOut(in.Config) || in.Config.Capacity != nil || j.GPUs > 0 || j.Size < 1 {
		return nil
	}
	s := &Size{Now: j.Size, User: j.Size, Each: j.CPUs / j.Size, limit: j.Limit, start: g.restart()}
	switch {
	case m.Size > 0 && !m.ofLull(j), m.Size == 0 && j.CPUs%j.Size != 0:
		return nil
	case m.Size > 0:
		s.User, s.Each = m.User, m.Each
	}
	least := max(g.Options.MinTasks, j.Nodes)
	if s.Now > s.User || least >= s.User || s.Each < 1 {
		return nil
	}
	s.Step = (s.User + mostLevels - 1) / mostLevels
	s.Least = (least + s.Step - 1) / s.Step
	s.Most = max(s.Least, s.User/s.Step)
	if s.parallel = g.Options.Parallel; s.parallel == 0 {
		s.parallel = 1
	}
	task := *j
	task.CPUs, task.Memory = s.Each, 0
	s.fits = s.User
	for r, amount := range in.places.request(&task, 1) {
		has := 0.0
		if j.uses() {
			has = amount * float64(s.Now)
		}
		s.fits = min(s.fits, int((free[r]+has)/amount))
	}
	for i := range in.Queue.Jobs {
		other := &in.Queue.Jobs[i]
		waits := other.Reason == reasonResources || other.Reason == reasonPriority
		s.crowded = s.crowded || other.Number != j.Number && other.Pending() && waits && !other.Begin.After(in.Now)
	}
	return s
}

// free is what no job uses, of a capacity.
func (in *Input) free(capacity map[string]float64) map[string]float64 {
	out := maps.Clone(capacity)
	for i := range in.Queue.Jobs {
		if j := &in.Queue.Jobs[i]; j.uses() {
			for r, amount := range in.places.request(j, 1) {
				out[r] -= amount
			}
		}
	}
	return out
}

// ofLull reports whether a job has the size that Lull has set, or has started just before that.
func (m *Mark) ofLull(j *Job) bool {
	return j.Size == m.Size || !j.Pending() && m.Was > 0 && j.Size == m.Was
}

// restart is how long a start takes that is not the first.
func (g *Governed) restart() time.Duration {
	if g.Options.Restart > 0 {
		return g.Options.Restart
	}
	return DefaultRestart
}

// likely is by how much a job may exceed the run time that its user states before it reaches its time limit, with fewer tasks than its user asked for.
const likely = 1.5

// look works out what is left of the job. It sets Latest: with all of its tasks, it then ends in time.
func (s *Size) look(in *Input, g *Governed) {
	begun := g.Job.Restarts > 0
	s.elapsed = g.ran(in)
	ran := s.elapsed
	if begun {
		ran = max(0, ran-s.start)
	}
	atRisk := time.Duration(0)
	if g.Options.Checkpoint > 0 {
		atRisk = ran % g.Options.Checkpoint
	}
	whole := g.runtime(in)
	s.runSaved = s.did(ran-atRisk, s.Now)
	done := min(g.saved()+s.runSaved, whole)
	s.atRisk = min(s.did(atRisk, s.Now), whole-done)
	s.left = whole - done - s.atRisk
	s.most = whole - done
	if s.limit > 0 {
		s.most = min(s.limit, time.Duration(likely*float64(whole))) - done
	}
	deadline := g.deadline(in, 1)
	s.ends = deadline.Add(-in.Margin)
	g.Latest = deadline.Add(-(s.left + s.atRisk))
	if begun {
		g.Latest = g.Latest.Add(-s.start)
	}
}

// safe reports whether a run with some tasks that begins at a time, and does all that is left after a start, ends in time and within the time limit of the job, if
// nobody changes it again.
func (s *Size) safe(tasks int, at time.Time, start time.Duration) bool {
	return !at.Add(start+s.takes(s.left+s.atRisk, tasks)).After(s.ends) && s.bounded(tasks, start)
}

// bounded reports whether a run with some tasks ends within the time limit of the job, which Slurm counts anew for each run, also if it takes longer than its user
// says. With as many tasks as its user asked for, the limit is that of its user.
func (s *Size) bounded(tasks int, start time.Duration) bool {
	return s.limit == 0 || start+s.takes(s.most, tasks) <= s.limit
}

// need is the least number of tasks, no fewer than wanted, with which a run from a time on is safe; that of its user if there is none.
func (s *Size) need(wanted int, at time.Time, start time.Duration) int {
	for w := s.workers(wanted); w < s.Most; w++ {
		if n := s.tasks(w); n >= wanted && s.safe(n, at, start) {
			return n
		}
	}
	return s.User
}

// restarts is what the next start of a job that waits takes.
func (s *Size) restarts(g *Governed) time.Duration {
	if g.Job.Restarts > 0 {
		return s.start
	}
	return 0
}

// limitNear reports whether a run with fewer tasks than its user asked for is about to reach the time limit.
func (s *Size) limitNear() bool {
	return s.limit > 0 && s.Now < s.User && s.elapsed > s.limit-min(2*time.Minute, s.limit/10)
}

// late is how many tasks a running job is to go on with that ends too late as it is: as many as find room, if it is then done sooner; else Now.
func (s *Size) late(now time.Time) int {
	on, n := s.takes(s.left, s.Now), min(s.User, s.fits)
	if s.crowded || n <= s.Now || !now.Add(on).After(s.ends) || s.start+s.takes(s.left+s.atRisk, n) >= on {
		return s.Now
	}
	return n
}

// resized is how many tasks a running job is to go on with, by a requeue now; Now if it goes on as it is. It gets fewer only if it may have as few as are wanted, so that
// it is not requeued again and again as time makes fewer safe. Only a size with which the job ends in time is taken, and
// only if it would end in time also with its present one: Slurm starts it so if nobody sets the other one after the requeue. While other jobs wait for room, they
// would get that of the job.
func (s *Size) resized(wanted int, now time.Time) int {
	if n := s.late(now); n != s.Now || s.crowded || s.left < time.Second {
		return n
	}
	n := s.need(wanted, now, s.start)
	switch {
	case wanted == s.Now, wanted < s.Now && n != wanted, n > s.Now && n > s.fits:
		return s.Now
	}
	if s.Now < s.User && !s.safe(s.Now, now, s.start) || n == s.User && now.Add(s.start+s.left+s.atRisk).After(s.ends) {
		return s.Now
	}
	return n
}

// sized is the job as an elastic task, and what is seen of its progress.
func (g *Governed) sized(in *Input) (decide.Task, track.Observation) {
	j, s := g.Job, g.Size
	s.look(in, g)
	worker := *j
	worker.CPUs = s.Each * s.Step
	memoryOf := s.Now
	if j.Pending() { // of a job that waits, Slurm states the memory that it had when it was submitted
		memoryOf = s.User
	}
	worker.Memory = int64(math.Ceil(float64(j.Memory) * float64(s.Step) / float64(memoryOf)))
	t := decide.Task{
		ID: g.id(), Submitted: g.Submitted(), Deadline: g.deadline(in, 1), Kind: workload.Elastic, Request: in.places.request(&worker, 1), State: decide.Waiting,
		Remaining: s.unit(s.left + s.atRisk), Restart: s.start,
		Scaling: &decide.Scaling{MinWorkers: s.Least, MaxWorkers: s.Most, Curve: s.curve(), Restarts: true},
	}
	if g.Options.Checkpoint > 0 {
		t.Checkpoint = s.unit(g.Options.Checkpoint)
		t.AtRisk = min(s.unit(s.atRisk), t.Remaining, t.Checkpoint)
	}
	seen := track.Observation{Source: "model", Speed: 1, Done: max(0, s.unit(g.runtime(in))-t.Remaining)}
	switch {
	case j.State == stateCompleting: // it is being requeued
		t.State, t.Cluster, t.Changing = decide.Running, ClusterName, true
		t.Workers = s.workers(s.Now)
	case !j.Pending():
		t.State, t.Cluster, t.Changed = decide.Running, ClusterName, j.Started
		t.Workers = s.workers(s.Now)
		if j.Restarts > 0 {
			t.Starting = max(0, s.start-g.ran(in))
		}
		seen.Running, seen.Wanted, seen.Since = t.Workers, t.Workers, j.Started
	case g.released(in.Now):
		t.State, t.Cluster, t.Unscheduled = decide.Running, ClusterName, true
		t.Workers = s.workers(s.Now)
		t.Starting = s.restarts(g)
		seen.Wanted = t.Workers
	case g.paused():
		t.Paused, t.Cluster = true, ClusterName
		if g.Mark.Phase != Pausing || g.Mark.To == 0 { // one that is to have another size goes on at once
			t.Changed = j.Submitted // the time of the requeue
		}
	}
	return t, seen
}

// AsSubmitted is the job with as many tasks as its user asked for.
func (g *Governed) AsSubmitted() *Job {
	j := *g.Job
	if m := &g.Mark; m.Size > 0 && m.ofLull(g.Job) {
		j.Size, j.CPUs = m.User, m.User*m.Each
	}
	return &j
}

// Workers is how many workers of its task the job has, or is to begin with.
func (s *Size) Workers() int { return s.workers(s.Now) }

// resize sets the number of tasks of a job that waits, in an update and in the mark.
func (u *Update) resize(g *Governed, m *Mark, n int) {
	s := g.Size
	if n != s.Now {
		u.Size, u.CPUs = n, n*s.Each
	} else if m.Size == 0 {
		return
	}
	m.Size, m.User, m.Each, m.Was = n, s.User, s.Each, 0
	if n != s.Now {
		m.Was = s.Now
	}
}

// withTasks says with how many tasks a job runs; nothing if it is as many as its user asked for.
func (s *Size) withTasks(n int) string {
	if n >= s.User {
		return ""
	}
	return fmt.Sprintf(", with %d of its %d tasks", n, s.User)
}

// size carries out what is decided on a job that may have fewer tasks than its user asked for.
func (c *changes) size(g *Governed, t *decide.Task, a *decide.Action, now time.Time) {
	s := g.Size
	blind := a.Reason.Code == decide.CodePlannerFailed || a.Reason.Code == decide.CodeNoCarbonData
	if !g.Job.Pending() {
		if !t.Changing {
			c.sizeOfRunning(g, t, a, now, blind)
		}
		return
	}
	if a.Verb == decide.Wait || a.Verb == decide.Pause {
		if begin := planned(g, a, now); begin.After(now) {
			wanted := s.User
			if keeps := a.Keeps(); len(keeps) > 0 {
				wanted = s.tasks(keeps[0].Workers)
			}
			c.waitWith(g, now, begin, a.Reason.Code, s.need(wanted, begin, s.restarts(g)))
			return
		}
		blind = true // its latest safe start has come
	}
	wanted, queued := s.tasks(a.Workers), g.Mark.Phase == Released && !g.ahead(now)
	if queued {
		wanted = s.Now
	}
	n := s.User
	if !blind {
		n = s.need(wanted, now, s.restarts(g))
	}
	if queued && n <= s.Now || g.justRequeued(now) {
		return
	}
	m := g.next(Released)
	m.Begin = now
	m.Text = fmt.Sprintf("released at %s%s: %s", clock(now), s.withTasks(n), clippedTo(Message(&a.Reason), mostWords))
	u := Update{Now: true}
	u.resize(g, &m, n)
	u.Comment = m.String()
	c.add(g.Job.ID, u)
}

// mostWords bounds the reason in the mark of a job whose size Lull sets: squeue shows adminWidth characters.
const mostWords = 90

// sizeOfRunning requeues a running job that is to be paused, or to go on with another number of tasks.
func (c *changes) sizeOfRunning(g *Governed, t *decide.Task, a *decide.Action, now time.Time, blind bool) {
	s := g.Size
	if a.Verb == decide.Pause && g.Latest.After(now) && !s.limitNear() {
		c.pause(g, t, now, a)
		return
	}
	wanted := s.Now
	if a.Verb == decide.Scale && !blind {
		wanted = s.tasks(a.Workers)
	}
	n := s.resized(wanted, now)
	if s.limitNear() && s.fits >= s.User {
		n = s.User
	}
	if n != s.Now || s.limitNear() {
		m := g.requeued()
		m.To = n
		m.Text = fmt.Sprintf("stops at %s to go on with %d of its %d tasks", clock(now), n, s.User)
		c.Pauses = append(c.Pauses, Update{IDs: []string{g.Job.ID}, Comment: m.String()})
		return
	}
	if g.Mark.Phase != Released {
		c.release(g, now, a)
	}
}

// unsize gives back the tasks of a job that waits and is not sized any more, or notes that its user has changed their number.
func (c *changes) unsize(g *Governed) bool {
	if g.Size != nil || g.Mark.Size == 0 {
		return false
	}
	u, m, changed := Update{}, g.Mark, false
	if !m.ofLull(g.Job) {
		m.OwnSize, m.Size, changed = true, 0, true
	} else {
		changed = u.giveBack(g.Job, &m)
	}
	if changed {
		u.Comment = m.String()
		c.add(g.Job.ID, u)
	}
	return changed
}

// giveBack gives a job that waits the tasks that its user asked for, if it has another number from Lull. It reports whether it does.
func (u *Update) giveBack(j *Job, m *Mark) bool {
	if m.Size == 0 || m.Size == m.User || j.Size != m.Size || !j.Pending() {
		return false
	}
	u.Size, u.CPUs = m.User, m.User*m.Each
	m.Was, m.Size = m.Size, m.User
	return true
}
