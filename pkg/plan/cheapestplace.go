package plan

import (
	"cmp"
	"math"
	"slices"

	"lull.dev/lull/pkg/workload"
)

// TieShare is the relative difference below which two windows emit the same:
// differences of prefix sums carry rounding, and rounding must not make a job
// wait.
const TieShare = 1e-10

// CheapestRun finds the contiguous run of job j at MinWorkers, within [from,
// last), that emits least in what is free while reserve of every resource stays
// free. Ties: the earlier start, then the cluster first in the problem. considered
// counts the runs that were priced.
//
// Complexity: O(clusters x slots).
func (f *Free) CheapestRun(p *Problem, j, from, last int, reserve float64) (segments []Segment, grams float64, considered int64, ok bool) {
	job := &p.Jobs[j]
	need := job.Slots()
	bestStart, bestCluster := 0, 0
	for _, c := range p.Allowed(j) {
		sum := make([]float64, max(0, last-from)+1)
		watts := p.Watts(j, c, job.MinWorkers)
		for t := from; t < last; t++ {
			sum[t-from+1] = sum[t-from] + p.grams(c, t, watts)
		}
		// open counts the slots from start on in which the job fits.
		for start, open := last-1, 0; start >= from; start-- {
			open++
			if !f.FitsUnder(j, c, start, job.MinWorkers, reserve) {
				open = 0
			}
			if open < need {
				continue
			}
			considered++
			g := sum[start-from+need] - sum[start-from]
			switch tie := math.Abs(g-grams) <= TieShare*grams; {
			case !ok || (g < grams && !tie):
				grams, bestStart, bestCluster, ok = g, start, c, true
			case tie && (start < bestStart || (start == bestStart && c < bestCluster)):
				grams, bestStart, bestCluster = math.Min(g, grams), start, c
			}
		}
	}
	if !ok {
		return nil, 0, considered, false
	}
	slots, clusters := make([]int, need), make([]int, need)
	for i := range slots {
		slots[i], clusters[i] = bestStart+i, bestCluster
	}
	return Place(job, slots, clusters), grams, considered, true
}

// CheapestSlots finds the slots in which workers workers complete job j, within
// [from, last) and each on the cleanest of the given clusters, that emit least. The
// dearest of them is used for the part that is needed. Ties: the earlier slot.
//
// Complexity: O(clusters x slots + slots log slots).
func (f *Free) CheapestSlots(p *Problem, j, workers int, clusters []int, from, last int, reserve float64) (segments []Segment, grams float64, considered int64, ok bool) {
	job := &p.Jobs[j]
	type candidate struct {
		slot, cluster int
		grams         float64
	}
	candidates := make([]candidate, 0, max(0, last-from))
	watts := make([]float64, len(clusters))
	for i, c := range clusters {
		watts[i] = p.Watts(j, c, workers)
	}
	for t := from; t < last; t++ {
		found, best := false, candidate{slot: t}
		for i, c := range clusters {
			if !f.FitsUnder(j, c, t, workers, reserve) {
				continue
			}
			considered++
			if g := p.grams(c, t, watts[i]); !found || g < best.grams {
				found, best.cluster, best.grams = true, c, g
			}
		}
		if found {
			candidates = append(candidates, best)
		}
	}
	length := job.Work() / job.Throughput(workers)
	need := int(math.Ceil(length - workload.Eps))
	if len(candidates) < need {
		return nil, 0, considered, false
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.grams, b.grams), a.slot-b.slot)
	})
	segments = make([]Segment, need)
	for i, x := range candidates[:need] {
		fraction := math.Min(1, length-float64(i))
		if fraction > 1-workload.Eps {
			fraction = 1 // a rest within the tolerance is none
		}
		segments[i] = Segment{Slot: x.slot, Cluster: x.cluster, Workers: workers, Fraction: fraction}
		grams += fraction * x.grams
	}
	slices.SortFunc(segments, func(a, b Segment) int { return a.Slot - b.Slot })
	return segments, grams, considered, true
}
