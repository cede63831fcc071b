package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// Recorder writes Kubernetes events.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Applier carries decisions out. It is the only writer of Jobs in Lull.
type Applier struct {
	Client   client.Client
	Recorder Recorder
}

// Record is the last decision on a Job, as its annotation lull.dev/decision
// shows it. Times are those of the zone's series.
type Record struct {
	Verb         decide.Verb `json:"verb"`
	Reason       decide.Code `json:"reason"`
	Message      string      `json:"message"`
	Mode         string      `json:"mode,omitempty"`
	At           time.Time   `json:"at"`
	PlannedStart *time.Time  `json:"plannedStart,omitempty"`
	LatestStart  *time.Time  `json:"latestStart,omitempty"`
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

// codeInvalid is the reason of a Job released for annotations nobody can read.
const codeInvalid decide.Code = "InvalidAnnotation"

// codePolicyGone is the reason of a Job released because its policy is gone.
const codePolicyGone decide.Code = "PolicyGone"

func newRecord(a decide.Action, now time.Time) Record {
	r := a.Reason
	rec := Record{
		Verb: a.Verb, Reason: r.Code, Message: r.Message(), At: now.UTC().Truncate(time.Second),
		IntensityNow: float64(r.IntensityNow), IntensityThen: float64(r.IntensityThen),
		ExpectedG: float64(r.ExpectedG), ImmediateG: float64(r.ImmediateG), ExpectedSaving: r.Saving(),
		ThenLow: round(r.ThenLow), ThenHigh: round(r.ThenHigh),
		Source: r.Source, Basis: string(r.Basis), Estimated: r.Estimated,
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

// ReadRecord returns the last decision on a Job; false when there is none.
func ReadRecord(job *batchv1.Job) (Record, bool) {
	var r Record
	text, ok := job.Annotations[v1alpha1.AnnotationDecision]
	if !ok || json.Unmarshal([]byte(text), &r) != nil {
		return Record{}, false
	}
	return r, true
}

// Apply carries out one action on the Job it concerns and says whether it wrote
// anything. The write fails with a conflict when the Job has changed since it
// was read: the caller then decides anew.
func (ap *Applier) Apply(ctx context.Context, job *batchv1.Job, a decide.Action, s decide.Snapshot, policy *v1alpha1.CarbonPolicy, tl timegrid.Timeline, now time.Time) (bool, error) {
	rec := newRecord(a, s.Now)
	if policy.Spec.Mode == v1alpha1.ModeShadow && !isSuspended(job) {
		if _, told := ReadRecord(job); told {
			return false, nil
		}
		rec.Mode = string(v1alpha1.ModeShadow)
		return ap.write(ctx, job, rec, "Would"+string(a.Verb), corev1.EventTypeNormal, nil)
	}
	switch a.Verb {
	case decide.Release, decide.Resume:
		return ap.write(ctx, job, rec, string(a.Verb), corev1.EventTypeNormal, release)
	case decide.Pause:
		return ap.write(ctx, job, rec, string(a.Verb), corev1.EventTypeNormal, func(j *batchv1.Job) {
			yes := true
			j.Annotations[v1alpha1.AnnotationRan] = ran(job, now, tl, false).Round(time.Second).String()
			j.Annotations[v1alpha1.AnnotationHold] = v1alpha1.HoldPaused
			j.Annotations[v1alpha1.AnnotationLatestStart] = wallText(tl, a.Reason.LatestStart)
			j.Spec.Suspend = &yes
		})
	case decide.Wait:
		if last, told := ReadRecord(job); told && sameWait(last, rec) {
			return false, nil
		}
		return ap.write(ctx, job, rec, string(a.Verb), corev1.EventTypeNormal, func(j *batchv1.Job) {
			j.Annotations[v1alpha1.AnnotationLatestStart] = wallText(tl, a.Reason.LatestStart)
		})
	case decide.Continue:
	}
	return false, nil
}

// sameWait reports whether a waiting Job would be told nothing new.
func sameWait(a, b Record) bool {
	return a.Verb == b.Verb && a.Reason == b.Reason && equalTime(a.PlannedStart, b.PlannedStart) && equalTime(a.LatestStart, b.LatestStart)
}

func equalTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func wallText(tl timegrid.Timeline, grid time.Time) string {
	return tl.ToWall(grid).UTC().Format(time.RFC3339)
}

// ReleaseInvalid releases a Job whose annotations cannot be read, as if it were
// not governed, and says why in a warning.
func (ap *Applier) ReleaseInvalid(ctx context.Context, job *batchv1.Job, reason error, now time.Time) (bool, error) {
	rec := Record{Verb: decide.Release, Reason: codeInvalid, Message: reason.Error() + "; the Job runs as if it were not governed", At: now.UTC().Truncate(time.Second)}
	return ap.write(ctx, job, rec, string(codeInvalid), corev1.EventTypeWarning, release)
}

// ReleaseOrphan releases a Job whose policy is gone.
func (ap *Applier) ReleaseOrphan(ctx context.Context, job *batchv1.Job, now time.Time) (bool, error) {
	if _, held := job.Annotations[v1alpha1.AnnotationHold]; !held || !isSuspended(job) || job.DeletionTimestamp != nil {
		return false, nil
	}
	rec := Record{
		Verb: decide.Release, Reason: codePolicyGone, At: now.UTC().Truncate(time.Second),
		Message: fmt.Sprintf("the CarbonPolicy %s is gone, runs at once", job.Annotations[v1alpha1.AnnotationPolicy]),
	}
	return ap.write(ctx, job, rec, string(decide.Release), corev1.EventTypeNormal, release)
}

func isSuspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// release lets a Job run.
func release(j *batchv1.Job) {
	no := false
	j.Spec.Suspend = &no
	delete(j.Annotations, v1alpha1.AnnotationHold)
	delete(j.Annotations, v1alpha1.AnnotationLatestStart)
}

// write patches the Job with the record and the change, and tells the event
// once the API server has taken it.
func (ap *Applier) write(ctx context.Context, job *batchv1.Job, rec Record, reason, eventType string, change func(*batchv1.Job)) (bool, error) {
	text, err := json.Marshal(rec)
	if err != nil {
		return false, err
	}
	changed := job.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.AnnotationDecision] = string(text)
	if change != nil {
		change(changed)
	}
	patch := client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{})
	if err := ap.Client.Patch(ctx, changed, patch); err != nil {
		return false, err
	}
	ap.Recorder.Eventf(changed, nil, eventType, reason, string(rec.Reason), "%s", rec.Message)
	return true, nil
}
