// Package feedback closes the loop between plans and what becomes of them: it keeps the
// plan of each workload, notices what calls for another one, and learns from what is
// observed how fast workloads run, how they scale and how long they take to start.
//
// It keeps in memory what CarbonPlans keep in the API: after a restart each record is read
// from the plan of its workload; what was never written is learned anew.
package feedback

import (
	"maps"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/track"
)

// ControllerStarted is the reason for which a controller that has just started plans a workload anew
// that an earlier one has planned. The other reasons are those of package track.
const ControllerStarted = "ControllerStarted"

// Record is what is remembered of a workload.
type Record struct {
	// track is its plan, and what the plan expects of it.
	track track.Record

	trigger   v1alpha1.PlanTrigger
	plans     int32
	expectedG float64 // of the plan alone, when it was made
	baselineG float64 // of the work as submitted, if it takes baselineKWh
	// baselineKWh is what the work was expected to take when baselineG was worked out; 0 where that is not known.
	baselineKWh float64
	// whole says that its energy is that of its work: none of it was done twice, nor at another scale.
	whole bool
	bound *float64

	// emittedG leaves out unpricedKWh, the energy of hours without an intensity, known or
	// filled: where there is any, no emissions are stated.
	emittedG, energyKWh, measuredKWh, unpricedKWh float64
	counted                                       time.Time
	energyFrom                                    string
	// drawing is what it drew when it was counted last, in W, and place the cluster; 0 where it did not run.
	drawing float64
	place   string
	// meteredShare is the share of drawing that is measured, 0 to 1.
	meteredShare float64

	observed []v1alpha1.ObservedPoint
	// rates are those of all scales that were measured, as expected or not; shape is what
	// the last measurement says of the profile.
	rates map[int]float64
	shape *Shape

	starts   int32
	startup  time.Duration
	starting bool // whether a start is under way that has not been measured

	family string
	// loaded says that an earlier controller has planned it, and this one has not yet.
	loaded bool
	// unknown are its unknown annotations as an Event last named them.
	unknown string
	status  v1alpha1.CarbonPlanStatus // as last handed over to be written
	wrote   time.Time                 // wall time
}

// Memory is that of one policy. It is not safe for concurrent use.
type Memory struct {
	records  map[types.UID]*Record
	families map[string]*family
	uses     uint64 // counts the uses of families
	finished map[types.UID]bool
	// remembered are the workloads of whose run times an earlier controller has told; nil before it is asked.
	remembered map[types.UID]bool
	outlooks   track.Outlooks
	round      track.Round // the decision under way
	learner    *reserve.Learner
	used       Used

	// capacity names what the plans may use, as it was last.
	capacity string

	// podless is since when (wall time) released workloads have had no pod.
	podless map[types.UID]time.Time
	// profiles are the ScalingProfiles as they were last seen: see Profiles.
	profiles map[string]seenProfile

	// Turn is the workload whose figures are to be stated first next time.
	Turn int
	// GatesIgnored says that Kueue went on with what was gated, and has not honoured a gate since. It
	// is seen once, as what is held another way is gated no more, and is stated by every look: a
	// status that is written from an older one would lose it.
	GatesIgnored bool
}

// Used is energy by where it is known from, and the emissions of the part that has a
// carbon intensity, known or filled by carbon.FillRule.
type Used struct {
	EnergyKWh map[string]float64
	EmittedG  float64
}

// Used returns what the workloads have used since it was last asked.
func (m *Memory) Used() Used {
	out := m.used
	m.used = Used{EnergyKWh: map[string]float64{}}
	return out
}

// New returns an empty memory.
func New() *Memory {
	return &Memory{records: map[types.UID]*Record{}, families: map[string]*family{}, finished: map[types.UID]bool{}, podless: map[types.UID]time.Time{}, used: Used{EnergyKWh: map[string]float64{}}}
}

