package simkube

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
)

// evictAfter is how long the pods of a node that does not answer stay: what Kubernetes tolerates by default.
const evictAfter = 5 * time.Minute

// lostWork counts what pods had done that went with their nodes.
type lostWork struct {
	mu sync.Mutex
	of map[types.UID][]lostPod
}

// lostPod is how long a pod had been there when it was lost.
type lostPod struct {
	at    time.Time
	after time.Duration
}

// DeleteNode deletes a node, as the owner of a spot instance does. Its pods are gone with it, and what they did is lost.
func (w *World) DeleteNode(name string) {
	must(w.Store.Delete("", w.Store.Resource("Node"), types.NamespacedName{Name: name}, ""))
}

// SetReady has the kubelet of a node fall silent, or answer again. The containers of a silent node go on. If it is silent for more
// than five minutes, its pods are evicted, and what they did is lost.
func (w *World) SetReady(name string, ready bool) {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	conditions := object(&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}}})
	list, _, _ := unstructured.NestedSlice(conditions.Object, "status", "conditions")
	mustStore(w.Store.Change("", w.Store.Resource("Node"), types.NamespacedName{Name: name}, true, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedSlice(u.Object, list, "status", "conditions")
	}))
}

// Lost is how long the pods of a Job that were lost with their nodes by a time had been there, and how many were lost.
func (c *Cluster) Lost(job types.UID, by time.Time) (sum time.Duration, times int) {
	c.lost.mu.Lock()
	defer c.lost.mu.Unlock()
	for _, pod := range c.lost.of[job] {
		if !pod.at.After(by) {
			sum, times = sum+pod.after, times+1
		}
	}
	return sum, times
}

// unreachable is since when nodes have been silent, by name.
func (c *Cluster) unreachable() map[string]time.Time {
	out := map[string]time.Time{}
	list, _ := c.store.List(c.store.Resource("Node"), "")
	for _, u := range list {
		var node corev1.Node
		typed(u, &node)
		for _, x := range node.Status.Conditions {
			if x.Type == corev1.NodeReady && x.Status != corev1.ConditionTrue {
				out[node.Name] = x.LastTransitionTime.Time
			}
		}
	}
	return out
}

// evict deletes the pods of nodes that are gone, or silent for too long. It returns when the next pod is to be evicted.
func (c *Cluster) evict(now time.Time) (next time.Time) {
	silent, nodes := c.unreachable(), map[string]bool{}
	list, _ := c.store.List(c.store.Resource("Node"), "")
	for _, u := range list {
		nodes[u.GetName()] = true
	}
	list, _ = c.store.List(c.store.Resource("Pod"), "")
	for _, u := range list {
		pod := &corev1.Pod{}
		typed(u, pod)
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		since, unreachable := silent[pod.Spec.NodeName]
		at := since.Add(evictAfter)
		switch {
		case nodes[pod.Spec.NodeName] && !unreachable:
		case unreachable && now.Before(at):
			if next.IsZero() || at.Before(next) {
				next = at
			}
		default:
			c.lose(pod, now)
		}
	}
	return next
}

// lose deletes a pod with what it did.
func (c *Cluster) lose(pod *corev1.Pod, now time.Time) {
	r := c.pods[pod.UID]
	delete(c.pods, pod.UID)
	for _, o := range pod.OwnerReferences {
		if o.Kind != "Job" || r == nil {
			continue
		}
		if u := c.store.Get(c.store.Resource("Job"), types.NamespacedName{Namespace: pod.Namespace, Name: o.Name}); u != nil && u.GetUID() == o.UID && !r.ends.IsZero() && interruptible(u) {
			c.left[o.UID] = append(c.left[o.UID], r.ends.Sub(r.starts))
		}
		c.lost.add(o.UID, lostPod{now, max(0, now.Sub(r.starts))})
	}
	must(c.store.Delete("", c.store.Resource("Pod"), nameOf(pod), pod.UID))
}

func (l *lostWork) add(job types.UID, pod lostPod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.UID][]lostPod{}
	}
	l.of[job] = append(l.of[job], pod)
}

func interruptible(o metav1.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationInterruptible] == "true"
}
