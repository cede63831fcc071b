package simkube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestModelRefusesWhatItLacks: what the model does not have is refused and recorded, in words that name it. Nothing is changed.
func TestModelRefusesWhatItLacks(t *testing.T) {
	store := NewStore(BuiltIn())
	var refused []string
	store.Refused = func(what string) { refused = append(refused, what) }
	client, err := dynamic.NewForConfig((&Process{Name: "user", Store: store}).Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "n"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("n")
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"a": "1"}}}
	made, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreground, orphan, yes := metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, true
	for _, tc := range []struct {
		what string
		do   func() error
	}{
		{"the deletion policy Foreground", func() error { return maps.Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: &foreground}) }},
		{"the deletion policy Orphan", func() error { return maps.Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: &orphan}) }},
		{"the deletion policy Orphan", func() error { return maps.Delete(ctx, "a", metav1.DeleteOptions{OrphanDependents: &yes}) }}, //nolint:staticcheck // deprecated, and still served
		{"the deletion of collections", func() error { return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) }},
		{"server-side apply", func() error {
			_, err := maps.Apply(ctx, "a", object, metav1.ApplyOptions{FieldManager: "test"})
			return err
		}},
		{"fieldValidation Strict", func() error {
			_, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{FieldValidation: "Strict"})
			return err
		}},
		{"the field selector metadata.namespace=n", func() error {
			_, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.namespace=n"})
			return err
		}},
		{"the field selector metadata.namespace=n", func() error {
			_, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.namespace=n", ResourceVersion: "1"})
			return err
		}},
		{"the subresource scale", func() error {
			_, err := maps.Get(ctx, "a", metav1.GetOptions{}, "scale")
			return err
		}},
		{"unknown field \"other\"", func() error {
			_, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"other":"2"}`), metav1.PatchOptions{})
			return err
		}},
		{"metadata in a status of a built-in kind", func() error {
			_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Patch(ctx, "n", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}, "status")
			return err
		}},
	} {
		refused = nil
		if err := tc.do(); err == nil || !strings.Contains(err.Error(), tc.what) {
			t.Errorf("%s: the error is %v", tc.what, err)
		}
		if len(refused) != 1 || !strings.Contains(refused[0], tc.what) {
			t.Errorf("%s: %q was recorded", tc.what, refused)
		}
	}
	if now, err := maps.Get(ctx, "a", metav1.GetOptions{}); err != nil || now.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("the object was changed: %v, %v", now, err)
	}
	if n := len(store.Since(0)); n != 2 {
		t.Errorf("%d changes were stored, want 2", n)
	}
}

// TestUnknownSchemaIsNotServed: a CustomResourceDefinition that the model would not enforce is not served.
func TestUnknownSchemaIsNotServed(t *testing.T) {
	crd := func(schema, status string) string {
		return `{"kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
"versions": [{"name": "v1", "schema": {"openAPIV3Schema": ` + schema + `}` + status + `}]}}`
	}
	const withStatus = `, "subresources": {"status": {}}`
	rule := func(x string) string { return `{"type": "object", "properties": {"spec": ` + x + `}}` }
	for _, tc := range []struct{ what, crd, want string }{
		{"a function of other libraries", crd(rule(`{"type": "string", "x-kubernetes-validations": [{"rule": "isIP(self)"}]}`), withStatus), "isIP"},
		{"oldSelf of elements", crd(rule(`{"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}`), withStatus), "oldSelf of elements"},
		{"no status", crd(rule(`{"type": "string"}`), ""), "no status subresource"},
		{"nothing unusual", crd(rule(`{"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]}`), withStatus), ""},
	} {
		err := NewStore(BuiltIn()).Install(tc.crd)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: the error is %v, want one about %q", tc.what, err, tc.want)
		}
	}
}
