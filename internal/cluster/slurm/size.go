package slurm

import (
	"math"
	"slices"
	"strings"
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
	crowded  bool          // other jobs may take room that it leaves
	leaves   int           // how many tasks the licences are for that an operator leaves it now; 0 if that bounds nothing
	fits     int           // how many tasks find room on one node now: if it runs, on its own
	limit    time.Duration // its time limit; 0 for none
	window   time.Duration // how long before its time limit a run with fewer tasks is requeued
	start    time.Duration // what a start takes that is not the first
	ends, by time.Time     // its deadline, less the margin, and whole
	left     time.Duration // its work that is left, as run time with User tasks, if it goes on as it is
	atRisk   time.Duration // what a requeue now would lose of its work
	most     time.Duration // the work that it may have left at most, for its time limit: see bounded
	elapsed  time.Duration // of its present run
	leastRun time.Duration // how long a run takes at least before it is requeued for another size
	runSaved time.Duration // the work of its present run that a requeue does not lose
	requeues bool          // see Requeues
	bound    string        // the licence of the capacity: the job has one for each of its CPUs; empty without a capacity
}

const (
	// mostSized bounds the tasks of a job whose number Lull sets: it runs on one node.
	mostSized = 512
	// requeued is how long after a requeue Slurm starts a job if nobody does so before (121 s), at the latest: it looks at begin times every sched_interval (60 s).
	requeued = 181 * time.Second
	// runsPerStart says how long a run takes at least before it is requeued for another size: so many starts, and no less than leastSizedRun.
	runsPerStart  = 10
	leastSizedRun = time.Minute
	// soon is how long before its begin time a job that waits counts as one that may take room.
	soon = 5 * time.Minute
	// likely is by how much a job may exceed the run time that its user states before it reaches its time limit, with fewer tasks than its user asked for.
	likely = 1.5
	// textScript begins what job_submit.lua writes into the mark.
	textScript = "waits for the plan of Lull"
	// unlicensed says why a job keeps its tasks whose licences do not go with them.
	unlicensed = "it has not one licence of the capacity for each of its CPUs"
)

// tasks is how many tasks a number of workers is.
func (s *Size) tasks(workers int) int {
	if workers >= s.Most {
		return s.User
	}
	return max(workers, s.Least) * s.Step
}

// wanted is how many tasks a number of workers of a plan is, and no more than an operator leaves licences for: with more, the job would wait in the queue for them. The
// planner ignores the number of an operator, because nobody knows when the operator removes it. If the planner counted with it, it would release each waiting job that
// finds no room in time.
func (s *Size) wanted(workers int) int { return s.within(s.tasks(workers)) }

// within is a number of tasks, but no more than an operator leaves licences for.
func (s *Size) within(tasks int) int {
	if s.leaves > 0 {
		return min(tasks, s.leaves)
	}
	return tasks
}

// workers is the number of workers of some tasks.
func (s *Size) workers(tasks int) int { return min(max(s.Least, tasks/s.Step), s.Most) }

// SpeedOf is how many times as fast as with one task a job runs with some, of whose work a part is done side by side (Amdahl 1967); 0 for all of it.
func SpeedOf(parallel float64, tasks int) float64 {
	if parallel == 0 {
		parallel = 1
	}
	return 1 / (1 - parallel + parallel/float64(tasks))
}

func (s *Size) speed(tasks int) float64 { return SpeedOf(s.parallel, tasks) }

