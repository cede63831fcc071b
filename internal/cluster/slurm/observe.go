package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/track"
)

// ClusterName is the name of the cluster in snapshots.
const ClusterName = "slurm"

// Input is what a snapshot is made from.
type Input struct {
	Now    time.Time
	Queue  Queue
	Config *Config
	Carbon carbon.Outlook
	// Zone names the grid zone.
	Zone string
	// Slot is the resolution of planning, Margin what Lull releases a job before its latest safe start.
	Slot, Margin time.Duration
	// MinRun and MinPause are the least times between changes of a job, MinSaving and SavingConfidence what waiting must save: see decide.Snapshot.
	MinRun, MinPause            time.Duration
	MinSaving, SavingConfidence float64
	Power                       power.PerUnit
	// Memory says that Slurm shares out memory (About.Memory): jobs and nodes count with theirs.
	Memory bool
	// Boot is how long a node may take to start that is switched off (About.ResumeTimeout). It is kept before a --deadline while there is such a node.
	Boot time.Duration

	// Interval is the longest time between two looks at the queue.
	Interval time.Duration
	// Kept is how long the licences of the capacity stay reserved at most if no controller goes on; 0 without a capacity.
	Kept time.Duration
	// Leaves is how many licences of the capacity all jobs may have now by the number that an operator has reserved; nil if the number is that of Lull.
	Leaves *int
	// NoConfig says that Config is not that of the controller, as no file was stated: the controller may have defaults that let jobs wait. See View.Explain.
	NoConfig bool

	places *places
	// waiting are the numbers of jobs that may take room at any time, two at most.
	waiting []int
	// throttles are those of arrays whose lines share one.
	throttles map[int]int
}

// Why says why Lull leaves a job to Slurm: one word, stable.
type Why string

// The reasons for which Lull leaves a job to Slurm.
const (
	// NotOptedIn: neither its comment nor the administrator lets it wait.
	NotOptedIn Why = "NotOptedIn"
	// NoSlack: it states no delay and no deadline, or opts out.
	NoSlack Why = "NoSlack"
	// BadComment: the part of its comment for Lull cannot be read.
	BadComment Why = "BadComment"
	// UserHold: its user or an operator holds it.
	UserHold Why = "UserHold"
	// OwnBegin: it was submitted with --begin.
	OwnBegin Why = "OwnBegin"
	// BeginChanged: somebody else has changed the begin time that Lull had set.
	BeginChanged Why = "BeginChanged"
	// Requeued: somebody else has requeued it.
	Requeued Why = "Requeued"
	// Depends: it waits for other jobs.
	Depends Why = "Depends"
	// Heterogeneous: it is a part of a heterogeneous job.
	Heterogeneous Why = "Heterogeneous"
	// Interactive: it has no batch script.
	Interactive Why = "Interactive"
	// TooLong: squeue cuts its comment or the list of its tasks.
	TooLong Why = "TooLong"
	// Invalid: what Slurm says of it makes no task that can be planned.
	Invalid Why = "Invalid"
	// Other: it is in a state in which nothing can be changed, such as SUSPENDED.
	Other Why = "Other"
)

// messages say it in words.
var messages = map[Why]string{
	NotOptedIn:    "neither its comment nor the administrator lets it wait",
	NoSlack:       "it may not wait: it states neither a delay nor a deadline, or it opts out",
	UserHold:      "its user or an operator holds it",
	OwnBegin:      "it was submitted with a begin time of its own",
	BeginChanged:  "somebody else has changed its begin time",
	Requeued:      "somebody else has requeued it",
	Depends:       "it waits for other jobs; once they have ended, it may wait for clean power",
	Heterogeneous: "it is a part of a heterogeneous job",
	Interactive:   "somebody waits for it: it was submitted by salloc or srun",
	TooLong:       "its comment, or the list of the tasks of its array, is too long to read",
	Other:         "nothing can be changed in its state",
}

// Left is a job that Lull leaves to Slurm.
type Left struct {
	Job *Job
	Why Why
	// Message says it in words.
	Message string

	mark    Mark
	options Options
}

