package workload

// This file is the one place that sums a marginal capacity curve: curve[0] is the
// throughput of minWorkers workers, curve[i] what the i-th further worker adds.

// Throughput returns the work per slot of the given number of workers. More workers
// than the curve describes work like the most it describes. Fewer than minWorkers work
// in proportion; 0 or fewer do nothing. The curve has at least one value and
// minWorkers is at least 1.
//
// Complexity: O(workers - minWorkers).
func Throughput(curve []float64, minWorkers, workers int) float64 {
	if workers < minWorkers {
		return curve[0] * float64(max(0, workers)) / float64(minWorkers)
	}
	sum := 0.0
	for _, v := range curve[:min(workers-minWorkers+1, len(curve))] {
		sum += v
	}
	return sum
}

// Speedup returns how many times as fast as minWorkers workers the given number of
// workers runs. curve[0] must be above 0; all else is as for Throughput.
//
// Complexity: O(workers - minWorkers).
func Speedup(curve []float64, minWorkers, workers int) float64 {
	if workers < minWorkers {
		return float64(max(0, workers)) / float64(minWorkers)
	}
	return Throughput(curve, minWorkers, workers) / curve[0]
}

// Throughputs returns the work per slot at every scale: value i is that of
// minWorkers + i workers.
func Throughputs(curve []float64) []float64 {
	out := make([]float64, len(curve))
	sum := 0.0
	for i, v := range curve {
		sum += v
		out[i] = sum
	}
	return out
}

// Fastest returns the smallest scale of the highest throughput and its speedup over
// minWorkers. curve[0] must be above 0.
//
// Complexity: O(len(curve)).
func Fastest(curve []float64, minWorkers int) (workers int, speedup float64) {
	workers = minWorkers
	sum, best := curve[0], curve[0]
	for i, v := range curve[1:] {
		if sum += v; sum > best {
			workers, best = minWorkers+i+1, sum
		}
	}
	return workers, best / curve[0]
}

// Increment is a group of further workers that are worth adding together. They bring a
// job from scale From to scale To, where scale i is that of minWorkers + i workers.
type Increment struct {
	From, To int
	// Work is what they add together, per slot.
	Work float64
}

// Workers returns how many workers the increment adds.
func (x Increment) Workers() int { return x.To - x.From }

// PerWorker returns the work that the increment adds for each of its workers.
func (x Increment) PerWorker() float64 { return x.Work / float64(x.To-x.From) }

// Increments returns the groups of further workers in the order in which they are worth
// adding: those of use only together are one group, so that PerWorker never rises. The
// workers at the end that add nothing are in no group. The first value of the curve, of
// minWorkers workers, is not shared with further ones.
//
// Complexity: O(len(curve)).
func Increments(curve []float64) []Increment {
	out := make([]Increment, 0, len(curve)-1)
	for i, v := range curve[1:] {
		x := Increment{i, i + 1, v}
		for n := len(out); n > 0 && x.Work*float64(out[n-1].Workers()) > out[n-1].Work*float64(x.Workers()); n-- {
			x.From, x.Work = out[n-1].From, x.Work+out[n-1].Work
			out = out[:n-1]
		}
		out = append(out, x)
	}
	for len(out) > 0 && out[len(out)-1].Work <= 0 {
		out = out[:len(out)-1]
	}
	return out
}

// Majorant returns what each worker adds on the lowest concave curve that is at least
// the given one everywhere: the workers of an increment share what they add together.
// It never rises after its first value, so that a planner which hands out workers one by
// one, the most useful first, is not stopped by one that adds nothing alone. A curve
// whose further values never rise is returned as it is.
//
// Complexity: O(len(curve)).
func Majorant(curve []float64) []float64 {
	out := make([]float64, len(curve))
	out[0] = curve[0]
	for _, x := range Increments(curve) {
		for i := x.From + 1; i <= x.To; i++ {
			out[i] = x.PerWorker()
		}
	}
	return out
}