// curve is what the least number of workers does, and what each further one adds.
func (s *Size) curve() []float64 {
	out := make([]float64, s.Most-s.Least+1)
	for k := range out {
		out[k] = s.speed(s.tasks(s.Least + k))
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

// newSize returns how a job may be sized; nil if Lull leaves its number of tasks alone. Lull does so if
//
//   - the job has GPUs, or several nodes, or whole nodes, or maybe a node of its own;
//   - the cluster has a capacity, and the job has not exactly one licence of it for each of its CPUs, or an operator has lowered them: see Job.licensed;
//   - the user has changed the number since Lull set it, or Slurm has refused a number;
//   - Lull had planned the job before it might have fewer tasks: the ledger has it with all.
func newSize(in *Input, g *Governed) *Size {
	j, m := g.Job, &g.Mark
	switch {
	case g.Options.MinTasks == 0, !g.interruptible(), j.ofArray(), g.keeps(), g.HeldOut(in.Config):
		return nil
	case j.WholeNodes:
		g.unsized = "it gets whole nodes (--exclusive, or OverSubscribe=EXCLUSIVE of its partition), so fewer tasks would free no CPUs"
		return nil
	case j.GPUs > 0, j.Size < 1, j.Nodes != 1:
		return nil
	case in.places.licence != "" && !j.licensed(in.places.licence, m):
		g.unsized = unlicensed
		return nil
	case m.User == 0 && j.CPUs > j.Size && in.hasWholeNode(j): // maybe as Slurm has given it more CPUs: those that its user asked for are not known
		return nil
	case !m.untouched() && m.User == 0 && !strings.HasPrefix(m.Text, textScript) && !g.WaitedForOthers():
		return nil
	}
	s := &Size{Now: j.Size, User: j.Size, Each: j.CPUs / j.Size, limit: j.Limit, start: g.restart(), parallel: g.Options.Parallel, window: 2*time.Minute + 2*in.Interval, bound: in.places.licence}
	switch {
	case m.Size > 0 && !m.ofLull(j), m.Size == 0 && j.CPUs%j.Size != 0:
		return nil
	case m.Size > 0:
		s.User, s.Each = m.User, m.Each
	}
	if s.Now > s.User || g.Options.MinTasks >= s.User || s.User > mostSized || s.Each < 1 {
		return nil
	}
	if s.bound != "" && s.User*s.Each > in.Config.Capacity.Most() {
		g.unsized = "it asks for more CPUs than the capacity has"
		return nil
	}
	s.Step = (s.User + mostLevels - 1) / mostLevels
	s.Least = (g.Options.MinTasks + s.Step - 1) / s.Step
	s.Most = max(s.Least, s.User/s.Step)
	s.leastRun = max(leastSizedRun, runsPerStart*s.start, in.MinRun)
	s.fits = in.room(g, s)
	if in.Leaves != nil && s.bound != "" {
		free, least := *in.Leaves-in.used(s.bound, in.Now), s.Least*s.Step
		if !j.Pending() {
			free, least = free+j.takes(s.bound, in.Now), max(least, s.Now)
		}
		n := free / s.Each
		if n < s.User {
			n -= n % s.Step
		}
		s.leaves = max(least, n)
		s.fits = min(s.fits, s.leaves)
	}
	s.crowded = slices.ContainsFunc(in.waiting, func(number int) bool { return number != j.Number })
	return s
}

// keeps reports whether Lull sets the number of tasks of a job no more. A job that could not be requeued for LimitSize, or that Slurm has started before it got
// all of its tasks, is requeued for them again.
func (g *Governed) keeps() bool {
	j, m := g.Job, &g.Mark
	again := m.Kept == LimitSize && m.Phase == Pausing && !j.Pending() && j.Size < m.User
	return m.Kept != "" && !again
}

// hasWholeNode reports whether a job runs on a node and has all of its CPUs.
func (in *Input) hasWholeNode(j *Job) bool {
	return j.uses() && slices.ContainsFunc(in.Queue.Nodes, func(n Node) bool { return n.Name == j.Node && j.CPUs >= n.CPUs })
}

// memoryOf is how many tasks the memory is for that Slurm states: of a job that waits, as many as it was submitted with.
func (s *Size) memoryOf(j *Job) int {
	if j.Pending() {
		return s.User
	}
	return s.Now
}

// room is how many tasks of a job find room now on one node, which is that of its run if it runs. Memory counts as if each task had its part.
func (in *Input) room(g *Governed, s *Size) (most int) {
	j := g.Job
	each := int64(0)
	if in.Memory {
		each = (j.Memory + int64(s.memoryOf(j)) - 1) / int64(s.memoryOf(j))
	}
	for i := range in.Queue.Nodes {
		n := &in.Queue.Nodes[i]
		cpus, memory := n.CPUs-n.UsedCPUs, n.Memory-n.UsedMemory
		switch {
		case j.uses() && n.Name != j.Node:
			continue
		case j.uses():
			cpus, memory = cpus+j.CPUs, memory+j.Memory
		case len(n.Partitions) > 0 && !slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return slices.Contains(n.Partitions, p) }):
			continue
		}
		fit := cpus / s.Each
		if each > 0 {
			fit = min(fit, int(memory/each))
		}
		most = max(most, fit)
	}
	return min(most, s.User)
}

