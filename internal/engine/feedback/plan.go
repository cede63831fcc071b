package feedback

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// Keep keeps the plans that a decision has made, with what each rests on. due is what Prepare has
// returned; Keep adds why the decision made plans anew that stood. Keep returns when to decide again at the latest.
func (m *Memory) Keep(view *kube.View, d *decide.Decision, due map[int]v1alpha1.PlanTrigger) time.Time {
	s := &view.Snapshot
	return m.round.Keep(d, func(i int, made track.Trigger) {
		t, a, p := &s.Tasks[i], &d.Actions[i], &view.Progress[i]
		r := m.record(view.Workloads[i])
		trigger, planned := due[i]
		if !planned {
			trigger = stated(made, s.Now)
			if due != nil {
				due[i] = trigger
			}
		}
		r.trigger, r.bound = trigger, d.Gap
		r.plans++
		r.loaded = false
		r.expectedG = float64(a.Reason.ExpectedG)
		grams, kwh, known := r.ahead(t, p, s)
		atOnce := float64(a.Reason.ImmediateG)
		if atOnce == 0 {
			atOnce = grams // it runs as submitted
		}
		if r.baselineG == 0 && (known || a.Reason.ImmediateG > 0) {
			r.baselineG = r.emittedG + atOnce
		}
		if r.baselineG > 0 && r.baselineKWh == 0 {
			r.baselineKWh = r.energyKWh + kwh
		}
	})
}

// Applied notes that an action has been carried out.
func (m *Memory) Applied(w *kube.Workload, a *decide.Action) {
	switch a.Verb {
	case decide.Release, decide.Resume:
		m.record(w).starting = true
	}
}

// Status is the plan of task i as it is to be shown.
func (m *Memory) Status(view *kube.View, i int, a *decide.Action) v1alpha1.CarbonPlanStatus {
	s := &view.Snapshot
	t, p, w := &s.Tasks[i], &view.Progress[i], view.Workloads[i]
	r := m.record(w)
	out := v1alpha1.CarbonPlanStatus{
		State: v1alpha1.PlanRunning, Reason: string(a.Reason.Code), Message: p.Message(a.Reason),
		Cluster: t.Cluster, Workers: int32(workersOf(t, w)),
		Deadline: timeOf(t.Deadline), LatestStart: timeOf(a.Reason.LatestStart),
		EmittedG: sig(r.emittedG), EnergyKWh: sig(r.energyKWh), EnergySource: r.energyFrom,
		MeasuredKWh: sig(r.measuredKWh), UnpricedKWh: sig(r.unpricedKWh),
		CountedAt: timeOf(r.counted), Bound: r.bound,
		Progress: math.Round(p.Share*1000) / 1000, ProgressSource: p.Source,
		Starts: r.starts, Startup: metav1.Duration{Duration: r.startup.Round(time.Second)}, Observed: r.observed, Plans: r.plans,
	}
	if last := w.Record(); last.Verb != "" && last.Reason == a.Reason.Code {
		out.Message = last.Message // the one that was told, with what the plan was expected to save
	}
	switch {
	case t.State == decide.Waiting && t.Paused:
		out.State = v1alpha1.PlanPaused
	case t.State == decide.Waiting:
		out.State = v1alpha1.PlanWaiting
	}
	if out.State != v1alpha1.PlanRunning {
		out.Workers = 0
	}
	if r.trigger.Reason != "" {
		trigger := r.trigger
		out.Trigger = &trigger
	}
	if standing := r.track.Standing(); standing != nil {
		for _, ph := range standing.Phases {
			if ph.To.After(s.Now) {
				out.Phases = append(out.Phases, v1alpha1.PlanPhase{
					From: metav1.NewTime(ph.From.UTC()), To: metav1.NewTime(ph.To.UTC().Truncate(time.Second)),
					Cluster: ph.Cluster, Workers: int32(ph.Workers), Intensity: math.Round(float64(ph.Intensity)*10) / 10,
				})
			}
		}
	}
	r.whole = t.Kind == workload.Rigid || t.Kind == workload.Interruptible && r.starts <= 1
	grams, kwh, known := r.ahead(t, p, s)
	if known {
		expected := sig(r.emittedG + grams)
		out.ExpectedG = &expected
	}
	out.BaselineG = sig(r.baseline(r.energyKWh + kwh))
	withhold(&out)
	out.Shown = shown(&out, s.Now)
	return out
}

