package kube

import (
	"fmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"math"
	"slices"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// maxRuntimeP95 bounds what a workload may say of its longest runs, and what is expected of any.
const maxRuntimeP95 = 10 * 365 * 24 * time.Hour

// What a policy or a workload may state at most, as in the schema of CarbonPolicies: objects that were written before the schema
// said so may state more.
const (
	maxStated = 365 * 24 * time.Hour // run times and delays
	maxGuard  = 7 * 24 * time.Hour   // startMargin, minRun, minPause, scaleUpPatience
	maxDelays = 6 * time.Hour        // provisioningDelay
)

// stated is a duration of a policy, within what is accepted.
func stated(d *metav1.Duration, otherwise, most time.Duration) time.Duration {
	return max(0, min(DurationOf(d, otherwise), most))
}

// readRuntimeP95 reads the run time that a workload states for its longest runs; Runtime is read before.
func (o *Options) readRuntimeP95(annotations map[string]string) error {
	text, ok := annotations[v1alpha1.AnnotationRuntimeP95]
	if !ok {
		return nil
	}
	d, err := units.ParseDuration(text)
	if err != nil || d == 0 || d > maxStated {
		return annotationError(v1alpha1.AnnotationRuntimeP95, text, units.AcceptedDurations+", above 0, at most 8760h")
	}
	if o.RuntimeStated && d < o.Runtime {
		return annotationError(v1alpha1.AnnotationRuntimeP95, text, "at least "+v1alpha1.AnnotationRuntime+", "+o.Runtime.String())
	}
	o.RuntimeP95 = d
	return nil
}

// limited bounds a run time by the time after which a run is ended by force.
func (o *Options) limited(d time.Duration) time.Duration {
	if o.limit > 0 {
		return min(d, o.limit)
	}
	return d
}

// limitedNote says that a stated run time counts for less, as a run is ended by force before; "" where it does not.
func (o *Options) limitedNote() string {
	if o.stated <= o.Runtime {
		return ""
	}
	return fmt.Sprintf("%s %v counts as %v, after which Kubernetes ends it (activeDeadlineSeconds)", v1alpha1.AnnotationRuntime, o.stated, o.limit)
}

// quantilesOf are whole run times of a workload that has run for a while: those that it states, else,
// where it states no run time at all, those of its family.
func quantilesOf(in Input, w *Workload, o *Options, ran time.Duration) []workload.RunTimeQuantile {
	switch {
	case o.RuntimeP95 > 0:
		return []workload.RunTimeQuantile{{P: 0.95, Length: o.RuntimeP95}}
	case in.Learned != nil && !o.RuntimeStated:
		out := in.Learned.Quantiles(w, ran)
		if o.limit > 0 {
			out = slices.Clone(out)
			for i := range out {
				out[i].Length = o.limited(out[i].Length)
			}
		}
		return out
	}
	return nil
}

// ignoredP95 says that the run time which a workload states for its longest runs has no effect, as more is
// expected of it; empty if it has.
func ignoredP95(o *Options, expected time.Duration) string {
	if o.RuntimeP95 == 0 || o.RuntimeP95 >= expected {
		return ""
	}
	return fmt.Sprintf("%s %v is ignored: it is below the expected run time %v, and no %s is stated",
		v1alpha1.AnnotationRuntimeP95, o.RuntimeP95, expected.Round(time.Second), v1alpha1.AnnotationRuntime)
}

// remaining converts quantiles of the whole run time to those of what is left of a task. Where the
// workload says which share is done, it is that share of any run time; else the time that it has run.
//
// Only a stated deadline is guarded, and the next run of a CronJob. One that rests on the longest delay moves with the run time, until it
// reaches the stated one: a run may be longer by as much (byDelay).
func (p *Progress) remaining(t *decide.Task, o *Options) (out []decide.Quantile) {
	guarded := o.guarded()
	if guarded.IsZero() || t.Deadline.IsZero() || t.State == decide.Running && t.Kind == workload.Rigid {
		return nil
	}
	again := t.Remaining - max(0, time.Duration(float64(p.Runtime-p.Done)/p.Speed)) // done again after a pause
	byDelay := max(0, guarded.Sub(t.Deadline))
	for _, q := range p.quantiles {
		left := float64(q.Length - p.Done)
		if p.Source != FromModel {
			left = (1 - p.Share) * float64(q.Length)
		}
		left = math.Min(left/p.Speed, float64(maxRuntimeP95))
		out = append(out, decide.Quantile{P: q.P, Remaining: max(0, time.Duration(left)+again-byDelay)})
	}
	return out
}
