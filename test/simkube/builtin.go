package simkube

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateBuiltin validates an object of a built-in kind: the types of all fields, and those rules that writes of Lull could
// break. before is nil for a new object.
func (r *Resource) validateBuiltin(obj, before *unstructured.Unstructured) (field.ErrorList, error) {
	is := r.typed()
	if is == nil {
		return nil, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, is, true); err != nil {
		if runtime.IsStrictDecodingError(err) {
			return nil, err
		}
		return nil, undecodable(err)
	}
	was := r.typed()
	if before != nil {
		typed(before, was)
	}
	spec := field.NewPath("spec")
	switch x := is.(type) {
	case *batchv1.Job:
		if before == nil {
			return newJobErrors(&x.Spec, spec), nil
		}
		return append(jobErrors(&x.Spec, spec), changedJobErrors(x, was.(*batchv1.Job), spec)...), nil
	case *corev1.Pod:
		if before == nil {
			return templateErrors(&x.Spec, spec, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever, ""), nil
		}
		return changedPodErrors(&x.Spec, &was.(*corev1.Pod).Spec, spec), nil
	case *appsv1.Deployment:
		return deploymentErrors(&x.Spec, &was.(*appsv1.Deployment).Spec, before != nil, spec), nil
	}
	return nil, nil
}

// atLeastZero returns errors for numbers below zero.
func atLeastZero[T int32 | int64](x *T, path *field.Path) field.ErrorList {
	if x == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*x), path)
}

// immutable returns an error if a field has changed.
func immutable(x, was any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(x, was, path)
}

// templateErrors are the errors of a Pod, or of a template of Pods.
func templateErrors(pod *corev1.PodSpec, path *field.Path, restart ...corev1.RestartPolicy) (errs field.ErrorList) {
	if !slices.Contains(restart, pod.RestartPolicy) {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), pod.RestartPolicy, restart))
	}
	if len(pod.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i := range pod.Containers {
		if pod.Containers[i].Name == "" || pod.Containers[i].Image == "" {
			errs = append(errs, field.Required(path.Child("containers").Index(i), "name and image"))
		}
	}
	return errs
}

// jobErrors are the errors of a Job, whether it is new or not.
func jobErrors(job *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		atLeastZero(job.Parallelism, path.Child("parallelism")), atLeastZero(job.Completions, path.Child("completions")),
		atLeastZero(job.BackoffLimit, path.Child("backoffLimit")), atLeastZero(job.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds")),
		templateErrors(&job.Template.Spec, path.Child("template", "spec"), corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever),
	)
	switch mode := *job.CompletionMode; {
	case mode != batchv1.NonIndexedCompletion && mode != batchv1.IndexedCompletion:
		errs = append(errs, field.NotSupported(path.Child("completionMode"), mode, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	case mode == batchv1.IndexedCompletion && job.Completions == nil:
		errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
	}
	return errs
}

// newJobErrors are the errors of a new Job. The API server makes its selector, which this model does not have.
func newJobErrors(job *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := jobErrors(job, path)
	if job.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), job.Selector, "set by the API server; this model has no manual selectors"))
	}
	return errs
}