// withhold takes emissions out of a status that rests on hours without an intensity.
func withhold(s *v1alpha1.CarbonPlanStatus) {
	if s.UnpricedKWh > 0 {
		s.EmittedG, s.ExpectedG, s.BaselineG = 0, nil, 0
	}
}

// workersOf is the number of workers that run or are about to.
func workersOf(t *decide.Task, w *kube.Workload) int {
	if t.Scaling != nil {
		return t.Workers
	}
	return w.Workers()
}

// baseline is what the work would have emitted as submitted, if it takes the given energy in all: work that is
// longer than was expected would have been so at once as well.
func (r *Record) baseline(kwh float64) float64 {
	if !r.whole || r.baselineKWh == 0 {
		return r.baselineG
	}
	return r.baselineG * kwh / r.baselineKWh
}

// ahead is what the rest of the plan emits, and the energy that takes. The emissions are not known if work remains for
// which there is no plan, or no carbon intensity.
func (r *Record) ahead(t *decide.Task, p *kube.Progress, s *decide.Snapshot) (grams, kwh float64, known bool) {
	standing := r.track.Standing()
	if standing == nil {
		return 0, 0, t.Remaining <= 0
	}
	planned, priced := t.Remaining <= 0, true
	for _, ph := range standing.Phases {
		from := ph.From
		if from.Before(s.Now) {
			from = s.Now
		}
		if !ph.To.After(from) {
			continue
		}
		intensity, known := intensityOf(&ph, from, s.Place(ph.Cluster).Carbon)
		planned, priced = true, priced && known
		watts, model := p.Watts, s.Place(ph.Cluster).Power
		if ph.Cluster != t.Cluster && t.Scaling == nil {
			watts = float64(model.Of(t.Request))
		}
		if t.Scaling != nil {
			n := min(max(ph.Workers, t.Scaling.MinWorkers), t.Scaling.MaxWorkers)
			if t.Scaling.Watts != nil {
				watts = math.Max(1, model.PUE) * t.Scaling.Watts[n-t.Scaling.MinWorkers]
			} else {
				watts = float64(n) * float64(model.Of(t.Request))
			}
		}
		energy := watts / 1000 * ph.To.Sub(from).Hours()
		kwh += energy
		grams += energy * float64(intensity)
	}
	return grams, kwh, planned && priced
}

// intensityOf is the intensity of a phase from a time on, and whether it is known. A phase that was planned without data has intensity 0, as one
// with clean power: what the series says by now counts.
func intensityOf(ph *decide.Phase, from time.Time, zone *carbon.Series) (units.CarbonIntensity, bool) {
	if zone == nil || ph.Intensity > 0 {
		return ph.Intensity, zone != nil
	}
	mean, covered := zone.Mean(from, ph.To)
	return mean, covered > 0
}

// shown puts figures into words.
func shown(p *v1alpha1.CarbonPlanStatus, now time.Time) v1alpha1.PlanShown {
	out := v1alpha1.PlanShown{Progress: percent(p.Progress)}
	if p.UnpricedKWh > 0 {
		out.Saves = "withheld"
	} else if p.BaselineG > 0 && p.ExpectedG != nil {
		out.Saves = percent(1 - *p.ExpectedG/p.BaselineG)
	}
	if p.Bound != nil {
		out.Bound = fmt.Sprintf("within %.1f%%", 100**p.Bound)
	}
	for i, ph := range p.Phases {
		from := ph.From.Time
		if from.After(now) {
			out.Next = from.UTC().Format("2006-01-02 15:04") + fmt.Sprintf(" x%d", ph.Workers)
			break
		}
		if to := ph.To.Time; i+1 < len(p.Phases) && p.Phases[i+1].From.After(to) || i+1 == len(p.Phases) {
			out.Next = to.UTC().Format("2006-01-02 15:04") + " x0"
			if i+1 == len(p.Phases) {
				out.Next = to.UTC().Format("2006-01-02 15:04") + " done"
			}
			break
		}
	}
	return out
}

func percent(share float64) string { return units.Number("%.0f%%", 100*share) }

