package relax

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestPickManyIsABoundOfPickRuns: what pickMany returns is a bound of what pickRuns, which is exact, finds, and its slots are a schedule
// of the job that costs no less. Over all instances both are near.
func TestPickManyIsABoundOfPickRuns(t *testing.T) {
	exacts, bounds, schedules := 0.0, 0.0, 0.0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		slots := 1 + rng.IntN(120)
		intensity := make([]float64, slots)
		for i := range intensity {
			intensity[i] = []float64{0, 1e-9, 1e6, float64(rng.IntN(500)), float64(rng.IntN(500))}[rng.IntN(2+rng.IntN(4))]
		}
		length := float64(1 + rng.IntN(slots))
		job := plantest.Job("a", workload.Interruptible, 0, slots, length)
		job.RestartKWh = []float64{1e-6, 0.1, 1, 10}[rng.IntN(4)]
		p := plantest.OneCluster(1, intensity, job)
		m := New(p, TermsOf(p))
		e := NewPricer(m)
		e.Set(make([]float64, len(m.Cap)))
		jb, cl := &m.jobs[0], &m.classes[0]
		tb := &e.tables[cl.lane][0]
		for i := range tb.cost { // where there is no room
			if rng.IntN(20) == 0 {
				tb.cost[i] = math.Inf(1)
			}
		}
		what := fmt.Sprintf("seed %d, %v of %d slots", seed, length, slots)
		e.parts = e.parts[:0]
		exact, found := e.pickRuns(jb, cl, tb)
		e.parts = e.parts[:0]
		bound, ok := e.pickMany(jb, cl, tb)
		if ok != found {
			t.Fatalf("%s: found %v, want %v", what, ok, found)
		}
		if !ok {
			continue
		}
		if len(e.parts) != int(length) {
			t.Fatalf("%s: %d slots", what, len(e.parts))
		}
		for i, x := range e.parts {
			if i > 0 && x.Slot <= e.parts[i-1].Slot || math.IsInf(tb.cost[x.Slot], 1) {
				t.Fatalf("%s: slots %v", what, e.parts)
			}
		}
		cost := m.Cost(0, e.parts)
		if rounding := 1e-9 * math.Abs(exact); bound > exact+rounding || cost < exact-rounding {
			t.Errorf("%s: bound %v, exact %v, schedule %v", what, bound, exact, cost)
		}
		if exact < 1e6 { // else a few dear slots are the whole sum
			exacts, bounds, schedules = exacts+exact, bounds+bound, schedules+cost
		}
	}
	t.Logf("bound %.3f, schedules %.3f of the exact cost", bounds/exacts, schedules/exacts)
	if bounds < 0.97*exacts || schedules > 1.03*exacts {
		t.Errorf("bound %.3f, schedules %.3f of the exact cost, want 0.97 and 1.03", bounds/exacts, schedules/exacts)
	}
}

// TestManySlotsLooksAtWindows: the work is that of a few windows, however many slots are needed.
func TestManySlotsLooksAtWindows(t *testing.T) {
	const slots = 5000
	intensity := make([]float64, slots)
	for i := range intensity {
		intensity[i] = 300 + 200*math.Sin(2*math.Pi*float64(i)/24) + float64(i*37%41)
	}
	job := plantest.Job("a", workload.Interruptible, 0, slots, 1700)
	job.RestartKWh = 0.1
	p := plantest.OneCluster(1, intensity, job)
	m := New(p, TermsOf(p))
	e := NewPricer(m)
	e.Set(make([]float64, len(m.Cap)))
	before := e.Looked
	if _, parts := e.Best(0); len(parts) != 1700 {
		t.Fatalf("%d slots", len(parts))
	}
	if n := e.Looked - before; n > (mostPicks+1)*slots {
		t.Errorf("%d slots looked at, want at most %d", n, (mostPicks+1)*slots)
	}
}
