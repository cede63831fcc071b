package plan

import "lull.dev/lull/pkg/capacity"

// Free keeps what is left of every cluster's capacity while a planner places
// jobs: a capacity.Slots of the problem's clusters, asked by job.
type Free struct {
	slots *capacity.Slots
	need  [][]capacity.Need // by job, of one worker
	every []capacity.Need   // of all resources
}

// NewFree returns the whole capacity of p less its load.
//
// Memory: clusters x resources x slots.
func NewFree(p *Problem) *Free {
	resources := p.Resources()
	f := &Free{slots: capacity.NewSlots(len(p.Clusters), resources, p.Grid.N), need: make([][]capacity.Need, len(p.Jobs))}
	for j := range p.Jobs {
		f.need[j] = f.slots.Demand(p.Jobs[j].Request)
	}
	for r, name := range resources {
		f.every = append(f.every, capacity.NeedOf(r, 1))
		for c := range p.Clusters {
			if total := p.Clusters[c].Capacity[name]; total != nil {
				f.slots.Offer(c, r, total)
			}
			if load := p.Clusters[c].Load[name]; load != nil {
				f.slots.Load(c, r, load)
			}
		}
	}
	return f
}

// FitsUnder reports whether w workers of job j fit on cluster c in slot t while
// the share reserve of each resource's whole capacity stays free.
func (f *Free) FitsUnder(j, c, t, w int, reserve float64) bool {
	if reserve == 0 {
		return f.slots.Fits(c, f.need[j], float64(w), t)
	}
	return f.slots.FitsBeside(c, f.need[j], float64(w), t, reserve)
}

// FitsRun returns the first slot of [start, start+length) in which job j does
// not fit on cluster c with the reserve kept, or -1 when it fits in all.
func (f *Free) FitsRun(j, c, start, length, workers int, reserve float64) int {
	if reserve == 0 {
		return f.slots.Blocked(c, f.need[j], float64(workers), start, start+length)
	}
	for t := start; t < start+length; t++ {
		if !f.FitsUnder(j, c, t, workers, reserve) {
			return t
		}
	}
	return -1
}

// Used returns the largest share of a resource that is taken on cluster c in
// slot t, load included; 0 where there is no capacity.
func (f *Free) Used(c, t int) float64 { return f.slots.Share(c, f.every, t) }

// Take removes w workers of job j from cluster c in slot t; a negative number
// gives them back.
func (f *Free) Take(j, c, t, w int) { f.slots.Take(c, f.need[j], float64(w), t) }
