// Package workload describes batch jobs as planners see them: when they may
// run, how much work they have, how they scale and what they ask for. Times are
// slots of a timegrid.Grid.
package workload

import (
	"errors"
	"fmt"
	"math"
)

// ErrJob marks a job that is not valid.
var ErrJob = errors.New("invalid job")

// Kind says how a job may run.
type Kind string

// The kinds of jobs.
const (
	// Rigid runs in one piece at MinWorkers.
	Rigid Kind = "rigid"
	// Interruptible runs at MinWorkers and may pause between slots.
	Interruptible Kind = "interruptible"
	// Elastic may pause and run at any scale of MinWorkers..MaxWorkers.
	Elastic Kind = "elastic"
)

// Eps is the tolerance for comparing amounts of work and of resources.
const Eps = 1e-6

// MaxNumber bounds all numbers of planning problems, so that sums of their products stay finite.
const MaxNumber = 1e18

// MaxScale bounds MaxWorkers.
const MaxScale = 100_000

// Job is a batch job. Slots count from zero.
type Job struct {
	ID   string
	Kind Kind
	// Arrival is the first slot the job may use, Deadline the first it may not.
	Arrival, Deadline int
	// Length is the run time at MinWorkers in slots; it may be fractional.
	Length float64
	// Request is what one worker asks for, by resource.
	Request map[string]float64
	// MinWorkers..MaxWorkers is the range of scales.
	MinWorkers, MaxWorkers int
	// Curve is the marginal capacity curve: Curve[0] is the throughput of
	// MinWorkers, Curve[i] what the i-th further worker adds.
	Curve []float64
	// Watts is the total power at MinWorkers..MaxWorkers, or nil for the power
	// of the requested resources.
	Watts []float64
	// Clusters are the clusters allowed; nil allows all.
	Clusters []string
	// Migratable jobs may change cluster between slots.
	Migratable bool
	// RestartKWh is the energy that a run takes, beside its work, whenever it goes on
	// after a pause or on another cluster; TransferKWh what moving it between two
	// clusters takes. Rigid jobs have neither.
	RestartKWh, TransferKWh float64
	// Begun is the state in which slot Arrival finds a job that has run before; nil if it
	// has not. Rigid jobs have none.
	Begun *Begun
	// Quantiles are run times that are not exceeded with a probability, in slots at
	// MinWorkers, in rising order; Length is their mean then. None: Length is certain.
	Quantiles []Quantile
	// Unknown describes the length of a job whose delay is bounded, so that its deadline moves with its length. nil: the
	// length is known, or Quantiles describe it.
	Unknown *Unknown
	// Waited is how many slots the job had waited when the horizon began; only
	// a job that arrived before slot 0 has any.
	Waited int
	// PriorityClass is the Kubernetes priority class, for planners that let
	// critical classes pass.
	PriorityClass string
}

// Begun is the state of a job that has run before. What it does until slot Arrival begins, as
// when a change is under way, is not part of its schedule.
//
// A job that runs goes on at no cost in slot Arrival on Cluster. Any other schedule restarts
// it: that takes RestartKWh, and TransferKWh if it goes on at another cluster.
type Begun struct {
	// Cluster is where it runs, or where it was paused.
	Cluster string
	// Paused says that it does not run.
	Paused bool
	// Lost is the part of Length, in slots at MinWorkers, that is done already and that the
	// next pause or move loses, whenever it is. A schedule that goes on in slot Arrival
	// and neither pauses nor moves does Length - Lost, all others do Length. Lost is less than
	// Length, and 0 if the job is paused.
	Lost float64
}

// Unknown is an unknown length and the delay that is allowed. A schedule that keeps the delay at the end of each slot is in
// time whatever the length turns out to be.
type Unknown struct {
	// Quantiles of the length, in rising order.
	Quantiles []Quantile
	// Delay is how many slots the job may lie behind a run at MinWorkers that begins in slot Arrival, at the end of any
	// slot. It is negative if the job is behind already.
	Delay float64
	// Deadline replaces that of the job for such schedules: the first slot that a job of the expected length may not use.
	Deadline int
}

// Quantile is a run time that is not exceeded with probability P.
type Quantile struct{ P, Length float64 }

// LengthAt returns the run time that is not exceeded with probability p: the quantile
// of the least probability that is no lower, or the largest known, or Length.
func (j *Job) LengthAt(p float64) float64 {
	length := j.Length
	for _, q := range j.Quantiles {
		length = math.Max(j.Length, q.Length)
		if q.P >= p {
			break
		}
	}
	return length
}

// Slots returns the whole slots a run at MinWorkers touches: ceil(Length), at least 1.
func (j *Job) Slots() int { return max(1, int(math.Ceil(j.Length-Eps))) }

// Throughput returns the work per slot of w workers, MinWorkers <= w <= MaxWorkers.
func (j *Job) Throughput(w int) float64 { return Throughput(j.Curve, j.MinWorkers, w) }

// Work returns the work to do: a rigid job occupies whole slots, the others do
// exactly Length slots at MinWorkers.
func (j *Job) Work() float64 {
	if j.Kind == Rigid {
		return float64(j.Slots()) * j.Curve[0]
	}
	return j.Length * j.Curve[0]
}

