package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestReleasedWorkloadIsNotHeldAgain: what an operator took out of its policy has the record of that, and is not taken for a workload that admission
// has missed. Not every kind says in its status that it was suspended before.
func TestReleasedWorkloadIsNotHeldAgain(t *testing.T) {
	now := metav1.Now()
	for name, x := range map[string]struct {
		meta metav1.ObjectMeta
		want int
	}{
		"missed by admission": {metav1.ObjectMeta{Name: "a"}, 1},
		"governed":            {metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p"}}, 0},
		"released":            {metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.AnnotationDecision: `{"verb":"Release"}`}}, 0},
		"deleted":             {metav1.ObjectMeta{Name: "a", DeletionTimestamp: &now}, 1}, // to be forgotten
	} {
		if got := unheld(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: x.meta}); len(got) != x.want {
			t.Errorf("%s: %d requests, want %d", name, len(got), x.want)
		}
	}
}
