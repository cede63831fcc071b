package controlloop

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// TestPodsAndDeployments: kinds without a suspend field: a Pod and a group of Pods are held by their scheduling gate, a
// Deployment at no replicas, and get back what they had.
func TestPodsAndDeployments(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Pod", "Deployment"} }, func(b *bed) {
		b.Controller()
		annotations := func(more ...string) map[string]string {
			out := map[string]string{v1alpha1.AnnotationRuntime: "1h", v1alpha1.AnnotationMaxDelay: "12h", simkube.RunTime: "1h"}
			for i := 0; i < len(more); i += 2 {
				out[more[i]] = more[i+1]
			}
			return out
		}
		spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}}
		pod := func(name, group string) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns, Labels: map[string]string{"team": "batch"}, Annotations: annotations()}, Spec: *spec.DeepCopy()}
			if group != "" {
				p.Labels[v1alpha1.LabelGroup] = group
				p.Annotations = annotations(v1alpha1.AnnotationGroupSize, "2")
			}
			return p
		}
		always := spec.DeepCopy()
		always.RestartPolicy = corev1.RestartPolicyAlways
		// The label of the policy is on the pods of the Deployment too: they are part of it, not workloads.
		labels := map[string]string{"team": "batch", "app": "w"}
		b.Create(pod("alone", ""), pod("left", "pair"), pod("right", "pair"), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: b.ns, Labels: labels, Annotations: annotations()},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *always},
			},
		})
		names := []string{"alone", "left", "right"}
		read := func(name string) *corev1.Pod {
			var p corev1.Pod
			b.read(name, &p)
			return &p
		}
		deployment := func() *appsv1.Deployment {
			var d appsv1.Deployment
			b.read("workers", &d)
			return &d
		}
		for _, name := range names {
			if n := len(read(name).Spec.SchedulingGates); n != 1 {
				t.Fatalf("%s has %d gates, want one that holds it", name, n)
			}
		}
		if n := *deployment().Spec.Replicas; n != 0 {
			t.Fatalf("the Deployment has %d replicas, want none while it is held", n)
		}
		b.Until("plans for each, and one for the group", func() bool {
			return b.plan("pod-alone").Status.State == v1alpha1.PlanWaiting && b.plan("podgroup-pair").Status.State == v1alpha1.PlanWaiting &&
				b.plan("deployment-workers").Status.State == v1alpha1.PlanWaiting
		})
		if n := len(b.plan("podgroup-pair").OwnerReferences); n != 2 {
			t.Errorf("the plan of the group has %d owners, want both Pods", n)
		}
		clean := func(what string, at0 time.Time) {
			t.Helper()
			if is := b.gridTime(at0); is.Before(at(8)) || is.After(at(8).Add(3*minute)) {
				t.Errorf("%s at %s of the series, want 08:00", what, is.Format("Mon 15:04"))
			}
		}
		for _, name := range names {
			b.Until(name+" to run", func() bool { return read(name).Status.StartTime != nil })
			clean(name+" ran", read(name).Status.StartTime.Time)
		}
		b.Until("the Deployment to have its replicas back", func() bool { return *deployment().Spec.Replicas == 3 })
		for _, e := range b.Store.Since(0) {
			if n, _, _ := unstructured.NestedInt64(e.Object.Object, "spec", "replicas"); e.Resource.Kind == "Deployment" && n > 0 {
				clean("the Deployment had its replicas", e.At)
				break
			}
		}
		b.Until("all replicas to run", func() bool { return deployment().Status.AvailableReplicas == 3 })
		b.Until("the Pods to be done", func() bool {
			return b.plan("podgroup-pair").Status.State == v1alpha1.PlanFinished && b.plan("pod-alone").Status.State == v1alpha1.PlanFinished
		})
		var pods corev1.PodList
		b.must(b.Client.List(b.Context(), &pods, client.InNamespace(b.ns), client.MatchingLabels{"app": "w"}))
		if len(pods.Items) != 3 {
			t.Errorf("%d pods of the Deployment, want 3", len(pods.Items))
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Annotations[v1alpha1.AnnotationPolicy] != "" || len(p.Spec.SchedulingGates) > 0 {
				t.Errorf("%s, which a ReplicaSet owns, is governed by itself", p.Name)
			}
		}
	})
}
