// Package kube translates between Kubernetes objects and the pure types of
// Lull: snapshot.go reads, apply.go writes. Nothing else does either.
package kube

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
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
	// RuntimeP95 is a run time that 95 of 100 such workloads do not exceed; 0 where none is stated.
	RuntimeP95    time.Duration
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
	// next is when (grid time) the next run of its CronJob would be skipped or would replace it; zero for none.
	next time.Time
	// longest is the longest delay (grid time) that the administrator allows; 0 for any.
	longest time.Duration
	// limit is how long (grid time) a run may take before it is ended by force; 0 for any time, and of an elastic
	// workload, whose run time at its least scale says little of how long it takes.
	limit time.Duration
	// stated is the run time as it is stated; 0 where none is.
	stated time.Duration
	// soft says that its policy lets deadlines be missed; margin is that of its policy.
	soft   bool
	margin time.Duration
}

// maxScale bounds the number of workers that annotations may ask for.
const maxScale = 100_000

// maxTransferKWh bounds the energy of a move.
const maxTransferKWh = 1_000_000

// ProgressQuery is the Prometheus query that a workload names for its progress, with
// $namespace and $name filled in; "" where it names none, or one that is not accepted.
func ProgressQuery(w *Workload) string {
	text := w.Annotations()[v1alpha1.AnnotationProgressQuery]
	if kinds.TooLong(v1alpha1.AnnotationProgressQuery, text) {
		return ""
	}
	return strings.NewReplacer("$namespace", w.Namespace(), "$name", w.Name()).Replace(text)
}

// bounded are the annotations that are refused for their length: what users write of a workload.
var bounded = []string{
	v1alpha1.AnnotationMaxDelay, v1alpha1.AnnotationDeadline, v1alpha1.AnnotationRuntime, v1alpha1.AnnotationRuntimeP95, v1alpha1.AnnotationInterruptible,
	v1alpha1.AnnotationMinWorkers, v1alpha1.AnnotationMaxWorkers, v1alpha1.AnnotationProfile, v1alpha1.AnnotationProgress, v1alpha1.AnnotationProgressQuery,
	v1alpha1.AnnotationTandem, v1alpha1.AnnotationFamily, v1alpha1.AnnotationClusters, v1alpha1.AnnotationZones, v1alpha1.AnnotationMigratable,
	v1alpha1.AnnotationTransferKWh, v1alpha1.AnnotationGroupSize,
}

