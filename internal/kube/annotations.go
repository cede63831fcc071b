// Package kube translates between Kubernetes objects and the pure types of
// Lull: snapshot.go reads, apply.go writes. Nothing else does either.
package kube

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/pkg/units"
)

// ErrAnnotation marks an annotation of a workload that cannot be read.
var ErrAnnotation = errors.New("invalid annotation")

// Options is what the user says of a workload, by annotations over the defaults of the
// policy.
type Options struct {
	Runtime time.Duration
	// RuntimeStated says that the annotation is there.
	RuntimeStated bool
	MaxDelay      time.Duration
	Deadline      time.Time // zero where the annotation is absent
	Interruptible bool
	// MinWorkers and MaxWorkers of an elastic workload; 0 for others.
	MinWorkers, MaxWorkers int
	Profile                string
	// Progress is what the workload says of itself; negative where it says nothing.
	Progress float64
	// Clusters and Zones are those to which it may go; none means any.
	Clusters, Zones []string
	// Migratable says that it may go on at another cluster after it has run.
	Migratable bool
	// TransferKWh is the energy of such a move.
	TransferKWh float64
	// GroupSize is how many Pods the group has; 0 for others.
	GroupSize int
	// maxDelayStated says that the annotation is there.
	maxDelayStated bool
}

// maxScale bounds the number of workers that annotations may ask for.
const maxScale = 100_000

// maxTransferKWh bounds the energy of a move.
const maxTransferKWh = 1_000_000

// mostQuery bounds the length of a query for progress.
const mostQuery = 4096

// ProgressQuery is the Prometheus query that a workload names for its progress, with
// $namespace and $name filled in; "" where it names none, or one that is not accepted.
func ProgressQuery(w *Workload) string {
	text := w.Annotations()[v1alpha1.AnnotationProgressQuery]
	if len(text) > mostQuery {
		return ""
	}
	return strings.NewReplacer("$namespace", w.Namespace(), "$name", w.Name()).Replace(text)
}

// ReadOptions reads the annotations of a workload of a kind. The error wraps ErrAnnotation and names the annotation, its
// value and what is accepted.
//
// Without a kind the annotations that need one are not read.
func ReadOptions(annotations map[string]string, spec *v1alpha1.CarbonPolicySpec, kind *kinds.Kind) (Options, error) {
	o := Options{Runtime: time.Hour, MaxDelay: 24 * time.Hour, Progress: -1}
	if spec.DefaultRuntime != nil {
		o.Runtime = spec.DefaultRuntime.Duration
	}
	if spec.MaxDelay != nil {
		o.MaxDelay = spec.MaxDelay.Duration
	}
	if text, ok := annotations[v1alpha1.AnnotationRuntime]; ok {
		d, err := units.ParseDuration(text)
		if err != nil || d == 0 {
			return o, annotationError(v1alpha1.AnnotationRuntime, text, units.AcceptedDurations+", above 0")
		}
		o.Runtime, o.RuntimeStated = d, true
	}
	if text, ok := annotations[v1alpha1.AnnotationMaxDelay]; ok {
		d, err := units.ParseDuration(text)
		if err != nil {
			return o, annotationError(v1alpha1.AnnotationMaxDelay, text, units.AcceptedDurations)
		}
		o.MaxDelay, o.maxDelayStated = d, true
	}
	if text, ok := annotations[v1alpha1.AnnotationDeadline]; ok {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return o, annotationError(v1alpha1.AnnotationDeadline, text, "a time in RFC 3339, e.g. 2026-03-01T06:00:00Z")
		}
		o.Deadline = at
	}
	switch text, ok := annotations[v1alpha1.AnnotationInterruptible]; {
	case !ok || text == "false":
	case text == "true":
		if kind != nil && !kind.Pausable() {
			return o, annotationError(v1alpha1.AnnotationInterruptible, text, fmt.Sprintf("%q: a %s cannot be held again once it runs", "false", kind.Name))
		}
		o.Interruptible = true
	default:
		return o, annotationError(v1alpha1.AnnotationInterruptible, text, `"true" or "false"`)
	}
	if text, ok := annotations[v1alpha1.AnnotationProgress]; ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return o, annotationError(v1alpha1.AnnotationProgress, text, "a number from 0 to 1")
		}
		o.Progress = v
	}
	if text := annotations[v1alpha1.AnnotationProgressQuery]; len(text) > mostQuery {
		return o, annotationError(v1alpha1.AnnotationProgressQuery, text, fmt.Sprintf("a query of at most %d characters", mostQuery))
	}
	o.Clusters, o.Zones = Names(annotations[v1alpha1.AnnotationClusters]), Names(annotations[v1alpha1.AnnotationZones])
	switch text, ok := annotations[v1alpha1.AnnotationMigratable]; {
	case !ok || text == "false":
	case text == "true":
		o.Migratable = true
	default:
		return o, annotationError(v1alpha1.AnnotationMigratable, text, `"true" or "false"`)
	}
	if text, ok := annotations[v1alpha1.AnnotationTransferKWh]; ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= maxTransferKWh) {
			return o, annotationError(v1alpha1.AnnotationTransferKWh, text, fmt.Sprintf("kilowatt hours, 0 to %d", maxTransferKWh))
		}
		o.TransferKWh = v
	}
	if text, ok := annotations[v1alpha1.AnnotationGroupSize]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxScale {
			return o, annotationError(v1alpha1.AnnotationGroupSize, text, fmt.Sprintf("a whole number from 1 to %d", maxScale))
		}
		o.GroupSize = n
	}
	if kind == nil {
		return o, nil
	}
	return o, o.readScale(annotations, kind)
}

