package kube

import corev1 "k8s.io/api/core/v1"

// Capacity sums what the ready, schedulable nodes offer.
func Capacity(nodes []corev1.Node) map[string]float64 {
	sum := map[string]float64{}
	for i := range nodes {
		if !Offers(&nodes[i]) {
			continue
		}
		for r, q := range Amounts(nodes[i].Status.Allocatable) {
			sum[r] += q
		}
	}
	return sum
}

// Offers reports whether a node is ready and takes pods.
func Offers(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Load sums what the live pods of others ask for. Pods without a node take nothing yet, and do not count.
func Load(pods []corev1.Pod, ours func(*corev1.Pod) bool) map[string]float64 {
	sum := map[string]float64{}
	for i := range pods {
		pod := &pods[i]
		if !takes(pod) || ours(pod) {
			continue
		}
		for r, q := range Requests(pod) {
			sum[r] += q
		}
	}
	return sum
}

// Requests is what a pod asks for, in base units: cores, bytes, pieces.
func Requests(pod *corev1.Pod) map[string]float64 {
	return Amounts(requestsOf(pod))
}

// upTo bounds a load by the capacity.
func upTo(load, capacity map[string]float64) map[string]float64 {
	for r := range load {
		load[r] = min(load[r], capacity[r])
	}
	return load
}

// takes reports whether a pod takes capacity: it has a node, and has not ended. What waits for a scheduler takes nothing: if none runs for a while, as during an upgrade of
// the control plane, work of others that piles up would leave no room for all that is held, which would be released at once.
func takes(pod *corev1.Pod) bool {
	return !over(pod) && (OnNode(pod) || pod.Status.Phase != corev1.PodPending)
}

// OnNode reports whether a scheduler has bound a pod to a node, or the kubelet there has accepted it. Everybody who may create a pod may write any name into
// its spec.nodeName: if no node has that name, the pod takes nothing, and a kubelet refuses what its node has no room for.
func OnNode(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	if pod.Status.StartTime != nil || pod.Status.Phase == corev1.PodRunning {
		return true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Amounts are quantities in base units: cores, bytes, pieces.
func Amounts(list corev1.ResourceList) map[string]float64 {
	out := make(map[string]float64, len(list))
	for r, q := range list {
		out[string(r)] = q.AsApproximateFloat64()
	}
	return out
}
