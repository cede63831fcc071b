package workload

import (
	"sort"
	"time"
)

// Lengths is the distribution of run times seen so far. The zero value is empty.
type Lengths struct {
	sorted []time.Duration // ascending
	above  []float64       // above[i] is the sum of sorted[i:], ns
	fresh  []time.Duration
}

// Add notes a run time. It counts once a number of them have come together, so that its
// cost is spread, or at Merge.
func (l *Lengths) Add(length time.Duration) {
	l.fresh = append(l.fresh, length)
	if len(l.fresh) > 8+len(l.sorted)/8 {
		l.Merge()
	}
}

// Merge makes all run times noted so far count.
func (l *Lengths) Merge() {
	l.sorted = append(l.sorted, l.fresh...)
	l.fresh = l.fresh[:0]
	sort.Slice(l.sorted, func(a, b int) bool { return l.sorted[a] < l.sorted[b] })
	l.above = make([]float64, len(l.sorted)+1)
	for i := len(l.sorted) - 1; i >= 0; i-- {
		l.above[i] = l.above[i+1] + float64(l.sorted[i])
	}
}

// Above returns the mean of the run times longer than done, E[L | L > done], and how many
// there are.
//
// Complexity: O(log run times).
func (l *Lengths) Above(done time.Duration) (mean time.Duration, n int) {
	i := sort.Search(len(l.sorted), func(i int) bool { return l.sorted[i] > done })
	if n = len(l.sorted) - i; n == 0 {
		return 0, 0
	}
	return time.Duration(l.above[i] / float64(n)), n
}