// waitingJobs are the numbers of jobs that may take room at any time, whatever they wait for, two at most: so a job knows whether there is another one.
func waitingJobs(in *Input) (out []int) {
	for i := range in.Queue.Jobs {
		j := &in.Queue.Jobs[i]
		waits := j.Pending() && !j.Held() && j.Reason != reasonDepends && j.Reason != reasonDepends2 && !j.Begin.After(in.Now.Add(soon))
		if waits && !slices.Contains(out, j.Number) {
			if out = append(out, j.Number); len(out) == 2 {
				break
			}
		}
	}
	return out
}

// ofLull reports whether a job has the size that Lull has set, or has started just before that, and the CPUs that go with it.
func (m *Mark) ofLull(j *Job) bool {
	size := j.Size == m.Size || !j.Pending() && m.Was > 0 && j.Size == m.Was
	return size && j.CPUs == j.Size*m.Each
}

// slower is the pace of a job that runs with fewer tasks than its user asked for, or is to start with them as Slurm has refused others, and whose tasks are left alone;
// 0 for other jobs.
func (g *Governed) slower() float64 {
	if j, user := g.Job, g.Mark.User; g.Size == nil && !j.ofArray() && (j.uses() || g.Mark.Kept == RefusedSize) && j.Size > 0 && j.Size < user {
		return SpeedOf(g.Options.Parallel, j.Size) / SpeedOf(g.Options.Parallel, user)
	}
	return 0
}

// restart is how long a start takes that is not the first.
func (g *Governed) restart() time.Duration {
	if g.Options.Restart > 0 {
		return g.Options.Restart
	}
	return DefaultRestart
}

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
		s.most = max(0, min(s.limit, time.Duration(likely*float64(whole)))-done)
	}
	s.by = g.deadline(in, 1)
	s.ends = s.by.Add(-in.Margin)
	if s.bound != "" { // if Lull dies now, the job may wait for licences until the reservation ends; with all of its tasks, it has them at its latest start
		s.ends = s.ends.Add(-in.Kept)
	}
	g.Latest = s.by.Add(-(s.left + s.atRisk))
	if begun {
		g.Latest = g.Latest.Add(-s.start)
	}
}

// safe reports whether a run with some tasks that begins at a time, and does all that is left after a start, ends in time and within the time limit of the job, if
// nobody changes it again.
func (s *Size) safe(tasks int, at time.Time, start time.Duration) bool {
	return !at.Add(start+s.takes(s.left+s.atRisk, tasks)).After(s.ends) && s.bounded(tasks, start)
}

// bounded reports whether a run with some tasks ends before the time limit of the job is near, which Slurm counts anew for each run, also if it takes longer than its
// user says. With as many tasks as its user asked for, the limit is that of its user.
func (s *Size) bounded(tasks int, start time.Duration) bool {
	return s.limit == 0 || tasks >= s.User || start+s.takes(s.most, tasks) <= s.limit-s.window
}

