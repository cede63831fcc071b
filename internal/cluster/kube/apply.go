package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// Recorder writes Kubernetes events.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Applier carries decisions out. It is the only writer of workloads in Lull.
type Applier struct {
	Client   client.Client
	Recorder Recorder
	Events   Events // of each decision by default
}

// Events says which decisions on workloads are recorded as Events. The API server stores each Event as an object, for an hour by default. Warnings are
// always recorded.
type Events string

// The choices of Events.
const (
	AllEvents     Events = "All"      // each decision that changes what is planned for a workload, or what it does
	ChangeEvents  Events = "Changes"  // each change of what a workload does: none while it waits
	WarningEvents Events = "Warnings" // none of them
)

// ParseEvents reads the name of a choice. The error states what is accepted.
func ParseEvents(text string) (Events, error) {
	switch e := Events(text); e {
	case AllEvents, ChangeEvents, WarningEvents:
		return e, nil
	}
	return "", fmt.Errorf("%q; accepted: %s, %s, %s", text, AllEvents, ChangeEvents, WarningEvents)
}

// records reports whether an Event of some reason and type is recorded.
func (e Events) records(reason, eventType string) bool {
	switch {
	case eventType == corev1.EventTypeWarning:
		return true
	case e == ChangeEvents:
		return reason != string(decide.Wait) && reason != would+string(decide.Wait)
	}
	return e != WarningEvents
}

// would begins the reason of an Event in Shadow mode.
const would = "Would"

