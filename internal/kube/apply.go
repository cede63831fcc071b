package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// Recorder writes Kubernetes events.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Applier carries decisions out. It is the only writer of workloads in Lull.
type Applier struct {
	Client   client.Client
	Recorder Recorder
}

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
	// Intensities in gCO2eq/kWh, emissions in gCO2eq.
	IntensityNow  float64 `json:"intensityNow,omitempty"`
	IntensityThen float64 `json:"intensityThen,omitempty"`
	// 10 % and 90 % quantiles of intensityThen.
	ThenLow        float64 `json:"intensityThenLow,omitempty"`
	ThenHigh       float64 `json:"intensityThenHigh,omitempty"`
	ExpectedG      float64 `json:"expectedG,omitempty"`
	ImmediateG     float64 `json:"immediateG,omitempty"`
	ExpectedSaving float64 `json:"expectedSaving,omitempty"`
	Source         string  `json:"source,omitempty"`
	Basis          string  `json:"basis,omitempty"`
	Estimated      bool    `json:"estimated,omitempty"`
}

// Reasons of releases that no plan is behind.
const (
	// CodeInvalid: the annotations of the workload cannot be read.
	CodeInvalid decide.Code = "InvalidAnnotation"
	// CodePolicyGone: the policy is gone.
	CodePolicyGone decide.Code = "PolicyGone"
	// CodeFailsafe: its latest start has come and nobody else has let it go.
	CodeFailsafe decide.Code = "Failsafe"
	// CodeReleased: somebody has let this one go.
	CodeReleased decide.Code = "Released"
	// CodeReleasedAll: somebody asked for everything to be let go.
	CodeReleasedAll decide.Code = "ReleasedAll"
)

