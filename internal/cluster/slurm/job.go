package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is one line of squeue: a job, or the tasks of an array that have not started.
type Job struct {
	// ID names it to scontrol: 12, 12_3 or 12_[4-9].
	ID string
	// Number is its number, that of the array for tasks that have not started.
	Number int
	// Tasks is how many tasks of an array it stands for, at most Throttle of which run at a time; 1 and 0 for others.
	Tasks, Throttle int
	// Cut reports that squeue shows not all of the tasks.
	Cut bool
	// State and Reason are those of squeue, such as PENDING and BeginTime.
	State, Reason string
	// Submitted, Begin, Started are zero if squeue states none. Begin is the begin time (EligibleTime): StartTime may be an estimate
	// of the scheduler.
	Submitted, Begin, Started time.Time
	// Ended is when a job that is over ended.
	Ended time.Time
	// Limit is the time limit; 0 if there is none.
	Limit time.Duration
	// Deadline is that of --deadline; zero if there is none.
	Deadline time.Time
	CPUs     int
	// Size is how many tasks it has (--ntasks), 0 if squeue states none. Nodes is on how many nodes it runs, or is to run at least.
	Size, Nodes int
	// Memory, in bytes, and GPUs are those of all of its nodes; 0 if squeue states none.
	Memory int64
	GPUs   int
	// Node is the node on which it runs; of several, a list that may be cut.
	Node string
	// WholeNodes reports that it gets whole nodes (--exclusive, or a partition with OverSubscribe=EXCLUSIVE): it has more CPUs than its tasks need.
	WholeNodes bool
	// GPUTypes are the GPUs of a type that it names, such as 2 of a100; GPUs has all.
	GPUTypes map[string]int
	// Licences are those that it asks for, such as power:4,matlab:1.
	Licences string
	// LicencesCut reports that squeue shows not all of them.
	LicencesCut bool
	Restarts    int
	// Requeue reports whether Slurm may requeue it.
	Requeue bool
	// Partition is its partition; of a job that waits, several may follow each other with commas.
	Partition, QOS, Account string
	User                    string
	// Interactive reports that it has no batch script: a shell of salloc or a srun waits for it.
	Interactive bool
	// Het reports that it is a part of a heterogeneous job.
	Het bool
	// Comment is its user's, AdminComment holds the Mark. Both are cut to the width that squeue is asked for.
	Comment, AdminComment string
}

// The states and reasons of Slurm that matter.
const (
	statePending     = "PENDING"
	stateRunning     = "RUNNING"
	stateConfiguring = "CONFIGURING"
	stateCompleting  = "COMPLETING"
	reasonResources  = "Resources"
	reasonLicences   = "Licenses"
	reasonHeld       = "JobHeld" // begins JobHeldUser and JobHeldAdmin
	reasonDepends    = "Dependency"
	reasonDepends2   = "DependencyNeverSatisfied"
)

// licences is how many it asks for of a licence.
func (j *Job) licences(name string) int {
	for _, of := range strings.Split(j.Licences, ",") {
		key, count, stated := strings.Cut(strings.ReplaceAll(of, "=", ":"), ":")
		if key != name { // that of a server, as power@server, is another
			continue
		}
		if n, err := strconv.Atoi(count); stated && err == nil && n >= 0 {
			return min(n, mostCount)
		}
		return 1
	}
	return 0
}

// takes is how many of a licence it has, or takes if it starts before a time.
func (j *Job) takes(licence string, until time.Time) int {
	switch {
	case j.State == stateCompleting, j.Over(): // Slurm has them back
		return 0
	case !j.Pending():
		return j.licences(licence)
	case j.Held(), j.Reason == reasonDepends, j.Reason == reasonDepends2, j.Begin.After(until):
		return 0
	}
	n := max(1, j.Tasks)
	if j.Throttle > 0 {
		n = min(n, j.Throttle)
	}
	return min(mostCount, n*j.licences(licence))
}

// ofArray reports whether it is a task of an array, or several.
func (j *Job) ofArray() bool { return strings.Contains(j.ID, "_") }

// Pending reports whether the job has not started.
func (j *Job) Pending() bool { return j.State == statePending }

