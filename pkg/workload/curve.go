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
func Speedup(curve []float64, minWorkers, workers int) float64 {
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
func Fastest(curve []float64, minWorkers int) (workers int, speedup float64) {
	workers = minWorkers
	best := curve[0]
	for i, v := range Throughputs(curve) {
		if v > best {
			workers, best = minWorkers+i, v
		}
	}
	return workers, best / curve[0]
}
