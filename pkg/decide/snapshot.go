package decide

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// ErrSnapshot marks a snapshot that cannot be decided on.
var ErrSnapshot = errors.New("invalid snapshot")

// State is what a task does now.
type State string

// The states of a task.
const (
	// Waiting: held before its first start, or paused after it.
	Waiting State = "waiting"
	// Running: released; its pods run or are about to.
	Running State = "running"
)

// Task is a job as observed. All times are grid time.
type Task struct {
	ID string
	// Submitted is when the job was created.
	Submitted time.Time
	// NotBefore is the first time the task may run; zero if it may run now. A caller that
	// knows of work before it is submitted sets it.
	NotBefore time.Time
	// Deadline is when its work must be done; zero means that it may not wait.
	Deadline time.Time
	// HeldOut says that it may not wait, as others are compared with it.
	HeldOut bool
	// LatestStart, where it is set, is when the task must run at the latest, whatever
	// Remaining says: where the run time is not known but the delay is bounded, waiting
	// ends when the delay is used up. An elastic task then runs at MinWorkers at least.
	LatestStart time.Time
	// Remaining is the run time still needed at MinWorkers, as estimated; for a
	// running rigid task, what is left of the estimate.
	Remaining time.Duration
	// Quantiles are run times still needed that are not exceeded with a probability, in rising order;
	// Remaining is their mean then. None: Remaining is taken to be certain. See Guarded.
	Quantiles []Quantile
	// AtRisk is the part of Remaining that is done already and would be lost if
	// the task were paused now: what it did since its last checkpoint.
	AtRisk time.Duration
	// Checkpoint is the work, as run time at MinWorkers, after which a run of the task saves what it has
	// done, each time anew. Plans count what a pause or move to come would lose. 0: that is not known, and
	// plans take it to lose nothing.
	Checkpoint time.Duration
	// Restart is how long a start after a pause or move takes before the work goes on: images are pulled, data is loaded.
	// Remaining and Quantiles leave it out; phases include it. Starting is what is left of such a start of a running task, from when it
	// finds room. Both are 0 for rigid tasks.
	Restart, Starting time.Duration
	Kind              workload.Kind
	// Request is what the whole job asks for, by resource; what one worker asks for
	// where Scaling is set.
	Request map[string]float64
	// Watts is the power of a task that does not scale, in W and without PUE, where it is known; with 0 the power is that
	// of Request.
	Watts float64
	// Scaling is how an elastic task scales; nil for the others.
	Scaling *Scaling
	// Workers is the scale that a running elastic task has or has asked for. Lacking is how many of them no node has
	// had room for yet: at least MinWorkers run beside them. A released task that waits for all of them is Unscheduled.
	Workers, Lacking int
	// PriorityClass is handed to planners that know critical classes.
	PriorityClass string
	State         State
	// Unscheduled says of a running task that no node has had room for any of its pods: it takes none of
	// the capacity, however long it is thought to.
	Unscheduled bool
	// Paused marks a waiting task that has run before.
	Paused bool
	// Cluster is where a running or paused task is; empty for one that may still
	// go anywhere.
	Cluster string
	// Clusters are those a task without a cluster may go to; nil allows all.
	Clusters []string
	// Migratable tasks may go on anywhere after they have run.
	Migratable bool
	// RestartKWh is the energy that going on after a pause takes, TransferKWh that of moving the
	// task to another cluster.
	RestartKWh, TransferKWh float64
	// Standing is a plan made earlier, nil if there is none. It is followed, unless Replan asks
	// for a new plan.
	Standing *Standing
	// Replan asks for a new plan although there is a standing one.
	Replan bool
	// Renewable says that the standing plan of a waiting task may be made anew if tasks without a plan compete
	// for its room, and all of them together emit less then. It has no effect if Replan is set.
	Renewable bool
	// KeepsRoom says that a running task is not paused because the capacity of its cluster fell below
	// what runs there. While it is, the task goes on, even if Replan is set, unless its standing plan
	// pauses it.
	KeepsRoom bool
	// Changed is when the task was last released, paused or changed in scale; zero where that
	// is not known. Clusters' queues start what was released first. Changing says that this is still under way.
	Changed  time.Time
	Changing bool
	// savedIn is when its next checkpoint comes, from now, if that is at once: see withSaved.
	savedIn time.Duration
	// renewed says that its standing plan is made anew for tasks without a plan: see renew.
	renewed bool
}

