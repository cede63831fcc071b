package kube

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// kueueWorkload is the part of a Kueue Workload (v1beta1, v1beta2) that tells how it ran.
type kueueWorkload struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PriorityClassName string `json:"priorityClassName"`
		PriorityClassRef  struct {
			Name string `json:"name"`
		} `json:"priorityClassRef"`
		QueueName string `json:"queueName"`
		PodSets   []struct {
			Name     string                 `json:"name"`
			Count    int32                  `json:"count"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Admission  *struct {
			PodSetAssignments []struct {
				Name  string `json:"name"`
				Count *int32 `json:"count"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		// Seconds that it was admitted before it was evicted, in all; the name of v1beta1 has a typing error.
		Past          int64 `json:"accumulatedPastExecutionTimeSeconds"`
		PastInV1Beta1 int64 `json:"accumulatedPastExexcutionTimeSeconds"`
		RequeueState  *struct {
			Count int32 `json:"count"`
		} `json:"requeueState"`
		SchedulingStats *struct {
			Evictions []struct {
				Count int32 `json:"count"`
			} `json:"evictions"`
		} `json:"schedulingStats"`
	} `json:"status"`
}

// queuedRun is how a Workload of Kueue ran.
type queuedRun struct {
	kueueWorkload
	// of is the object that it is of; slice says that others are of the same, as it was made larger or smaller.
	of    types.UID
	slice bool
	// admitted and finished are when it was admitted last and when it finished, zero for not; past is how long it was
	// admitted before.
	admitted, finished time.Time
	past               time.Duration
	// failed says that it finished without success, replaced that another slice went on, evicted that it was evicted.
	failed, replaced, evicted bool
	// request is what its pods request together, as they were admitted.
	request map[string]float64
	pods    int
}

// reasons of the condition Finished of Kueue.
const (
	finishedFailed   = "Failed"
	finishedRejected = "AdmissionChecksRejected"
	finishedOutdated = "OutOfSync"
	finishedReplaced = "WorkloadSliceReplaced"
)

func readQueuedRun(o exported) (q queuedRun, err error) {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(text, &q.kueueWorkload); err != nil {
		return q, units.ReadError(err)
	}
	if q.of = types.UID(q.Labels[kueue.LabelJobUID]); q.of == "" && len(q.OwnerReferences) > 0 {
		q.of = q.OwnerReferences[0].UID
	}
	_, q.slice = q.Annotations[kueue.AnnotationReplaces]
	for _, c := range q.Status.Conditions {
		switch is := c.Status == metav1.ConditionTrue; {
		case c.Type == "Admitted" && is:
			q.admitted = c.LastTransitionTime.Time
		case c.Type == "Finished" && is:
			q.finished = c.LastTransitionTime.Time
			q.failed = c.Reason == finishedFailed || c.Reason == finishedRejected || c.Reason == finishedOutdated
			q.replaced = c.Reason == finishedReplaced
			q.slice = q.slice || q.replaced
		case c.Type == "Evicted" || c.Type == "Requeued":
			q.evicted = true
		}
	}
	q.past = time.Duration(max(q.Status.Past, q.Status.PastInV1Beta1, 0)) * time.Second
	if s := q.Status.RequeueState; s != nil && s.Count > 0 {
		q.evicted = true
	}
	if s := q.Status.SchedulingStats; s != nil {
		for _, e := range s.Evictions {
			q.evicted = q.evicted || e.Count > 0
		}
	}
	counts := map[string]int32{}
	if a := q.Status.Admission; a != nil {
		for _, set := range a.PodSetAssignments {
			if set.Count != nil {
				counts[set.Name] = *set.Count
			}
		}
	}
	q.request = map[string]float64{}
	for i := range q.Spec.PodSets {
		set := &q.Spec.PodSets[i]
		count := set.Count
		if n, admitted := counts[set.Name]; admitted {
			count = n // which may be fewer than were asked for
		}
		for r, v := range kinds.RequestsOf(&set.Template.Spec) {
			q.request[r] += v * float64(count)
		}
		q.pods += int(count)
	}
	return q, nil
}

