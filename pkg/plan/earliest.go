package plan

import "lull.dev/lull/pkg/workload"

// Earliest finds the earliest run of job j at MinWorkers that begins no sooner
// than from, uses no slot at or past last and fits f with the reserve kept. It
// is what "run it as soon as possible" means, and what carbon-aware planners
// fall back to.
//
// A rigid job takes the earliest contiguous run; the others take slots as they
// become free, on one cluster unless migratable. Among clusters the run that
// ends first wins, then the one that starts first, then the cluster least used
// in that slot, then the order of the problem: a carbon-agnostic scheduler must
// not favour a clean cluster by the order of the file. A rigid run that would
// pass the horizon is cut off there when cutOff is set (Caspian's objective). A job
// that runs goes on if it ends no later that way (Free.GoOn).
//
// Complexity: O(clusters x slots x length) at worst, O(clusters x slots) when
// little is taken.
func (f *Free) Earliest(p *Problem, j, from, last int, reserve float64, cutOff bool) ([]Segment, bool) {
	job := &p.Jobs[j]
	var best []Segment
	var bestEnd, bestStart int
	var bestUsed float64
	for c := range p.Clusters {
		if !job.Allows(p.Clusters[c].Name) {
			continue
		}
		var segments []Segment
		if job.Kind == workload.Rigid {
			segments = f.EarliestRun(p, j, c, from, last, reserve, cutOff)
		} else {
			segments = f.earliestSlots(p, job, j, c, from, last, reserve)
			if on := f.GoOn(p, j, c, from, last, reserve); on != nil && (segments == nil || on[len(on)-1].Slot <= segments[len(segments)-1].Slot) {
				segments = on
			}
		}
		if segments == nil {
			continue
		}
		start, end := segments[0].Slot, segments[len(segments)-1].Slot
		used := f.Used(c, start)
		if best == nil || end < bestEnd || (end == bestEnd && (start < bestStart || (start == bestStart && used < bestUsed))) {
			best, bestEnd, bestStart, bestUsed = segments, end, start, used
		}
	}
	return best, best != nil
}

// EarliestRun finds the earliest run in one piece of job j at MinWorkers on cluster
// c, within [from, last); nil where there is none. With cutOff a run that would
// pass last ends there.
//
// Complexity: O(slots x length) at worst.
func (f *Free) EarliestRun(p *Problem, j, c, from, last int, reserve float64, cutOff bool) []Segment {
	job := &p.Jobs[j]
	need := job.Slots()
	for start := from; start < last; {
		length := need
		if start+length > last {
			if !cutOff {
				return nil
			}
			length = last - start
		}
		blocked := f.FitsRun(j, c, start, length, job.MinWorkers, reserve)
		if blocked < 0 {
			slots, clusters := make([]int, length), make([]int, length)
			for i := range slots {
				slots[i], clusters[i] = start+i, c
			}
			return Place(job, slots, clusters)
		}
		start = blocked + 1
	}
	return nil
}

func (f *Free) earliestSlots(p *Problem, job *workload.Job, j, c, from, last int, reserve float64) []Segment {
	need := job.Slots()
	var slots, clusters []int
	for t := from; t < last && len(slots) < need; t++ {
		at := -1
		if f.FitsUnder(j, c, t, job.MinWorkers, reserve) {
			at = c
		} else if job.Migratable {
			for other := range p.Clusters {
				if job.Allows(p.Clusters[other].Name) && f.FitsUnder(j, other, t, job.MinWorkers, reserve) {
					at = other
					break
				}
			}
		}
		if at >= 0 {
			slots, clusters = append(slots, t), append(clusters, at)
		}
	}
	if len(slots) < need {
		return nil
	}
	return Place(job, slots, clusters)
}
