package controller

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// The cache keeps of pods and nodes what a snapshot reads: thousands of them must not
// cost hundreds of megabytes.

// cacheOptions are those of the controller's cache; transform is applied to objects of all kinds but Pods and Nodes.
func cacheOptions(transform toolscache.TransformFunc) cache.Options {
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: stripPod}, &corev1.Node{}: {Transform: stripNode},
		},
		DefaultTransform: transform,
	}
}

// stripMetadata drops of an object that is cached by its Go type what nothing reads from the cache, and its owner may fill.
func stripMetadata(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		kinds.TrimMetadata(m)
	}
	return o, nil
}

func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
			Labels: pod.Labels, CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}
	for i := range pod.Status.ContainerStatuses { // when they ran
		var state corev1.ContainerState
		restarts := pod.Status.ContainerStatuses[i].RestartCount
		switch of := &pod.Status.ContainerStatuses[i].State; {
		case of.Running != nil:
			state.Running = of.Running
		case of.Terminated != nil:
			state.Terminated = &corev1.ContainerStateTerminated{StartedAt: of.Terminated.StartedAt, FinishedAt: of.Terminated.FinishedAt}
		case restarts == 0:
			continue
		}
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{State: state, RestartCount: restarts})
	}
	if pod.Annotations[v1alpha1.AnnotationPolicy] != "" { // a workload of its own
		var unknown *kinds.Kind
		kept.Annotations, kept.Spec.SchedulingGates, kept.Spec.PriorityClassName = unknown.Trimmed(pod.Annotations), pod.Spec.SchedulingGates, pod.Spec.PriorityClassName
		kept.Spec.ActiveDeadlineSeconds = pod.Spec.ActiveDeadlineSeconds
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled || c.Type == corev1.PodReady {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	for _, c := range pod.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	for _, c := range pod.Spec.InitContainers {
		kept.Spec.InitContainers = append(kept.Spec.InitContainers, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return kept, nil
}

func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	kept := metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels}
	if mark, marked := node.Annotations[v1alpha1.AnnotationCapacity]; marked {
		kept.Annotations = map[string]string{v1alpha1.AnnotationCapacity: mark}
	}
	return &corev1.Node{
		ObjectMeta: kept,
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status:     corev1.NodeStatus{Allocatable: node.Status.Allocatable, Conditions: node.Status.Conditions},
	}, nil
}
