package kube

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Loads keeps what the pods of each namespace ask for and what the nodes offer, for the decisions of many policies. Watches feed it.
// Its sums are of quantities, which are exact: they do not depend on the order of changes. It is safe for concurrent use.
type Loads struct {
	mu     sync.Mutex
	spaces map[string]*podSpace
	nodes  map[string]corev1.ResourceList
	offer  amounts
	// offered is what nodes offered when they last did, at the time offeredAt.
	offered   map[string]float64
	offeredAt time.Time
}

// nodesGrace is for how long (wall time) what nodes offered counts after the last of them is gone or cordoned, as during the
// maintenance of a small cluster: without capacity nothing can be planned, and all that waits would be released at once.
const nodesGrace = 10 * time.Minute

// podSpace has the pods of a namespace, by name.
type podSpace struct {
	pods map[string]*corev1.Pod
	// load is what the live ones ask for.
	load amounts
	// counted are the uses that were taken out of load for strangers; it is current if fresh is set.
	fresh     bool
	counted   []*podIndex
	strangers amounts
}

// amounts are sums by resource, each with the number of its summands: a resource of none is left out.
type amounts map[corev1.ResourceName]*amount

type amount struct {
	sum resource.Quantity
	n   int
}

// add adds requests; sign is 1 or -1.
func (a amounts) add(list corev1.ResourceList, sign int) {
	for r, q := range list {
		x := a[r]
		if x == nil {
			x = &amount{}
			a[r] = x
		}
		if x.n += sign; sign > 0 {
			x.sum.Add(q)
		} else {
			x.sum.Sub(q)
		}
		if x.n == 0 {
			delete(a, r)
		}
	}
}

// join adds other sums.
func (a amounts) join(b amounts) {
	for r, y := range b {
		x := a[r]
		if x == nil {
			x = &amount{}
			a[r] = x
		}
		x.n += y.n
		x.sum.Add(y.sum)
	}
}

func (a amounts) values() map[string]float64 {
	out := make(map[string]float64, len(a))
	for r, x := range a {
		out[string(r)] = x.sum.AsApproximateFloat64()
	}
	return out
}

// NewLoads returns one that knows no pods and no nodes.
func NewLoads() *Loads {
	return &Loads{spaces: map[string]*podSpace{}, nodes: map[string]corev1.ResourceList{}, offer: amounts{}, offered: map[string]float64{}}
}

// SetPod takes a pod in, in place of what was known of one of its name. The pod must not be modified afterwards.
//
// Complexity: O(containers).
func (l *Loads) SetPod(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spaces[pod.Namespace]
	if s == nil {
		s = &podSpace{pods: map[string]*corev1.Pod{}, load: amounts{}}
		l.spaces[pod.Namespace] = s
	}
	s.drop(pod.Name)
	s.pods[pod.Name] = pod
	if takes(pod) {
		s.load.add(requestsOf(pod), 1)
	}
}

// DeletePod forgets a pod.
func (l *Loads) DeletePod(namespace, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.spaces[namespace]; s != nil {
		if s.drop(name); len(s.pods) == 0 {
			delete(l.spaces, namespace)
		}
	}
}

func (s *podSpace) drop(name string) {
	s.fresh = false
	if old := s.pods[name]; old != nil && takes(old) {
		s.load.add(requestsOf(old), -1)
	}
	delete(s.pods, name)
}

// SetNode takes a node in, in place of what was known of one of its name. The node must not be modified afterwards.
func (l *Loads) SetNode(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offer.add(l.nodes[node.Name], -1)
	delete(l.nodes, node.Name)
	if Offers(node) {
		l.nodes[node.Name] = node.Status.Allocatable
		l.offer.add(node.Status.Allocatable, 1)
	}
}

// DeleteNode forgets a node.
func (l *Loads) DeleteNode(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offer.add(l.nodes[name], -1)
	delete(l.nodes, name)
}

// Capacity is what the ready, schedulable nodes offer, as the function Capacity has it. If there are none any more, it is what they
// offered before for nodesGrace.
//
// Complexity: O(resources).
func (l *Loads) Capacity(now time.Time) map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.nodes) > 0:
		l.offered, l.offeredAt = l.offer.values(), now
	case now.Sub(l.offeredAt) >= nodesGrace:
		l.offered = map[string]float64{}
	}
	return maps.Clone(l.offered)
}

// Outside sums what live pods in all namespaces but one ask for, without the pods for which the stretches of other policies count.
// It sums the pods of a namespace anew only if one of them or the use of one of its policies has changed.
//
// Complexity: O(namespaces × resources + policies + pods of namespaces that have changed × policies of these).
func (l *Loads) Outside(namespace string, others []Use) map[string]float64 {
	of := byNamespace(others)
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := amounts{}
	for name, s := range l.spaces {
		if name != namespace {
			sum.join(s.without(of[name]))
		}
	}
	return sum.values()
}

// without is what the pods ask for that are in none of the indices.
func (s *podSpace) without(counted []*podIndex) amounts {
	if len(counted) == 0 {
		s.fresh, s.counted, s.strangers = false, nil, nil
		return s.load
	}
	if !s.fresh || !slices.Equal(s.counted, counted) {
		s.strangers = amounts{}
		for _, pod := range s.pods {
			if takes(pod) && !inAny(counted, pod) {
				s.strangers.add(requestsOf(pod), 1)
			}
		}
		s.fresh, s.counted = true, counted
	}
	return s.strangers
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}
