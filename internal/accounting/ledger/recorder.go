package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

// Recorder observes policies and queues what has changed, for Write. What it keeps in memory spares writes:
// after a restart it observes anew, and the ledger leaves out what it has. It is safe for concurrent use.
type Recorder struct {
	ledger *Ledger

	writing sync.Mutex // of Write

	mu        sync.Mutex
	loaded    bool
	since     time.Time // of which older entries were dropped; zero where none were
	opened    time.Time // when the first entry that there is was written; zero in an empty ledger
	workloads map[types.UID]*observed
	runs      map[types.UID]types.UID // the workload of a run that has not ended
	// gone are pods that were deleted since the last look.
	gone     map[types.UID]goneRun
	forecast map[string]string   // by zone: the key of the last
	capacity map[string]Capacity // by policy and cluster: the last
	// hours are the intensities that are written or queued, by zone and the second they begin; wanted those
	// that are to be read of the ledger first.
	hours  map[string]map[int64]hour
	wanted map[string][]int64
	// earlier is what is known of the values from before an outlook's series, by zone.
	earlier map[string]*earlier
	over    map[types.UID]string // the policies of finished workloads that are in the ledger and still in the cluster
	lengths []RunLength          // that the ledger had at the start
	queue   []queued
	bytes   int // of the queue
	health  Health
	// wake has room for one.
	wake chan struct{}
}

// observed is a workload that is not over.
type observed struct {
	policy   string
	decision string             // the last, shortly
	runs     map[types.UID]*run // those that were noted
	runtime  time.Duration      // expected at first
	// remote is the present run where pods cannot be seen, remoteAs what it is like.
	remote, remoteAs string
	energy           Energy // of the present hour
	// evicted says that Kueue has taken its quota away, other than by Lull's will: pods that end now are evicted.
	evicted bool
}

// run is one that was noted.
type run struct {
	from  time.Time // grid time
	ended bool
	// missed is when (wall time) its pod was first not there any more, without a word of its end.
	missed time.Time
}

type goneRun struct {
	pod *corev1.Pod
	at  time.Time // wall time
}

// NewRecorder returns one that goes on where the ledger ends, from its first look on.
func NewRecorder(l *Ledger) *Recorder {
	return &Recorder{
		ledger: l, workloads: map[types.UID]*observed{}, runs: map[types.UID]types.UID{}, gone: map[types.UID]goneRun{},
		forecast: map[string]string{}, capacity: map[string]Capacity{}, hours: map[string]map[int64]hour{}, wanted: map[string][]int64{}, earlier: map[string]*earlier{},
		over: map[types.UID]string{}, wake: make(chan struct{}, 1),
	}
}

// PodGone is told of pods that are deleted, with their last state.
func (r *Recorder) PodGone(pod *corev1.Pod, at time.Time) {
	if _, _, ran := kube.Ran(pod); !ran {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gone) < mostGone || r.runs[pod.UID] != "" {
		r.gone[pod.UID] = goneRun{pod, at}
	} else {
		r.health.LostPods++
	}
}

// Look is a look of a policy at its workloads.
type Look struct {
	kube.Context
	// All are its workloads, finished ones too; View what was decided on.
	All      []*kube.Workload
	View     *kube.View
	Decision *decide.Decision
	// Due says why a task's plan was made anew, Applied which actions were written, Phases what is
	// planned of a workload.
	Due     map[int]v1alpha1.PlanTrigger
	Applied []bool
	Phases  func(*kube.Workload) []decide.Phase
	// Ran is the family of a finished workload and how long it ran in one go; 0 where that is not known. It may be nil.
	Ran func(*kube.Workload) (family string, length time.Duration)
	// Pods are those seen, by workload.
	Pods map[types.UID][]*corev1.Pod
	// Zones are the outlooks of the GridZones by name.
	Zones map[string]carbon.Outlook
	// Beside are the GridZones by whose intensities emissions are stated too, by zone.
	Beside map[string]string
}

