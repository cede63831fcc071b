package ledger

import (
	"time"

	"lull.dev/lull/api/v1alpha1"
)

// Kind says what an entry tells.
type Kind string

// The kinds of entries, with the types of their bodies. All times in bodies are those of the zone's
// series.
const (
	KindSubmitted  Kind = "submitted"  // Submitted
	KindForecast   Kind = "forecast"   // Forecast
	KindDecided    Kind = "decided"    // Decided
	KindStarted    Kind = "started"    // Started
	KindEnded      Kind = "ended"      // Ended
	KindEnergy     Kind = "energy"     // Energy
	KindFinished   Kind = "finished"   // Finished
	KindCapacity   Kind = "capacity"   // Capacity
	KindIntensity  Kind = "intensity"  // Intensity
	KindSettled    Kind = "settled"    // Settled
	KindCheckpoint Kind = "checkpoint" // Checkpoint
	// KindQuarantined is in the place of an entry that could not be written: Quarantined.
	KindQuarantined Kind = "quarantined"
)

// Submitted is a workload as it came.
type Submitted struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	Policy     string            `json:"policy"`
	At         time.Time         `json:"at"`
	// Workers it asked for, and no more than it has parts; Request of each, with its part of the Others: pods beside
	// the workers, which do no work of their own.
	Workers int                `json:"workers"`
	Others  int                `json:"others,omitempty"`
	Request map[string]float64 `json:"request"`
	// MinWorkers and Curve are the throughput of one that scales: Curve[i] is what worker
	// MinWorkers+i adds.
	MinWorkers int       `json:"minWorkers,omitempty"`
	Curve      []float64 `json:"curve,omitempty"`
	// Watts of a worker by the power model, PUE included.
	Watts float64 `json:"watts"`
	// AsRun says that what its cluster gives it is known only when it runs: as submitted it has the watts of its runs.
	AsRun bool `json:"asRun,omitempty"`
	// Parts says that its work is in parts, a pod each: one that does not succeed is done again.
	Parts bool `json:"parts,omitempty"`
	// Runtime is what is expected at first, in seconds at its least scale; Deadline is zero where it may not wait.
	Runtime  float64   `json:"runtimeSeconds"`
	Deadline time.Time `json:"deadline"`
	// Zone is where it runs, Clusters where it may, where there are several.
	Zone     string   `json:"zone,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
	// Resumable says that a pod which is lost loses no work, as there are checkpoints.
	Resumable bool `json:"resumable,omitempty"`
	// HeldOut says that it runs as submitted, to compare with.
	HeldOut bool `json:"heldOut,omitempty"`
	// Shadow says that its policy was in Shadow mode when it was seen first: Lull holds nothing then. Settled.Mode is the mode at its release.
	Shadow bool `json:"shadow,omitempty"`
}

func (b *Submitted) runtime() time.Duration {
	return time.Duration(b.Runtime * float64(time.Second))
}

// Forecast is what was expected of zones at a moment: the values of the hours to come, from From on.
type Forecast struct {
	Zone string `json:"zone"`
	// Basis is what it rests on, Source who says so, Issued when.
	Basis  string    `json:"basis"`
	Source string    `json:"source,omitempty"`
	Issued time.Time `json:"issued"`
	From   time.Time `json:"from"`
	// Values in gCO2eq/kWh, one an hour; a negative one is not known.
	Values []float64 `json:"values"`
}

// Decided is a decision that differs from the one before.
type Decided struct {
	At      time.Time `json:"at"`
	Verb    string    `json:"verb"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Workers int       `json:"workers,omitempty"`
	Cluster string    `json:"cluster,omitempty"`
	// Trigger is why the plan was made anew; "" where it stands.
	Trigger string  `json:"trigger,omitempty"`
	Phases  []Phase `json:"phases,omitempty"`
	// Forecasts are the keys of what it saw.
	Forecasts []string `json:"forecasts,omitempty"`
	// LostSeconds is work since the last checkpoint that a pause throws away.
	LostSeconds float64 `json:"lostSeconds,omitempty"`
	Applied     bool    `json:"applied"`
	// Mode is the mode of the policy; "" in entries of earlier versions, and of Slurm.
	Mode v1alpha1.Mode `json:"mode,omitempty"`
}

