package simkube

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// refusal is when the Job controller tries again to make a pod that a ResourceQuota refused.
type refusal struct {
	until time.Time
	times int
}

// The Job controller tries again after a second, and after twice as long each time, up to a minute.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// withinQuota reports whether the ResourceQuotas of its namespace allow a pod of a Job: by CPU, as the scheduler of this model
// counts nothing else.
func (c *Cluster) withinQuota(job *batchv1.Job, pod *corev1.Pod, now time.Time) bool {
	quotas, _ := c.store.List(c.store.Resource("ResourceQuota"), pod.Namespace)
	if len(quotas) == 0 {
		return true
	}
	r := c.refused[job.UID]
	if now.Before(r.until) {
		return false
	}
	used := cpu(pod)
	list, _ := c.store.List(c.store.Resource("Pod"), pod.Namespace)
	for _, u := range list {
		var other corev1.Pod
		if typed(u, &other); other.Status.Phase != corev1.PodSucceeded && other.Status.Phase != corev1.PodFailed {
			used += cpu(&other)
		}
	}
	for _, u := range quotas {
		var quota corev1.ResourceQuota
		typed(u, &quota)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceRequestsCPU} {
			if hard, bounded := quota.Spec.Hard[name]; bounded && used > hard.MilliValue() {
				wait := min(lastRetry, firstRetry<<min(r.times, 10))
				c.refused[job.UID] = refusal{now.Add(time.Duration(float64(wait) / c.Factor)), r.times + 1}
				return false
			}
		}
	}
	delete(c.refused, job.UID)
	return true
}

// retries returns when the next pod is tried again; zero if none was refused. It forgets Jobs that are gone.
func (c *Cluster) retries(now time.Time) (next time.Time) {
	jobs := map[types.UID]bool{}
	list, _ := c.store.List(c.store.Resource("Job"), "")
	for _, u := range list {
		jobs[u.GetUID()] = true
	}
	for uid, r := range c.refused {
		switch {
		case !jobs[uid]:
			delete(c.refused, uid)
		case r.until.After(now) && (next.IsZero() || r.until.Before(next)):
			next = r.until
		}
	}
	return next
}