// ran is how long it was admitted in all, false where that is not over; a slice is over when another one replaces it.
func (q *queuedRun) ran() (time.Duration, bool) {
	if q.admitted.IsZero() || q.finished.IsZero() {
		return 0, false
	}
	return q.past + max(0, q.finished.Sub(q.admitted)), true
}

// failed reports whether what does not count has failed.
func (e *entry) failed() bool {
	if e.w != nil {
		return e.w.Facts.Failed
	}
	return slices.ContainsFunc(e.queued, func(q queuedRun) bool { return q.failed })
}

// run is how an object of an export ran; false where it has not finished well.
func (e *entry) run() (run, bool, error) {
	if e.w == nil {
		return e.queuedRun()
	}
	w := e.w
	o := w.Objects[0]
	ended := w.Facts.Ended
	if ended.IsZero() {
		ended = w.Kind.EndOf(o.Object)
	}
	x := run{kind: w.Kind.Name, created: w.Created(), job: trace.Job{ID: w.Namespace() + "/" + w.Name(), PriorityClass: w.Facts.PriorityClass, Class: w.Namespace()}}
	for _, at := range e.pods {
		if w.Kind.Spec.Hold.Gate {
			_, to, _ := Ran(at)
			ended = latest(ended, to)
		}
	}
	if w.Facts.Failed || ended.IsZero() {
		return x, false, nil
	}
	began := e.began()
	if x.created.IsZero() {
		x.created = began
	}
	size := e.size()
	x.job.Request = traced(size.Request, float64(size.Workers))
	x.job.Length = max(0, ended.Sub(began))
	ran, known := w.ranBefore(size.Workers)
	if at, changed := Changed(w); known && changed && at.After(began) {
		x.job.Length = max(0, ended.Sub(at)) // ran has what was before
	}
	x.job.Length += ran
	past, evictedBefore := e.past()
	if !known {
		x.job.Length += past
		x.evicted = past
		x.atLeast = past == 0 && (evictedBefore || w.resumed(began))
	}
	x.failures = failuresOf(w)
	if all, failed, evicted, complete := e.podTime(); complete && (!known || ran == 0) {
		x.job.Length, x.failed, x.evicted, x.failures, x.atLeast = max(all, past), failed, max(evicted, past), 0, false
	}
	return x.stated(w.Annotations())
}