// ReadOptions reads the annotations of a workload of a kind. The error wraps ErrAnnotation and names the annotation, its
// value and what is accepted.
//
// Without a kind the annotations that need one are not read.
func ReadOptions(annotations map[string]string, spec *v1alpha1.CarbonPolicySpec, kind *kinds.Kind) (Options, error) {
	o := Options{Runtime: stated(spec.DefaultRuntime, time.Hour, maxStated), MaxDelay: stated(spec.MaxDelay, 24*time.Hour, maxStated), Progress: -1}
	for _, name := range bounded {
		if text := annotations[name]; kinds.TooLong(name, text) {
			return o, annotationError(name, text, fmt.Sprintf("at most %d bytes", kinds.MaxLength(name)))
		}
	}
	if text, ok := annotations[v1alpha1.AnnotationRuntime]; ok {
		d, err := units.ParseDuration(text)
		if err != nil || d == 0 || d > maxStated {
			return o, annotationError(v1alpha1.AnnotationRuntime, text, units.AcceptedDurations+", above 0, at most 8760h")
		}
		o.Runtime, o.RuntimeStated = d, true
	}
	if err := o.readRuntimeP95(annotations); err != nil {
		return o, err
	}
	if text, ok := annotations[v1alpha1.AnnotationMaxDelay]; ok {
		d, err := units.ParseDuration(text)
		if err != nil || d > maxStated {
			return o, annotationError(v1alpha1.AnnotationMaxDelay, text, units.AcceptedDurations+", at most 8760h")
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
// longest delay plus the run time; and not later than the next run of its CronJob. A deadline that may be missed
// lies so far before that run that what starts then is done.
func (o *Options) deadline(created time.Time) time.Time {
	at, _ := o.bounded(created)
	return at
}

// bounded is the deadline, and whether it is the next run of its CronJob that sets it.
func (o *Options) bounded(created time.Time) (time.Time, bool) {
	at := o.asked(created)
	at = earlier(at, o.allowed(created))
	next := o.next
	if next.IsZero() {
		return at, false
	}
	if o.soft {
		next = next.Add(-o.Runtime - o.margin)
	}
	return earlier(at, next), next.Before(at)
}

// asked is the deadline by its annotations and its policy.
func (o *Options) asked(created time.Time) time.Time {
	at := created.Add(o.MaxDelay + o.Runtime)
	if !o.Deadline.IsZero() && (!o.maxDelayStated || !at.Before(o.Deadline)) {
		at = o.Deadline
	}
	return at
}

// allowed is the latest deadline that the administrator allows: the longest delay, by default a year, and the run time after the
// creation. A deadline that may be missed is itself the latest start.
func (o *Options) allowed(created time.Time) time.Time {
	longest := min(cmp.Or(o.longest, maxStated), maxStated)
	if o.soft {
		return created.Add(longest)
	}
	return created.Add(longest + o.Runtime)
}

// limitNote says that the administrator's limit shortens the delay that is asked for; "" if it does not.
func (o *Options) limitNote(created time.Time) string {
	if o.longest == 0 || !o.allowed(created).Before(o.asked(created)) {
		return ""
	}
	if o.soft {
		return fmt.Sprintf("its deadline is %v after its creation, the latest that the administrator allows", o.longest)
	}
	return fmt.Sprintf("its deadline is %v and its run time after its creation, the latest that the administrator allows", o.longest)
}

// latestHold is until when a task whose deadline is the next run of its CronJob may be held.
func (o *Options) latestHold(t *decide.Task) time.Time {
	if o.soft {
		return t.Deadline
	}
	return t.Deadline.Add(-t.Remaining - o.margin)
}

// guarded is the deadline that is kept for run times longer than the expected one too: a stated one, and the next
// run of its CronJob; zero for none.
func (o *Options) guarded() time.Time { return earlier(o.Deadline, o.next) }

// options reads what a workload may do: its annotations, its policy, the administrator's longest delay (0 for any), its
// active deadline, the CronJob that has created it.
func (w *Workload) options(spec *v1alpha1.CarbonPolicySpec, longest time.Duration, kind *kinds.Kind, tl timegrid.Timeline) (Options, error) {
	o, err := ReadOptions(w.Annotations(), spec, kind)
	if err != nil {
		return o, err
	}
	o.soft, o.margin, o.longest = soft(spec), margin(spec), longest
	if !w.Next.At.IsZero() {
		o.next = tl.ToGrid(w.Next.At)
	}
	if _, elastic := w.Annotations()[v1alpha1.AnnotationMaxWorkers]; !elastic {
		o.limit = tl.GridDuration(w.Facts.Limit)
	}
	if o.RuntimeStated {
		o.stated = o.Runtime
	}
	o.Runtime, o.RuntimeP95 = o.limited(o.Runtime), o.limited(o.RuntimeP95)
	return o, nil
}

// LatestStart is when (grid time) a workload that has not run must start at the latest to end by its
// deadline at its least scale, even if it takes RuntimeP95 (with soft deadlines: its deadline), by what stands in its
// annotations, its policy, the administrator's longest delay (0 for any) and its CronJob: for those who know nothing else.
func LatestStart(w *Workload, spec *v1alpha1.CarbonPolicySpec, longest time.Duration, tl timegrid.Timeline) (time.Time, error) {
	o, err := w.options(spec, longest, nil, tl)
	if err != nil {
		return time.Time{}, err
	}
	return o.latestStart(tl.ToGrid(w.Created())), nil
}

func (o *Options) latestStart(created time.Time) time.Time {
	if o.soft {
		return o.deadline(created)
	}
	latest := o.deadline(created).Add(-o.Runtime - o.margin)
	if guarded := o.guarded(); !guarded.IsZero() && o.RuntimeP95 > o.Runtime {
		latest = earlier(latest, guarded.Add(-o.RuntimeP95-o.margin))
	}
	return latest
}

// edited reports whether a stated latest start, as text, is another than the one that stands on a held workload:
// its annotations, or its policy, have been edited since.
func edited(w *Workload, stated string) bool {
	a := w.Annotations()
	return stated != cmp.Or(a[v1alpha1.AnnotationStatedStart], a[v1alpha1.AnnotationLatestStart])
}

// LongestDelay is the longest delay (grid time) that the administrator lets a policy and its workloads ask for, as the controller
// has stated it; 0 for any.
func LongestDelay(policy *v1alpha1.CarbonPolicy) time.Duration {
	if d := policy.Status.LongestDelay; d != nil {
		return d.Duration
	}
	return 0
}

// DeadlineOf is when (grid time) a workload must be done; zero where its annotations cannot be read.
func DeadlineOf(w *Workload, policy *v1alpha1.CarbonPolicy, tl timegrid.Timeline) time.Time {
	o, err := w.options(&policy.Spec, LongestDelay(policy), w.Kind, tl)
	if err != nil {
		return time.Time{}
	}
	return o.deadline(tl.ToGrid(w.Created()))
}
