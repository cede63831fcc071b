package controlloop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// hostile is the namespace of a tenant who states what is absurd.
const hostile = "hostile"

// tenant adds such a tenant to some worlds: policies, profiles and Jobs that claim much capacity for long, claim none, or have
// annotations that nobody can read. No node has room for its pods, so as submitted they cost the other tenant nothing.
func (w *randomWorld) tenant() {
	rng := rand.New(rand.NewPCG(w.Seed, 0x74656e616e74))
	if rng.IntN(3) > 0 {
		return
	}
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostile}})
	for i := range 1 + rng.IntN(3) {
		policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claims-", i), Namespace: hostile}, Spec: v1alpha1.CarbonPolicySpec{
			Selector: metav1.LabelSelector{}, Zone: one("zone", "zone", "nowhere"), Planner: v1alpha1.PlannerSpec{Name: one("", "cheapest", "asap", "nothing")},
		}}
		if rng.IntN(2) == 0 {
			policy.Spec.DefaultRuntime = &metav1.Duration{Duration: time.Duration(1+rng.IntN(10_000)) * time.Hour}
		}
		_ = w.Client.Create(w.Context(), policy) // the API server may refuse it
	}
	for i := range 1 + rng.IntN(8) {
		zero := int64(0)
		annotations := map[string]string{
			v1alpha1.AnnotationRuntime:  one("10000h", "1h", "1ns", "-1h", "never", "8760h", strings.Repeat("9", 400)+"h"),
			v1alpha1.AnnotationMaxDelay: one("0s", "1h", "24h", "-5m", "8760h", "soon"),
		}
		if rng.IntN(3) == 0 {
			annotations[v1alpha1.AnnotationLatestStart] = one("2026-13-45", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
			annotations[v1alpha1.AnnotationStatedStart] = one("x", "9999-12-31T23:59:59Z")
			annotations[v1alpha1.AnnotationHold] = one("waiting", "paused", "moving", "?")
		}
		if rng.IntN(3) == 0 {
			annotations[v1alpha1.AnnotationInterruptible] = one("true", "maybe")
		}
		parallel := int32(1 + rng.IntN(5))
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claim-", i), Namespace: hostile, Annotations: annotations},
			Spec: batchv1.JobSpec{Parallelism: &parallel, Completions: &parallel, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simkube.RunTime: "1h"}},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{
					Name: "work", Image: "example.invalid/work",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(one("9", "16", "1000", "1000000", "1e15"))}},
				}}},
			}},
		}
		from, flips := between(rng, 0, coming), rng.IntN(4)
		w.Go(func() { w.claims(job, from, flips) })
	}
}

// claims is the life of a hostile Job: its user submits it, and suspends and resumes it again and again.
func (w *randomWorld) claims(job *batchv1.Job, from time.Duration, flips int) {
	if !w.Sleep(from) || w.Client.Create(w.Context(), job) != nil {
		return
	}
	r, key := w.Store.Resource("Job"), types.NamespacedName{Namespace: hostile, Name: job.Name}
	for n := range 2 * flips {
		if !w.Sleep(7 * time.Minute) {
			return
		}
		_, _ = w.Store.Change("user", r, key, false, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, n%2 == 0, "spec", "suspend")
		})
	}
}