// Record is the last decision on a workload, as its annotation lull.dev/decision
// shows it. Times are those of the zone's series.
type Record struct {
	Verb         decide.Verb `json:"verb"`
	Reason       decide.Code `json:"reason"`
	Message      string      `json:"message"`
	Mode         string      `json:"mode,omitempty"`
	At           time.Time   `json:"at"`
	PlannedStart *time.Time  `json:"plannedStart,omitempty"`
	LatestStart  *time.Time  `json:"latestStart,omitempty"`
	// Workers of an elastic workload from now on, Cluster to which it goes.
	Workers int    `json:"workers,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Policy that governed a workload until somebody released it.
	Policy string `json:"policy,omitempty"`
	// Intensities in gCO2eq/kWh, emissions in gCO2eq.
	IntensityNow  float64 `json:"intensityNow,omitempty"`
	IntensityThen float64 `json:"intensityThen,omitempty"`
	// 10 % and 90 % quantiles of intensityThen.
	ThenLow        float64 `json:"intensityThenLow,omitempty"`
	ThenHigh       float64 `json:"intensityThenHigh,omitempty"`
	ExpectedG      float64 `json:"expectedG,omitempty"`
	ImmediateG     float64 `json:"immediateG,omitempty"`
	ExpectedSaving float64 `json:"expectedSaving,omitempty"`
	// 10 % and 90 % quantiles of expectedSaving over the cases that the forecast leaves open, how many there are, and in how many of them
	// the plan emits more than a start at once.
	SavingLow  float64 `json:"savingLow,omitempty"`
	SavingHigh float64 `json:"savingHigh,omitempty"`
	Cases      int     `json:"cases,omitempty"`
	CasesWorse int     `json:"casesWorse,omitempty"`
	Source     string  `json:"source,omitempty"`
	Basis      string  `json:"basis,omitempty"`
	Estimated  bool    `json:"estimated,omitempty"`
}

// Reasons of releases that follow from no plan.
const (
	// CodeInvalid: the annotations of the workload cannot be read.
	CodeInvalid decide.Code = "InvalidAnnotation"
	// CodeExcluded: the policy may not govern the workload.
	CodeExcluded decide.Code = "Excluded"
	// CodePolicyGone: the policy has been deleted.
	CodePolicyGone decide.Code = "PolicyGone"
	// CodeFailsafe: its latest safe start has come, and the controller has not released it.
	CodeFailsafe decide.Code = "Failsafe"
	// CodeReleased: an operator has released this workload.
	CodeReleased decide.Code = "Released"
	// CodeReleasedAll: an operator has released everything.
	CodeReleasedAll decide.Code = "ReleasedAll"
)

// newRecord is an action as it is told at a time of the grid.
func newRecord(a decide.Action, p *Progress, now time.Time) Record {
	r := a.Reason
	rec := Record{
		Verb: a.Verb, Reason: r.Code, Message: p.Message(r), At: now.UTC().Truncate(time.Second), Workers: a.Workers,
		IntensityNow: float64(r.IntensityNow), IntensityThen: float64(r.IntensityThen),
		ExpectedG: float64(r.ExpectedG), ImmediateG: float64(r.ImmediateG), ExpectedSaving: r.Saving(),
		ThenLow: round(r.ThenLow), ThenHigh: round(r.ThenHigh),
		SavingLow: round(r.Odds.Low), SavingHigh: round(r.Odds.High), Cases: r.Odds.Paths, CasesWorse: r.Odds.Worse,
		Source: r.Source, Basis: string(r.Basis), Estimated: r.Estimated,
	}
	if a.Workers > 0 && a.Verb != decide.Continue {
		rec.Message += fmt.Sprintf("; %d workers", a.Workers)
	}
	if !r.PlannedStart.IsZero() {
		t := r.PlannedStart.UTC()
		rec.PlannedStart = &t
	}
	if !r.LatestStart.IsZero() {
		t := r.LatestStart.UTC()
		rec.LatestStart = &t
	}
	return rec
}

// round keeps three decimals.
func round[T ~float64](v T) float64 { return math.Round(float64(v)*1000) / 1000 }

// ReadRecord returns the last decision on a workload; false when there is none.
func ReadRecord(annotations map[string]string) (Record, bool) {
	var r Record
	text, ok := annotations[v1alpha1.AnnotationDecision]
	if !ok || json.Unmarshal([]byte(text), &r) != nil {
		return Record{}, false
	}
	return r, true
}

// Context is what an action is carried out in.
type Context struct {
	Policy   *v1alpha1.CarbonPolicy
	Timeline timegrid.Timeline
	Now      time.Time // wall time
}

// Apply carries out one action on the workload it concerns and says whether it wrote
// anything. The write fails with a conflict when an object has changed since it
// was read: the caller then decides anew.
func (ap *Applier) Apply(ctx context.Context, w *Workload, a decide.Action, p Progress, c Context) (bool, error) {
	if a.Verb == decide.Release && w.unseen() {
		a.Workers = w.Facts.Workers // scaled once Kueue has looked at it
	}
	rec := newRecord(a, &p, c.Timeline.ToGrid(c.Now))
	if c.Policy.Spec.Mode == v1alpha1.ModeShadow && !w.Facts.Suspended {
		if w.Record().Verb != "" {
			return false, nil
		}
		rec.Mode = string(v1alpha1.ModeShadow)
		return ap.write(ctx, w, rec, would+string(a.Verb), nil)
	}
	mark := func(patch *kinds.Patch) {
		patch.Annotate(v1alpha1.AnnotationRan, p.Done.Round(time.Second).String())
		patch.Annotate(v1alpha1.AnnotationChanged, c.Now.UTC().Format(time.RFC3339))
	}
	if (a.Verb == decide.Scale || a.Verb == decide.Pause || a.Verb == decide.Move) && w.keepsSize() {
		return false, nil // what Kueue has done is seen at once, and what is to be done decided anew
	}
	latest := wallText(c.Timeline, a.Reason.LatestStart)
	switch a.Verb {
	case decide.Release, decide.Resume:
		if a.Cluster != LocalCluster && w.Facts.Queue != "" {
			rec.Cluster = a.Cluster
		}
		return ap.release(ctx, w, rec, opening{event: string(a.Verb), workers: a.Workers, also: func(patch *kinds.Patch) {
			mark(patch)
			if rec.Cluster != "" {
				patch.Annotate(v1alpha1.AnnotationCluster, rec.Cluster)
			}
		}})
	case decide.Scale:
		return ap.write(ctx, w, rec, string(a.Verb), func(patch *kinds.Patch) {
			w.Kind.Scale(patch, a.Workers)
			mark(patch)
		})
	case decide.Pause, decide.Move:
		hold := v1alpha1.HoldPaused
		if a.Verb == decide.Move {
			hold, rec.Cluster = v1alpha1.HoldMoving, a.Cluster
		}
		return ap.hold(ctx, w, rec, hold, string(a.Verb), latest, p.StatedStart, func(patch *kinds.Patch) {
			w.Kind.Hold(patch)
			mark(patch)
			if rec.Cluster != "" {
				patch.Annotate(v1alpha1.AnnotationCluster, rec.Cluster)
			}
		})
	case decide.Wait:
		if w.Facts.Queue != "" && (!w.Facts.Suspended || w.GateIgnored()) { // released, and taken by no cluster
			return ap.hold(ctx, w, rec, v1alpha1.HoldAdmission, string(decide.Pause), latest, p.StatedStart, nil)
		}
		if !Tells(w, &a, p.StatedStart) {
			return false, nil
		}
		return ap.write(ctx, w, rec, string(a.Verb), func(patch *kinds.Patch) {
			annotateStart(patch, latest, p.StatedStart)
		})
	case decide.Continue:
		if len(w.Objects) > 1 && !w.Facts.Suspended { // a group that was released in part
			return ap.releaseRest(ctx, w, rec)
		}
		if w.gateStays() && !w.Facts.Suspended { // it was released in part
			return true, ap.unpark(ctx, w)
		}
	}
	return false, nil
}

// Tells reports whether a waiting workload would be told anything new by an action; stated is its
// Progress.StatedStart.
func Tells(w *Workload, a *decide.Action, stated string) bool {
	last, r := w.Record(), &a.Reason
	if edited(w, stated) {
		return true
	}
	same := last.Verb == a.Verb && last.Reason == r.Code && sameTime(last.PlannedStart, r.PlannedStart) && sameTime(last.LatestStart, r.LatestStart)
	return last.Verb == "" || !same && r.Code != decide.CodeTooSoon
}

// releaseRest releases the Pods of a group that are still held.
func (ap *Applier) releaseRest(ctx context.Context, w *Workload, rec Record) (bool, error) {
	for _, o := range w.Objects {
		if w.Kind.Read(o.Object).Suspended {
			return ap.release(ctx, w, rec, opening{event: string(decide.Release)})
		}
	}
	return false, nil
}

// sameTime compares a time with one that is absent where it is zero.
func sameTime(a *time.Time, b time.Time) bool {
	if a == nil {
		return b.IsZero()
	}
	return a.Equal(b)
}

func wallText(tl timegrid.Timeline, grid time.Time) string {
	return tl.ToWall(grid).UTC().Format(time.RFC3339)
}

// annotateStart writes until when a workload may be held, and which latest safe start is stated for it.
func annotateStart(patch *kinds.Patch, latest, stated string) {
	patch.Annotate(v1alpha1.AnnotationLatestStart, latest)
	if stated == latest {
		stated = ""
	}
	patch.Annotate(v1alpha1.AnnotationStatedStart, stated)
}

// hold keeps a workload from running. In a queue the Workload comes first, so that it is never inactive
// without Lull's mark on it.
func (ap *Applier) hold(ctx context.Context, w *Workload, rec Record, mark, event, latest, stated string, also func(*kinds.Patch)) (bool, error) {
	change := func(patch *kinds.Patch) {
		if also != nil {
			also(patch)
		}
		patch.Annotate(v1alpha1.AnnotationHold, mark)
		annotateStart(patch, latest, stated)
	}
	if w.Facts.Queue != "" {
		switch room, err := ap.hasRoom(ctx, w, rec, change); {
		case err != nil:
			return false, err
		case !room:
			released, err := ap.releaseWithoutRecord(ctx, w, w.Objects[0])
			if err == nil && released {
				err = ap.unpark(ctx, w)
			}
			return released, err
		}
		if err := ap.park(ctx, w, mark, latest); err != nil {
			return false, err
		}
	}
	return ap.write(ctx, w, rec, event, change)
}

// ReleaseInvalid releases a workload whose annotations cannot be read, as if it were
// not governed, and says why in a warning.
func (ap *Applier) ReleaseInvalid(ctx context.Context, w *Workload, reason error, now time.Time) (bool, error) {
	rec := Record{Verb: decide.Release, Reason: CodeInvalid, Message: reason.Error() + "; the " + w.Kind.Name + " runs as if it were not governed", At: now.UTC().Truncate(time.Second)}
	return ap.release(ctx, w, rec, opening{event: string(CodeInvalid), warning: true})
}

// ReleaseExcluded releases a workload that its policy may not govern, and says whether it did.
func (ap *Applier) ReleaseExcluded(ctx context.Context, x Excluded, now time.Time) (bool, error) {
	return ap.ReleaseHeld(ctx, x.Workload, CodeExcluded, excludedMessage(x.Why), now)
}

// excludedMessage says why a workload is not held that its policy may not govern.
func excludedMessage(why string) string {
	return fmt.Sprintf("Lull does not hold it: %s. To let Lull govern it, name its CarbonPolicy in the annotation %s.", why, v1alpha1.AnnotationGovernBy)
}

// ReleaseHeld releases a workload that Lull holds, for a reason that no plan is behind, and says whether it
// did. From one that carries marks of Lull but is not held it takes the marks.
func (ap *Applier) ReleaseHeld(ctx context.Context, w *Workload, code decide.Code, message string, now time.Time) (bool, error) {
	return ap.releaseMarked(ctx, w, Record{Verb: decide.Release, Reason: code, At: now.UTC().Truncate(time.Second), Message: message})
}

func (ap *Applier) releaseMarked(ctx context.Context, w *Workload, rec Record) (bool, error) {
	switch {
	case w.deleted():
		return false, nil
	case !w.anyHeld():
		return false, ap.Clear(ctx, w)
	}
	return ap.release(ctx, w, rec, opening{event: string(decide.Release)})
}

// Ungovern releases a workload and takes it out of its policy; false where none governs it. The policy
// goes last: until then its controller finishes what is left half done.
func (ap *Applier) Ungovern(ctx context.Context, w *Workload, now time.Time) (bool, error) {
	policy := w.Annotations()[v1alpha1.AnnotationPolicy]
	if policy == "" && !w.Marked() {
		return false, nil
	}
	rec := Record{
		Verb: decide.Release, Reason: CodeReleased, At: now.UTC().Truncate(time.Second), Policy: policy,
		Message: "was released by an operator (lull release) and is no longer governed by CarbonPolicy " + policy,
	}
	leave := func(patch *kinds.Patch) { patch.Annotate(v1alpha1.AnnotationPolicy, "") }
	if !w.Marked() {
		return ap.leavePolicy(ctx, w, rec, leave)
	}
	wrote, err := ap.releaseMarked(ctx, w, rec)
	if err != nil {
		return false, err
	}
	released, err := Fetch(ctx, ap.Client, w.Kind, client.ObjectKeyFromObject(w.Objects[0]))
	if err != nil {
		return true, client.IgnoreNotFound(err)
	}
	if !wrote {
		return ap.leavePolicy(ctx, released, rec, leave)
	}
	patch := kinds.NewPatch(released.Objects[0].Object)
	leave(patch)
	_, err = ap.send(ctx, w, released.Objects[0], patch)
	return true, err
}

// leavePolicy takes a workload that Lull does not hold out of its policy, also if there is no room for the record.
func (ap *Applier) leavePolicy(ctx context.Context, w *Workload, rec Record, leave func(*kinds.Patch)) (bool, error) {
	wrote, err := ap.write(ctx, w, rec, string(decide.Release), leave)
	if wrote || err != nil {
		return wrote, err
	}
	for _, o := range w.Objects {
		patch := kinds.NewPatch(o.Object)
		leave(patch)
		if _, err := ap.send(ctx, w, o, patch); err != nil {
			return false, err
		}
	}
	return true, nil
}

// opening is how a workload is released.
type opening struct {
	// event is the reason of the Event, which is a warning or not.
	event   string
	warning bool
	// workers to run with; 0 leaves the number as it is.
	workers int
	// also changes the objects in the same write.
	also func(*kinds.Patch)
}

// release lets a workload run, whatever holds it and whoever asks: its suspend field, its scheduling gate,
// its number of workers, the gate of its queue, its Workload that was set inactive. Nothing else in Lull does.
//
// The objects come first, the Workload of a queue last: a mark stands on the Workload until both are done. What
// is left half done is repaired by whoever finds that mark.
func (ap *Applier) release(ctx context.Context, w *Workload, rec Record, how opening) (bool, error) {
	w, err := ap.releasable(ctx, w)
	if err != nil {
		return false, err
	}
	kind := corev1.EventTypeNormal
	if how.warning {
		kind = corev1.EventTypeWarning
	}
	wrote, _, err := ap.writeEach(ctx, w, rec, how.event, kind, func(patch *kinds.Patch) {
		if w.Facts.Suspended || len(w.Objects) > 1 {
			w.Kind.Release(patch, how.workers)
		}
		clearMarks(patch)
		if how.also != nil {
			how.also(patch)
		}
	})
	if err != nil {
		return wrote, err
	}
	return wrote, ap.unpark(ctx, w)
}

// clearMarks takes what says that Lull holds an object.
func clearMarks(patch *kinds.Patch) {
	for _, name := range []string{v1alpha1.AnnotationHold, v1alpha1.AnnotationLatestStart, v1alpha1.AnnotationStatedStart} {
		patch.Annotate(name, "")
	}
}

// Clear takes Lull's marks off a workload that Lull does not hold: one that has ended, as its last Pods can
// succeed while Lull pauses it, or that was opened by somebody else. What its user suspends afterwards is the
// user's then. It changes nothing else.
func (ap *Applier) Clear(ctx context.Context, w *Workload) error {
	if w.deleted() {
		return nil
	}
	for _, o := range w.Objects {
		if !w.Facts.Finished && w.holds(o) {
			continue
		}
		patch := kinds.NewPatch(o.Object)
		clearMarks(patch)
		if w.Kind.Spec.Hold.Zero {
			patch.Annotate(v1alpha1.AnnotationWorkers, "")
		}
		if patch.Empty() {
			continue
		}
		if _, err := ap.send(ctx, w, o, patch); err != nil {
			return err
		}
	}
	if w.Facts.Finished {
		return nil
	}
	return ap.unpark(ctx, w)
}
