//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestControllerIsBound: whoever has the token of the controller can hold, release and scale what Lull governs, and change nothing else of it.
// Others change what their rights let them.
func TestControllerIsBound(t *testing.T) {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", env.restricted)
	must(t, err)
	stolen, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
	must(t, err)

	b := newStandingBed(t, dirtyThenClean(), nil)
	labels, two := map[string]string{"app": "service"}, int32(2)
	job, pod := b.job("job", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}), b.podOf("pod", false)
	service := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "service", Namespace: b.ns, Annotations: map[string]string{"mine": "1"}},
		Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: pod.Spec.Containers},
		}},
	}
	for _, obj := range []client.Object{job, pod, service} {
		must(t, env.client.Create(ctx, obj))
	}

	try := func(c client.Client, obj client.Object, kind types.PatchType, patch string) error {
		fresh := obj.DeepCopyObject().(client.Object)
		return c.Patch(ctx, fresh, client.RawPatch(kind, []byte(patch)), client.DryRunAll)
	}
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "Lull's controller may change only")
	}
	const merge = types.MergePatchType
	for _, obj := range []client.Object{job, pod, service} { // each kind has a policy of its own
		b.eventually(fmt.Sprintf("the policy for %T to be in force", obj), func() bool {
			return refused(try(stolen, obj, merge, `{"metadata":{"labels":{"stolen":"yes"}}}`))
		})
	}
	for _, patch := range []string{
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil","command":["sh"]}]}}}}`,
		`{"spec":{"template":{"spec":{"serviceAccountName":"admin"}}}}`, `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
		`{"metadata":{"annotations":{"mine":"2"}}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`,
		`{"metadata":{"finalizers":["x.dev/stuck"]}}`, `{"spec":{"replicas":0,"paused":true}}`,
	} {
		if err := try(stolen, service, merge, patch); !refused(err) {
			t.Errorf("Deployment: %s: %v", patch, err)
		}
		if err := try(env.client, service, merge, patch); err != nil {
			t.Errorf("Deployment: the administrator may not: %s: %v", patch, err)
		}
	}
	for _, patch := range []string{
		`{"spec":{"ttlSecondsAfterFinished":1}}`, `{"spec":{"suspend":false,"activeDeadlineSeconds":1}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"mine":"yes"}}}}}`,
		`{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"theirs"}}}`,
	} {
		if err := try(stolen, job, merge, patch); !refused(err) {
			t.Errorf("Job: %s: %v", patch, err)
		}
	}
	for obj, patch := range map[client.Object]string{
		service: `{"metadata":{"annotations":{"lull.dev/hold":"Paused","lull.dev/workers":"2"}},"spec":{"replicas":0}}`,
		job:     `{"metadata":{"annotations":{"lull.dev/hold":"Paused","lull.dev/max-delay":null}},"spec":{"suspend":true,"parallelism":2}}`,
		pod:     `{"metadata":{"annotations":{"lull.dev/decision":"{}"}}}`,
	} {
		if err := try(stolen, obj, merge, patch); err != nil {
			t.Errorf("%T: the controller may not: %s: %v", obj, patch, err)
		}
	}
	for _, obj := range []client.Object{job, pod, service} { // of each kind the controller may create nothing but as a dry run
		fresh := obj.DeepCopyObject().(client.Object)
		fresh.SetName("stolen")
		fresh.SetResourceVersion("")
		fresh.SetUID("")
		if j, is := fresh.(*batchv1.Job); is {
			j.Spec.Selector, j.Spec.Template.Labels = nil, nil
		}
		b.eventually(fmt.Sprintf("the policy for dry runs of %T to be in force", obj), func() bool {
			err := stolen.Create(ctx, fresh.DeepCopyObject().(client.Object))
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "as a dry run only")
		})
		if err := stolen.Create(ctx, fresh, client.DryRunAll); err != nil {
			t.Errorf("%T: not even as a dry run: %v", obj, err)
		}
	}
}