func (m *Memory) record(w *kube.Workload) *Record {
	r := m.records[w.UID()]
	if r == nil {
		r = &Record{family: Family(w)}
		m.records[w.UID()] = r
	}
	return r
}

// Load takes up the plan that an earlier controller wrote; nothing where the workload is
// known already, or has ended and its plan says so.
func (m *Memory) Load(w *kube.Workload, p *v1alpha1.CarbonPlan) {
	uid := w.UID()
	if m.records[uid] != nil || p.Spec.Workload.UID != uid || w.Facts.Finished && p.Status.State == v1alpha1.PlanFinished {
		return
	}
	s := &p.Status
	r := &Record{
		loaded: true, family: Family(w), plans: s.Plans, baselineG: s.BaselineG, emittedG: s.EmittedG, energyKWh: s.EnergyKWh,
		measuredKWh: s.MeasuredKWh, unpricedKWh: s.UnpricedKWh, energyFrom: s.EnergySource,
		starts: s.Starts, startup: s.Startup.Duration, observed: s.Observed, status: *s.DeepCopy(),
	}
	for _, figure := range []*float64{&r.baselineG, &r.emittedG, &r.energyKWh, &r.measuredKWh, &r.unpricedKWh} {
		if !(*figure >= 0 && *figure <= mostFigure) {
			*figure = 0 // of a version that had no limits on what they are made of
		}
	}
	if s.CountedAt != nil {
		r.counted = s.CountedAt.Time
	}
	if s.Trigger != nil {
		r.trigger = *s.Trigger
	}
	m.records[uid] = r
}

// mostFigure bounds the energy and emissions of a workload that are taken from its plan, in kWh and g: what
// is beyond would spoil every sum.
const mostFigure = 1e14

// Known reports whether there is a record of the workload.
func (m *Memory) Known(uid types.UID) bool { return m.records[uid] != nil }

// SawEnd reports whether the workload had already ended when it was observed before.
func (m *Memory) SawEnd(uid types.UID) bool { return m.finished[uid] }

// priorRuns is how many runs the stated prior of the run time counts for.
const priorRuns = 3

// Runtime implements kube.Learned: the mean of the run times of the family above what is
// done already, the policy's default counting as priorRuns runs of its own length.
func (m *Memory) Runtime(w *kube.Workload, prior, done time.Duration) time.Duration {
	mean, n := m.family(m.familyOf(w)).lengths.Above(done)
	if n == 0 && prior > done {
		return prior
	}
	sum, count := float64(mean)*float64(n), float64(n)
	if prior > done {
		sum, count = sum+priorRuns*float64(prior), count+priorRuns
	}
	if count == 0 {
		// It has run for longer than anything known: as long again as half of that.
		return done + done/2
	}
	return steady(time.Duration(sum / count))
}

// step is the relative distance of the run times that Runtime gives: what little each further
// run teaches must not move the plans of all the others.
const step = 1.05

// steady rounds to a power of step.
func steady(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	n := math.Round(math.Log(d.Seconds()) / math.Log(step))
	return time.Duration(math.Pow(step, n) * float64(time.Second)).Round(time.Second)
}

// Startup implements kube.Learned: that of the workload, else that of its family.
func (m *Memory) Startup(w *kube.Workload) time.Duration {
	if r := m.records[w.UID()]; r != nil && r.startup > 0 {
		return r.startup
	}
	return m.family(m.familyOf(w)).startup
}

// PodlessSince implements kube.Learned.
func (m *Memory) PodlessSince(w *kube.Workload, podless bool, now time.Time) time.Time {
	since, known := m.podless[w.UID()]
	switch {
	case !podless:
		delete(m.podless, w.UID())
		return time.Time{}
	case !known:
		since = now
		m.podless[w.UID()] = now
	}
	return since
}

// familyOf is the family of a workload, which is worked out once.
func (m *Memory) familyOf(w *kube.Workload) string {
	if r := m.records[w.UID()]; r != nil {
		return r.family
	}
	return Family(w)
}