// Governed is a job that Lull decides on.
type Governed struct {
	Job     *Job
	Mark    Mark
	Options Options
	// Latest is its latest safe start, if it waits now: no begin time is later.
	Latest time.Time
	// Scale is how many tasks of an array may run at a time; nil where Lull does not change that.
	Scale *Scale
	// Size is how many tasks (--ntasks) a job may have; nil where Lull does not change that.
	Size *Size

	// unsized says why Lull leaves the number of tasks of a job alone whose user lets it have fewer; empty if it does not, or if the mark says why.
	unsized string
	// pace is how much of its work a job does in an hour that runs with fewer tasks than its user asked for, and whose tasks are left alone; 0 for other jobs.
	pace float64
}

// View is a snapshot and what it was made from, task by task.
type View struct {
	Snapshot decide.Snapshot
	Jobs     []Governed
	Seen     []track.Observation
	// Left are the other jobs. Dependent are those of them that wait for other jobs, and may wait for clean power after that.
	Left      []Left
	Dependent []Governed

	places   *places
	noConfig bool
}

// Request is what a job asks for, by resource and place, as the requests of the snapshot: cpu, memory in bytes, gpu, and the same at its partition, as
// in cpu@long, if the partition has not all nodes.
func (v *View) Request(j *Job) map[string]float64 { return v.places.request(j, 1) }

// Observe translates a queue into a snapshot. A job that cannot be read, that nobody lets wait, or that its user or an operator holds or
// has changed is no task: Slurm runs it as if there were no Lull, and the CPUs that it uses are load.
//
// Complexity: O(jobs).
func Observe(in Input) View {
	in.places = newPlaces(in.Queue.Nodes, in.Memory)
	here := decide.Cluster{
		Name: ClusterName, Zone: in.Zone, Power: in.Power, Capacity: in.places.capacity(in.Queue.Nodes), Load: map[string]float64{},
		Carbon: in.Carbon.Expected, CarbonLow: in.Carbon.Low, CarbonHigh: in.Carbon.High, CarbonPaths: in.Carbon.Paths,
	}
	if c := in.Config.Capacity; c != nil {
		in.places.licence, here.Capacity[LicenceResource] = c.Licence, float64(c.Most())
	}
	in.throttles = throttles(&in.Queue)
	for number, n := range in.throttles {
		here.Capacity[throttleOf(number)] = float64(n)
	}
	v := View{places: in.places, noConfig: in.NoConfig, Snapshot: decide.Snapshot{Now: in.Now, Slot: in.Slot, Margin: in.Margin, MinRun: in.MinRun, MinPause: in.MinPause, MinSaving: in.MinSaving, SavingConfidence: in.SavingConfidence}}
	ids := map[string]bool{}
	lines := make([]queued, len(in.Queue.Jobs))
	for i := range in.Queue.Jobs {
		x := &lines[i]
		x.Job = &in.Queue.Jobs[i]
		x.Governed, x.why, x.message = govern(&in, x.Job)
	}
	scale(&in, lines, here.Capacity)
	in.waiting = waitingJobs(&in)
	for i := range lines {
		if x := &lines[i]; x.why == "" {
			x.Size = newSize(&in, &x.Governed)
			x.pace = x.slower()
		}
	}
	for i := range lines {
		x := &lines[i]
		j := x.Job
		if x.why == "" && !x.beside {
			x.why, x.message = v.add(&in, x.Governed, here.Capacity, ids)
		}
		switch {
		case x.why != "":
			v.Left = append(v.Left, Left{j, x.why, x.message, x.Mark, x.Options})
			if j.uses() && j.CPUs > 0 {
				in.load(here.Load, j)
			}
		case x.Scale != nil:
			for k := x.Scale.allowed(); k < len(x.Scale.Running); k++ { // more run than the throttle lets, until they end
				in.load(here.Load, x.Scale.Running[k].Job)
			}
		}
	}
	for r, all := range here.Capacity {
		here.Load[r] = min(here.Load[r], all)
	}
	v.Snapshot.Clusters = []decide.Cluster{here}
	v.bound(&in, here.Capacity)
	return v
}

// queued is a line of the queue. beside says that it is a task of an array that a scaled task has.
type queued struct {
	Governed
	why     Why
	message string
	beside  bool
}

