package decide

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/workload"
)

// TestPiecesCrossBoundaries: what is free between two tasks has a boundary in it where as much is free before and after, as of tasks that follow one
// another on other CPUs. The parts are shorter than the least piece, and together longer: a task that has no other room uses them.
func TestPiecesCrossBoundaries(t *testing.T) {
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	s := Snapshot{
		Now: now, Slot: time.Hour, Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 2}}},
		Tasks: []Task{{ID: "t", Kind: workload.Interruptible, Submitted: now, Deadline: at(7200), Remaining: 200 * time.Second, Request: map[string]float64{"cpu": 1}}},
	}
	for name, x := range map[string]struct {
		free [][2]int // seconds in which one CPU is free
		want []Phase
	}{
		"two runs":               {[][2]int{{600, 700}, {1200, 1300}}, []Phase{{From: at(600), To: at(700)}, {From: at(1200), To: at(1300)}}},
		"the first is too short": {[][2]int{{600, 650}, {1200, 1300}, {1800, 1900}}, []Phase{{From: at(1200), To: at(1300)}, {From: at(1800), To: at(1900)}}},
		"both are too short":     {[][2]int{{600, 650}, {1200, 1250}}, nil},
		"the last one suffices":  {[][2]int{{600, 780}, {1200, 1220}}, []Phase{{From: at(600), To: at(780)}, {From: at(1200), To: at(1220)}}},
	} {
		w := newDecider(&s)
		take := func(cpus float64, from, to int) {
			w.ledger.Take(0, w.items[0].need, cpus, at(from), at(to))
		}
		used := 0
		for _, f := range x.free {
			take(2, used, f[0])
			middle := (f[0] + f[1]) / 2
			take(1, f[0], middle)
			take(1, middle, f[1])
			used = f[1]
		}
		take(2, used, 7200)
		got, _ := w.soonestFit(w.ledger, 0, at(7200))
		if len(got) != len(x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
			continue
		}
		for k := range got {
			if got[k].From.Sub(x.want[k].From).Abs() > rounding || got[k].To.Sub(x.want[k].To).Abs() > rounding {
				t.Errorf("%s: piece %d: %v, want %v", name, k, got[k], x.want[k])
			}
		}
	}
}

// TestLateTasksUseCutRoom: a task that is late anyway ends as soon as the room allows that boundaries cut.
func TestLateTasksUseCutRoom(t *testing.T) {
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	s := Snapshot{
		Now: now, Slot: time.Hour, Clusters: []Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 2}}},
		Tasks: []Task{{ID: "t", Kind: workload.Interruptible, Submitted: now, Deadline: at(1250), Remaining: 200 * time.Second, Request: map[string]float64{"cpu": 1}}},
	}
	w := newDecider(&s)
	for _, x := range []struct {
		cpus     float64
		from, to int
	}{{2, 0, 600}, {1, 600, 650}, {1, 650, 700}, {2, 700, 1200}, {1, 1200, 1250}, {1, 1250, 1300}, {2, 1300, 43200}} {
		w.ledger.Take(0, w.items[0].need, x.cpus, at(x.from), at(x.to))
	}
	got, ok := w.soonestFit(w.ledger, 0, now.AddDate(50, 0, 0))
	if !ok || got[len(got)-1].To.Sub(at(1300)).Abs() > rounding {
		t.Errorf("%v; want it to end at %v", got, at(1300))
	}
}
