package capacity

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestBound(t *testing.T) {
	b, err := New(100, 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wanted, floor, before, want float64
		why                         Reason
	}{
		"as wanted":                     {50, 0, 60, 50, AtWanted},
		"first slot":                    {90, 0, -1, 90, AtWanted},
		"not below the minimum":         {3, 0, -1, 10, AtMinimum},
		"down by the ramp":              {10, 0, 80, 60, AtRamp},
		"up by the ramp":                {90, 0, 40, 60, AtRamp},
		"to the minimum by the ramp":    {0, 0, 80, 60, AtRamp},
		"the floor outranks the ramp":   {10, 95, 40, 95, AtFloor},
		"the maximum outranks the rest": {10, 150, 40, 100, AtMaximum},
		"the maximum bounds the wish":   {120, 0, 95, 100, AtMaximum},
	} {
		if got, why := b.Bound(c.wanted, c.floor, c.before); got != c.want || why != c.why {
			t.Errorf("%s: %v (%s), want %v (%s)", name, got, why, c.want, c.why)
		}
	}
	if free, _ := New(100, 0, 0); true {
		if got, _ := free.Bound(0, 0, 100); got != 0 {
			t.Errorf("without a ramp %v", got)
		}
	}
	for _, c := range [][3]float64{{0, 0, 0}, {-1, 0, 0}, {math.NaN(), 0, 0}, {math.Inf(1), 0, 0}, {10, 11, 0}, {10, -1, 0}, {10, math.NaN(), 0}, {10, 0, -1}, {10, 0, math.Inf(1)}} {
		if _, err := New(c[0], c[1], c[2]); !errors.Is(err, ErrBounds) {
			t.Errorf("bounds %v: %v", c, err)
		}
	}
}

// TestCapacityStaysWithinItsBounds: at any values the capacity is between minimum and maximum, and covers the floor where
// the maximum does.
func TestCapacityStaysWithinItsBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		most := 1 + 100*rng.Float64()
		b, err := New(most, most*rng.Float64(), 50*rng.Float64())
		if err != nil {
			t.Fatal(err)
		}
		floor := 150 * rng.Float64()
		before := b.Minimum + (most-b.Minimum)*rng.Float64()
		m, why := b.Bound(150*rng.Float64(), floor, before)
		if m < b.Minimum || m > most || m < min(floor, most) {
			t.Fatalf("%+v, floor %v: %v", b, floor, m)
		}
		if why != AtFloor && why != AtMaximum && b.Ramp > 0 && math.Abs(m-before) > b.Ramp+1e-9 {
			t.Fatalf("%+v: from %v to %v by %s", b, before, m, why)
		}
	}
}

func TestVictims(t *testing.T) {
	for name, c := range map[string]struct {
		running []Running
		excess  float64
		want    []int
	}{
		"nothing too much":               {[]Running{{Use: 1}}, 0, nil},
		"least lost first":               {[]Running{{Use: 2, Lost: 3}, {Use: 2, Lost: 1}, {Use: 2, Lost: 2}}, 3, []int{1, 2}},
		"lost for what it frees":         {[]Running{{Use: 1, Lost: 1}, {Use: 10, Lost: 2}}, 1, []int{1}},
		"what must run stays":            {[]Running{{Use: 4, Keep: true}, {Use: 2, Lost: 9}}, 5, []int{1}},
		"not more than what must go":     {[]Running{{Use: 1, Lost: 0}, {Use: 5, Lost: 1}}, 4, []int{1}},
		"what uses nothing frees naught": {[]Running{{Use: 0}, {Use: 1}}, 1, []int{1}},
	} {
		if got := Victims(c.running, c.excess); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func BenchmarkVictims(b *testing.B) {
	rng := rand.New(rand.NewPCG(2, 2))
	running := make([]Running, 1000)
	for i := range running {
		running[i] = Running{Use: 1 + 7*rng.Float64(), Lost: rng.Float64(), Keep: rng.IntN(4) == 0}
	}
	b.ReportAllocs()
	for b.Loop() {
		Victims(running, 500)
	}
}
