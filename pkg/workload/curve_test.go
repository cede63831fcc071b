package workload_test

import (
	"slices"
	"testing"

	"lull.dev/lull/pkg/workload"
)

func TestThroughput(t *testing.T) {
	curve := []float64{2, 0, 1.5, 0} // of 2 to 5 workers
	for workers, want := range map[int]float64{-1: 0, 0: 0, 1: 1, 2: 2, 3: 2, 4: 3.5, 5: 3.5, 9: 3.5} {
		if got := workload.Throughput(curve, 2, workers); got != want {
			t.Errorf("throughput of %d workers: %v, want %v", workers, got, want)
		}
		if got := workload.Speedup(curve, 2, workers); got != want/2 {
			t.Errorf("speedup of %d workers: %v, want %v", workers, got, want/2)
		}
	}
	if got := workload.Throughputs(curve); !slices.Equal(got, []float64{2, 2, 3.5, 3.5}) {
		t.Errorf("throughputs %v", got)
	}
}

func TestFastestIsTheSmallestScale(t *testing.T) {
	for _, c := range []struct {
		curve   []float64
		workers int
		speedup float64
	}{
		{[]float64{2}, 3, 1}, {[]float64{2, 0, 0}, 3, 1}, {[]float64{2, 1, 0, 1, 0}, 6, 2},
	} {
		if w, s := workload.Fastest(c.curve, 3); w != c.workers || s != c.speedup {
			t.Errorf("curve %v: %d workers, %v times; want %d, %v", c.curve, w, s, c.workers, c.speedup)
		}
	}
}

// TestSlotsOfAShortJob: a job shorter than the tolerance still needs a slot.
func TestSlotsOfAShortJob(t *testing.T) {
	for length, want := range map[float64]int{1e-9: 1, 1e-6: 1, 0.5: 1, 1: 1, 1 + 1e-7: 1, 1.1: 2, 3: 3} {
		j := job()
		j.Length = length
		if got := j.Slots(); got != want {
			t.Errorf("length %v: %d slots, want %d", length, got, want)
		}
	}
}

func TestMajorant(t *testing.T) {
	for _, c := range []struct{ curve, want []float64 }{
		{[]float64{1}, []float64{1}},
		{[]float64{1, 0.7, 0.7, 0.2, 0}, []float64{1, 0.7, 0.7, 0.2, 0}},             // never rises: itself
		{[]float64{1, 1, 0, 1.5, 0, 0}, []float64{1, 1, 0.75, 0.75, 0, 0}},           // powers of two
		{[]float64{1, 0, 0, 3}, []float64{1, 1, 1, 1}},                               // the last catches up
		{[]float64{1, 0.25, 0.75, 0.125, 0.375}, []float64{1, 0.5, 0.5, 0.25, 0.25}}, // bumps
	} {
		if got := workload.Majorant(c.curve); !slices.Equal(got, c.want) {
			t.Errorf("majorant of %v: %v, want %v", c.curve, got, c.want)
		}
	}
}

func TestIncrements(t *testing.T) {
	for _, c := range []struct {
		curve []float64
		want  []workload.Increment
	}{
		{[]float64{1}, []workload.Increment{}},
		{[]float64{1, 0.5, 0.5, 0}, []workload.Increment{{From: 0, To: 1, Work: 0.5}, {From: 1, To: 2, Work: 0.5}}},
		{[]float64{1, 0, 1}, []workload.Increment{{From: 0, To: 2, Work: 1}}},
		{[]float64{1, 1, 0, 1.5, 0}, []workload.Increment{{From: 0, To: 1, Work: 1}, {From: 1, To: 3, Work: 1.5}}},
		{[]float64{1, 0, 0}, []workload.Increment{}},
	} {
		if got := workload.Increments(c.curve); !slices.Equal(got, c.want) {
			t.Errorf("increments of %v: %v, want %v", c.curve, got, c.want)
		}
	}
}
