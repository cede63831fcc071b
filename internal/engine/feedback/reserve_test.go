package feedback

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/reserve"
)

// learn decides once at an hour, with a workload that came then and may not wait.
func learn(t *testing.T, m *Memory, hour float64, stated *v1alpha1.ReserveStatus) *kube.View {
	t.Helper()
	if err := m.LearnReserve(true, stated); err != nil {
		t.Fatal(err)
	}
	v := view(t, at(hour), 1, 0)
	v.Snapshot.Clusters[0].Capacity = map[string]float64{"cpu": 4}
	v.Snapshot.Tasks[0].Submitted, v.Snapshot.Tasks[0].Deadline = at(hour), time.Time{}
	m.Prepare(v, "f", 0.05, kube.Context{Now: at(hour)})
	return v
}

// TestReserveSurvivesARestart: what was learned is in the status of the policy, and a controller that
// starts goes on from there.
func TestReserveSurvivesARestart(t *testing.T) {
	m := New()
	if got := m.Reserve(0, true, nil); got != nil {
		t.Errorf("%+v is stated before the first decision", got)
	}
	if v := learn(t, m, 0, nil); v.Snapshot.Reserve != reserve.Default().Start {
		t.Errorf("reserve %v; want %v", v.Snapshot.Reserve, reserve.Default().Start)
	}
	m.records = map[types.UID]*Record{} // the next workload is another one
	learn(t, m, 2.5, nil)
	stated := m.Reserve(0, true, nil)
	until := metav1.NewTime(at(2.5))
	want := &v1alpha1.ReserveStatus{Share: reserve.Default().Start, ObservedUntil: &until, HourlyPeaks: []int32{0, 0, 250}}
	if !reflect.DeepEqual(stated, want) {
		t.Fatalf("%+v; want %+v", stated, want)
	}
	next := New()
	if v := learn(t, next, 2.5, stated); v.Snapshot.Reserve != reserve.Default().Start {
		t.Errorf("after a restart: reserve %v", v.Snapshot.Reserve)
	}
	if got := next.Reserve(0, true, stated); got != stated {
		t.Errorf("after a restart: %+v; want the status as it is, %+v", got, stated)
	}
	next.records = map[types.UID]*Record{}
	learn(t, next, 4.25, stated)
	start := int32(1000 * reserve.Default().Start)
	if got, want := next.Reserve(0, true, stated).HourlyPeaks, []int32{0, 0, 250, start, 250}; !reflect.DeepEqual(got, want) {
		t.Errorf("after an hour without a controller: peaks %v; want %v", got, want)
	}
}

// TestReserveIsStated: no write for the passing of time alone.
func TestReserveIsStated(t *testing.T) {
	m := New()
	learn(t, m, 0, nil)
	first := m.Reserve(0, true, nil)
	learn(t, m, 0.9, nil)
	if got := m.Reserve(0, true, first); got != first {
		t.Errorf("nothing new within the hour, and %+v is stated instead of %+v", got, first)
	}
	learn(t, m, 1.1, nil)
	if got := m.Reserve(0, true, first); got == first || len(got.HourlyPeaks) != 2 {
		t.Errorf("a new hour, and %+v is stated", got)
	}
	if got := m.Reserve(0.2, false, first); !reflect.DeepEqual(got, &v1alpha1.ReserveStatus{Share: 0.2}) {
		t.Errorf("a stated reserve: %+v; want a share of 0.2 alone", got)
	}
	if got := m.Reserve(0, false, first); got != nil {
		t.Errorf("no reserve: %+v; want none", got)
	}
}

// TestUnreadableReserveIsLearnedAnew: a status that nobody can read is learned anew.
func TestUnreadableReserveIsLearnedAnew(t *testing.T) {
	until := metav1.NewTime(at(0))
	m := New()
	err := m.LearnReserve(true, &v1alpha1.ReserveStatus{ObservedUntil: &until, HourlyPeaks: []int32{5000}})
	if !errors.Is(err, reserve.ErrState) || !strings.Contains(err.Error(), "peaks[0]: 5000; accepted: 0 to 1000") {
		t.Errorf("error %v; want one that names the peak", err)
	}
	if v := learn(t, m, 1, nil); v.Snapshot.Reserve != reserve.Default().Start {
		t.Errorf("reserve %v; want %v", v.Snapshot.Reserve, reserve.Default().Start)
	}
}

// TestPausedLearnerKeepsWhatItLearned: while nothing is learned nothing is kept, and what was learned stays.
func TestPausedLearnerKeepsWhatItLearned(t *testing.T) {
	m := New()
	learn(t, m, 0, nil)
	if err := m.LearnReserve(false, nil); err != nil {
		t.Fatal(err)
	}
	v := view(t, at(1), 1, 0)
	m.Prepare(v, "f", 0.05, kube.Context{Now: at(1)})
	if v.Snapshot.Reserve != 0 {
		t.Errorf("reserve %v while nothing is learned; want 0", v.Snapshot.Reserve)
	}
	if got := m.Reserve(0, true, nil); got == nil || len(got.HourlyPeaks) != 1 {
		t.Errorf("%+v; want what was learned before", got)
	}
}
