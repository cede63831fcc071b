package decide_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// TestNothingIsForgotten: if the world does what a decision has foreseen, the next one foresees the same for what it does not
// change. Deadlines rest on that: see docs/design/0017-one-kept-schedule.md.
func TestNothingIsForgotten(t *testing.T) {
	all := []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}
	for name, planner := range map[string]plan.Planner{
		"asap": asap.Planner{}, "cheapest": cheapest.Planner{}, "joint": joint.Planner{Effort: 0.02}, "joint reserve 0.2": joint.Planner{Effort: 0.02, Reserve: 0.2},
	} {
		compared, step := 0, 0
		for n := range 1 + worlds() {
			seed := 2 * n // all kinds
			w := randomWorld(seed, 0.95, true, all)
			stated := map[string][]decide.Phase{}
			w.decided = func(s decide.Snapshot, d decide.Decision) {
				const sample = 4 // of the decisions, as it takes as long as one
				var foreseen [][]decide.Phase
				if step++; step%sample == 0 {
					foreseen = decide.GoOn(s)
				}
				for i := range s.Tasks {
					id := s.Tasks[i].ID
					before, known := stated[id]
					stated[id] = d.Actions[i].Phases
					if !known || foreseen == nil || s.Tasks[i].Remaining < time.Millisecond {
						continue
					}
					compared++
					if before = ahead(before, s.Now); !sameTimes(before, ahead(foreseen[i], s.Now)) {
						t.Errorf("%s, seed %d, %s: %s was to do %v, and is now to do %v", name, seed, s.Now.Format(time.RFC3339Nano), id, before, foreseen[i])
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			w.run(t, planner)
		}
		if compared < 1000 {
			t.Errorf("%s: %d comparisons: the test shows little", name, compared)
		}
	}
}

// ahead are the parts of phases after a time.
func ahead(phases []decide.Phase, now time.Time) (out []decide.Phase) {
	for _, p := range phases {
		if p.From.Before(now) {
			p.From = now
		}
		if n := len(out); n > 0 && p.From.Sub(out[n-1].To) < time.Millisecond && p.Cluster == out[n-1].Cluster {
			out[n-1].To = p.To // at another scale
		} else if p.To.Sub(p.From) > time.Millisecond {
			out = append(out, p)
		}
	}
	return out
}

func sameTimes(a, b []decide.Phase) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if a[k].From.Sub(b[k].From).Abs() > time.Millisecond || a[k].To.Sub(b[k].To).Abs() > time.Millisecond || a[k].Cluster != b[k].Cluster {
			return false
		}
	}
	return true
}
