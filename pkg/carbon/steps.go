package carbon

import (
	"slices"
	"time"
)

// How many equal distances in succession make a step that a neighbourhood uses, and how
// many rows would have to be missing if it were not one.
const (
	atEdge, amongOthers         = 2, 3
	lackingAtEdge, lackingAmong = 3, 6
	// surely is a number of equal distances that always makes a step.
	surely = 6
)

// Steps returns for how long each of some rows is valid, of which only the starts are
// known; starts ascend. A row is valid until the next one if their distance is a step,
// or shorter than the step beside it; else for the step beside it, and a gap follows.
//
// A distance is a step if a run of rows has it:
//   - at least 2 equal distances in succession at an end of the rows, at least 3 elsewhere;
//   - if the distances on one side of the run are shorter, rows that are missing would look
//     the same. Then at least 3 rows must be missing if it were so (6, and 3 equal distances,
//     if those on both sides are shorter), or the run must have 6 equal distances.
//
// The step beside a row is that of the nearest run before it, or after it if there is none
// before it, or if the next row comes sooner than that step and the run after it is finer. If no run
// makes a step, the most frequent distance is the step, of equally frequent ones the
// smallest. A distance of one step and an hour is one step, if that is longer than an hour: the
// day on which clocks go back. A single row is valid for only.
//
// Complexity: O(n).
func Steps(starts []time.Time, only time.Duration) []time.Duration {
	out := make([]time.Duration, len(starts))
	if len(starts) < 2 {
		for i := range out {
			out[i] = only
		}
		return out
	}
	distances := make([]time.Duration, len(starts)-1)
	for i := range distances {
		distances[i] = starts[i+1].Sub(starts[i])
	}
	before, after := stepsBeside(distances)
	for i, d := range distances {
		step := before[i]
		if d < step && after[i] < step {
			step = after[i]
		}
		if backwards := step > time.Hour && d == step+time.Hour; d > step && !backwards {
			d = step
		}
		out[i] = d
	}
	out[len(distances)] = before[len(distances)-1]
	return out
}

// stepsBeside returns for each distance the step of the nearest run that is not after it
// and that of the nearest run that is not before it.
func stepsBeside(distances []time.Duration) (before, after []time.Duration) {
	n := len(distances)
	steps := make([]time.Duration, n) // 0 where a distance is no step
	for from := 0; from < n; {
		to := from + 1
		for to < n && distances[to] == distances[from] {
			to++
		}
		if isStep(distances, from, to) {
			for i := from; i < to; i++ {
				steps[i] = distances[i]
			}
		}
		from = to
	}
	before, after = slices.Clone(steps), steps
	for i := 1; i < n; i++ {
		if before[i] == 0 {
			before[i] = before[i-1]
		}
	}
	for i := n - 2; i >= 0; i-- {
		if after[i] == 0 {
			after[i] = after[i+1]
		}
	}
	if after[0] == 0 { // no run
		usual := usualStep(distances)
		for i := range n {
			before[i], after[i] = usual, usual
		}
	}
	for i := range n {
		if before[i] == 0 {
			before[i] = after[i]
		}
		if after[i] == 0 {
			after[i] = before[i]
		}
	}
	return before, after
}

// isStep says whether the run of equal distances [from, to) makes a step.
func isStep(distances []time.Duration, from, to int) bool {
	d, n := distances[from], to-from
	least, finer, sides := amongOthers, d, 0
	if from == 0 || to == len(distances) {
		least = atEdge
	}
	for _, beside := range []int{from - 1, to} {
		if beside >= 0 && beside < len(distances) && distances[beside] < d {
			finer = min(finer, distances[beside])
			sides++
		}
	}
	lacking := n * (int(d/finer) - 1)
	switch {
	case n >= surely || sides == 0 && n >= least:
		return true
	case sides == 1:
		return n >= atEdge && lacking >= lackingAtEdge
	case sides == 2:
		return n >= amongOthers && lacking >= lackingAmong
	}
	return false
}

// usualStep returns the most frequent distance, of equally frequent ones the smallest.
func usualStep(distances []time.Duration) time.Duration {
	count := map[time.Duration]int{}
	for _, d := range distances {
		count[d]++
	}
	step, most := time.Duration(0), 0
	for d, n := range count {
		if n > most || n == most && d < step {
			step, most = d, n
		}
	}
	return step
}
