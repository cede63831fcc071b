package kube

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// probeName is the name of objects that are created as a dry run. The API server completes it, so that it is that of no other object.
const probeName = "lull-probe-"

// The kinds that can be tried, as policies call them.
const triedJob, triedPod, triedDeployment = "Job", "Pod", "Deployment"

// Probes returns objects that a CarbonPolicy governs, one for each of its kinds that can be tried: Job, Pod and Deployment. Created as a dry run they
// show whether objects of that kind are held at creation. They meet the rules of Pod security "restricted", and ask for little. The
// map is by the names of the kinds. It is empty if there is no such kind, or no labels meet the selector of the policy.
func Probes(policy *v1alpha1.CarbonPolicy) map[string]client.Object {
	labels, ok := meeting(requirements(&policy.Spec.Selector))
	if !ok {
		return nil
	}
	of := KindsOf(&policy.Spec)
	queued := len(policy.Spec.Queues) > 0
	if _, set := labels[kueue.LabelQueue]; set {
		return nil // it is for the policy's queues to say
	}
	meta := metav1.ObjectMeta{GenerateName: probeName, Namespace: policy.Namespace, Labels: labels, Annotations: map[string]string{
		v1alpha1.AnnotationProbe: "true", v1alpha1.AnnotationGovernBy: policy.Name,
	}}
	out := map[string]client.Object{}
	if slices.Contains(of, triedJob) {
		job := &batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: probePod(corev1.RestartPolicyNever)}}}
		if queued {
			job.Labels[kueue.LabelQueue] = policy.Spec.Queues[0]
		}
		out[triedJob] = job
	}
	if queued {
		return out // the others wait in no queue
	}
	if slices.Contains(of, triedPod) {
		out[triedPod] = &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: probePod(corev1.RestartPolicyNever)}
	}
	if slices.Contains(of, triedDeployment) {
		one, of := int32(1), map[string]string{"app": "lull-probe"}
		out[triedDeployment] = &appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: of},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: of}, Spec: probePod(corev1.RestartPolicyAlways)},
		}}
	}
	return out
}

// probePod is the pod of a probe. It never runs.
func probePod(restart corev1.RestartPolicy) corev1.PodSpec {
	yes, no := true, false
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return corev1.PodSpec{
		RestartPolicy: restart, AutomountServiceAccountToken: &no,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "probe", Image: "lull.dev/probe:never-runs", Resources: corev1.ResourceRequirements{Requests: little, Limits: little},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
}

// Held reports whether an object that was created is as its CarbonPolicy wants it: governed by the policy and, unless the policy holds nothing, held.
// way is the reason of ConditionHeldAtCreation.
func Held(policy *v1alpha1.CarbonPolicy, created client.Object) (way string, held bool) {
	a := created.GetAnnotations()
	holds := policy.Spec.Mode != v1alpha1.ModeShadow && !policy.Spec.Paused
	if a[v1alpha1.AnnotationPolicy] != policy.Name || holds && a[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
		return v1alpha1.ReasonNotHeld, false
	}
	if a[v1alpha1.AnnotationProbe] == v1alpha1.ProbeWebhook {
		return v1alpha1.ReasonWebhook, true
	}
	return v1alpha1.ReasonAdmissionPolicy, true
}