// readScale reads what makes a workload elastic.
func (o *Options) readScale(annotations map[string]string, kind *kinds.Kind) error {
	o.Profile = annotations[v1alpha1.AnnotationProfile]
	for name, to := range map[string]*int{v1alpha1.AnnotationMinWorkers: &o.MinWorkers, v1alpha1.AnnotationMaxWorkers: &o.MaxWorkers} {
		text, ok := annotations[name]
		if !ok {
			continue
		}
		if !kind.Elastic() {
			return annotationError(name, text, "none: the number of workers of a "+kind.Name+" cannot be changed")
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxScale {
			return annotationError(name, text, fmt.Sprintf("a whole number from 1 to %d", maxScale))
		}
		*to = n
	}
	switch {
	case o.MaxWorkers == 0 && o.MinWorkers == 0:
		return nil
	case o.MaxWorkers == 0:
		return annotationError(v1alpha1.AnnotationMinWorkers, strconv.Itoa(o.MinWorkers), "with "+v1alpha1.AnnotationMaxWorkers+" only")
	}
	o.MinWorkers = max(1, o.MinWorkers)
	if o.MaxWorkers < o.MinWorkers {
		return annotationError(v1alpha1.AnnotationMaxWorkers, strconv.Itoa(o.MaxWorkers), fmt.Sprintf("at least %s, %d", v1alpha1.AnnotationMinWorkers, o.MinWorkers))
	}
	return nil
}

// Elastic reports whether the workload may be scaled.
func (o *Options) Elastic() bool { return o.MaxWorkers > 0 }

func annotationError(name, value, accepted string) error {
	const most = 80
	if len(value) > most {
		value = value[:most] + "..."
	}
	return fmt.Errorf("%w %s: %q; accepted: %s", ErrAnnotation, name, value, accepted)
}

// deadline is when the work of a workload created at created must be done: the
// earlier of the stated deadline and, unless only a deadline is stated, the
// longest delay plus the run time.
func (o *Options) deadline(created time.Time) time.Time {
	byDelay := created.Add(o.MaxDelay + o.Runtime)
	if o.Deadline.IsZero() || (o.maxDelayStated && byDelay.Before(o.Deadline)) {
		return byDelay
	}
	return o.Deadline
}

// LatestStart is when a workload that has not run must start at the latest to end by its
// deadline at its least scale (with soft deadlines: its deadline), by what stands in its annotations and its policy: for those
// who know nothing else. created and the result are grid time.
func LatestStart(annotations map[string]string, spec *v1alpha1.CarbonPolicySpec, created time.Time) (time.Time, error) {
	o, err := ReadOptions(annotations, spec, nil)
	if err != nil {
		return time.Time{}, err
	}
	if soft(spec) {
		return o.deadline(created), nil
	}
	margin := defaultMargin
	if spec.StartMargin != nil {
		margin = spec.StartMargin.Duration
	}
	return o.deadline(created).Add(-o.Runtime - margin), nil
}

// DeadlineOf is when a workload that came at a time must be done; zero where its annotations cannot be
// read. Both are grid time.
func DeadlineOf(w *Workload, spec *v1alpha1.CarbonPolicySpec, created time.Time) time.Time {
	o, err := ReadOptions(w.Annotations(), spec, w.Kind)
	if err != nil {
		return time.Time{}
	}
	return o.deadline(created)
}