// Observed implements kube.Learned.
func (m *Memory) Observed(w *kube.Workload) []v1alpha1.ObservedPoint {
	if r := m.records[w.UID()]; r != nil {
		return r.observed
	}
	return nil
}

// MostWorkers implements kube.Learned.
func (m *Memory) MostWorkers(w *kube.Workload) int {
	if r := m.records[w.UID()]; r != nil {
		return r.track.MostWorkers()
	}
	return 0
}

// Ended counts the energy of workloads that have finished up to their ends, and learns from them, each once.
func (m *Memory) Ended(view *kube.View, c kube.Context) {
	still := make(map[types.UID]bool, len(view.Finished))
	for _, w := range view.Finished {
		still[w.UID()] = true
		if m.finished[w.UID()] {
			continue
		}
		m.finished[w.UID()] = true
		if r := m.records[w.UID()]; r != nil && !w.Facts.Ended.IsZero() {
			m.countEnd(r, c.Timeline.ToGrid(w.Facts.Ended), &view.Snapshot)
		}
		if family, length := Ran(w, c); length > 0 && !m.remembered[w.UID()] {
			m.learn(family, length)
		}
	}
	for uid := range m.finished {
		if !still[uid] {
			delete(m.finished, uid)
		}
	}
}

// learn takes a run time (grid time) into those of a family.
func (m *Memory) learn(of string, length time.Duration) {
	f := m.family(of)
	f.lengths.Add(length)
	f.lengths.Merge()
	f.whole = nil
}

// Remembers reports whether it has the run times that earlier controllers recorded.
func (m *Memory) Remembers() bool { return m.remembered != nil }

// Remember learns run times that earlier controllers recorded, each once, though the workload may still be in the cluster.
func (m *Memory) Remember(list []ledger.RunLength) {
	m.remembered = make(map[types.UID]bool, len(list))
	for _, x := range list {
		if !m.finished[x.Workload] {
			m.learn(x.Family, x.Length)
		}
		m.remembered[x.Workload] = true
	}
}

// Ran is the family of a finished workload, and how long (grid time) it has run in one go; 0 where that is not known.
func Ran(w *kube.Workload, c kube.Context) (family string, length time.Duration) {
	_, elastic := w.Annotations()[v1alpha1.AnnotationMaxWorkers]
	ran, _ := time.ParseDuration(w.Annotations()[v1alpha1.AnnotationRan])
	if w.Facts.Started.IsZero() || w.Facts.Ended.IsZero() || w.Facts.Failed || elastic || ran > 0 {
		return "", 0 // not known, not all of its work, or not in one go at one scale
	}
	return Family(w), c.Timeline.GridDuration(w.Facts.Ended.Sub(w.Facts.Started))
}

// UnknownIsNew reports whether an Event must name the unknown annotations of a workload: once, until they change.
func (m *Memory) UnknownIsNew(w *kube.Workload, unknown string) bool {
	r := m.record(w)
	isNew := unknown != "" && unknown != r.unknown
	r.unknown = unknown
	return isNew
}

// Forget drops what is no task any more.
func (m *Memory) Forget(view *kube.View) {
	keep := make(map[types.UID]bool, len(view.Workloads))
	for _, w := range view.Workloads {
		keep[w.UID()] = true
	}
	for _, w := range view.Finished {
		keep[w.UID()] = true
	}
	for uid := range m.records {
		if !keep[uid] {
			delete(m.records, uid)
		}
	}
	maps.DeleteFunc(m.podless, func(uid types.UID, _ time.Time) bool { return !keep[uid] })
	m.forgetFamilies()
}

