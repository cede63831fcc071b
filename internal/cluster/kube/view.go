package kube

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// Measured is what is measured outside of the API.
type Measured interface {
	// Progress is what the query of a workload gave last; false where it gave nothing.
	Progress(uid types.UID) (Reading, bool)
	// Power is what a pod draws.
	Power(namespace, pod string) PodPower
}

// Reading is a share of the work that is done, as measured at a time (wall time).
type Reading struct {
	Share float64
	At    time.Time
}

// PodPower is the power of a pod in watts, without PUE: of processors and memory, and of
// accelerators; each with the name of what measures it, "" where nothing does.
type PodPower struct {
	CPU, GPU             float64
	CPUSource, GPUSource string
}

// Learned is what is known of a workload from runs of its family and of its own.
type Learned interface {
	// Runtime is the expected run time in all of a workload that states none and has done
	// some of it; prior is the policy's.
	Runtime(w *Workload, prior, done time.Duration) time.Duration
	// Quantiles are run times in all that a workload which has done some of it does not exceed with a
	// probability, in rising order; nil where too little is known. Not to be modified.
	Quantiles(w *Workload, done time.Duration) []workload.RunTimeQuantile
	// Startup is how long its pods take from a node until their containers run (grid time).
	Startup(w *Workload) time.Duration
	// Observed is its throughput by workers, relative to that declared for its least scale.
	Observed(w *Workload) []v1alpha1.ObservedPoint
	// MostWorkers is the scale beyond which more were denied; 0 where none was.
	MostWorkers(w *Workload) int
	// PodlessSince records at each observation whether a released workload has no pod. It returns the time (wall time) of the first
	// observation without one; zero if it has one.
	PodlessSince(w *Workload, podless bool, now time.Time) time.Time
}

// View is a snapshot with the objects behind it.
type View struct {
	Snapshot decide.Snapshot
	// Workloads[i] and Progress[i] are those of Snapshot.Tasks[i].
	Workloads []*Workload
	Progress  []Progress
	// Invalid are workloads whose annotations cannot be read, with the error.
	Invalid []Invalid
	// Excluded are held ones that the policy may not govern.
	Excluded []Excluded
	// Finished are those that have ended.
	Finished []*Workload
	// Stale carry marks of Lull though it does not hold them.
	Stale []*Workload
	// GatesHonoured and GatesIgnored count gated ones that Kueue keeps out of its queue, and
	// those that it goes on with.
	GatesHonoured, GatesIgnored int
	// DeniedAt is when (wall time) the next pod without a node will count as denied; zero where none
	// lacks one.
	DeniedAt time.Time
	// beside is what other pods of the namespace, for which no Use counts, take of its quota.
	beside map[string]float64
	// Namespace is that of the policy, NotCounted that of its Input.
	Namespace  string
	NotCounted error
	// Counts for the status of the policy.
	Waiting, Running int
}

// Progress is how far a workload is.
type Progress struct {
	// Share of the work that is done, 0 to 1, and Source where that is known from.
	Share  float64
	Source string
	// Done is that share as run time at the least number of workers.
	Done, Runtime time.Duration
	// Ran is the work done by the time that it has run, whatever it says of itself.
	Ran time.Duration
	// quantiles are whole run times.
	quantiles []workload.RunTimeQuantile
	// Running and Pending are its pods, Denied those of them that no node has had room for through
	// the policy's patience.
	Running, Pending, Denied int
	// Idle says that it has no pods, by those seen and by what its object tells: none were made, or a
	// ResourceQuota refuses them.
	Idle bool
	// Wanted is how many workers should run.
	Wanted int
	// Started are those of its running pods whose containers have all started; Startup is the longest time of one from its node until
	// then (wall time): images are pulled in it. The wait for a node is not part of it.
	Started int
	Startup time.Duration
	// Since is when the present run at the present scale began (grid time); zero where it
	// does not run.
	Since time.Time
	// Speed is by how much it runs faster at its least scale than its run time says, as
	// observed.
	Speed float64
	// StatedStart is the latest safe start (wall time, RFC 3339) by its annotations, its policy and Longest alone.
	StatedStart string
	// Watts at the present scale by the power model, PUE included.
	Watts float64
	// Drawn is the power of what runs, PUE included, as far as it is measured, and
	// DrawnFrom who measures it (kepler, dcgm), joined by "+" with model where only a part
	// of it is. Without a source nothing is measured. Modelled is the part of Drawn that is the model's, in W.
	Drawn, Modelled float64
	DrawnFrom       string
	// Note is what to say beside the reason of a decision; empty for nothing.
	Note string
}

// note adds to what is said beside the reason of a decision; "" adds nothing.
func (p *Progress) note(text string) {
	if text != "" {
		p.Note = strings.TrimPrefix(p.Note+"; "+text, "; ")
	}
}

// Message says the reason of a decision on the workload in words, with what else is to be said of it.
func (p *Progress) Message(r decide.Reason) string {
	if p.Note == "" {
		return r.Message()
	}
	return r.Message() + "; " + p.Note
}

// Invalid is a workload that cannot be governed.
type Invalid struct {
	Workload *Workload
	Err      error
}

// Excluded is a workload that a policy may not govern.
type Excluded struct {
	Workload *Workload
	Why      string
}
