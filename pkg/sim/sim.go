// Package sim runs jobs on a virtual clock. It decides nothing itself: every start,
// pause and change of scale comes from decide.Decide, and plans are kept and found wanting by package
// track, both as in the live controllers.
//
// Time jumps from one moment to the next: submissions, completions, faults, changes of capacity, new
// forecasts, the time at which a decision asks for the next one, and the boundaries of slots where
// plans may not go as expected. What a job really
// takes (Job.Length, Scale.Actual, Cluster.Actual) is known to the clock and the
// accounts alone; decisions see estimates and outlooks.
package sim

import (
	"context"
	"errors"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// ErrConfig marks a simulation that cannot run.
var ErrConfig = errors.New("invalid simulation")

// Job is a job as it really is.
type Job struct {
	ID        string
	Submitted time.Time
	// Length is its real run time at its least scale, Estimate what planners are told.
	Length, Estimate time.Duration
	// Quantiles are whole run times at the least scale that planners are told are not exceeded with a
	// probability, in rising order; Estimate is their mean. Config.Lengths may state others. They guard a
	// Deadline (decide.Task.Guarded); a MaxDelay, whose deadline moves with the run time, needs no guard.
	Quantiles []workload.RunTimeQuantile
	// Deadline of completion. Where it is zero, MaxDelay is how much later than by
	// running at once at its least scale the job may end; where both are zero only an
	// elastic job is planned at all.
	Deadline time.Time
	MaxDelay time.Duration
	Kind     workload.Kind
	// Request is what the job asks for, by resource; one worker of it where it scales.
	Request       map[string]float64
	PriorityClass string
	// Watts is the power of a job that does not scale, in W and without PUE, where it is known; with 0 the power is that of
	// Request.
	Watts float64
	// Scale is how an elastic job scales; nil for the others.
	Scale *Scale
	// Clusters are those it may run on; nil allows all.
	Clusters []string
	// Migratable jobs may go on at another cluster than the one they ran on.
	Migratable bool
	// Checkpoint is the work after which the job saves what it has done, each time anew; a pause, a
	// move or a lost machine costs what it did since. With 0 a pause costs nothing.
	Checkpoint time.Duration
	// Parts is in how many equal parts an interruptible job does its work, one after the other, as the
	// completions of a Job; 0 for one. A part under way starts anew after a pause. Decisions see the work at risk, and
	// are not told when the part ends.
	Parts int
	// HeldOut jobs run as submitted: decisions see them and do not hold them, nor are they told the deadline.
	HeldOut bool
	// RestartKWh is the energy of going on after a pause or elsewhere, TransferKWh that
	// of a move, at the mean of both intensities.
	RestartKWh, TransferKWh float64
}

// bounded says whether the job's deadline is when it would end at once plus MaxDelay.
func (j *Job) bounded() bool {
	return j.Deadline.IsZero() && (j.MaxDelay > 0 || j.Scale != nil)
}

// Scale is how an elastic job scales. It may be shared between jobs.
type Scale struct {
	MinWorkers, MaxWorkers int
	// Curve is the marginal capacity curve that planners see, as in workload.Job;
	// Actual is the true one, nil where they are the same.
	Curve, Actual []float64
	// Watts is the power at MinWorkers..MaxWorkers, or nil for that of the request.
	Watts []float64
}

// speedup returns how many times as fast as at MinWorkers the job really runs with the
// given number of workers; 1 for a job that does not scale.
func (s *Scale) speedup(workers int) float64 {
	if s == nil {
		return 1
	}
	curve := s.Curve
	if s.Actual != nil {
		curve = s.Actual
	}
	return workload.Speedup(curve, s.MinWorkers, workers)
}

// Cluster is a place to run, with the intensity that really occurred.
type Cluster struct {
	Name, Zone string
	// Capacity of each resource; nil is room for everything.
	Capacity map[string]float64
	// Changes of the capacity over time, in order. Decisions see the capacity of the moment; of jobs that no longer
	// fit, the last to start lose their place.
	Changes []Change
	// Announced says that decisions know Changes beforehand, as those of a CapacityCurve, and that nothing loses its
	// place: what runs beyond the capacity runs on until it ends or is paused. Changes are at boundaries of slots then.
	Announced bool
	// Load is what others use of the capacity.
	Load []Load
	// Power is that of used resources.
	Power power.PerUnit
	// Nodes, where set, adds the power of machines that are on.
	Nodes Nodes
	// Forecast is what planners see all the time; Outlook, where set, makes what they are
	// told instead from time to time: a new one for each simulation, as models learn.
	Forecast *carbon.Series
	Outlook  func() Outlook
	// ForecastLow and ForecastHigh are the error bars of the forecast, its 10 % and 90 % quantiles; nil for none.
	ForecastLow, ForecastHigh *carbon.Series
	// Actual is what emissions are priced at.
	Actual *carbon.Series
}

// Change is the capacity of a cluster from a time on.
type Change struct {
	At       time.Time
	Capacity map[string]float64
}

// Load is what others use of a cluster for a time. Where there is no room, it waits, and takes what becomes free
// before any job does.
type Load struct {
	From, To time.Time
	Amount   map[string]float64
	// Announced says that decisions know of it beforehand, as of what other policies plan. It is at boundaries of slots
	// then. Otherwise they see it once it is there, and expect it to go on.
	Announced bool
}

// Nodes are machines whose idle power is counted beside the work on them. Energy of
// idling is the cluster's, not a job's.
type Nodes struct {
	Count int
	// Idle is the power of one machine that is on.
	Idle units.Power
	// Resource and Each say how much of a resource a machine has, so that those without
	// work can be turned off; with Each of 0 all are always on.
	Resource string
	Each     float64
}

// Revision says when jobs that have a plan are planned anew.
type Revision int

const (
	// EverySlot plans all that may still move anew in each slot.
	EverySlot Revision = iota
	// OnChange plans a job when it is submitted and when package track finds that its plan no longer
	// holds, as the live controllers do.
	OnChange
)

// Config is a simulation.
type Config struct {
	Clusters []Cluster
	Jobs     []Job
	// Planner may be nil where no job may wait. Each simulation plans by plan.ForSequence, as
	// the live controllers do.
	Planner plan.Planner
	// Slot is the resolution of planning; Margin is kept before deadlines.
	Slot, Margin time.Duration
	// Objective, Horizon, MinRun, MinPause, MinSaving and SavingConfidence of planning, as in decide.Snapshot.
	Objective        plan.Objective
	Horizon          time.Duration
	MinRun, MinPause time.Duration
	MinSaving        float64
	SavingConfidence float64
	// Known says that decisions know all jobs from the beginning on, and when they will be
	// submitted.
	Known  bool
	Revise Revision
	// Deviation is the relative deviation of progress, run time and forecast from which a plan is
	// made anew (track.Rules); 0 means 5 % (CarbonScaler, Section 4.3).
	Deviation float64
	// Lengths estimates run times as jobs go; nil stands for Job.Estimate.
	Lengths Lengths
	// Overhead is the time without progress after each resumption and change of scale. Plans contain it after each
	// pause and move, not after changes of scale; planners know its energy, as workload.Job.RestartKWh.
	Overhead time.Duration
	Faults   Faults
	// Seed of all that is random.
	Seed uint64
	// RunAll says that every job runs if a decision fails, as those of a policy that cannot decide do
	// (decide.RunAll), and that the simulation goes on; otherwise it ends with the error.
	RunAll bool
	// Observe, where set, is told of each slot once it is over.
	Observe func(Slot)
	// Decided, where set, is called with each decision before it is carried out, to check it
	// with decide.Verify. The snapshot is valid only during the call.
	Decided func(decide.Snapshot, decide.Decision)
	// Progress, where set, is told now and then how many jobs are done.
	Progress func(done, all int)

	atOnce bool // no job waits: the baseline
}

// Slot is what a cluster did in a slot.
type Slot struct {
	Cluster int
	At      time.Time
	// Use is the mean use of each resource; shared, not to be kept.
	Use map[string]float64
}

// Run is one uninterrupted run of a job at one scale. Times count from Result.Start.
type Run struct {
	From, To time.Duration
	// Cluster counts Config.Clusters.
	Cluster, Workers int32
}

// Outcome is what became of a job. Finish counts from Result.Start.
type Outcome struct {
	Runs   []Run
	Finish time.Duration
	// Wait is from submission to the first start; Delay how much later the job ended
	// than if it had run at once at its least scale, below 0 where scaling made it faster.
	Wait, Delay time.Duration
	// Missed says that the job ended after its deadline.
	Missed bool
	// Emissions leave out Unpriced: run time more than carbon.FillRule may fill away from
	// any known intensity. Filled is the run time priced by that rule.
	Emissions        units.Emissions
	Energy           units.Energy
	Filled, Unpriced time.Duration
	// WorkerHours is the sum of workers x hours.
	WorkerHours float64
	// Expected is what its first plan was to emit; 0 without a plan.
	Expected units.Emissions
}

// Result is what became of all jobs, in the order of Config.Jobs.
type Result struct {
	// Start is time 0 of the clock: the boundary of slots at or before the first
	// submission.
	Start time.Time
	Jobs  []Outcome
	// Emissions and Energy are those of the jobs and of idle machines.
	Emissions units.Emissions
	Energy    units.Energy
	// IdleEmissions and IdleEnergy are those of machines apart from the work on them, from Start
	// to the end of the last job; see SameSpan.
	IdleEmissions units.Emissions
	IdleEnergy    units.Energy
	Missed        int
	MeanWait      time.Duration
	MeanDelay     time.Duration
	WorkerHours   float64
	// Makespan is from the first submission to the last completion.
	Makespan time.Duration
	// Filled is the run time, of jobs and of machines that idle, for which the actual
	// series has no intensity and that is priced by carbon.FillRule; it is part of
	// Emissions. Unpriced is the run time that this rule cannot fill: it is not in
	// Emissions (but in Energy), so that they must not be stated. Both stop at 292 years.
	Filled, Unpriced time.Duration
	// Decisions counts calls of decide.Decide, Planned the plans made, Events
	// the moments at which anything happened.
	Decisions, Planned, Events int
	// Failed counts decisions that failed, with Config.RunAll; Failure is the error of the first.
	Failed  int
	Failure error
	// Denied counts workers that were asked for and not granted, Evicted the jobs that
	// lost their machine.
	Denied, Evicted int

	counted time.Duration // until when idle machines are counted
}

// At is a time of the clock.
func (r *Result) At(t time.Duration) time.Time { return r.Start.Add(t) }

// Simulate runs the jobs until all are done.
//
// A released job starts when its cluster has room, first released first, as on a
// cluster whose scheduler queues what does not fit. A job that may go anywhere goes
// where the share in use is least (ties: the cluster with fewest starts so far), as a
// scheduler does that knows nothing of carbon.
//
// Errors: ErrConfig for jobs that can never run, and those of Decide.
// Complexity: O(events log events) and that of the decisions. With endless capacity, OnChange and nothing
// unexpected there is one decision on a job for each phase of its plan; with limited capacity, one on all
// jobs in the system at each moment. Memory: O(jobs + runs).
func Simulate(ctx context.Context, cfg Config) (Result, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return Result{}, err
	}
	if err := e.run(ctx); err != nil {
		return Result{}, err
	}
	return e.result(), nil
}