// LatestStart returns the last slot in which a run at MinWorkers may begin and
// still end by the deadline; it lies before Arrival when the deadline cannot
// be kept.
func (j *Job) LatestStart() int { return j.Deadline - j.Slots() }

// Allows reports whether the job may run on the named cluster.
func (j *Job) Allows(cluster string) bool {
	if j.Clusters == nil {
		return true
	}
	for _, c := range j.Clusters {
		if c == cluster {
			return true
		}
	}
	return false
}

// Validate reports the first fault: an error wrapping ErrJob that names the
// job, the field, the value and what is accepted. A deadline that cannot be
// kept is no fault of the description; planners report it.
func (j *Job) Validate() error {
	fault := func(field string, value any, accepted string) error {
		return fmt.Errorf("%w %q: %s: %v; accepted: %s", ErrJob, j.ID, field, value, accepted)
	}
	if j.ID == "" {
		return fault("id", `""`, "a name")
	}
	switch j.Kind {
	case Rigid, Interruptible, Elastic:
	default:
		return fault("kind", fmt.Sprintf("%q", j.Kind), "rigid, interruptible or elastic")
	}
	if j.Arrival < 0 {
		return fault("arrival", j.Arrival, "a slot from 0")
	}
	if j.Waited < 0 || (j.Waited > 0 && j.Arrival > 0) {
		return fault("waited", j.Waited, "at least 0, and 0 for a job that arrives after slot 0")
	}
	if !finite(j.Length) || j.Length <= 0 || j.Length > math.MaxInt32 {
		return fault("length", j.Length, "above 0, in slots")
	}
	if j.MinWorkers < 1 || j.MinWorkers > MaxScale {
		return fault("minWorkers", j.MinWorkers, fmt.Sprintf("1 to %d", MaxScale))
	}
	if j.MaxWorkers < j.MinWorkers || j.MaxWorkers > MaxScale {
		return fault("maxWorkers", j.MaxWorkers, fmt.Sprintf("minWorkers (%d) to %d", j.MinWorkers, MaxScale))
	}
	scales := j.MaxWorkers - j.MinWorkers + 1
	if len(j.Curve) != scales {
		return fault("curve", fmt.Sprintf("%d values", len(j.Curve)), fmt.Sprintf("%d, one for minWorkers and one for each further worker", scales))
	}
	for i, c := range j.Curve {
		if !finite(c) || c < 0 || (i == 0 && c == 0) {
			return fault(fmt.Sprintf("curve[%d]", i), c, "0 to 1e+18, the first above 0")
		}
	}
	if j.Watts != nil && len(j.Watts) != scales {
		return fault("watts", fmt.Sprintf("%d values", len(j.Watts)), fmt.Sprintf("%d, one a scale", scales))
	}
	for i, w := range j.Watts {
		if !finite(w) || w < 0 {
			return fault(fmt.Sprintf("watts[%d]", i), w, "0 to 1e+18")
		}
	}
	if v := j.RestartKWh; !finite(v) || v < 0 {
		return fault("restartKWh", v, "0 to 1e+18")
	}
	if v := j.TransferKWh; !finite(v) || v < 0 {
		return fault("transferKWh", v, "0 to 1e+18")
	}
	if field, value, accepted := j.begunFault(); field != "" {
		return fault(field, value, accepted)
	}
	for i, q := range j.Quantiles {
		if !(q.P > 0 && q.P < 1) || (i > 0 && q.P <= j.Quantiles[i-1].P) {
			return fault(fmt.Sprintf("quantiles[%d].p", i), q.P, "above 0, below 1, rising")
		}
		if !finite(q.Length) || q.Length <= 0 || q.Length > math.MaxInt32 || (i > 0 && q.Length < j.Quantiles[i-1].Length) {
			return fault(fmt.Sprintf("quantiles[%d].length", i), q.Length, "above 0, in slots, not falling")
		}
	}
	if len(j.Request) == 0 {
		return fault("request", "nothing", "at least one resource")
	}
	for r, q := range j.Request {
		if r == "" || !finite(q) || q < 0 {
			return fault(fmt.Sprintf("request[%q]", r), q, "a named resource, 0 to 1e+18")
		}
	}
	if j.Clusters != nil && len(j.Clusters) == 0 {
		return fault("clusters", "[]", "absent for all clusters, or at least one name")
	}
	return nil
}

// begunFault names what is wrong with Begun; no field if nothing is.
func (j *Job) begunFault() (field string, value any, accepted string) {
	b := j.Begun
	switch {
	case b == nil:
		return "", nil, ""
	case j.Kind == Rigid:
		return "begun", "set", "absent for rigid jobs: one that runs is load of its cluster"
	case b.Cluster == "":
		return "begun.cluster", `""`, "a name"
	case !finite(b.Lost) || b.Lost < 0 || b.Lost >= j.Length:
		return "begun.lost", b.Lost, fmt.Sprintf("at least 0, below length (%v)", j.Length)
	case b.Paused && b.Lost > 0:
		return "begun.lost", b.Lost, "0 for a job that is paused"
	}
	return "", nil, ""
}

func finite(v float64) bool { return math.Abs(v) <= MaxNumber }
