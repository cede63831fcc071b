package relax

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// mostBrackets is how many brackets a threshold may take: eight by factors of 0.7 and of 1.5, which
// then reach over all numbers in 12 squares at most.
const mostBrackets = 20

// scaled is a model of one elastic job that needs half of its window at the least scale.
func scaled(intensity []float64) *Model {
	n := len(intensity)
	p := plantest.OneCluster(4, intensity, plantest.Job("a", workload.Elastic, 0, n, float64(n)/2, 1, 0.8, 0.5))
	return New(p, TermsOf(p))
}

// TestAThresholdTakesFewBrackets counts the passes over the window: prices may change by any
// factor from one call to the next.
func TestAThresholdTakesFewBrackets(t *testing.T) {
	for _, intensity := range [][]float64{
		{0, 0, 0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 0, 0, 0, 0, 0, 900, 900}, {1e-6, 1e-6, 1e-6, 1e-6, 1e4, 1e4, 1e4, 1e4},
	} {
		m := scaled(intensity)
		e := NewPricer(m)
		e.Set(make([]float64, len(m.Cap)))
		want, parts := e.Best(0)
		parts = slices.Clone(parts)
		for _, theta := range []float64{0, 1e-307, 1e-300, 1e-30, 1e-3, 1, 1e3, 1e30, 1e300, 1e307} {
			e.theta[0], e.brackets = theta, 0
			cost, again := e.Best(0)
			if math.Abs(cost-want) > 1e-9*want || !slices.Equal(parts, again) {
				t.Errorf("%v, from %v: %v %v, want %v %v", intensity, theta, cost, again, want, parts)
			}
			if e.brackets > mostBrackets {
				t.Errorf("%v, from %v: %d brackets, want at most %d", intensity, theta, e.brackets, mostBrackets)
			}
		}
	}
}

// TestOneBracketShowsThatThereIsNoPlace: a job that does not fit costs one pass over its window.
func TestOneBracketShowsThatThereIsNoPlace(t *testing.T) {
	m := scaled([]float64{1, 2, 3, 4, 5, 6, 7, 8})
	e, room := NewPricer(m), NewRoom(m)
	e.Set(make([]float64, len(m.Cap)))
	e.Best(0)
	for slot := range int32(7) {
		room.Take(0, []Part{{Slot: slot, Scale: 2, Fraction: 1}}, 1)
		room.Take(0, []Part{{Slot: slot, Fraction: 1}}, 1)
	}
	e.brackets = 0
	if _, parts, ok := e.PlaceIn(0, room); ok {
		t.Fatalf("placed: %v", parts)
	}
	if e.brackets != 1 {
		t.Errorf("%d brackets, want 1", e.brackets)
	}
}

func BenchmarkNoPlace(b *testing.B) {
	for _, n := range []int{288, 2880} {
		b.Run(fmt.Sprintf("slots=%d", n), func(b *testing.B) {
			intensity := make([]float64, n)
			for i := range intensity {
				intensity[i] = float64(200 + i%97)
			}
			m := scaled(intensity)
			e, room := NewPricer(m), NewRoom(m)
			e.Set(make([]float64, len(m.Cap)))
			for t := range int32(n) {
				room.Take(0, []Part{{Slot: t, Scale: 2, Fraction: 1}}, 1)
				room.Take(0, []Part{{Slot: t, Fraction: 1}}, 1)
			}
			for b.Loop() {
				if _, _, ok := e.PlaceIn(0, room); ok {
					b.Fatal("placed in a full room")
				}
			}
		})
	}
}