// queuedRun is how a Workload of Kueue ran whose object is not in the export. The slices of one are stints at other
// sizes: they count at that of the last.
func (e *entry) queuedRun() (run, bool, error) {
	slices.SortStableFunc(e.queued, func(a, b queuedRun) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	first, last := &e.queued[0], &e.queued[len(e.queued)-1]
	x := run{kind: "Workload", created: first.CreationTimestamp.Time, job: trace.Job{
		ID: first.Namespace + "/" + first.Name, Request: traced(last.request, 1),
		PriorityClass: cmp.Or(last.Spec.PriorityClassName, last.Spec.PriorityClassRef.Name), Class: last.Spec.QueueName,
	}}
	if last.replaced {
		return x, false, nil // the slice that took its place is not in the export
	}
	for i := range e.queued {
		q := &e.queued[i]
		ran, over := q.ran()
		if q.failed || !over && q == last {
			return x, false, nil
		}
		if q.pods != last.pods && last.pods > 0 {
			ran = time.Duration(float64(ran) * float64(q.pods) / float64(last.pods))
		}
		x.job.Length += ran
		x.evicted += q.past
		x.atLeast = x.atLeast || q.evicted && q.past == 0
	}
	return x.stated(first.Annotations)
}

// began is when the last run of an object began: as it says, else when it was resumed, admitted or created.
func (e *entry) began() time.Time {
	w := e.w
	if w.Kind.Spec.Hold.Gate {
		var at time.Time
		for _, pod := range e.pods {
			from, _, _ := Ran(pod)
			at = earlier(at, from)
		}
		return at
	}
	if at := w.Facts.Started; !at.IsZero() {
		return at
	}
	at := w.resumedAt()
	for i := range e.queued {
		at = latest(at, e.queued[i].admitted)
	}
	if at.IsZero() {
		return w.Created()
	}
	return at
}

// size is what an object ran at: what it asked for, or where Kueue admitted fewer pods, those.
func (e *entry) size() Size {
	w := e.w
	if len(w.Objects) > 1 {
		return w.SizeAsSubmitted()
	}
	n := w.parallel(w.asked(), 0)
	for i := range e.queued {
		if q := &e.queued[i]; q.Status.Admission != nil && w.Facts.Workers > 0 && !q.slice {
			n = min(n, max(1, q.pods-w.Facts.Pods))
		}
	}
	return w.sized(n)
}

// past is how long Kueue had admitted it before it was evicted, and whether it was evicted at all.
func (e *entry) past() (past time.Duration, evicted bool) {
	for i := range e.queued {
		past += e.queued[i].past
		evicted = evicted || e.queued[i].evicted
	}
	return past, evicted
}

// ranBefore is the work of a workload before its last start or change of scale, as run time at a number of workers;
// false where Lull has not noted any.
func (w *Workload) ranBefore(workers int) (time.Duration, bool) {
	text, stated := w.Annotations()[v1alpha1.AnnotationRan]
	ran, err := time.ParseDuration(text)
	if !stated || err != nil || ran < 0 {
		return 0, false
	}
	// The annotation counts at the least scale.
	if o, err := ReadOptions(w.Annotations(), &v1alpha1.CarbonPolicySpec{}, w.Kind); err == nil && o.Elastic() {
		speed := func(n int) float64 { return float64(n) / (1 + serialShare*float64(n-1)) }
		ran = time.Duration(float64(ran) * speed(o.MinWorkers) / speed(max(o.MinWorkers, workers)))
	}
	return ran, true
}

// resumedAt is when an object was resumed after it had been suspended; zero where it does not say.
func (w *Workload) resumedAt() time.Time {
	status, _ := w.Objects[0].Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		c, _ := c.(map[string]any)
		if c["type"] != "Suspended" || c["status"] != "False" {
			continue
		}
		text, _ := c["lastTransitionTime"].(string)
		at, _ := time.Parse(time.RFC3339, text) // zero for what is no time, as above
		return at
	}
	return time.Time{}
}

// resumes is how soon after its creation an object that was created suspended may have been resumed: it has not run before.
const resumes = time.Minute

// resumed reports whether an object may have run before its last run began: it was resumed, and not at once.
func (w *Workload) resumed(began time.Time) bool {
	return !w.resumedAt().IsZero() && began.Sub(w.Created()) > resumes
}

// failuresOf is how many pods of an object failed, as a Job tells.
func failuresOf(w *Workload) int {
	status, _ := w.Objects[0].Object["status"].(map[string]any)
	switch n := status["failed"].(type) {
	case int64:
		return int(max(0, n))
	case float64:
		return int(max(0, min(n, 1e9)))
	}
	return 0
}

// podTime is for how long any pod of an object ran, and for how long only such ran that failed or were evicted. complete
// says that the pods that did the work are in the export.
func (e *entry) podTime() (all, failed, evicted time.Duration, complete bool) {
	var ran, well, taken []interval
	done := 0
	for _, pod := range e.pods {
		from, to, began := Ran(pod)
		if !began || to.IsZero() || !to.After(from) {
			continue
		}
		x := interval{from, to}
		ran = append(ran, x)
		switch {
		case Evicted(pod):
			taken = append(taken, x)
		case pod.Status.Phase == corev1.PodSucceeded:
			well = append(well, x)
			done++
		case pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil:
			well = append(well, x)
		}
	}
	all = union(ran)
	lost := all - union(well)
	evicted = min(lost, union(slices.Concat(well, taken))-union(well))
	return all, lost - evicted, evicted, done > 0 && done >= max(e.w.Facts.Done, min(e.w.Facts.Of, 1))
}

type interval struct{ from, to time.Time }

// union is for how long at least one of some intervals lasts.
func union(list []interval) (sum time.Duration) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b interval) int { return a.from.Compare(b.from) })
	var until time.Time
	for _, x := range list {
		if x.from.Before(until) {
			x.from = until
		}
		if x.to.After(x.from) {
			sum += x.to.Sub(x.from)
			until = x.to
		}
	}
	return sum
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
