package decide

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// TestPartialSlotsJoinTheNext: a slot used in part is used at its end where the plan goes on
// after it, at its beginning where it goes on before it or where the task runs already.
func TestPartialSlotsJoinTheNext(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	now := []plan.Segment{{Slot: 0, Workers: 2, Fraction: 0.5}, {Slot: 1, Workers: 2, Fraction: 1}}
	for name, tc := range map[string]struct {
		segments []plan.Segment
		running  bool
		want     []Phase
	}{
		"before the next":  {[]plan.Segment{{Slot: 3, Workers: 2, Fraction: 0.25}, {Slot: 4, Workers: 2, Fraction: 1}}, false, []Phase{{From: at(3.75), To: at(5), Workers: 2}}},
		"after the last":   {[]plan.Segment{{Slot: 3, Workers: 2, Fraction: 1}, {Slot: 4, Workers: 2, Fraction: 0.5}}, false, []Phase{{From: at(3), To: at(4.5), Workers: 2}}},
		"alone":            {[]plan.Segment{{Slot: 3, Workers: 2, Fraction: 0.5}, {Slot: 6, Workers: 1, Fraction: 1}}, false, []Phase{{From: at(3), To: at(3.5), Workers: 2}, {From: at(6), To: at(7), Workers: 1}}},
		"two scales":       {[]plan.Segment{{Slot: 3, Workers: 4, Fraction: 0.75}, {Slot: 3, Workers: 3, Fraction: 0.25}, {Slot: 4, Workers: 2, Fraction: 1}}, false, []Phase{{From: at(3), To: at(3.75), Workers: 4}, {From: at(3.75), To: at(4), Workers: 3}, {From: at(4), To: at(5), Workers: 2}}},
		"nothing at first": {[]plan.Segment{{Slot: 3, Workers: 4, Fraction: 1e-15}, {Slot: 3, Workers: 3, Fraction: 0.5}}, false, []Phase{{From: at(3), To: at(3.5), Workers: 3}}},
		"now, waiting":     {now, false, []Phase{{From: at(0.5), To: at(2), Workers: 2}}},
		"now, for a moment less": {
			[]plan.Segment{{Slot: 0, Workers: 2, Fraction: 0.991}, {Slot: 1, Workers: 2, Fraction: 1}}, false, []Phase{{From: at(0), To: at(1.991), Workers: 2}},
		},
		"now, running": {now, true, []Phase{{From: at(0), To: at(0.5), Workers: 2}, {From: at(1), To: at(2), Workers: 2}}},
	} {
		task := Task{ID: "a", Kind: workload.Elastic, Deadline: at(24), State: Waiting, Request: map[string]float64{"cpu": 1}, Scaling: &Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}}
		if tc.running {
			task.State = Running
		}
		for _, seg := range tc.segments {
			task.Remaining += time.Duration(seg.Fraction * float64(seg.Workers) * float64(time.Hour))
		}
		s := Snapshot{Now: t0, Slot: time.Hour, Clusters: []Cluster{{Name: "c"}}, Tasks: []Task{task}}
		w := newDecider(&s)
		got := w.phasesOf(0, w.grid, tc.segments, []int{0})
		if len(got) != len(tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
			continue
		}
		for i := range got {
			if !got[i].From.Equal(tc.want[i].From) || !got[i].To.Equal(tc.want[i].To) || got[i].Workers != tc.want[i].Workers {
				t.Errorf("%s: phase %d: %+v, want %+v", name, i, got[i], tc.want[i])
			}
		}
	}
}

// TestPartsBeyondTheSlot: the parts of a slot may exceed it by rounding. The phase of the next slot begins after them.
func TestPartsBeyondTheSlot(t *testing.T) {
	t0 := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	task := Task{ID: "a", Kind: workload.Elastic, Deadline: t0.Add(24 * time.Hour), State: Waiting, Remaining: 5 * time.Hour, Request: map[string]float64{"cpu": 1}, Scaling: &Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}}
	s := Snapshot{Now: t0, Slot: time.Hour, Clusters: []Cluster{{Name: "c"}}, Tasks: []Task{task}}
	w := newDecider(&s)
	got := w.phasesOf(0, w.grid, []plan.Segment{{Slot: 3, Workers: 4, Fraction: 0.75}, {Slot: 3, Workers: 3, Fraction: 0.25 + 1e-7}, {Slot: 4, Workers: 2, Fraction: 1}}, []int{0})
	if len(got) != 3 {
		t.Fatalf("phases %+v, want three", got)
	}
	for k := 1; k < len(got); k++ {
		if got[k].From.Before(got[k-1].To) {
			t.Errorf("phase %d begins at %v, before the end of the one before it, %v", k, got[k].From, got[k-1].To)
		}
	}
}
