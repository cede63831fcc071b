package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

// TestMissingZoneKeepsNobodyBusy: work that a policy of a zone that is not there would have held is looked at again as rarely as what runs; anybody may name
// such a zone. A zone that is there is looked at soon.
func TestMissingZoneKeepsNobodyBusy(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	there := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	zones := NewZones()
	zones.Set("paused", Zone{Paused: true})
	x := &existingReconciler{cache: fake.NewClientBuilder().WithScheme(scheme).WithObjects(there).Build(), zones: zones}
	for name, want := range map[string]time.Duration{"there": zoneWait, "paused": resyncPeriod, "nowhere": resyncPeriod} {
		if _, again, err := x.zone(t.Context(), name); again != want || err != nil {
			t.Errorf("%s: again after %v, %v; want %v", name, again, err, want)
		}
	}
}