// Scaling is how an elastic task scales: fields as of workload.Job.
type Scaling struct {
	MinWorkers, MaxWorkers int
	Curve, Watts           []float64
	// Restarts says that a change of scale ends the run and begins another one: like a pause of no length, it loses what was done since the last
	// checkpoint (Task.Checkpoint, Task.AtRisk), takes a start (Task.Restart), and needs room for all workers at once. It is not for tasks with a LatestStart.
	Restarts bool
}

// UpTo returns the scaling with no more than a number of workers, which is raised to MinWorkers.
func (s *Scaling) UpTo(workers int) *Scaling {
	n := max(workers, s.MinWorkers)
	if n >= s.MaxWorkers {
		return s
	}
	out := &Scaling{MinWorkers: s.MinWorkers, MaxWorkers: n, Curve: s.Curve[:min(n-s.MinWorkers+1, len(s.Curve))], Restarts: s.Restarts}
	if s.Watts != nil {
		out.Watts = s.Watts[:min(n-s.MinWorkers+1, len(s.Watts))]
	}
	return out
}

// Rate returns how many times as fast as at MinWorkers the task runs with the given number
// of workers (workload.Speedup).
func (s *Scaling) Rate(workers int) float64 {
	return workload.Speedup(s.Curve, s.MinWorkers, workers)
}

// rate is how many times as fast as at its least scale the task runs.
func (t *Task) rate(workers int) float64 {
	if t.Scaling == nil {
		return 1
	}
	return t.Scaling.Rate(workers)
}

// fastest returns the smallest scale of the highest throughput and its Rate.
func (s *Scaling) fastest() (workers int, rate float64) {
	return workload.Fastest(s.Curve, s.MinWorkers)
}

// Cluster is a place to run tasks, as observed.
type Cluster struct {
	Name, Zone string
	// Capacity is what tasks may use of each resource, Load what runs there that
	// is not among the tasks.
	Capacity, Load map[string]float64
	// CapacityAt, where it is set, stands for Capacity: what tasks may use in the
	// current slot and those after it; the last value goes on. LoadAt adds to Load
	// what is planned or runs in those slots; nothing goes on after it.
	CapacityAt, LoadAt map[string][]float64
	// Starts is how many runs have begun there, 0 if that is not known: of clusters in equal use, the one
	// with the fewest starts the next task that waits.
	Starts int
	Power  power.PerUnit
	// Carbon is the intensity of the zone, past and forecast; nil where nothing
	// is known.
	Carbon *carbon.Series
	// CarbonLow and CarbonHigh are its 10 % and 90 % quantiles; nil where nobody
	// states them.
	CarbonLow, CarbonHigh *carbon.Series
	// CarbonPaths are courses that it may take, each as likely as the others; nil where nobody states them.
	CarbonPaths *carbon.Paths
}

// CapacityNow returns what tasks may use of a resource in the current slot.
func (c *Cluster) CapacityNow(resource string) float64 {
	if at := c.CapacityAt[resource]; len(at) > 0 {
		return at[0]
	}
	return c.Capacity[resource]
}

