package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CronJobGVK is the kind of the CronJobs that Lull reads.
var CronJobGVK = batchv1.SchemeGroupVersion.WithKind("CronJob")

// errSchedule marks a schedule whose next time cannot be computed.
var errSchedule = errors.New("invalid schedule")

// CronJobs are CronJobs as they were last listed.
type CronJobs struct {
	byKey map[types.NamespacedName]cronJob
	// Err says why they could not be listed.
	Err error
}

// cronJob is the part of a CronJob that says when it runs next, and what becomes then of the Job before.
type cronJob struct {
	uid                        types.UID
	schedule, timeZone, policy string
	suspended                  bool
}

// NextRun is the next run of the CronJob that has created a workload.
type NextRun struct {
	// CronJob is its name; "" for a workload that no CronJob has created.
	CronJob string
	// Policy is its concurrencyPolicy.
	Policy string
	// At is when (wall time) the workload must be done, as the run of that time would be skipped or would replace
	// it; zero where none would.
	At time.Time
	// Err says why that cannot be told. Such a workload is not held.
	Err error
}

// CronJobsServed asks the API server whether CronJobs may be listed. live must read from the API server.
func CronJobsServed(ctx context.Context, live client.Reader) (Service, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(CronJobGVK.GroupVersion().WithKind(CronJobGVK.Kind + "List"))
	service, err := serviceOf(ctx, live, list)
	if err != nil {
		err = fmt.Errorf("look for CronJobs: %w", err)
	}
	return service, err
}

// CronJobsForbidden says that who, a part of Lull, may not list CronJobs.
func CronJobsForbidden(who string) error {
	return fmt.Errorf("the %s may not list CronJobs: grant it list and watch of cronjobs.batch", who)
}

// ListCronJobs lists the CronJobs of a namespace, or of all where it is empty.
func ListCronJobs(ctx context.Context, c client.Reader, namespace string) (CronJobs, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(CronJobGVK.GroupVersion().WithKind(CronJobGVK.Kind + "List"))
	if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return CronJobs{}, fmt.Errorf("list CronJobs: %w", err)
	}
	out := CronJobs{byKey: make(map[types.NamespacedName]cronJob, len(list.Items))}
	for i := range list.Items {
		u := &list.Items[i]
		text := func(field string) string {
			v, _, _ := unstructured.NestedString(u.Object, "spec", field)
			return v
		}
		suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
		out.byKey[client.ObjectKeyFromObject(u)] = cronJob{u.GetUID(), text("schedule"), text("timeZone"), text("concurrencyPolicy"), suspended}
	}
	return out, nil
}

// PruneCronJob takes out of a CronJob what ListCronJobs does not read, its template above all.
func PruneCronJob(obj map[string]any) {
	keep := func(of map[string]any, fields ...string) map[string]any {
		out := map[string]any{}
		for _, f := range fields {
			if v, ok := of[f]; ok {
				out[f] = v
			}
		}
		return out
	}
	metadata, _ := obj["metadata"].(map[string]any)
	spec, _ := obj["spec"].(map[string]any)
	obj["metadata"] = keep(metadata, "name", "namespace", "uid", "resourceVersion")
	obj["spec"] = keep(spec, "schedule", "timeZone", "concurrencyPolicy", "suspend")
	delete(obj, "status")
}