// The states of a job that is over.
const (
	stateCompleted = "COMPLETED"
	stateNodeFail  = "NODE_FAIL"
	statePreempted = "PREEMPTED"
	stateCancelled = "CANCELLED"
)

// Over reports whether the job has ended for good.
func (j *Job) Over() bool {
	switch j.State {
	case stateCompleted, stateNodeFail, statePreempted, stateCancelled, "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "LAUNCH_FAILED", "REVOKED":
		return true
	}
	return false
}

// Succeeded reports whether the job is over and did what it was for.
func (j *Job) Succeeded() bool { return j.State == stateCompleted }

// Evicted reports whether Slurm ended it, as a node failed or another job needed the room.
func (j *Job) Evicted() bool { return j.State == stateNodeFail || j.State == statePreempted }

// Failed reports whether it ended by itself before its work was done, or at a limit.
func (j *Job) Failed() bool {
	return j.Over() && !j.Succeeded() && !j.Evicted() && j.State != stateCancelled
}

// Held reports whether its user or an operator holds it.
func (j *Job) Held() bool {
	if !j.Pending() {
		return false
	}
	reason := strings.ReplaceAll(j.Reason, "_", " ") // as squeue writes it; scontrol has no spaces
	if strings.HasPrefix(reason, reasonHeld) {
		return true
	}
	for part := range strings.SplitSeq(reason, ",") { // one for each partition; elsewhere, they are nodes
		if part = strings.TrimSpace(part); slices.Contains(holds, part) || strings.HasSuffix(part, " requeued held") {
			return true
		}
	}
	return false
}

// holds are the reasons of a hold that Slurm writes: those of a user and an operator, and of requeuehold. What ends in "requeued held" is another:
// a job that could not be launched, and more of it in later versions.
var holds = []string{"JobHeldUser", "JobHeldAdmin", "job requeued in held state"}

// uses reports whether the job has nodes.
func (j *Job) uses() bool {
	switch j.State {
	case stateRunning, stateConfiguring, stateCompleting, "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED":
		return true
	}
	return false
}

// Node is a node of sinfo.
type Node struct {
	Name string
	// CPUs, Memory (bytes) and GPUs are those that jobs use or can use now: none of a node that is down or drained, those in use of one that drains.
	CPUs   int
	Memory int64
	GPUs   int
	// UsedCPUs and UsedMemory (bytes) are what jobs use of them.
	UsedCPUs   int
	UsedMemory int64
	// GPUTypes are the GPUs that have a type, by it; also 0 of one, if none of them can be used now.
	GPUTypes map[string]int
	// Off says that Slurm has switched it off to save power, or is about to, or that it is starting: a job that needs it waits for that (ResumeTimeout at most).
	// What it has counts.
	Off bool
	// Partitions are those that it is in.
	Partitions []string
}

// Bad is a line that cannot be read, and why. A job of such a line is left to Slurm.
type Bad struct {
	// Line is its beginning.
	Line string
	Err  error
	// Job is what can be read of the job all the same: all but what its user writes. nil if nothing can.
	Job *Job
	// Node reports that it is a line of sinfo.
	Node bool

	text string
}

// Queue is what one look at Slurm tells.
type Queue struct {
	Jobs []Job
	// Ended are the jobs that are over and that Slurm has not forgotten yet (MinJobAge), if they were asked for.
	Ended []Job
	Nodes []Node
	Bad   []Bad
}

// Readable returns an error that wraps ErrLine if fewer than half of the lines of squeue or of sinfo can be read. That is not one odd job, but
// a Slurm whose answers have another form.
func (q *Queue) Readable() error {
	bad := map[bool]int{}
	first := map[bool]error{}
	for _, b := range q.Bad {
		if bad[b.Node]++; first[b.Node] == nil {
			first[b.Node] = b.Err
		}
	}
	if n, good := bad[false], len(q.Jobs)+len(q.Ended); n > good {
		return fmt.Errorf("squeue: %d of %d lines cannot be read; the first: %w", n, n+good, first[false])
	}
	if n := bad[true]; n > len(q.Nodes) {
		return fmt.Errorf("sinfo: %d of %d lines cannot be read; the first: %w", n, n+len(q.Nodes), first[true])
	}
	return nil
}
