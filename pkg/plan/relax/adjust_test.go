package relax

import (
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestAdjustDoesTheWork: a schedule of a job that has become shorter or longer, or whose
// window has moved, becomes one that Check accepts.
func TestAdjustDoesTheWork(t *testing.T) {
	adjusted := 0
	for seed := range uint64(300) {
		p := plantest.Random(seed, plantest.Options{})
		m := New(p, Terms{Carbon: 1})
		e := NewPricer(m)
		e.Set(make([]float64, len(m.Cap)))
		room := NewRoom(m)
		rng := rand.New(rand.NewPCG(seed, 3))
		for j := range p.Jobs {
			_, parts, ok := e.PlaceIn(j, room)
			if !ok {
				continue
			}
			before := append([]Part(nil), parts...)
			same, changed, ok := e.Adjust(j, before, room)
			if !ok || changed {
				t.Fatalf("seed %d, job %d: what fits is changed: %v to %v", seed, j, before, same)
			}
			check(t, m, p, j, same)
			q := *p
			q.Jobs = append([]workload.Job(nil), p.Jobs...)
			q.Jobs[j].Length *= 0.5 + rng.Float64()
			q.Jobs[j].Arrival += rng.IntN(2)
			other := New(&q, Terms{Carbon: 1})
			f := NewPricer(other)
			f.Set(make([]float64, len(other.Cap)))
			if after, _, ok := f.Adjust(j, before, NewRoom(other)); ok {
				check(t, other, &q, j, after)
				adjusted++
			}
		}
	}
	if adjusted < 500 {
		t.Errorf("only %d schedules could be adjusted", adjusted)
	}
}

func check(t *testing.T, m *Model, p *plan.Problem, j int, parts []Part) {
	t.Helper()
	one := *p
	one.Jobs = p.Jobs[j : j+1]
	if err := plan.Check(&one, plan.Plan{Jobs: []plan.JobPlan{{Job: 0, Segments: m.Segments(j, parts)}}}); err != nil {
		t.Fatalf("job %+v: %v: %v", p.Jobs[j], parts, err)
	}
}

// TestAdjustTakesAwayTheDearest: of a job that needs two slots instead of three the
// dearest goes; one that needs four gets the cheapest more.
func TestAdjustTakesAwayTheDearest(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Interruptible, workload.Elastic} {
		for length, want := range map[float64][]int32{2: {1, 5}, 3: {1, 3, 5}, 4: {1, 2, 3, 5}} {
			p := plantest.OneCluster(1, []float64{9, 1, 5, 8, 7, 2}, plantest.Job("a", kind, 0, 6, length))
			m := New(p, Terms{Carbon: 1})
			e := NewPricer(m)
			e.Set(make([]float64, len(m.Cap)))
			parts, _, ok := e.Adjust(0, []Part{{1, 0, 0, 1}, {3, 0, 0, 1}, {5, 0, 0, 1}}, NewRoom(m))
			if !ok || len(parts) != len(want) {
				t.Fatalf("%s of %v slots: %v", kind, length, parts)
			}
			for i, s := range parts {
				if s.Slot != want[i] {
					t.Errorf("%s of %v slots: %v, want slots %v", kind, length, parts, want)
				}
			}
		}
	}
}

// TestRoomKeepsItsReserve: what may not use the reserve does not fit where only it is left.
func TestRoomKeepsItsReserve(t *testing.T) {
	p := plantest.OneCluster(2, []float64{1}, plantest.Job("a", workload.Rigid, 0, 1, 1), plantest.Job("b", workload.Rigid, 0, 1, 1))
	m := New(p, Terms{Carbon: 1})
	room := NewRoom(m)
	room.Keep([]float64{1})
	room.Take(0, []Part{{0, 0, 0, 1}}, 1)
	if n := room.Scales(1, 0, 0); n != 0 {
		t.Errorf("fits beside the reserve in %d scales", n)
	}
	room.UseReserve(true)
	if n := room.Scales(1, 0, 0); n != 1 {
		t.Errorf("fits in the reserve in %d scales", n)
	}
}
