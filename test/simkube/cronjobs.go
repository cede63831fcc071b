package simkube

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cronJobController is the name under which Jobs of CronJobs are created: they go through admission, as Jobs of users do.
const cronJobController = "cronjob-controller"

// cronJobs does what the controller of CronJobs does: it creates the Jobs whose time has come. Time zones, starting
// deadlines and histories are not modelled. It returns when the next run is due.
func (c *Cluster) cronJobs(now time.Time) (next time.Time) {
	list, _ := c.store.List(c.store.Resource("CronJob"), "")
	for _, u := range list {
		var of batchv1.CronJob
		typed(u, &of)
		if of.Spec.Suspend != nil && *of.Spec.Suspend {
			continue
		}
		schedule, err := cron.ParseStandard(of.Spec.Schedule)
		must(err)
		last := of.CreationTimestamp.Time
		if of.Status.LastScheduleTime != nil {
			last = of.Status.LastScheduleTime.Time
		}
		var due time.Time // the last run that is due; those before it were missed
		at := schedule.Next(last.UTC())
		for ; !at.After(now); at = schedule.Next(at) {
			due = at
		}
		if !due.IsZero() {
			c.cronRun(&of, due)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// cronRun creates the Job of a run. While a Job before it has not ended, Forbid skips the run, and Replace deletes that Job.
func (c *Cluster) cronRun(of *batchv1.CronJob, at time.Time) {
	jobs, _ := c.store.List(c.store.Resource("Job"), of.Namespace)
	for _, u := range jobs {
		var job batchv1.Job
		typed(u, &job)
		if owner := metav1.GetControllerOf(&job); owner == nil || owner.UID != of.UID || job.Status.CompletionTime != nil {
			continue
		}
		switch of.Spec.ConcurrencyPolicy {
		case batchv1.ForbidConcurrent: // the time of the last run stays as it is: the run is made up for when the Job has ended
			return
		case batchv1.ReplaceConcurrent:
			must(c.store.Delete(cronJobController, c.store.Resource("Job"), nameOf(&job), job.UID))
		}
	}
	annotations := map[string]string{batchv1.CronJobScheduledTimestampAnnotation: at.Format(time.RFC3339)}
	for k, v := range of.Spec.JobTemplate.Annotations {
		annotations[k] = v
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", of.Name, at.Unix()/60), Namespace: of.Namespace, Labels: of.Spec.JobTemplate.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: of.Spec.JobTemplate.Spec,
	}
	mustStore(c.store.Create(cronJobController, c.store.Resource("Job"), object(job))) // the change wakes the cluster for its Pods
	of.Status.LastScheduleTime = &metav1.Time{Time: at}
	mustStore(c.store.Change("", c.store.Resource("CronJob"), nameOf(of), true, func(u *unstructured.Unstructured) error {
		u.Object["status"] = object(of).Object["status"]
		return nil
	}))
}