// Record queues what a look has found. It does not wait for the database. While the queue is full, and
// before Write has read the ledger, it keeps nothing: later looks observe anew.
func (r *Recorder) Record(k *Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	forecasts, ok := r.observe(k.site())
	if !ok {
		return
	}
	s, policy := &k.View.Snapshot, policyName(k.Policy)
	current := map[types.UID]bool{}
	for _, w := range k.View.Workloads {
		if o := r.workloads[w.UID()]; o != nil {
			o.evicted = w.Queued != nil && w.Queued.Evicted && !kube.Parked(w.Queued)
		}
	}
	r.takeGone(k)
	for i, w := range k.View.Workloads {
		o := r.submitted(k, w, &s.Tasks[i], k.View.Progress[i].Runtime)
		r.decided(k, i, o, forecasts)
		r.ran(k, w, o)
		if len(k.Policy.Spec.Clusters) > 0 {
			r.ranElsewhere(k, w, &s.Tasks[i], o)
		} else {
			r.missed(k, w, o)
		}
		r.measured(k, i, o)
	}
	for _, w := range k.All {
		uid := w.UID()
		current[uid] = true
		if !w.Facts.Finished || r.over[uid] != "" {
			continue
		}
		if r.workloads[uid] == nil && !w.Facts.Ended.IsZero() && w.Facts.Ended.Before(r.since) {
			r.over[uid] = policy // it was dropped
			continue
		}
		// One that came and went unseen is in the ledger too.
		o := r.submitted(k, w, nil, 0)
		r.ran(k, w, o)
		if r.finished(k, w, o) {
			r.over[uid] = policy
			delete(r.workloads, uid)
		}
	}
	maps.DeleteFunc(r.over, func(uid types.UID, of string) bool { return of == policy && !current[uid] })
	for uid, o := range r.workloads {
		if o.policy == policy && !current[uid] {
			r.vanished(k, uid, o)
		}
	}
}

// observe notes what a look has of zones and clusters, and returns the keys of the forecasts. It returns false if the look cannot be
// recorded.
func (r *Recorder) observe(k *site) (forecasts []string, ok bool) {
	if !r.loaded || r.bytes >= mostQueued {
		r.health.LostLooks++
		r.signal()
		return nil, false
	}
	r.intensities(k)
	r.capacities(k)
	return r.forecasts(k), true
}

func policyName(p *v1alpha1.CarbonPolicy) string { return p.Namespace + "/" + p.Name }

// submitted notes a workload that is seen for the first time; t is nil for one that is over.
func (r *Recorder) submitted(k *Look, w *kube.Workload, t *decide.Task, runtime time.Duration) *observed {
	if o := r.workloads[w.UID()]; o != nil {
		return o
	}
	o := &observed{policy: policyName(k.Policy), runs: map[types.UID]*run{}}
	r.workloads[w.UID()] = o
	ref := w.Reference()
	at := k.Timeline.ToGrid(w.Created()).UTC()
	size := w.SizeAsSubmitted()
	b := Submitted{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: w.Namespace(), Name: w.Name(), Labels: w.Objects[0].GetLabels(),
		Policy: o.policy, At: at, Workers: size.Workers, Others: size.Others, Request: size.Request, Watts: k.watts("", size.Request), Resumable: w.Resumable(),
		Parts: w.Facts.Of > 1 && !w.Facts.Tandem && len(k.Policy.Spec.Clusters) == 0, Runtime: runtime.Seconds(), Deadline: kube.DeadlineOf(w, k.Policy, k.Timeline).UTC(), Zone: k.Policy.Spec.Zone, Clusters: k.Policy.Spec.Clusters,
	}
	b.HeldOut, b.Shadow = kube.HeldOut(w, &k.Policy.Spec), k.Policy.Spec.Mode == v1alpha1.ModeShadow
	if t != nil {
		if !b.HeldOut {
			b.Deadline = t.Deadline.UTC()
		}
		if t.Scaling != nil {
			b.MinWorkers, b.Curve = t.Scaling.MinWorkers, t.Scaling.Curve
		}
	}
	r.add(KindSubmitted, "submitted/"+string(w.UID()), w.UID(), b)
	return o
}

