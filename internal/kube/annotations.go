// Package kube translates between Kubernetes objects and the pure types of
// Lull: snapshot.go reads, apply.go writes. Nothing else does either.
package kube

import (
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

// ErrAnnotation marks an annotation of a Job that cannot be read.
var ErrAnnotation = errors.New("invalid annotation")

// JobOptions is what the user says of a Job, by annotations over the defaults
// of the policy.
type JobOptions struct {
	Runtime       time.Duration
	MaxDelay      time.Duration
	Deadline      time.Time // zero where the annotation is absent
	Interruptible bool
}

// ReadOptions reads the annotations of a Job. The error wraps ErrAnnotation and
// names the annotation, its value and what is accepted.
func ReadOptions(job *batchv1.Job, spec *v1alpha1.CarbonPolicySpec) (JobOptions, error) {
	o := JobOptions{Runtime: time.Hour, MaxDelay: 24 * time.Hour}
	if spec.DefaultRuntime != nil {
		o.Runtime = spec.DefaultRuntime.Duration
	}
	if spec.MaxDelay != nil {
		o.MaxDelay = spec.MaxDelay.Duration
	}
	if text, ok := job.Annotations[v1alpha1.AnnotationRuntime]; ok {
		d, err := units.ParseDuration(text)
		if err != nil || d == 0 {
			return o, annotationError(v1alpha1.AnnotationRuntime, text, units.AcceptedDurations+", above 0")
		}
		o.Runtime = d
	}
	if text, ok := job.Annotations[v1alpha1.AnnotationMaxDelay]; ok {
		d, err := units.ParseDuration(text)
		if err != nil {
			return o, annotationError(v1alpha1.AnnotationMaxDelay, text, units.AcceptedDurations)
		}
		o.MaxDelay = d
	}
	if text, ok := job.Annotations[v1alpha1.AnnotationDeadline]; ok {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return o, annotationError(v1alpha1.AnnotationDeadline, text, "a time in RFC 3339, e.g. 2026-03-01T06:00:00Z")
		}
		o.Deadline = at
	}
	switch text, ok := job.Annotations[v1alpha1.AnnotationInterruptible]; {
	case !ok || text == "false":
	case text == "true":
		o.Interruptible = true
	default:
		return o, annotationError(v1alpha1.AnnotationInterruptible, text, `"true" or "false"`)
	}
	return o, nil
}

func annotationError(name, value, accepted string) error {
	const most = 80
	if len(value) > most {
		value = value[:most] + "..."
	}
	return fmt.Errorf("%w %s: %q; accepted: %s", ErrAnnotation, name, value, accepted)
}

// deadline is when the work of a Job created at created must be done: the
// earlier of the stated deadline and, unless only a deadline is stated, the
// longest delay plus the run time.
func (o JobOptions) deadline(job *batchv1.Job, created time.Time) time.Time {
	byDelay := created.Add(o.MaxDelay + o.Runtime)
	if o.Deadline.IsZero() {
		return byDelay
	}
	if _, stated := job.Annotations[v1alpha1.AnnotationMaxDelay]; stated && byDelay.Before(o.Deadline) {
		return byDelay
	}
	return o.Deadline
}
