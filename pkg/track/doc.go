// Package track keeps the plans of tasks between decisions. It says which tasks to plan
// anew and why, which plans stand, what work a plan expected by now, and when to decide
// again. The live controllers and the simulator use it in the same way, so a simulation
// follows plans exactly as production does.
//
// The caller keeps one Record per task, from the first time it sees the task until the
// task has ended. For each decision it does the following, in this order:
//
//  1. Observe: build a decide.Snapshot and, for each task, an Observation.
//  2. Name the forecasts that plans rest on: Outlooks.Name.
//  3. Round.Prepare: sets Task.Standing of tasks whose plan stands, and a Trigger for each of
//     the others.
//  4. decide.Decide on the snapshot.
//  5. Round.Keep: takes over the plans that the decision made, and returns when to decide
//     again at the latest.
//  6. Carry out the actions.
//
// Minimum times are part of the snapshot (MinRun, MinPause, Task.Changed): Decide obeys them,
// and the wake-up that Keep returns is not later than their end.
//
// The package is pure: it has no clock and reads no state other than its arguments. Nothing in
// it is safe for concurrent use.
package track

import (
	"time"

	"lull.dev/lull/pkg/decide"
)

// Reason is why a task is planned anew: one word, stable, used in statuses and metrics.
type Reason string

// The reasons for which a task is planned anew.
const (
	// Submitted: there is no plan yet.
	Submitted Reason = "Submitted"
	// NewForecast: the outlook differs from the one that the plan rests on.
	NewForecast Reason = "NewForecast"
	// ProgressDeviates: the work done differs from what the plan expected.
	ProgressDeviates Reason = "ProgressDeviates"
	// ThroughputDeviates: the present scale is faster or slower than its profile says.
	ThroughputDeviates Reason = "ThroughputDeviates"
	// ScaleUpDenied: no node has room for some of the workers.
	ScaleUpDenied Reason = "ScaleUpDenied"
	// PlanEnded: the plan has nothing left, and the work is not done.
	PlanEnded Reason = "PlanEnded"
	// PauseWouldLose: the plan pauses a task that would lose work.
	PauseWouldLose Reason = "PauseWouldLose"
	// MoveWouldCost: the plan moves a running task, and a restart, a transfer or lost work costs.
	MoveWouldCost Reason = "MoveWouldCost"
	// ObjectChanged: the deadline, kind, request, least scale, expected run time or its quantiles have changed.
	ObjectChanged Reason = "ObjectChanged"
	// NoRoom: the plan stood, but the decision changed it to make room for another task.
	NoRoom Reason = "NoRoom"
	// Competes: the plan stood, but a task that was submitted or has changed competes for its room, and the
	// decision found new plans by which all of them together emit less.
	Competes Reason = "Competes"
	// NewPeriod: a period of planning has begun (Caspian's objective, Rules.EverySlot).
	NewPeriod Reason = "NewPeriod"
	// NewCapacity: what the plans may use has changed. Only the caller knows (Round.Renew).
	NewCapacity Reason = "NewCapacity"
)

// Trigger is why a task is planned anew. A trigger without a reason means that the plan stands.
type Trigger struct {
	Reason Reason
	// Message says it in words; may be empty.
	Message string
}

// Observation is what is seen of the progress of a task.
type Observation struct {
	// Done is the work done, as run time at the least number of workers.
	Done time.Duration
	// Source names where Done is known from; Measured reports whether the task itself says so,
	// rather than a model of its speed.
	Source   string
	Measured bool
	// Running is the number of workers that run, Wanted of those that should, and Denied of
	// those that no node has had room for.
	Running, Wanted, Denied int
	// Since is when the present run at the present scale began; zero if the task does not run.
	Since time.Time
	// Speed is how much faster than stated the task is at its least scale.
	Speed float64
}

// Rules say what makes a plan stand no longer.
type Rules struct {
	// Forecast names the outlook as it is now (Outlooks.Name).
	Forecast string
	// Threshold is the relative deviation of progress, throughput and run time that counts.
	Threshold float64
	// EverySlot plans all tasks that may still move anew in each slot.
	EverySlot bool
}

// Rate is a measured throughput, in hours of work at the least scale per hour.
type Rate struct {
	Workers int
	Value   float64
}

// Record is what is remembered of one task between decisions. Its zero value is that of a
// task without a plan.
type Record struct {
	// known says that an earlier decision had the task.
	known    bool
	standing *decide.Standing
	basis    basis
	// plannedAt, doneThen, lengthThen are when the plan was made, the work done by then, and
	// the whole work as it was expected to be; guardedThen is the whole work that the latest
	// safe start left room for (Task.Guarded).
	plannedAt                         time.Time
	doneThen, lengthThen, guardedThen time.Duration
	// scaling and speed are how fast each scale was taken to be.
	scaling *decide.Scaling
	speed   float64
	// sample is the begin of a measurement of throughput, rate its latest result.
	sample sample
	rate   Rate
	// most is the number of workers that found nodes when some did not; 0 for no limit. It
	// holds until mostUntil.
	most      int
	mostUntil time.Time
}

// basis is what a plan rests on beside time and progress.
type basis struct {
	forecast   string
	deadline   time.Time
	kind       string
	request    map[string]float64
	minWorkers int
}

// sample begins a measurement of throughput: at is when the task stated that so much was done. Zero until it states more than when
// it was first seen at this scale (from); last is what it stated last.
type sample struct {
	at         time.Time
	done, last time.Duration
	from       time.Time
	workers    int
}