// newRecord is an action as it is told at a time of the grid.
func newRecord(a decide.Action, now time.Time) Record {
	r := a.Reason
	rec := Record{
		Verb: a.Verb, Reason: r.Code, Message: r.Message(), At: now.UTC().Truncate(time.Second), Workers: a.Workers,
		IntensityNow: float64(r.IntensityNow), IntensityThen: float64(r.IntensityThen),
		ExpectedG: float64(r.ExpectedG), ImmediateG: float64(r.ImmediateG), ExpectedSaving: r.Saving(),
		ThenLow: round(r.ThenLow), ThenHigh: round(r.ThenHigh),
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
func round(v units.CarbonIntensity) float64 { return math.Round(float64(v)*1000) / 1000 }

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
	rec := newRecord(a, c.Timeline.ToGrid(c.Now))
	if c.Policy.Spec.Mode == v1alpha1.ModeShadow && !w.Facts.Suspended {
		if w.Record().Verb != "" {
			return false, nil
		}
		rec.Mode = string(v1alpha1.ModeShadow)
		return ap.write(ctx, w, rec, "Would"+string(a.Verb), corev1.EventTypeNormal, nil)
	}
	mark := func(patch *kinds.Patch) {
		patch.Annotate(v1alpha1.AnnotationRan, p.Done.Round(time.Second).String())
		patch.Annotate(v1alpha1.AnnotationChanged, c.Now.UTC().Format(time.RFC3339))
	}
	if (a.Verb == decide.Scale || a.Verb == decide.Pause || a.Verb == decide.Move) && w.resizing() {
		return false, nil // what Kueue has done is seen at once, and what is to be done decided anew
	}
	switch a.Verb {
	case decide.Release, decide.Resume:
		if a.Cluster != localCluster && w.Facts.Queue != "" {
			rec.Cluster = a.Cluster
		}
		wrote, err := ap.write(ctx, w, rec, string(a.Verb), corev1.EventTypeNormal, func(patch *kinds.Patch) {
			release(w, patch, a.Workers)
			mark(patch)
			if rec.Cluster != "" {
				patch.Annotate(v1alpha1.AnnotationCluster, rec.Cluster)
			}
		})
		return after(wrote, err, func() error { return ap.unpark(ctx, w) })
	case decide.Scale:
		return ap.write(ctx, w, rec, string(a.Verb), corev1.EventTypeNormal, func(patch *kinds.Patch) {
			w.Kind.Scale(patch, a.Workers)
			mark(patch)
		})
	case decide.Pause, decide.Move:
		hold := v1alpha1.HoldPaused
		if a.Verb == decide.Move {
			hold, rec.Cluster = v1alpha1.HoldMoving, a.Cluster
		}
		wrote, err := ap.write(ctx, w, rec, string(a.Verb), corev1.EventTypeNormal, func(patch *kinds.Patch) {
			w.Kind.Hold(patch)
			mark(patch)
			patch.Annotate(v1alpha1.AnnotationHold, hold)
			patch.Annotate(v1alpha1.AnnotationLatestStart, wallText(c.Timeline, a.Reason.LatestStart))
			if rec.Cluster != "" {
				patch.Annotate(v1alpha1.AnnotationCluster, rec.Cluster)
			}
		})
		return after(wrote, err, func() error { return ap.park(ctx, w, hold) })
	case decide.Wait:
		if w.Facts.Queue != "" && (!w.Facts.Suspended || w.GateIgnored()) { // let go, and taken by no cluster
			wrote, err := ap.write(ctx, w, rec, string(decide.Pause), corev1.EventTypeNormal, func(patch *kinds.Patch) {
				patch.Annotate(v1alpha1.AnnotationHold, v1alpha1.HoldAdmission)
				patch.Annotate(v1alpha1.AnnotationLatestStart, wallText(c.Timeline, a.Reason.LatestStart))
			})
			return after(wrote, err, func() error { return ap.park(ctx, w, v1alpha1.HoldAdmission) })
		}
		if !Tells(w, &a) {
			return false, nil
		}
		return ap.write(ctx, w, rec, string(a.Verb), corev1.EventTypeNormal, func(patch *kinds.Patch) {
			patch.Annotate(v1alpha1.AnnotationLatestStart, wallText(c.Timeline, a.Reason.LatestStart))
		})
	case decide.Continue:
		if len(w.Objects) > 1 && !w.Facts.Suspended { // a group that was let go in part
			return ap.releaseRest(ctx, w, rec)
		}
		if w.gateStays() && !w.Facts.Suspended { // it was let go in part
			return true, ap.ungate(ctx, w)
		}
	}
	return false, nil
}

// after goes on where a write has not failed.
func after(wrote bool, err error, next func() error) (bool, error) {
	if err != nil {
		return wrote, err
	}
	return wrote, next()
}

// Tells reports whether a waiting workload would be told anything new by an action.
func Tells(w *Workload, a *decide.Action) bool {
	last, r := w.Record(), &a.Reason
	same := last.Verb == a.Verb && last.Reason == r.Code && sameTime(last.PlannedStart, r.PlannedStart) && sameTime(last.LatestStart, r.LatestStart)
	return last.Verb == "" || !same && r.Code != decide.CodeTooSoon
}

// releaseRest lets go the Pods of a group that are still held.
func (ap *Applier) releaseRest(ctx context.Context, w *Workload, rec Record) (bool, error) {
	for _, o := range w.Objects {
		if w.Kind.Read(o.Object).Suspended {
			return ap.write(ctx, w, rec, string(decide.Release), corev1.EventTypeNormal, func(patch *kinds.Patch) { release(w, patch, 0) })
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

// ReleaseInvalid releases a workload whose annotations cannot be read, as if it were
// not governed, and says why in a warning.
func (ap *Applier) ReleaseInvalid(ctx context.Context, w *Workload, reason error, now time.Time) (bool, error) {
	rec := Record{Verb: decide.Release, Reason: CodeInvalid, Message: reason.Error() + "; the " + w.Kind.Name + " runs as if it were not governed", At: now.UTC().Truncate(time.Second)}
	return ap.write(ctx, w, rec, string(CodeInvalid), corev1.EventTypeWarning, func(patch *kinds.Patch) { release(w, patch, 0) })
}

// ReleaseHeld releases a workload that Lull holds, for a reason that no plan is behind.
func (ap *Applier) ReleaseHeld(ctx context.Context, w *Workload, code decide.Code, message string, now time.Time) (bool, error) {
	if !w.anyHeld() || w.deleted() {
		return false, nil
	}
	rec := Record{Verb: decide.Release, Reason: code, At: now.UTC().Truncate(time.Second), Message: message}
	wrote, err := ap.write(ctx, w, rec, string(decide.Release), corev1.EventTypeNormal, func(patch *kinds.Patch) { release(w, patch, 0) })
	return after(wrote, err, func() error { return ap.unpark(ctx, w) })
}

// ClearHold takes the hold off a finished workload: its last Pods can succeed while Lull pauses
// it. With the hold left, the watchdog would release work that has ended.
func (ap *Applier) ClearHold(ctx context.Context, w *Workload) error {
	if !w.Facts.Finished || w.deleted() {
		return nil
	}
	for _, o := range w.Objects {
		patch := kinds.NewPatch(o.Object)
		patch.Annotate(v1alpha1.AnnotationHold, "")
		patch.Annotate(v1alpha1.AnnotationLatestStart, "")
		if patch.Empty() {
			continue
		}
		if _, err := ap.send(ctx, w, o, patch); err != nil {
			return err
		}
	}
	return nil
}

// release lets a workload run; of a group, the Pod that the patch is of.
func release(w *Workload, patch *kinds.Patch, workers int) {
	if w.Facts.Suspended || len(w.Objects) > 1 {
		w.Kind.Release(patch, workers)
	}
	patch.Annotate(v1alpha1.AnnotationHold, "")
	patch.Annotate(v1alpha1.AnnotationLatestStart, "")
}

// write patches the objects with the record and the change, and tells the event
// once the API server has taken it.
func (ap *Applier) write(ctx context.Context, w *Workload, rec Record, reason, eventType string, change func(*kinds.Patch)) (bool, error) {
	text, err := json.Marshal(rec)
	if err != nil {
		return false, err
	}
	var first *unstructured.Unstructured
	for _, o := range w.Objects {
		patch := kinds.NewPatch(o.Object)
		patch.Annotate(v1alpha1.AnnotationDecision, string(text))
		if change != nil {
			change(patch)
		}
		target, err := ap.send(ctx, w, o, patch)
		if err != nil {
			return false, err
		}
		if first == nil {
			first = target
		}
	}
	ap.Recorder.Eventf(first, nil, eventType, reason, string(rec.Reason), "%s", rec.Message)
	return true, nil
}

// Ungovern lets a workload run and takes it out of its policy; false where none governs it.
func (ap *Applier) Ungovern(ctx context.Context, w *Workload, now time.Time) (bool, error) {
	if w.Annotations()[v1alpha1.AnnotationPolicy] == "" {
		return false, nil
	}
	rec := Record{Verb: decide.Release, Reason: CodeReleased, At: now.UTC().Truncate(time.Second), Message: "was released by hand and is no longer governed"}
	held := w.Held()
	return ap.write(ctx, w, rec, string(decide.Release), corev1.EventTypeNormal, func(patch *kinds.Patch) {
		if held {
			release(w, patch, 0)
		}
		patch.Annotate(v1alpha1.AnnotationPolicy, "")
	})
}

// ScaleTo changes the number of workers of an object, for those who measure how it scales.
func (ap *Applier) ScaleTo(ctx context.Context, w *Workload, workers int) error {
	patch := kinds.NewPatch(w.Objects[0].Object)
	w.Kind.Scale(patch, workers)
	if patch.Empty() {
		return nil
	}
	_, err := ap.send(ctx, w, w.Objects[0], patch)
	return err
}

// send sends a patch of one object of a workload, and returns the object as it is then.
func (ap *Applier) send(ctx context.Context, w *Workload, o *unstructured.Unstructured, patch *kinds.Patch) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	target := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.Kind.GVK().GroupVersion().String(), "kind": w.Kind.Spec.Kind,
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()},
	}}
	if err := ap.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, body)); err != nil {
		return nil, fmt.Errorf("%s: %w", describe(w), err)
	}
	return target, nil
}