// need is the least number of tasks, no fewer than wanted, with which a run from a time on is safe; that of its user if there is none, or if the job takes longer than
// its user says.
func (s *Size) need(wanted int, at time.Time, start time.Duration) int {
	for w := s.workers(wanted); w < s.Most && s.left+s.atRisk > 0; w++ {
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

// limitNear reports whether a run with fewer tasks than its user asked for is about to reach the time limit, and is to be requeued before. Two looks come
// before it does. While an operator leaves no licences for all of its tasks, it may be requeued again and again: only until its runs, which have saved some
// work before this one, have done as much as all of its tasks do within the limit. Then Slurm ends it, as it would with all of them. A run that saves nothing
// is requeued for all of its tasks, which it keeps: see LimitSize.
func (s *Size) limitNear(saved time.Duration) bool {
	return s.limit > 0 && s.Now < s.User && s.elapsed > s.limit-s.window && (s.within(s.User) == s.User || saved+s.runSaved < s.limit)
}

// saves reports whether a requeue now keeps work of the present run. A mark states it in whole seconds.
func (s *Size) saves() bool { return s.runSaved >= time.Second }

// mayPause reports whether a job may be paused now: if Lull dies, Slurm starts it again with the tasks that it has.
func (s *Size) mayPause(now time.Time) bool {
	return s.Now >= s.User || s.safe(s.Now, now, requeued+s.start)
}

// resized is how many tasks a running job is to go on with, by a requeue now, as a plan wants; Now if it goes on as it is:
//
//   - It has run for a while, and its node has room for more tasks.
//   - No other job may take the room that it leaves for a moment.
//   - It gets fewer only if it may have as few as are wanted, so that it is not requeued again and again as time makes fewer safe.
//   - It ends in time with the new number and with the present one: Slurm starts it so if nobody sets the other one after the requeue. A job that ends late as it is
//     gets as many as find room, if it is then done sooner.
func (s *Size) resized(wanted int, now time.Time) int {
	if wanted == s.Now || s.crowded || s.elapsed < s.leastRun || s.left < time.Second {
		return s.Now
	}
	start := requeued + s.start
	n := s.need(wanted, now, start)
	if on := s.takes(s.left, s.Now); wanted > s.Now && now.Add(on).After(s.by) {
		if n = s.fits; n > s.Now && s.start+s.takes(s.left+s.atRisk, n) < on {
			return n
		}
		return s.Now
	}
	switch {
	case n < s.Now && n != wanted, n > s.Now && (wanted < s.Now || n > s.fits), !s.mayPause(now):
		return s.Now
	case n == s.User && now.Add(start+s.left+s.atRisk).After(s.ends):
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
	worker.Memory = int64(math.Ceil(float64(j.Memory) * float64(s.Step) / float64(s.memoryOf(j))))
	t := decide.Task{
		ID: g.id(), Submitted: g.Submitted(), Deadline: g.deadline(in, 1), Kind: workload.Elastic, Request: in.places.request(&worker, 1), State: decide.Waiting,
		Remaining: s.unit(s.left + s.atRisk), Restart: s.start,
		Scaling: &decide.Scaling{MinWorkers: s.Least, MaxWorkers: s.Most, Curve: s.curve(), Restarts: true},
	}
	if s.bound != "" { // the last worker may be more tasks than the others
		t.Request[LicenceResource] = float64(s.User*s.Each) / float64(s.Most)
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
	case g.released(in.Now) && !g.lacksLicences(): // with fewer tasks, it may have enough licences: a job that lacks some is planned anew
		t.State, t.Cluster, t.Unscheduled = decide.Running, ClusterName, true
		t.Workers = s.workers(s.Now)
		t.Starting = s.restarts(g)
		seen.Wanted = t.Workers
	case g.paused():
		t.Paused, t.Cluster = true, ClusterName
		t.Changed = g.pausedAt()
	}
	return t, seen
}

// Workers is how many workers of its task the job has, or is to begin with.
func (s *Size) Workers() int { return s.workers(s.Now) }

// Requeues reports whether Plan requeues the job, for a pause or for another size.
func (s *Size) Requeues() bool { return s.requeues }

// Lost is the work that a requeue now would take: what was done since the last checkpoint, and the next start, as run time with User tasks.
func (s *Size) Lost() time.Duration { return s.atRisk + s.did(s.start, s.Now) }
