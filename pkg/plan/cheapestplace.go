package plan

import (
	"math"
	"sort"
)

// tieShare is the relative difference below which two windows emit the same:
// differences of prefix sums carry rounding, and rounding must not make a job
// wait.
const tieShare = 1e-10

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
		for t := from; t < last; t++ {
			sum[t-from+1] = sum[t-from] + p.SlotGrams(j, c, t, job.MinWorkers)
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
			switch tie := math.Abs(g-grams) <= tieShare*grams; {
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
	return Place(job, slots, clusters, -1), grams, considered, true
}

// CheapestSlots finds the slots of job j at MinWorkers, within [from, last) and
// each on the cleanest of the given clusters, that emit least. The part of a slot
// that a fractional length leaves goes to the dearest of them. Ties: the earlier
// slot.
//
// Complexity: O(clusters x slots + slots log slots).
func (f *Free) CheapestSlots(p *Problem, j int, clusters []int, from, last int, reserve float64) (_ []Segment, grams float64, considered int64, ok bool) {
	job := &p.Jobs[j]
	type candidate struct {
		slot, cluster int
		grams         float64
	}
	var candidates []candidate
	for t := from; t < last; t++ {
		found, best := false, candidate{slot: t}
		for _, c := range clusters {
			if !f.FitsUnder(j, c, t, job.MinWorkers, reserve) {
				continue
			}
			considered++
			if g := p.SlotGrams(j, c, t, job.MinWorkers); !found || g < best.grams {
				found, best.cluster, best.grams = true, c, g
			}
		}
		if found {
			candidates = append(candidates, best)
		}
	}
	need := job.Slots()
	if len(candidates) < need {
		return nil, 0, considered, false
	}
	sort.SliceStable(candidates, func(a, b int) bool { return candidates[a].grams < candidates[b].grams })
	chosen := candidates[:need]
	dearest := chosen[need-1].slot
	sort.Slice(chosen, func(a, b int) bool { return chosen[a].slot < chosen[b].slot })
	slots, at := make([]int, need), make([]int, need)
	partial := -1
	for i, c := range chosen {
		slots[i], at[i] = c.slot, c.cluster
		if c.slot == dearest {
			partial = i
		}
	}
	segments := Place(job, slots, at, partial)
	for _, seg := range segments {
		grams += seg.Fraction * p.SlotGrams(j, seg.Cluster, seg.Slot, seg.Workers)
	}
	return segments, grams, considered, true
}