// Snapshot is all that a decision depends on.
type Snapshot struct {
	// Now is the grid time of the decision.
	Now time.Time
	// Slot is the resolution of planning.
	Slot time.Duration
	// Margin is kept between the planned end of a job and its deadline: for
	// start-up and for what clocks and schedulers add.
	Margin time.Duration
	// Objective of the plan; the zero value is least emissions by hard deadlines.
	// With Caspian's, deadlines are soft: a task waits as the plan says, however late.
	Objective plan.Objective
	// Horizon is how far ahead is planned, from the beginning of the current slot; 0 means to the
	// last deadline.
	Horizon time.Duration
	// MinRun and MinPause are the least times from a start or change of scale to the next
	// change, and from a pause to the next start.
	MinRun, MinPause time.Duration
	// MinSaving is the share of its emissions that a task must save by waiting, a pause or a move. If its plan saves less, it runs
	// on, or starts now, where there is room beside all others and the reserve. 0 <= MinSaving < 1; 0 follows every plan.
	MinSaving float64
	// SavingConfidence is the share of the paths that intensities may take (Cluster.CarbonPaths) in which a wait, a pause or a move must
	// emit no more than the task does if it runs on or starts now; else it does that, as with MinSaving. 0 <= SavingConfidence <= 1;
	// 0 goes by the forecast alone, and so does a plan over slots without paths.
	SavingConfidence float64
	// Reserve is the share of the capacity of each cluster that is kept free for work to come, learned
	// from the recent past (package reserve); 0 keeps nothing. No task waits for a place in the reserve
	// if it has one beside it, and a repair lets none wait for one. Planners with a reserve of their
	// own keep that one instead.
	Reserve  float64
	Clusters []Cluster
	Tasks    []Task
}

// anyTask reports whether something is true of any task. Tasks are large: they are not copied.
func (s *Snapshot) anyTask(is func(*Task) bool) bool {
	for i := range s.Tasks {
		if is(&s.Tasks[i]) {
			return true
		}
	}
	return false
}

// has reports whether the snapshot has a cluster of a name.
func (s *Snapshot) has(name string) bool {
	return slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Name == name })
}

// Place is the cluster of a name; the first one where there is none of that name.
func (s *Snapshot) Place(name string) *Cluster {
	return &s.Clusters[s.place(name)]
}

// place is the index of the cluster that Place returns.
func (s *Snapshot) place(name string) int {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return i
		}
	}
	return 0
}

func (s *Snapshot) soft() bool { return s.Objective.Kind == plan.MOSP }

// Awaits reports whether a task waits for the plan of the next slot: Caspian's objective weighs
// all that waits against each other, in periods of a slot, and what is placed alone in between
// takes the room that a plan for all gives to others. What is due before then waits for nothing.
//
// Source: Caspian, Section III (jobs are dispatched at the beginning of a period).
func (s *Snapshot) Awaits(t *Task) bool {
	start := timegrid.Align(s.Now, s.Slot)
	return s.soft() && t.State == Waiting && !t.Paused && t.Submitted.After(start) && t.Deadline.After(start.Add(s.Slot))
}