// load adds what a job uses.
func (in *Input) load(load map[string]float64, j *Job) {
	for r, amount := range in.places.request(j, 1) {
		load[r] += amount
	}
	if in.throttles[j.Number] > 0 {
		load[throttleOf(j.Number)]++
	}
}

// add adds a job as a task. why says why it cannot be one: such a job must not keep the others from being planned.
func (v *View) add(in *Input, g Governed, capacity map[string]float64, ids map[string]bool) (why Why, message string) {
	t, seen := g.task(in, capacity)
	if ids[t.ID] && g.Job.Tasks > 1 { // two groups of tasks of one array
		t.ID += g.Job.ID
	}
	if ids[t.ID] {
		return Other, "squeue lists it twice" // its first line is a task
	}
	if message = invalid(&t); message != "" {
		return Invalid, message
	}
	ids[t.ID] = true
	v.Jobs, v.Seen, v.Snapshot.Tasks = append(v.Jobs, g), append(v.Seen, seen), append(v.Snapshot.Tasks, t)
	return "", ""
}

// invalid says why a snapshot with a task would be invalid; "" if it would not.
func invalid(t *decide.Task) string {
	switch {
	case t.Remaining < 0 || t.Remaining > mostWork:
		return fmt.Sprintf("its remaining run time is %v; accepted: 0 to %v", t.Remaining, mostWork)
	case t.AtRisk < 0 || t.AtRisk > t.Remaining || t.Checkpoint < 0 || t.Checkpoint > 0 && t.AtRisk > t.Checkpoint:
		return fmt.Sprintf("its run time at risk is %v; accepted: 0 to what remains (%v) and to its checkpoint interval (%v)", t.AtRisk, t.Remaining, t.Checkpoint)
	}
	return ""
}

// bound keeps the jobs that wait for other jobs, with their latest starts: once those have ended, such a job is to wait for clean power, not to
// start before Lull has seen it.
func (v *View) bound(in *Input, capacity map[string]float64) {
	for i := range v.Left {
		j := v.Left[i].Job
		if v.Left[i].Why != Depends || j.Reason != reasonDepends || begins(j, &v.Left[i].mark, in.Now) != "" {
			continue
		}
		g := Governed{Job: j, Mark: v.Left[i].mark, Options: v.Left[i].options}
		if g.task(in, capacity); g.Latest.After(in.Now) || j.Begin.After(in.Now) {
			v.Dependent = append(v.Dependent, g)
		}
	}
}

// govern says whether Lull decides on a job; if not, why.
func govern(in *Input, j *Job) (g Governed, why Why, message string) {
	defaults, byDefault := in.Config.options(j)
	o, stated, err := ReadComment(j.Comment, defaults, j.ofArray())
	m := ReadMark(j.AdminComment)
	j.moved(&m, in.Now)
	g = Governed{Job: j, Mark: m, Options: o}
	switch {
	case !stated && !byDefault:
		why = NotOptedIn
	case err != nil:
		return g, BadComment, err.Error()
	case o.Off || o.MaxDelay == 0 && j.Deadline.IsZero():
		why = NoSlack
	default:
		why = g.leftTo(in.Now, stated)
	}
	return g, why, messages[why]
}

// leftTo says why a job is left to Slurm that may wait; empty if it is not. stated says that its comment has a part for Lull.
func (g *Governed) leftTo(now time.Time, stated bool) (why Why) {
	j, m := g.Job, &g.Mark
	switch {
	case j.Held():
		why = UserHold
	case j.Het:
		why = Heterogeneous
	case j.Interactive:
		why = Interactive
	case stated && len(j.Comment) >= commentWidth || len(j.AdminComment) >= adminWidth || j.Cut:
		why = TooLong
	case m.Phase == HandedOver:
		why = BeginChanged
	case j.Pending() && (j.Reason == reasonDepends || j.Reason == reasonDepends2):
		why = Depends
	case !j.Pending() && j.State != stateRunning && j.State != stateConfiguring && (j.State != stateCompleting || m.Phase != Pausing):
		why = Other
	case j.Restarts > 0 && m.Since.IsZero():
		why = Requeued
	case j.Pending():
		why = begins(j, m, now)
	}
	return why
}

