package decide

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// Code is why an action was taken: one word, stable, used as the reason of
// events and metrics.
type Code string

// The reasons there are.
const (
	// CodeCleanNow: the plan uses the current slot.
	CodeCleanNow Code = "CleanNow"
	// CodeCleanerLater: the plan starts, or goes on, later.
	CodeCleanerLater Code = "CleanerLater"
	// CodeSharedCapacity: the plan starts later, though power is no cleaner then: so all that share the
	// capacity find their place.
	CodeSharedCapacity Code = "SharedCapacity"
	// CodePauseDoesNotPay: it runs on, because what a pause would lose outweighs
	// what the cleaner hours would save.
	CodePauseDoesNotPay Code = "PauseDoesNotPay"
	// CodeLatestStart: waiting longer would cost the deadline.
	CodeLatestStart Code = "LatestStart"
	// CodeNoSlack: the job may not wait at all.
	CodeNoSlack Code = "NoSlack"
	// CodeHeldOut: it runs as submitted, for others to be compared with.
	CodeHeldOut Code = "HeldOut"
	// CodeDeadlineAtRisk: no place before the deadline was found, so it runs.
	CodeDeadlineAtRisk Code = "DeadlineAtRisk"
	// CodeNoCarbonData: nothing is known of the intensity, so it runs.
	CodeNoCarbonData Code = "NoCarbonData"
	// CodePlannerFailed: the planner could not be run, so the job runs.
	CodePlannerFailed Code = "PlannerFailed"
	// CodeTooSoon: a change is due, but the last one was a moment ago or is under way.
	CodeTooSoon Code = "TooSoon"
	// CodeMoveDoesNotPay: another cluster is cleaner, but not by what the move costs.
	CodeMoveDoesNotPay Code = "MoveDoesNotPay"
	// CodeNextPeriod: it came after this period's plan and is weighed against the others in the
	// next.
	CodeNextPeriod Code = "NextPeriod"
	// CodePaused: policy or zone are paused, everything runs as it is.
	CodePaused Code = "Paused"
	// CodeRunning: it runs and cannot be paused.
	CodeRunning Code = "Running"
	// CodeUnscheduled: it was let go, but no node has room for its pods.
	CodeUnscheduled Code = "Unscheduled"
)

// Reason explains one decision; log, event, annotation and report are all
// rendered from it. Fields that do not apply are zero.
type Reason struct {
	Code Code
	// PlannedStart is when the task runs (next).
	PlannedStart time.Time
	// LatestStart is when it runs at the latest, whatever the grid does.
	LatestStart time.Time
	// IntensityNow is that of the current slot, IntensityThen the mean over the
	// planned run.
	IntensityNow, IntensityThen units.CarbonIntensity
	// ThenLow and ThenHigh are the 10 % and 90 % quantiles of IntensityThen; zero
	// where nobody states them.
	ThenLow, ThenHigh units.CarbonIntensity
	// ExpectedG is what the planned run emits, ImmediateG what it would emit in
	// one piece from now on.
	ExpectedG, ImmediateG units.Emissions
	// Source names where the intensity of the planned start comes from, Basis what
	// it rests on; Estimated says that the series has none for it and an earlier
	// day stands in.
	Source    string
	Basis     carbon.Basis
	Estimated bool
}

// Saving is the share of emissions that the plan saves against running at once,
// 0 where nothing is saved or known.
func (r Reason) Saving() float64 {
	if r.ImmediateG <= 0 || r.ExpectedG >= r.ImmediateG {
		return 0
	}
	return 1 - float64(r.ExpectedG/r.ImmediateG)
}

// basisWords say what a value rests on, where that is less than it should be.
var basisWords = map[carbon.Basis]string{
	carbon.CachedForecast: " (by an older forecast)",
	carbon.OwnForecast:    " (by a forecast made here)",
	carbon.Climatology:    " (usual at this time of year)",
	carbon.Constant:       " (declared, nothing else is known)",
}

// Message says the reason in words.
func (r Reason) Message() string {
	estimated := basisWords[r.Basis]
	if r.Estimated {
		estimated = " (estimated from an earlier day)"
	}
	switch r.Code {
	case CodeCleanNow:
		return fmt.Sprintf("runs now at %s%s", r.IntensityNow, estimated)
	case CodeCleanerLater:
		return fmt.Sprintf("waits until %s: %s%s over the run instead of %s now, saves %.0f %% against starting at once; starts by %s at the latest",
			r.PlannedStart.UTC().Format(time.RFC3339), r.IntensityThen, estimated, r.IntensityNow,
			100*r.Saving(), r.LatestStart.UTC().Format(time.RFC3339))
	case CodeSharedCapacity:
		return fmt.Sprintf("waits until %s by the plan of all that share the capacity: %s%s over the run, %s now; starts by %s at the latest",
			r.PlannedStart.UTC().Format(time.RFC3339), r.IntensityThen, estimated, r.IntensityNow, r.LatestStart.UTC().Format(time.RFC3339))
	case CodePauseDoesNotPay:
		return fmt.Sprintf("runs on at %s: a pause would lose more than it saves", r.IntensityNow)
	case CodeLatestStart:
		return fmt.Sprintf("latest safe start %s has come", r.LatestStart.UTC().Format(time.RFC3339))
	case CodeNoSlack:
		return "may not wait"
	case CodeHeldOut:
		return "runs as submitted: one of the share that others are compared with"
	case CodeDeadlineAtRisk:
		return "no place before the deadline found, runs at once"
	case CodeNoCarbonData:
		return "no carbon data, runs at once"
	case CodePlannerFailed:
		return "the planner failed, runs at once"
	case CodeTooSoon:
		return "stays as it is: the last change was a moment ago"
	case CodeMoveDoesNotPay:
		return "stays: another cluster is cleaner, but not by what the move costs"
	case CodeNextPeriod:
		return fmt.Sprintf("waits for the plan of %s, which weighs all that waits against each other", r.PlannedStart.UTC().Format(time.RFC3339))
	case CodePaused:
		return "policy or zone are paused: runs as if not governed"
	case CodeRunning:
		return "running"
	case CodeUnscheduled:
		return "was let go, but no node has room for its pods"
	}
	return string(r.Code)
}