// Phase is a part of a plan.
type Phase struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Cluster   string    `json:"cluster,omitempty"`
	Workers   int       `json:"workers"`
	Intensity float64   `json:"intensity"`
}

// Started says that a pod of the workload runs, or, where pods cannot be seen, the workload.
type Started struct {
	// Run names the pod by its UID, or the run of the workload.
	Run     string    `json:"run"`
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster,omitempty"`
	Zone    string    `json:"zone"`
	Node    string    `json:"node,omitempty"`
	Workers int       `json:"workers"`
	// Watts by the power model, PUE included.
	Watts float64 `json:"watts"`
}

// Ended says that a run is over.
type Ended struct {
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// How is observed, where the API server says when, or inferred: it was missed when it was not
	// there any more.
	How How `json:"how"`
	// Succeeded says that what ran has done its work.
	Succeeded bool `json:"succeeded,omitempty"`
	// Lost says that what ran ended in failure, by itself or because it was evicted; "" where it did neither, as
	// what was paused.
	Lost Lost `json:"lost,omitempty"`
}

// Lost is why what ran has failed.
type Lost string

// The ways to fail.
const (
	Failed  Lost = "failed"
	Evicted Lost = "evicted"
)

// How an end is known.
type How string

// The ways to know an end.
const (
	Observed How = "observed"
	Inferred How = "inferred"
)

// Energy of a workload that was measured, PUE included.
type Energy struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Zone   string    `json:"zone"`
	KWh    float64   `json:"kWh"`
	Source string    `json:"source"`
	// ModelKWh is the part of KWh that is the power model's, if Source names it beside one that measures.
	ModelKWh float64 `json:"modelKWh,omitempty"`
}

// Finished says that the workload is over, or deleted.
type Finished struct {
	At  time.Time `json:"at"`
	How string    `json:"how"` // finished or gone
	// Policy and Family say of which workloads it is one, and RanSeconds how long it ran in one go, so that a controller that starts knows run
	// times. They are left out where the run says nothing of the next one: it failed, was paused, or scaled.
	Policy     string  `json:"policy,omitempty"`
	Family     string  `json:"family,omitempty"`
	RanSeconds float64 `json:"ranSeconds,omitempty"`
}

// Capacity is what a cluster has for the workloads of a policy from a time on: what it has, less what
// others use.
type Capacity struct {
	Policy  string             `json:"policy"`
	Cluster string             `json:"cluster"`
	Zone    string             `json:"zone"`
	At      time.Time          `json:"at"`
	Free    map[string]float64 `json:"free"`
}

// Intensity is that of a time that is over, as published; the last one of the same zone and time
// counts.
type Intensity struct {
	Zone      string    `json:"zone"` // the name of the GridZone
	Grid      string    `json:"grid"` // of the grid zone
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Value     float64   `json:"value"` // gCO2eq/kWh
	Signal    string    `json:"signal"`
	Factor    string    `json:"factor"`
	Source    string    `json:"source"`
	Estimated bool      `json:"estimated,omitempty"`
	// Beside is the GridZone by whose intensities emissions are stated too.
	Beside string `json:"beside,omitempty"`
	// Revision counts from 0.
	Revision int `json:"revision"`
}