// moves is how far ahead of the clock Slurm moves the begin time of tasks that the throttle of their array keeps waiting, at most: a second, and one for the grain
// of its times. The clock of slurmctld may be ahead of this one by as much.
const moves = 2 * time.Second

// moved undoes such a move: that time has come.
func (j *Job) moved(m *Mark, now time.Time) {
	came := m.Phase == Released || (m.Phase == Held || m.Phase == Paused) && !m.Begin.After(now)
	if came && j.ofArray() && j.Pending() && j.Begin.After(now) && !j.Begin.After(now.Add(moves)) {
		j.Begin = now.Truncate(time.Second)
	}
}

// Ran returns what a job that is over had stated, and whether Lull governed it while it was not.
func Ran(in *Input, j *Job) (Governed, bool) {
	defaults, byDefault := in.Config.options(j)
	o, stated, err := ReadComment(j.Comment, defaults, j.ofArray())
	m := ReadMark(j.AdminComment)
	waits := !o.Off && (o.MaxDelay > 0 || !j.Deadline.IsZero())
	own := m.Phase == HandedOver || m.untouched() && j.Begin.After(j.Submitted.Add(promptly))
	return Governed{Job: j, Mark: m, Options: o}, err == nil && (stated || byDefault) && waits && !own && !j.Het && !j.Interactive
}

// WaitedForOthers reports whether the last that Lull wrote of the job is that it waits for other jobs.
func (g *Governed) WaitedForOthers() bool { return strings.HasPrefix(g.Mark.Text, textDepends) }

// Runtime is how long the job is expected to take from its beginning to its end.
func (g *Governed) Runtime(in *Input) time.Duration { return g.runtime(in) }

// Deadline is when the job should have ended; zero for one that runs as submitted.
func (g *Governed) Deadline(in *Input) time.Time {
	if g.HeldOut(in.Config) {
		return time.Time{}
	}
	return g.deadline(in, 1)
}

// Resumable reports whether the job goes on after a pause where it was.
func (g *Governed) Resumable() bool { return g.interruptible() }

// promptly is how long after the submission of a job Slurm sets its begin time at most, if the job states none and waits for no other job.
const promptly = 5 * time.Second

// begins says whose the begin time of a pending job is; "" for Lull's, or if the job has none.
func begins(j *Job, m *Mark, now time.Time) Why {
	// Once it has come, Slurm moves the begin time of tasks that the throttle of their array keeps waiting, or clears it (Reason=JobArrayTaskLimit).
	passed := !m.Begin.After(now) && !j.Begin.After(now) || j.ofArray() && j.Begin.IsZero() && !m.Begin.After(now.Add(moves))
	changed := !j.Begin.Equal(m.Begin) && !passed
	switch {
	case m.Phase == Pausing: // Slurm sets one for a requeue
		return ""
	case m.untouched() && j.Begin.After(j.Submitted.Add(promptly)): // also once it has come: the cluster may be full
		return OwnBegin
	case (m.Phase == Held || m.Phase == Paused) && changed, m.Phase == Released && j.Begin.After(now) && !m.setBack(j):
		return BeginChanged
	}
	return ""
}

// makes is how long after the decision Slurm sets the begin time of a release, at most.
const makes = 10 * time.Second

// setBack reports whether a released job has the begin time of its release, though that is still to come: the clocks were set back.
func (m *Mark) setBack(j *Job) bool {
	after := j.Begin.Sub(m.Begin)
	return m.Phase == Released && !m.Begin.IsZero() && after >= -moves && after <= makes
}

// HeldOut reports whether the job is one of the share that runs as submitted.
func (g *Governed) HeldOut(c *Config) bool {
	return c.HoldOut > 0 && account.HeldOut(fmt.Sprintf("%d/%d", g.Job.Number, g.Submitted().Unix()), c.HoldOut)
}

// Submitted is when the job was submitted first: Slurm states the time of its last requeue.
func (g *Governed) Submitted() time.Time {
	if !g.Mark.Since.IsZero() {
		return g.Mark.Since
	}
	return g.Job.Submitted
}