// changedJobErrors are the errors of a change of a Job.
func changedJobErrors(x, was *batchv1.Job, path *field.Path) field.ErrorList {
	job, old := &x.Spec, &was.Spec
	errs := slices.Concat(
		immutable(job.Selector, old.Selector, path.Child("selector")), immutable(job.CompletionMode, old.CompletionMode, path.Child("completionMode")),
		immutable(job.PodFailurePolicy, old.PodFailurePolicy, path.Child("podFailurePolicy")), immutable(job.SuccessPolicy, old.SuccessPolicy, path.Child("successPolicy")),
		immutable(job.BackoffLimitPerIndex, old.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex")), immutable(job.ManagedBy, old.ManagedBy, path.Child("managedBy")),
	)
	completions := path.Child("completions")
	switch {
	case *job.CompletionMode != batchv1.IndexedCompletion:
		errs = append(errs, immutable(job.Completions, old.Completions, completions)...)
	case job.Completions != nil && !equality.Semantic.DeepEqual(job.Completions, old.Completions) && *job.Completions != *job.Parallelism:
		errs = append(errs, field.Invalid(completions, *job.Completions, "can only be modified in tandem with parallelism"))
	}
	template := job.Template.DeepCopy()
	if old.Suspend != nil && *old.Suspend && was.Status.StartTime == nil { // where its Pods go, and what they request, may change before it starts
		template.Labels, template.Annotations = old.Template.Labels, old.Template.Annotations
		pod, oldPod := &template.Spec, &old.Template.Spec
		pod.NodeSelector, pod.Tolerations, pod.SchedulingGates = oldPod.NodeSelector, oldPod.Tolerations, oldPod.SchedulingGates
		pod.Affinity = sameNodeAffinity(pod.Affinity, oldPod.Affinity)
		for i := range min(len(pod.Containers), len(oldPod.Containers)) {
			pod.Containers[i].Resources = oldPod.Containers[i].Resources
		}
	}
	return append(errs, immutable(template, &old.Template, path.Child("template"))...)
}

// sameNodeAffinity is an affinity with the node affinity of another.
func sameNodeAffinity(x, was *corev1.Affinity) *corev1.Affinity {
	out := &corev1.Affinity{}
	if x != nil {
		out = x.DeepCopy()
	}
	out.NodeAffinity = nil
	if was != nil {
		out.NodeAffinity = was.NodeAffinity
	}
	if was == nil && equality.Semantic.DeepEqual(out, &corev1.Affinity{}) {
		return nil
	}
	return out
}

// changedPodErrors are the errors of a change of a Pod: only gates can be taken off, and, while there is one, where the Pod may
// go can change.
func changedPodErrors(x, was *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	for i, gate := range x.SchedulingGates {
		if !slices.Contains(was.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i), "only deletion is allowed"))
		}
	}
	pod := x.DeepCopy()
	pod.SchedulingGates, pod.ActiveDeadlineSeconds = was.SchedulingGates, was.ActiveDeadlineSeconds
	if len(was.SchedulingGates) > 0 {
		pod.NodeSelector, pod.Affinity = was.NodeSelector, sameNodeAffinity(pod.Affinity, was.Affinity)
	}
	if len(pod.Tolerations) >= len(was.Tolerations) && slices.EqualFunc(pod.Tolerations[:len(was.Tolerations)], was.Tolerations, func(a, b corev1.Toleration) bool { return equality.Semantic.DeepEqual(a, b) }) {
		pod.Tolerations = was.Tolerations
	}
	for i := range min(len(pod.Containers), len(was.Containers)) {
		pod.Containers[i].Image = was.Containers[i].Image
	}
	if !equality.Semantic.DeepEqual(pod, was) {
		errs = append(errs, field.Forbidden(path, "pod updates may not change fields other than images, activeDeadlineSeconds, tolerations (only additions) and schedulingGates (only deletions)"))
	}
	return errs
}

// deploymentErrors are the errors of a Deployment.
func deploymentErrors(x, was *appsv1.DeploymentSpec, changed bool, path *field.Path) field.ErrorList {
	errs := atLeastZero(x.Replicas, path.Child("replicas"))
	if changed {
		errs = append(errs, immutable(x.Selector, was.Selector, path.Child("selector"))...)
	}
	selector, err := metav1.LabelSelectorAsSelector(x.Selector)
	if err != nil || !selector.Matches(labels.Set(x.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), x.Template.Labels, fmt.Sprintf("selector does not match template labels (%v)", err)))
	}
	return append(errs, templateErrors(&x.Template.Spec, path.Child("template", "spec"), corev1.RestartPolicyAlways, "")...)
}
