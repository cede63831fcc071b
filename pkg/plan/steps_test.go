package plan_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
)

// stepsOf returns the steps between scales of the given total work and total watts.
func stepsOf(work, watts []float64) []plan.Step {
	steps := make([]plan.Step, len(work))
	var before plan.Step
	for i := range work {
		steps[i] = plan.Step{From: i, To: i + 1, Work: work[i] - before.Work, Watts: watts[i] - before.Watts}
		before = plan.Step{Work: work[i], Watts: watts[i]}
	}
	return steps
}

// leastWatts is the least power that does an amount of work by sharing a slot between
// two scales, one of which may be idle; infinite if no scale does so much.
func leastWatts(work, watts []float64, amount float64) float64 {
	work, watts = append([]float64{0}, work...), append([]float64{0}, watts...)
	least := math.Inf(1)
	for a := range work {
		if math.Abs(work[a]-amount) < 1e-12 {
			least = math.Min(least, watts[a])
		}
		for b := range work {
			if work[a] < amount && amount < work[b] {
				share := (amount - work[a]) / (work[b] - work[a])
				least = math.Min(least, (1-share)*watts[a]+share*watts[b])
			}
		}
	}
	return least
}

// TestHullIsTheLeastPower compares the hull with all pairs of scales, on random curves
// with steps of no work, no power and falling power.
func TestHullIsTheLeastPower(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 8))
	for seed := range 3000 {
		n := 1 + rng.IntN(9)
		work, watts := make([]float64, n), make([]float64, n)
		w, p := 0.0, 0.0
		for i := range n {
			if rng.IntN(3) > 0 {
				w += float64(rng.IntN(4)) / 2
			}
			switch rng.IntN(4) {
			case 0: // no further power
			case 1:
				p = math.Max(0, p-float64(rng.IntN(60)))
			default:
				p += float64(rng.IntN(100))
			}
			work[i], watts[i] = w, p
		}
		steps := stepsOf(work, watts)
		hull := plan.Hull(steps)
		if !plan.Concave(hull) {
			t.Fatalf("%d: work per watt rises along the hull %v of %v, %v", seed, hull, work, watts)
		}
		at, doneWork, doneWatts := 0, 0.0, 0.0
		for _, s := range hull {
			if s.From != at || s.To <= s.From || !(s.Work > 0) || s.Watts < 0 {
				t.Fatalf("%d: step %+v after scale %d; work %v, watts %v", seed, s, at, work, watts)
			}
			for _, share := range []float64{0.5, 1} {
				got, want := doneWatts+share*s.Watts, leastWatts(work, watts, doneWork+share*s.Work)
				if math.Abs(got-want) > 1e-9 {
					t.Fatalf("%d: %v of work takes %v W on the hull, %v W at best; work %v, watts %v", seed, doneWork+share*s.Work, got, want, work, watts)
				}
			}
			at, doneWork, doneWatts = s.To, doneWork+s.Work, doneWatts+s.Watts
		}
		if doneWork != w {
			t.Fatalf("%d: the hull does %v of %v; work %v", seed, doneWork, w, work)
		}
	}
}

// TestHullKeepsTheWattsOfIdleWorkers: a job that only runs faster at powers of two.
func TestHullKeepsTheWattsOfIdleWorkers(t *testing.T) {
	work := []float64{1, 2, 2, 3.61, 3.61, 3.61, 3.61, 5.1}
	watts := make([]float64, len(work))
	for i := range watts {
		watts[i] = 60 * float64(i+1)
	}
	var total plan.Step
	for _, s := range plan.Hull(stepsOf(work, watts)) {
		total.Work, total.Watts = total.Work+s.Work, total.Watts+s.Watts
	}
	if total.Watts != 480 || math.Abs(total.Work-5.1) > 1e-12 {
		t.Errorf("8 workers do %v with %v W, want 5.1 with 480 W", total.Work, total.Watts)
	}
}
