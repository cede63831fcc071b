package simkube

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// podTemplateHash is the label of a ReplicaSet and its Pods that tells them from those of another template.
const podTemplateHash = "pod-template-hash"

// replicaSetController is the name under which Pods of ReplicaSets are created: they go through admission, as Pods that
// another controller owns must not be governed by themselves.
const replicaSetController = "replicaset-controller"

// deployments does what the controllers of Deployments and ReplicaSets do. When the template of a Deployment changes, the
// ReplicaSet of the old one goes to no replicas at once: Lull changes no template, so that no rollout in steps is modelled.
func (c *Cluster) deployments(pods map[types.UID][]*corev1.Pod) {
	owned := map[types.UID][]*appsv1.ReplicaSet{}
	list, _ := c.store.List(c.store.Resource("ReplicaSet"), "")
	for _, u := range list {
		set := &appsv1.ReplicaSet{}
		typed(u, set)
		for _, o := range set.OwnerReferences {
			owned[o.UID] = append(owned[o.UID], set)
		}
	}
	list, _ = c.store.List(c.store.Resource("Deployment"), "")
	for _, u := range list {
		var d appsv1.Deployment
		typed(u, &d)
		c.deployment(&d, owned[d.UID])
		status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
		for _, set := range owned[d.UID] {
			s := c.replicaSet(set, pods[set.UID])
			status.Replicas += s.Replicas
			status.ReadyReplicas += s.ReadyReplicas
			status.AvailableReplicas += s.AvailableReplicas
			if set.Labels[podTemplateHash] == hashOf(&d.Spec.Template) {
				status.UpdatedReplicas = s.Replicas
			}
		}
		mustStore(c.store.Change("", c.store.Resource("Deployment"), nameOf(&d), true, func(u *unstructured.Unstructured) error {
			u.Object["status"] = object(&appsv1.Deployment{Status: status}).Object["status"]
			return nil
		}))
	}
}

// deployment sees to it that the ReplicaSet of a Deployment's template has its replicas, and that the others have none.
func (c *Cluster) deployment(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) {
	hash, replicas := hashOf(&d.Spec.Template), int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	found := false
	for _, set := range sets {
		want := int32(0)
		if set.Labels[podTemplateHash] == hash {
			found, want = true, replicas
		}
		if *set.Spec.Replicas == want {
			continue
		}
		*set.Spec.Replicas = want
		mustStore(c.store.Change("", c.store.Resource("ReplicaSet"), nameOf(set), false, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, int64(want), "spec", "replicas")
		}))
	}
	if found {
		return
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name + "-" + hash, Namespace: d.Namespace, Labels: withHash(d.Spec.Template.Labels, hash),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Template: *d.Spec.Template.DeepCopy()},
	}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: withHash(d.Spec.Selector.MatchLabels, hash)}
	set.Spec.Template.Labels = set.Labels
	mustStore(c.store.Create("", c.store.Resource("ReplicaSet"), object(set))) // the change wakes the cluster for its Pods
}

// replicaSet creates and deletes Pods of a ReplicaSet, and returns its status.
func (c *Cluster) replicaSet(set *appsv1.ReplicaSet, pods []*corev1.Pod) appsv1.ReplicaSetStatus {
	for len(pods) > int(*set.Spec.Replicas) {
		pod := pods[len(pods)-1]
		pods = pods[:len(pods)-1]
		delete(c.pods, pod.UID)
		must(c.store.Delete("", c.store.Resource("Pod"), nameOf(pod), pod.UID))
	}
	status := appsv1.ReplicaSetStatus{ObservedGeneration: set.Generation, Replicas: int32(len(pods))}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
	}
	for status.Replicas < *set.Spec.Replicas {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.GenerateName, pod.Namespace = set.Name+"-", set.Namespace
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
		mustStore(c.store.Create(replicaSetController, c.store.Resource("Pod"), object(pod)))
		status.Replicas++
	}
	mustStore(c.store.Change("", c.store.Resource("ReplicaSet"), nameOf(set), true, func(u *unstructured.Unstructured) error {
		u.Object["status"] = object(&appsv1.ReplicaSet{Status: status}).Object["status"]
		return nil
	}))
	return status
}

// hashOf tells pod templates apart.
func hashOf(template *corev1.PodTemplateSpec) string {
	text, err := json.Marshal(template)
	must(err)
	h := fnv.New32a()
	_, _ = h.Write(text)
	return fmt.Sprintf("%08x", h.Sum32())
}

func withHash(labels map[string]string, hash string) map[string]string {
	out := map[string]string{podTemplateHash: hash}
	for k, v := range labels {
		out[k] = v
	}
	return out
}
