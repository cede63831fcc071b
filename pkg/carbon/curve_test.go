package carbon

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// TestCurveFollowsItsSeries: whatever steps and gaps a series has, the curve is the series where it has a value, the slot's value where it has none, and
// its integral is the sum over minutes.
func TestCurveFollowsItsSeries(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var samples []Sample
		at := t0.Add(-time.Duration(r.IntN(120)) * time.Minute)
		for range 3 + r.IntN(40) {
			at = at.Add(time.Duration(r.IntN(3)/2*r.IntN(90)) * time.Minute) // a gap now and then
			to := at.Add(time.Duration(5+r.IntN(90)) * time.Minute)
			samples = append(samples, Sample{From: at, To: to, Value: units.CarbonIntensity(r.IntN(500))})
			at = to
		}
		s, err := NewSeries(Provenance{}, samples)
		if err != nil {
			t.Fatal(err)
		}
		g := timegrid.Grid{Start: t0, Slot: time.Duration(15+r.IntN(4)*15) * time.Minute, N: 1 + r.IntN(40)}
		filled, _ := FillSlots(s, g)
		c := NewCurve(s, g, filled)
		minute := func(k int) float64 {
			x := t0.Add(time.Duration(k) * time.Minute)
			slot := min(g.SlotOf(x), g.N-1)
			if _, made := filled.Filled[slot]; !made {
				if v, ok := s.At(x); ok {
					return float64(v.Value)
				}
			}
			return filled.Values[slot]
		}
		minutes := g.N * int(g.Slot/time.Minute)
		for range 20 {
			from := r.IntN(minutes)
			to := from + 1 + r.IntN(minutes-from)
			sum := 0.0
			for k := from; k < to; k++ {
				sum += minute(k) / 60
			}
			a, b := t0.Add(time.Duration(from)*time.Minute), t0.Add(time.Duration(to)*time.Minute)
			if got := c.Integral(a, b); math.Abs(got-sum) > 1e-6*(1+sum) {
				t.Fatalf("seed %d: from minute %d to %d the integral is %g; want %g", seed, from, to, got, sum)
			}
			if got, want := c.Mean(a, b), sum/b.Sub(a).Hours(); math.Abs(got-want) > 1e-6*(1+want) {
				t.Fatalf("seed %d: from minute %d to %d the mean is %g; want %g", seed, from, to, got, want)
			}
			if got := c.Mean(a, a); got != minute(from) {
				t.Fatalf("seed %d: at minute %d it is %g; want %g", seed, from, got, minute(from))
			}
		}
	}
}
