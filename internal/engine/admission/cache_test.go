package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCacheHoldsLittleOfAPolicy: the cache keeps the name and the specification of a policy, and none of the annotations and labels that its owner writes into it.
func TestCacheHoldsLittleOfAPolicy(t *testing.T) {
	huge := map[string]any{"mine": strings.Repeat("x", 240_000)}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": policyGVK.GroupVersion().String(), "kind": policyGVK.Kind, "metadata": map[string]any{"name": "p", "namespace": "n", "annotations": huge, "labels": huge},
		"spec": map[string]any{"zone": "z"}, "status": map[string]any{"x": strings.Repeat("x", 240_000)},
	}}
	o, err := strip(u)
	if err != nil {
		t.Fatal(err)
	}
	text, err := o.(*unstructured.Unstructured).MarshalJSON()
	if zone, _, _ := unstructured.NestedString(u.Object, "spec", "zone"); err != nil || len(text) > 1024 || zone != "z" || u.GetName() != "p" {
		t.Errorf("%d bytes are kept, %v: %.200s", len(text), err, text)
	}
}
