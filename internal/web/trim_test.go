package web

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestThePageKeepsNoAnnotations of objects, which anybody who may create them may fill.
func TestThePageKeepsNoAnnotations(t *testing.T) {
	many := map[string]string{"large": "x"}
	kept, err := trim(&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: many, Labels: many, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}})
	if p, ok := kept.(*v1alpha1.CarbonPolicy); err != nil || !ok || p.Name != "p" || len(p.Annotations)+len(p.Labels)+len(p.ManagedFields) > 0 {
		t.Errorf("%+v, %v", kept, err)
	}
}
