package curve

import (
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// TestFloorCoversWhatOthersNeed: what others need of the capacity counts, and what comes to its latest start before the capacity can be raised again.
func TestFloorCoversWhatOthersNeed(t *testing.T) {
	margin := 5 * time.Minute
	// The latest start is 11:10, the slot ends at 11:00.
	beside := demandOf(rigid("a", decide.Waiting, 3, time.Hour, 55*time.Minute))
	beside.Beside = 2
	if got := at(t, v1alpha1.CapacityMethod{}, beside).floor(margin); got != 2 {
		t.Errorf("what others need: floor %v, want 2", got)
	}
	beside.Until = beside.Tasks[0].Deadline.Add(-time.Hour)
	if got := at(t, v1alpha1.CapacityMethod{}, beside).floor(margin); got != 5 {
		t.Errorf("the capacity cannot be raised before the latest start: floor %v, want 5", got)
	}
}
