package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// TestReleaseAllFindsEveryMark: "lull release --all" finds every mark of Lull, that of a release by halves too, and what it cannot
// release keeps the others from nothing.
func TestReleaseAllFindsEveryMark(t *testing.T) {
	ctx := context.Background()
	job := func(name, queue, hold string, suspended bool) *batchv1.Job {
		j := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name), Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p"}},
			Spec:       batchv1.JobSpec{Suspend: &suspended},
		}
		if queue != "" {
			j.Labels = map[string]string{kueue.LabelQueue: queue}
		}
		if hold != "" {
			j.Annotations[v1alpha1.AnnotationHold] = hold
		}
		return j
	}
	parked := func(job string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kueue.GroupVersion.String(), "kind": "Workload",
			"metadata": map[string]any{
				"name": "job-" + job, "namespace": "n", "uid": "w-" + job, "annotations": map[string]any{v1alpha1.AnnotationHold: v1alpha1.HoldPaused},
				"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}},
			},
			"spec": map[string]any{"active": false, "queueName": "q"},
		}}
	}
	orphan := parked("orphan")
	c := builderOf(t,
		job("held", "", v1alpha1.HoldAdmission, true), job("refused", "", v1alpha1.HoldAdmission, true), job("users", "", "", true),
		job("opened", "", v1alpha1.HoldAdmission, false), job("half", "q", "", true), parked("half"), orphan,
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kind := list.GetObjectKind().GroupVersionKind().Kind
			if _, metadata := list.(*metav1.PartialObjectMetadataList); metadata {
				if kind == "JobList" || kind == "WorkloadList" {
					return nil
				}
				return &meta.NoKindMatchError{}
			}
			return c.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "refused" {
				return apierrors.NewForbidden(kschema.GroupResource{Resource: "jobs"}, "refused", nil)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	var out bytes.Buffer
	if err := releaseAll(ctx, &out, c, ""); err == nil || !strings.Contains(out.String(), "Job n/refused:") || !strings.Contains(out.String(), "3 workloads released") {
		t.Errorf("%v\n%s", err, out.String())
	}
	for name, suspended := range map[string]bool{"held": false, "refused": true, "users": true, "opened": false} {
		var j batchv1.Job
		if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: name}, &j); err != nil {
			t.Fatal(err)
		}
		if *j.Spec.Suspend != suspended || name != "refused" && j.Annotations[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s: suspended %v, %v", name, *j.Spec.Suspend, j.Annotations)
		}
	}
	for _, name := range []string{"half", "orphan"} {
		w := parked(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(w), w); err != nil {
			t.Fatal(err)
		}
		if active, _, _ := unstructured.NestedBool(w.Object, "spec", "active"); !active || len(w.GetAnnotations()) != 0 {
			t.Errorf("the Workload of %s: active %v, %v", name, active, w.GetAnnotations())
		}
	}
}