// cronOwner is the CronJob that has created a workload; nil for one that none has.
func (w *Workload) cronOwner() *metav1.OwnerReference {
	if len(w.Objects) == 0 {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(w.Objects[0])
	if owner == nil || owner.Kind != CronJobGVK.Kind {
		return nil
	}
	return owner
}

// OfCronJob reports whether a CronJob has created the workload.
func (w *Workload) OfCronJob() bool { return w.cronOwner() != nil }

// WithCronJobs returns workloads with the next runs of the CronJobs that have created them. It lists CronJobs only if
// one has created any of them.
func WithCronJobs(workloads []*Workload, list func() CronJobs) []*Workload {
	if !slices.ContainsFunc(workloads, (*Workload).OfCronJob) {
		return workloads
	}
	of, out := list(), make([]*Workload, len(workloads))
	for i, w := range workloads {
		out[i] = w.withCronJobs(of)
	}
	return out
}

// withCronJobs returns the workload with the next run of the CronJob that has created it.
func (w *Workload) withCronJobs(of CronJobs) *Workload {
	owner := w.cronOwner()
	if owner == nil {
		return w
	}
	out := *w
	out.Next = of.next(w, owner)
	return &out
}

// next is the next run of the CronJob owner after the one that created w.
func (of CronJobs) next(w *Workload, owner *metav1.OwnerReference) NextRun {
	n := NextRun{CronJob: owner.Name}
	if owner.APIVersion != CronJobGVK.GroupVersion().String() {
		n.Err = fmt.Errorf("CronJob %s is of %.80s: Lull cannot compute its next run", owner.Name, owner.APIVersion)
		return n
	}
	if of.Err != nil {
		n.Err = fmt.Errorf("CronJob %s cannot be read: %w", owner.Name, of.Err)
		return n
	}
	c, ok := of.byKey[types.NamespacedName{Namespace: w.Namespace(), Name: owner.Name}]
	n.Policy = c.policy
	switch {
	case !ok || c.uid != owner.UID: // it is gone, and so are its next runs
		return n
	case c.suspended, c.policy == "", c.policy == string(batchv1.AllowConcurrent):
		return n
	}
	at, err := c.after(w)
	if err != nil {
		n.Err = fmt.Errorf("CronJob %s: %w", owner.Name, err)
	}
	n.At = at
	return n
}

// maxSkew is how far the clocks of the API server and of the CronJob controller may differ.
const maxSkew = 5 * time.Minute

// maxSteps bounds the runs of a schedule between the time that a Job was made for and its creation.
const maxSteps = 100

// after is the first time of the schedule after the run that created w; zero where there is none. Without a time
// zone the schedule counts in that of the CronJob controller, which the Job's scheduled time is written in; else in
// UTC.
func (c *cronJob) after(w *Workload) (time.Time, error) {
	schedule, err := parseSchedule(c.schedule)
	if err != nil {
		return time.Time{}, err
	}
	created, in := w.Created(), time.UTC
	scheduled, err := time.Parse(time.RFC3339, w.Annotations()[batchv1.CronJobScheduledTimestampAnnotation])
	known := err == nil && !scheduled.After(created.Add(maxSkew))
	if known {
		in = scheduled.Location()
	} else {
		scheduled = created
	}
	if c.timeZone != "" {
		if in, err = time.LoadLocation(c.timeZone); err != nil {
			return time.Time{}, fmt.Errorf("%w: timeZone %q: %w", errSchedule, c.timeZone, err)
		}
	}
	at := schedule.Next(scheduled.In(in))
	for step := 0; !at.IsZero() && !at.After(created); step++ {
		if step == maxSteps { // of an annotation that somebody broke
			return schedule.Next(created.In(in)), nil
		}
		at = schedule.Next(at)
	}
	return at, nil
}

// parseSchedule parses a schedule as the CronJob controller does, which catches the panics of the library too.
func parseSchedule(text string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("%w %q: %v", errSchedule, text, r)
		}
	}()
	s, err = cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", errSchedule, text, err)
	}
	return s, nil
}

// note says what the next run of its CronJob means for a workload; bounds says that it sets the deadline. It is "" if
// the run means nothing.
func (n *NextRun) note(bounds bool) string {
	switch {
	case n.Err != nil:
		return "not held: " + n.Err.Error()
	case !bounds:
		return ""
	}
	return fmt.Sprintf("must end by %s, the next run of CronJob %s (concurrencyPolicy %s)", n.At.UTC().Format(time.RFC3339), n.CronJob, n.Policy)
}