// runtime is how long the job is expected to take from its beginning to its end, on as many CPUs as its array may use.
func (g *Governed) runtime(in *Input) time.Duration {
	switch {
	case g.Options.Runtime > 0:
		return g.Options.Runtime
	case g.Job.Limit > 0:
		return min(g.Job.Limit, longest)
	}
	return in.Config.UnknownRuntime()
}

// id is unique and sorts by age: planners take ties in the order of IDs. It stays while tasks of an array start.
func (g *Governed) id() string {
	part := ""
	if _, tasks, isArray := strings.Cut(g.Job.ID, "_"); isArray && g.Job.Tasks == 1 {
		part = tasks
	}
	return fmt.Sprintf("%d/%010d/%s", g.Submitted().Unix(), g.Job.Number, part)
}

// work is the run time of all of the job, done or not.
func (g *Governed) work(in *Input, waves int) time.Duration {
	return inSuccession(g.runtime(in), waves)
}

// mostWork bounds the run time of a job: as slots of a second it is a number that planners take.
const mostWork = 50 * longest

// inSuccession is how long waves take that each take d, mostWork at most.
func inSuccession(d time.Duration, waves int) time.Duration {
	if d > mostWork/time.Duration(waves) {
		return mostWork
	}
	return d * time.Duration(waves)
}

// deadline is when the job should have ended: its work after the end of its delay, or its work after the latest start for its
// --deadline.
func (g *Governed) deadline(in *Input, waves int) time.Time {
	var out time.Time
	if g.Options.MaxDelay > 0 {
		out = g.Submitted().Add(g.Options.MaxDelay)
	}
	if by := g.byDeadline(in, waves); !by.IsZero() && (out.IsZero() || by.Before(out)) {
		out = by
	}
	return out.Add(g.work(in, waves))
}

// byDeadline is the latest start for --deadline, at which all waves of an array end before it if each runs up to its time limit; zero if there
// is none.
func (g *Governed) byDeadline(in *Input, waves int) time.Time {
	if g.Job.Deadline.IsZero() {
		return time.Time{}
	}
	length := g.Job.Limit
	if length == 0 {
		length = g.runtime(in)
	}
	return g.Job.Deadline.Add(-inSuccession(length, waves) - in.Config.MarginTime() - in.boots())
}

// boots is what a start may take longer, as a node is switched off.
func (in *Input) boots() time.Duration {
	if slices.ContainsFunc(in.Queue.Nodes, func(n Node) bool { return n.Off }) {
		return in.Boot
	}
	return 0
}

// saved is the work of earlier runs.
func (g *Governed) saved() time.Duration {
	if g.Mark.Phase == Pausing && g.Job.Restarts > g.Mark.Runs {
		return g.Mark.Done + g.Mark.Ran // the requeue that the mark announced has come
	}
	return g.Mark.Done
}

// done is the work that is saved, that of the present run included.
func (g *Governed) done(in *Input) time.Duration {
	return min(g.saved()+g.ran(in)-g.atRisk(in), g.runtime(in))
}

// ran is how long the present run has taken, without the start of its nodes.
func (g *Governed) ran(in *Input) time.Duration {
	if g.Job.Pending() || g.Job.State == stateConfiguring || g.Job.Started.IsZero() || g.Job.Started.After(in.Now) {
		return 0
	}
	return min(in.Now.Sub(g.Job.Started), mostWork)
}

// atRisk is the work since the last checkpoint of a job that saves at intervals, or all of a run that cannot be paused.
func (g *Governed) atRisk(in *Input) time.Duration {
	switch ran := g.ran(in); {
	case !g.interruptible():
		return ran
	case g.Options.Checkpoint > 0:
		return ran % g.Options.Checkpoint
	}
	return 0
}

// interruptible reports whether the job may be paused. After a requeue Slurm counts the whole time limit again, and removes a job that
// cannot end by its --deadline then: one that has a deadline is not paused.
func (g *Governed) interruptible() bool {
	return g.Options.Interruptible && g.Job.Requeue && g.Job.Deadline.IsZero()
}
