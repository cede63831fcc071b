//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
)

// workloads are the Workloads of Kueue, with the rule by which Kueue refuses what has both a cluster and nominations.
const workloads = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: kueue.x-k8s.io
  scope: Namespaced
  names: {plural: workloads, singular: workload, kind: Workload, listKind: WorkloadList}
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              clusterName: {type: string}
              nominatedClusterNames: {type: array, maxItems: 10, items: {type: string, maxLength: 63}}
            x-kubernetes-validations:
            - {rule: "!has(self.clusterName) || !has(self.nominatedClusterNames)", message: clusterName and nominatedClusterNames are mutually exclusive}
`

// nominatedWorkload makes a namespace without a CarbonPolicy, and a Workload in it that has nominations.
func nominatedWorkload(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	ctx := context.Background()
	crd := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(workloads), &crd.Object))
	must(t, env.client.Create(ctx, crd))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
	must(t, env.client.Create(ctx, ns))
	w := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w", "namespace": ns.Name}}}
	w.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"})
	b := bed{t: t, ns: ns.Name}
	b.eventually("Workloads to be served", func() bool { return env.client.Create(ctx, w) == nil })
	return w
}

// nominate gives a Workload nominations, take has a cluster take it, as Kueue does: by an update of what it has read.
func nominate(t *testing.T, w *unstructured.Unstructured) {
	t.Helper()
	w.Object["status"] = map[string]any{"nominatedClusterNames": []any{"a", "b"}}
	must(t, env.client.Status().Update(context.Background(), w))
	if names, _, _ := unstructured.NestedStringSlice(w.Object, "status", "nominatedClusterNames"); !slices.Equal(names, []string{"a", "b"}) {
		t.Fatalf("nominated: %v", w.Object["status"])
	}
}

func take(w *unstructured.Unstructured) error {
	taken := w.DeepCopy()
	must := unstructured.SetNestedField(taken.Object, "a", "status", "clusterName")
	if must != nil {
		return must
	}
	if err := env.client.Status().Update(context.Background(), taken); err != nil {
		return err
	}
	w.Object = taken.Object
	return nil
}

// clearsNominations: Kueue may say that a cluster has taken a Workload that somebody else has nominated clusters for.
func clearsNominations(t *testing.T, w *unstructured.Unstructured) {
	b := bed{t: t, ns: w.GetNamespace()}
	nominate(t, w)
	b.eventually("the cluster to be accepted", func() bool { return take(w) == nil }) // the configuration has it in a moment
	if _, there := w.Object["status"].(map[string]any)["nominatedClusterNames"]; there {
		t.Errorf("still nominated: %v", w.Object["status"])
	}
}

// nominationsWait: while lull admission is not there, such an update is refused, to be tried again; others are not.
func nominationsWait(t *testing.T, w *unstructured.Unstructured) {
	nominate(t, w)
	if err := take(w); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), kinds.NominationsName) {
		t.Errorf("taken while nobody clears nominations: %v", err)
	}
	must(t, unstructured.SetNestedField(w.Object, "x", "status", "other"))
	must(t, env.client.Status().Update(context.Background(), w))
}

// allIsAccepted: the API server accepts all that lull manifests --webhook prints, with all options.
func allIsAccepted(t *testing.T) {
	text, err := charts.Manifests(kinds.Builtin(), charts.Options{Webhook: true, Kueue: true, Extender: true, Capacity: true, Autoscaling: true, Web: true, Image: "a/b:c"})
	must(t, err)
	must(t, env.client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kueue-system"}}))
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(doc), &o.Object))
		if o.GetKind() == "" {
			continue
		}
		err := env.client.Patch(context.Background(), o, client.RawPatch("application/apply-patch+yaml", []byte(doc)), client.DryRunAll, client.ForceOwnership, client.FieldOwner("test"))
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
