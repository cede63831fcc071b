package carbon

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/units"
)

// TestPathsMean compares means with sums over slots, at random borders.
func TestPathsMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	values := make([][]float64, 3)
	for i := range values {
		for range 48 {
			values[i] = append(values[i], 500*rng.Float64())
		}
	}
	p, err := NewPaths(start, 30*time.Minute, values)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		a, b := rng.IntN(24*60), rng.IntN(24*60+1)
		a, b = min(a, b), max(a, b)
		from, to := start.Add(time.Duration(a)*time.Minute), start.Add(time.Duration(b)*time.Minute)
		if !p.Covers(from, to) {
			t.Fatalf("minutes %d to %d are not covered", a, b)
		}
		last := []float64{7, 7}
		p.AddOver(from, to, 3, last)
		for k, got := range last {
			if want := 7 + 3*float64(p.Mean(k+1, from, to)); math.Abs(got-want) > 1e-6 {
				t.Fatalf("path %d, minutes %d to %d: adds up to %v, want %v", k+1, a, b, got, want)
			}
		}
		for i := range values {
			sum := 0.0
			for m := a; m < b; m++ {
				sum += values[i][m/30]
			}
			want := sum / float64(b-a)
			if a == b {
				want = 0
			}
			if got := float64(p.Mean(i, from, to)); math.Abs(got-want) > 1e-6 {
				t.Fatalf("path %d, minutes %d to %d: %v, want %v", i, a, b, got, want)
			}
		}
	}
	for name, covered := range map[string]bool{
		"before": p.Covers(start.Add(-time.Second), start.Add(time.Hour)),
		"after":  p.Covers(start, start.Add(24*time.Hour+time.Second)),
		"nil":    (*Paths)(nil).Covers(start, start),
	} {
		if covered {
			t.Errorf("%s: covered", name)
		}
	}
	if (*Paths)(nil).Len() != 0 || p.Len() != 3 {
		t.Errorf("%d paths", p.Len())
	}
}

func TestPathsRefuse(t *testing.T) {
	at := time.Unix(0, 0)
	for name, x := range map[string]struct {
		step   time.Duration
		values [][]float64
	}{
		"no step":        {0, [][]float64{{1}}},
		"no paths":       {time.Hour, nil},
		"no slots":       {time.Hour, [][]float64{{}}},
		"another length": {time.Hour, [][]float64{{1, 2}, {1}}},
		"negative":       {time.Hour, [][]float64{{-1}}},
		"not a number":   {time.Hour, [][]float64{{math.NaN()}}},
		"infinite":       {time.Hour, [][]float64{{math.Inf(1)}}},
		"too many paths": {time.Hour, make([][]float64, mostPaths+1)},
		"too many slots": {time.Hour, [][]float64{make([]float64, mostSteps+1)}},
	} {
		if p, err := NewPaths(at, x.step, x.values); err == nil {
			t.Errorf("%s: accepted: %v", name, p)
		}
	}
	p, err := NewPaths(at, time.Hour, [][]float64{{1e300}})
	if err != nil || p.Mean(0, at, at.Add(time.Hour)) != units.MaxCarbonIntensity {
		t.Errorf("a value beyond any grid's: %v", err)
	}
}