// Prepare gives each task of the view its standing plan, or none if the task is to be planned
// anew, and returns why for each of those. forecast names the outlook as it is now,
// threshold is the deviation that counts.
func (m *Memory) Prepare(view *kube.View, forecast string, threshold float64, c kube.Context) map[int]v1alpha1.PlanTrigger {
	s := &view.Snapshot
	round := &m.round
	round.Snapshot, round.Rules = s, track.Rules{Forecast: forecast, Threshold: threshold}
	round.Records, round.Seen = round.Records[:0], round.Seen[:0]
	for i := range s.Tasks {
		t, p := &s.Tasks[i], &view.Progress[i]
		r := m.record(view.Workloads[i])
		m.count(r, t, p, s)
		m.starting(r, t, p, c)
		round.Records, round.Seen = append(round.Records, &r.track), append(round.Seen, observed(p))
	}
	m.noteRunning(view)
	round.Prepare()
	due := map[int]v1alpha1.PlanTrigger{}
	for i := range round.Triggers {
		r := m.record(view.Workloads[i])
		trigger := stated(round.Triggers[i], s.Now)
		if rate, ok := r.track.Measured(); ok {
			r.measured(rate.Workers, rate.Value, s.Now)
			if trigger.Reason == string(track.ThroughputDeviates) {
				r.learn(rate.Workers, rate.Value, s.Now)
			}
		}
		if trigger.Reason == "" {
			continue
		}
		if trigger.Reason == string(track.Submitted) && r.loaded {
			trigger.Reason = ControllerStarted
		}
		due[i] = trigger
	}
	return due
}

// observed is what is seen of the progress of a workload.
func observed(p *kube.Progress) track.Observation {
	return track.Observation{
		Done: p.Done, Source: p.Source, Measured: p.Source != kube.FromModel,
		Running: p.Running, Wanted: p.Wanted, Denied: p.Denied, Since: p.Since, Speed: p.Speed,
	}
}

// stated is a trigger as a CarbonPlan states it.
func stated(t track.Trigger, now time.Time) v1alpha1.PlanTrigger {
	return v1alpha1.PlanTrigger{Reason: string(t.Reason), At: metav1.NewTime(now.UTC().Truncate(time.Second)), Message: t.Message}
}

// NewCapacity plans the tasks anew that replans names, if the capacity that they may use has changed.
func (m *Memory) NewCapacity(view *kube.View, due map[int]v1alpha1.PlanTrigger, revision string, replans func(*decide.Task) bool) {
	if m.capacity == revision {
		return
	}
	m.capacity = revision
	s := &view.Snapshot
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if m.round.Triggers[i].Reason != "" || !replans(t) {
			continue
		}
		trigger := track.Trigger{Reason: track.NewCapacity, Message: "the capacity of " + revision}
		m.round.Renew(i, trigger)
		due[i] = stated(trigger, s.Now)
	}
}

// Phases is what is planned of a workload; nil where nothing is.
func (m *Memory) Phases(w *kube.Workload) []decide.Phase {
	if standing := m.record(w).track.Standing(); standing != nil {
		return standing.Phases
	}
	return nil
}

// Forecast names the outlook of all clusters together (track.Outlooks).
func (m *Memory) Forecast(clusters []decide.Cluster, now time.Time, threshold float64) string {
	return m.outlooks.Name(clusters, now, threshold)
}

// starting measures how long pods take from a node until their containers run, once for each start.
func (m *Memory) starting(r *Record, t *decide.Task, p *kube.Progress, c kube.Context) {
	if t.State != decide.Running {
		r.starting = false
		return
	}
	if !r.starting || p.Started < max(1, p.Wanted) {
		return
	}
	took := c.Timeline.GridDuration(p.Startup)
	r.starting = false
	if took <= 0 {
		return
	}
	r.starts++
	r.startup = blend(r.startup, took)
	f := m.family(r.family)
	f.startup = blend(f.startup, took)
}

// recent is the weight of the newest of several measurements.
const recent = 0.3

func blend(old, latest time.Duration) time.Duration {
	if old == 0 {
		return latest
	}
	return time.Duration((1-recent)*float64(old) + recent*float64(latest))
}
