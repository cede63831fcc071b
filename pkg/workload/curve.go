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

// Majorant returns what each worker adds on the lowest concave curve that is at least
// the given one everywhere: workers that are of use only together share what they add
// together. It never rises after its first value, so that a planner which hands out workers one by
// one, the most useful first, is not stopped by one that adds nothing alone. A curve
// whose further values never rise is returned as it is. The first value, of minWorkers
// workers, is not shared with further ones.
//
// Complexity: O(len(curve)).
func Majorant(curve []float64) []float64 {
	type group struct {
		work    float64
		workers int
	}
	var groups []group
	for _, v := range curve[1:] {
		g := group{v, 1}
		for n := len(groups); n > 0 && g.work*float64(groups[n-1].workers) > groups[n-1].work*float64(g.workers); n-- {
			g.work, g.workers = g.work+groups[n-1].work, g.workers+groups[n-1].workers
			groups = groups[:n-1]
		}
		groups = append(groups, g)
	}
	out := append(make([]float64, 0, len(curve)), curve[0])
	for _, g := range groups {
		for range g.workers {
			out = append(out, g.work/float64(g.workers))
		}
	}
	return out
}