// watts is the power of a request on a cluster, PUE included.
func (k *Look) watts(cluster string, request map[string]float64) float64 {
	return float64(k.place(cluster).Power.Of(request))
}

// place is a cluster of the snapshot; the first where there is none of that name.
func (k *Look) place(cluster string) *decide.Cluster {
	s := &k.View.Snapshot
	for i := range s.Clusters {
		if s.Clusters[i].Name == cluster {
			return &s.Clusters[i]
		}
	}
	return &s.Clusters[0]
}

// decided notes a decision that differs from the last one.
func (r *Recorder) decided(k *Look, i int, o *observed, forecasts []string) {
	if i >= len(k.Decision.Actions) {
		return
	}
	a, t := &k.Decision.Actions[i], &k.View.Snapshot.Tasks[i]
	w := k.View.Workloads[i]
	applied := i < len(k.Applied) && k.Applied[i]
	trigger := k.Due[i]
	mode := cmp.Or(k.Policy.Spec.Mode, v1alpha1.ModeEnforce)
	short := fmt.Sprint(a.Verb, a.Reason.Code, a.Workers, a.Cluster, mode)
	if short == o.decision && !applied && (trigger.Reason == "" || !a.Planned) {
		return
	}
	o.decision = short
	now := k.Timeline.ToGrid(k.Now).UTC()
	b := Decided{
		At: now, Verb: string(a.Verb), Reason: string(a.Reason.Code), Message: k.View.Progress[i].Message(a.Reason), Workers: a.Workers, Cluster: a.Cluster,
		Trigger: trigger.Reason, Forecasts: forecasts, Applied: applied, Mode: mode,
	}
	if a.Verb == decide.Pause {
		b.LostSeconds = t.AtRisk.Seconds()
	}
	for _, ph := range k.Phases(w) {
		b.Phases = append(b.Phases, Phase{From: ph.From.UTC(), To: ph.To.UTC(), Cluster: ph.Cluster, Workers: ph.Workers, Intensity: float64(ph.Intensity)})
	}
	r.add(KindDecided, fmt.Sprintf("decided/%s/%d", w.UID(), now.UnixNano()), w.UID(), b)
}

// measured counts measured energy, an entry an hour.
func (r *Recorder) measured(k *Look, i int, o *observed) {
	p, now := &k.View.Progress[i], k.Timeline.ToGrid(k.Now).UTC()
	w := k.View.Workloads[i]
	e := &o.energy
	switch {
	case p.DrawnFrom == "" || e.Source != "" && e.Source != p.DrawnFrom:
		r.writeEnergy(w.UID(), o)
		if p.DrawnFrom == "" {
			return
		}
		fallthrough
	case e.Source == "":
		*e = Energy{From: now, To: now, Zone: k.place(k.View.Snapshot.Tasks[i].Cluster).Zone, Source: p.DrawnFrom}
		return
	}
	hours := now.Sub(e.To).Hours()
	e.KWh += p.Drawn / 1000 * hours
	e.ModelKWh += p.Modelled / 1000 * hours
	e.To = now
	if !now.Truncate(time.Hour).Equal(e.From.Truncate(time.Hour)) {
		r.writeEnergy(w.UID(), o)
		*e = Energy{From: now, To: now, Zone: e.Zone, Source: p.DrawnFrom}
	}
}

func (r *Recorder) writeEnergy(uid types.UID, o *observed) {
	if e := o.energy; e.To.After(e.From) {
		r.add(KindEnergy, fmt.Sprintf("energy/%s/%d", uid, e.From.UnixNano()), uid, e)
	}
	o.energy = Energy{}
}