// Settled is what came of a workload.
type Settled struct {
	Method string `json:"method"`
	// Revision counts from 0; the last one of a workload counts, and Why says why it differs.
	Revision int    `json:"revision"`
	Why      string `json:"why,omitempty"`
	// After is the number of the last entry that it rests on.
	After int64 `json:"after"`
	// The workload, so that a report needs no other entry.
	Of Submitted `json:"of"`
	// Mode is the mode of the policy when Lull released the workload for its first run, whatever it was before or after: see
	// work.mode. It is "" if no decision before that run says: Of.Shadow counts then.
	Mode v1alpha1.Mode `json:"mode,omitempty"`
	// Zones are those by whose intensities it is counted, in order, beside the one that Beside names; earlier versions did not write them.
	Zones []string `json:"zones,omitempty"`
	// From its first start To its last end; Runs counts its pods' runs, Inferred those whose end is.
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Runs     int       `json:"runs"`
	Inferred int       `json:"inferred,omitempty"`
	OnTime   bool      `json:"onTime"`

	// WorkerHours are those that ran in all; of these, FailedHours and EvictedHours are those of pods that failed by
	// themselves, and that were evicted.
	WorkerHours  float64  `json:"workerHours"`
	FailedHours  float64  `json:"failedHours,omitempty"`
	EvictedHours float64  `json:"evictedHours,omitempty"`
	KWh          float64  `json:"kWh"`
	MeasuredKWh  float64  `json:"measuredKWh"`
	Sources      []string `json:"sources"`
	Grams        float64  `json:"grams"`
	Signal       string   `json:"signal"`
	Factor       string   `json:"factor"`
	// FilledSeconds of run time, summed over runs, have no known intensity and are priced by
	// carbon.FillRule.
	FilledSeconds float64 `json:"filledSeconds,omitempty"`
	// MissingSeconds of both sides have no intensity by that rule either. Where it is above 0,
	// Withheld says why no emissions are stated: Grams, those of the counterfactual and
	// SavedGrams are 0 then. Method 2 has no such rule: see Entry.Settled.
	MissingSeconds float64 `json:"missingSeconds,omitempty"`
	Withheld       string  `json:"withheld,omitempty"`
	// Refused says that the energy is withheld too, as the workload has an entry in quarantine or a
	// figure that no workload has.
	Refused bool `json:"refused,omitempty"`
	// Uncertainty of energy, a share, at 90 %: as both sides rest on the same energy it counts for
	// savings as for emissions.
	Uncertainty float64 `json:"uncertainty"`

	// Submitted work as it would have run.
	Counterfactual Counterfactual `json:"counterfactual"`
	// SavedGrams is what it would have emitted less what it has.
	SavedGrams float64 `json:"savedGrams"`
	// Beside is the same by another signal or factor, where there is one: with nothing else changed.
	Beside *Beside `json:"beside,omitempty"`
}

// unplanned reports whether Lull let the workload run as submitted: it was held out, or released in Shadow mode.
func (b *Settled) unplanned() bool { return b.Of.HeldOut || b.shadow() }

// shadow reports whether the workload was released in Shadow mode.
func (b *Settled) shadow() bool {
	if b.Mode == "" {
		return b.Of.Shadow
	}
	return b.Mode == v1alpha1.ModeShadow
}

// Beside are emissions by the intensities of another GridZone of the same place.
type Beside struct {
	Zone   string `json:"zone"`
	Signal string `json:"signal"`
	Factor string `json:"factor"`
	// Grams were emitted; AsSubmittedGrams would have been, and SavedGrams is the difference.
	Grams            float64 `json:"grams"`
	AsSubmittedGrams float64 `json:"asSubmittedGrams"`
	SavedGrams       float64 `json:"savedGrams"`
	// FilledSeconds of both sides are priced by carbon.FillRule, MissingSeconds have no price:
	// where they are above 0, Withheld says why no emissions are stated, and all grams are 0.
	FilledSeconds  float64 `json:"filledSeconds,omitempty"`
	MissingSeconds float64 `json:"missingSeconds,omitempty"`
	Withheld       string  `json:"withheld,omitempty"`
}

// Counterfactual is the same work run as submitted.
type Counterfactual struct {
	Cluster string    `json:"cluster,omitempty"`
	Zone    string    `json:"zone"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Watts   float64   `json:"watts"`
	KWh     float64   `json:"kWh"`
	Grams   float64   `json:"grams"`
	// FilledSeconds have no known intensity and are priced by carbon.FillRule.
	FilledSeconds float64 `json:"filledSeconds,omitempty"`
	// Beyond says that it never fit into the capacity that was there: it is taken to run at once.
	Beyond bool `json:"beyond,omitempty"`
}

// Checkpoint says that the entries up to Through were dropped; the last of them had Hash.
type Checkpoint struct {
	Through int64 `json:"through"`
	Hash    Hash  `json:"hash"`
}
