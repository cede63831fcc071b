package kube

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// Quota is the least that the ResourceQuotas of a namespace allow its pods to ask for, by resource in base units. Quotas with scopes
// bound only some pods and are left out, and so are bounds of anything but requests.
func Quota(quotas []corev1.ResourceQuota) map[string]float64 {
	out := map[string]float64{}
	for i := range quotas {
		spec := &quotas[i].Spec
		if len(spec.Scopes) > 0 || spec.ScopeSelector != nil {
			continue
		}
		for name, q := range spec.Hard {
			r := strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
			if r == string(name) && name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
				continue
			}
			hard := q.AsApproximateFloat64()
			if least, bounded := out[r]; !bounded || hard < least {
				out[r] = hard
			}
		}
	}
	return out
}

// WithinQuota bounds what the tasks of a view may use of this cluster by the quota of their namespace: the nodes' capacity where
// that is less, and what others take of the namespace's share as load. others are the uses of other policies. A quota below what the
// namespace takes now stops no pod, so it counts as that.
//
// Complexity: O(tasks + resources x slots).
func (v *View) WithinQuota(quota map[string]float64, others []Use, timeline timegrid.Timeline) {
	if len(quota) == 0 {
		return
	}
	s, here := &v.Snapshot, &v.Snapshot.Clusters[0]
	var beside []Use
	for i := range others {
		if others[i].Namespace == v.Namespace {
			beside = append(beside, others[i])
		}
	}
	planned := Expected(nil, beside, here.Name, timeline, timegrid.Align(s.Now, s.Slot), s.Slot)
	own := v.runs()
	here.Capacity, here.Load = maps.Clone(here.Capacity), maps.Clone(here.Load)
	here.CapacityAt, here.LoadAt = maps.Clone(here.CapacityAt), maps.Clone(here.LoadAt)
	if here.Load == nil {
		here.Load = map[string]float64{}
	}
	if here.LoadAt == nil {
		here.LoadAt = map[string][]float64{}
	}
	for r, hard := range quota {
		if _, has := here.Capacity[r]; !has {
			continue
		}
		withinHard(here, r, max(hard, own[r]+v.beside[r]+at(planned[r], 0)), v.beside[r], planned[r])
	}
}

// withinHard bounds what tasks may use of a resource of a cluster by the quota hard. Other pods of the namespace take beside of the quota
// all the time, and planned in each slot on top.
func withinHard(c *decide.Cluster, r string, hard, beside float64, planned []float64) {
	capacity, load, ahead := c.Capacity[r], c.Load[r], c.LoadAt[r]
	steps := c.CapacityAt[r]
	offered := func(t int) float64 {
		if len(steps) == 0 {
			return capacity
		}
		return steps[min(t, len(steps)-1)]
	}
	// taken is the load of a slot that leaves the tasks as much as the nodes have left beside load, and as the quota has left beside taken.
	taken := func(t int, load, taken float64) float64 {
		most := min(offered(t), hard)
		return min(most, max(0, most-min(offered(t)-load, hard-taken)))
	}
	slots := max(len(ahead), len(planned), len(steps))
	base := taken(slots, load, beside)
	out := make([]float64, slots)
	bounded := slices.Clone(steps)
	for t := range out {
		more := taken(t, load+at(ahead, t), beside+at(planned, t)) - base
		out[t] = max(0, more)
		if t < len(steps) { // where more is offered, others may leave too little of less
			bounded[t] = min(steps[t], hard) + max(0, -more)
		}
	}
	c.Capacity[r], c.Load[r], c.LoadAt[r] = min(capacity, hard), base, out
	if len(steps) > 0 {
		c.CapacityAt[r] = bounded
	}
}

// at is a value of a slot; nothing goes on after the last one.
func at(values []float64, t int) float64 {
	if t >= len(values) {
		return 0
	}
	return values[t]
}

// runs is what the tasks take now.
func (v *View) runs() map[string]float64 {
	out := map[string]float64{}
	for i := range v.Snapshot.Tasks {
		t := &v.Snapshot.Tasks[i]
		if t.State != decide.Running || t.Unscheduled {
			continue
		}
		workers := 1
		if t.Scaling != nil {
			workers = max(t.Workers-t.Lacking, t.Scaling.MinWorkers)
		}
		for r, q := range t.Request {
			out[r] += q * float64(workers)
		}
	}
	return out
}

// takesQuota sums the requests of the pods of a namespace that the API server counts against its quota, except those for which skip is
// true: pods that have not ended and are not long deleted. Pods that Lull keeps gated are left out, because their plans count.
func takesQuota(namespace string, pods []corev1.Pod, now time.Time, skip func(*corev1.Pod) bool) map[string]float64 {
	sum := map[string]float64{}
	for i := range pods {
		pod := &pods[i]
		gone := pod.DeletionTimestamp != nil && now.After(pod.DeletionTimestamp.Time)
		gated := len(pod.Spec.SchedulingGates) > 0 && pod.Annotations[v1alpha1.AnnotationPolicy] != ""
		if pod.Namespace != namespace || over(pod) || gone || gated || skip(pod) {
			continue
		}
		for r, q := range Requests(pod) {
			sum[r] += q
		}
	}
	return sum
}