// sig keeps four significant digits.
func sig(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func timeOf(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	t := metav1.NewTime(at.UTC().Truncate(time.Second))
	return &t
}

// rewrite is the least time between two writes of a plan that only tell of progress.
const rewrite = 30 * time.Second

// Settled reports whether the plan of a task that does not run is stated as it is: nothing of
// it changes while it waits.
func (m *Memory) Settled(view *kube.View, i int, a *decide.Action) bool {
	t, last := &view.Snapshot.Tasks[i], &m.record(view.Workloads[i]).status
	return t.State == decide.Waiting && (last.State == v1alpha1.PlanWaiting || last.State == v1alpha1.PlanPaused) && t.Paused == (last.State == v1alpha1.PlanPaused) &&
		last.Reason == string(a.Reason.Code) && last.Plans == m.record(view.Workloads[i]).plans && last.Deadline.Equal(timeOf(t.Deadline))
}

// Urgent reports whether the status differs from the one last written by more than figures.
func (m *Memory) Urgent(w *kube.Workload, next *v1alpha1.CarbonPlanStatus) bool {
	last := &m.record(w).status
	return last.State != next.State || last.Reason != next.Reason || last.Workers != next.Workers || last.Plans != next.Plans ||
		(last.ExpectedG == nil) != (next.ExpectedG == nil) ||
		!samePhases(last.Phases, next.Phases) || !last.Deadline.Equal(next.Deadline)
}

// ToWrite reports whether the status differs from the one last written by enough to write
// it: in what is planned or decided at once, in figures after a while.
func (m *Memory) ToWrite(w *kube.Workload, next *v1alpha1.CarbonPlanStatus, now time.Time) bool {
	r := m.record(w)
	last := &r.status
	switch {
	case m.Urgent(w, next):
		return true
	case now.Sub(r.wrote) < rewrite:
		return false
	}
	const step = 0.01
	return math.Abs(last.Progress-next.Progress) >= step || math.Abs(last.EmittedG-next.EmittedG) > step*math.Max(last.EmittedG, 1)
}

// Wrote notes what is being written.
func (m *Memory) Wrote(w *kube.Workload, status *v1alpha1.CarbonPlanStatus, now time.Time) {
	r := m.record(w)
	r.status, r.wrote = *status.DeepCopy(), now
}

// Written is the status as last written; without a state where none was.
func (m *Memory) Written(w *kube.Workload) v1alpha1.CarbonPlanStatus { return m.record(w).status }

// samePhases compares what is still ahead: a phase that has passed is no difference.
func samePhases(old, next []v1alpha1.PlanPhase) bool {
	if len(next) > len(old) {
		return false
	}
	old = old[len(old)-len(next):]
	for i := range next {
		if !next[i].From.Equal(&old[i].From) || !next[i].To.Equal(&old[i].To) || next[i].Workers != old[i].Workers || next[i].Cluster != old[i].Cluster {
			return false
		}
	}
	return true
}

// FinishedStatus is the last status of a workload that has ended; false where there is
// nothing to tell any more.
func (m *Memory) FinishedStatus(w *kube.Workload) (v1alpha1.CarbonPlanStatus, bool) {
	r := m.records[w.UID()]
	if r == nil || r.status.State == v1alpha1.PlanFinished || r.status.State == "" {
		return v1alpha1.CarbonPlanStatus{}, false
	}
	out := *r.status.DeepCopy()
	out.State, out.Reason, out.Message = v1alpha1.PlanFinished, "Finished", "has ended"
	out.Phases, out.Workers, out.Progress = nil, 0, 1
	out.EmittedG, out.EnergyKWh, out.MeasuredKWh = sig(r.emittedG), sig(r.energyKWh), sig(r.measuredKWh)
	if out.ExpectedG = nil; out.EnergyKWh > 0 { // else nothing of its work was counted: that is no saving
		emitted := out.EmittedG
		out.ExpectedG = &emitted
	}
	out.BaselineG, out.UnpricedKWh = sig(r.baseline(r.energyKWh)), sig(r.unpricedKWh)
	out.CountedAt = timeOf(r.counted)
	withhold(&out)
	out.Shown = shown(&out, time.Time{})
	return out, true
}