func (s *Snapshot) validate() error {
	switch {
	case s.Now.IsZero():
		return fmt.Errorf("%w: now: not set", ErrSnapshot)
	case s.Slot < time.Second:
		return fmt.Errorf("%w: slot: %v; accepted: at least 1s", ErrSnapshot, s.Slot)
	case s.Margin < 0:
		return fmt.Errorf("%w: margin: %v; accepted: at least 0", ErrSnapshot, s.Margin)
	case !(s.MinSaving >= 0 && s.MinSaving < 1):
		return fmt.Errorf("%w: least saving: %v; accepted: at least 0, below 1", ErrSnapshot, s.MinSaving)
	case !(s.SavingConfidence >= 0 && s.SavingConfidence <= 1):
		return fmt.Errorf("%w: confidence of a saving: %v; accepted: 0 to 1", ErrSnapshot, s.SavingConfidence)
	case !(s.Reserve >= 0 && s.Reserve < 1):
		return fmt.Errorf("%w: reserve: %v; accepted: at least 0, below 1", ErrSnapshot, s.Reserve)
	case len(s.Clusters) == 0:
		return fmt.Errorf("%w: clusters: none", ErrSnapshot)
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		switch {
		case t.AtRisk < 0 || t.AtRisk > t.Remaining:
			return fmt.Errorf("%w: task %q: at risk: %v; accepted: 0 to remaining (%v)", ErrSnapshot, t.ID, t.AtRisk, t.Remaining)
		case t.Checkpoint < 0 || t.Checkpoint > 0 && t.AtRisk > t.Checkpoint:
			return fmt.Errorf("%w: task %q: checkpoint: %v; accepted: at least 0, and not less than at risk (%v) if it is set", ErrSnapshot, t.ID, t.Checkpoint, t.AtRisk)
		case t.Restart < 0 || t.Restart > MaxRestart || t.Restart > 0 && t.Kind == workload.Rigid:
			return fmt.Errorf("%w: task %q: restart: %v; accepted: 0 to %v, 0 for kind %q", ErrSnapshot, t.ID, t.Restart, MaxRestart, workload.Rigid)
		case t.Starting < 0 || t.Starting > 0 && (t.Starting > t.Restart || t.State != Running):
			return fmt.Errorf("%w: task %q: starting: %v; accepted: 0 to restart (%v), 0 for one that does not run", ErrSnapshot, t.ID, t.Starting, t.Restart)
		case t.Remaining < 0:
			return fmt.Errorf("%w: task %q: remaining: %v; accepted: at least 0", ErrSnapshot, t.ID, t.Remaining)
		case t.Kind != workload.Rigid && t.Kind != workload.Interruptible && t.Kind != workload.Elastic:
			return fmt.Errorf("%w: task %q: kind: %q; accepted: %q, %q or %q", ErrSnapshot, t.ID, t.Kind, workload.Rigid, workload.Interruptible, workload.Elastic)
		case (t.Kind == workload.Elastic) != (t.Scaling != nil):
			return fmt.Errorf("%w: task %q: scaling: set: %v; accepted: set for kind %q only", ErrSnapshot, t.ID, t.Scaling != nil, workload.Elastic)
		case t.Scaling != nil && (len(t.Scaling.Curve) == 0 || !(t.Scaling.Curve[0] > 0)):
			return fmt.Errorf("%w: task %q: scaling: curve begins with %g; accepted: a throughput above 0 first", ErrSnapshot, t.ID, t.Scaling.Curve[:min(1, len(t.Scaling.Curve))])
		case t.restartsToScale() && !t.LatestStart.IsZero():
			return fmt.Errorf("%w: task %q: latest start: set, scaling restarts; accepted: one of them", ErrSnapshot, t.ID)
		case !(t.Watts >= 0 && t.Watts <= power.MaxWatts) || t.Watts > 0 && t.Scaling != nil:
			return fmt.Errorf("%w: task %q: watts: %v, scaling: set: %v; accepted: 0 to %g W, 0 for kind %q", ErrSnapshot, t.ID, t.Watts, t.Scaling != nil, float64(power.MaxWatts), workload.Elastic)
		case t.Lacking < 0 || t.Lacking > t.Workers || t.Lacking > 0 && t.State != Running:
			return fmt.Errorf("%w: task %q: lacking: %d; accepted: 0 to workers (%d), 0 if it does not run", ErrSnapshot, t.ID, t.Lacking, t.Workers)
		case t.Standing != nil && len(t.Standing.Phases) == 0:
			return fmt.Errorf("%w: task %q: standing: no phases; accepted: at least one, or none standing", ErrSnapshot, t.ID)
		case t.Cluster != "" && !s.has(t.Cluster):
			return fmt.Errorf("%w: task %q: cluster: %q; accepted: one of the snapshot, or none", ErrSnapshot, t.ID, t.Cluster)
		case t.State != Waiting && t.State != Running:
			return fmt.Errorf("%w: task %q: state: %q; accepted: %q or %q", ErrSnapshot, t.ID, t.State, Waiting, Running)
		}
		if err := t.validateQuantiles(); err != nil {
			return err
		}
	}
	return nil
}
