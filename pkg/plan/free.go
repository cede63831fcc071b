package plan

// Free keeps what is left of every cluster's capacity while a planner places
// jobs. It is the one place where planners compare requests with capacity.
type Free struct {
	need  [][]demand    // by job
	left  [][][]float64 // by cluster, resource, slot
	whole [][][]float64 // the problem's own, with nothing taken
	tol   [][]float64   // by cluster, resource: rounding allowance
}

type demand struct {
	resource int
	amount   float64 // of one worker
}

// roundingShare is the share of a capacity by which sums may exceed it through
// rounding; a thousandth of what Check allows.
const roundingShare = 1e-9

// NewFree returns the whole capacity of p less its load.
//
// Memory: clusters x resources x slots.
func NewFree(p *Problem) *Free {
	resources := p.Resources()
	f := &Free{
		need:  make([][]demand, len(p.Jobs)),
		left:  make([][][]float64, len(p.Clusters)),
		whole: make([][][]float64, len(p.Clusters)),
		tol:   make([][]float64, len(p.Clusters)),
	}
	for j := range p.Jobs {
		for i, r := range resources {
			if q := p.Jobs[j].Request[r]; q > 0 {
				f.need[j] = append(f.need[j], demand{i, q})
			}
		}
	}
	for c := range p.Clusters {
		cl := &p.Clusters[c]
		f.left[c] = make([][]float64, len(resources))
		f.whole[c] = make([][]float64, len(resources))
		f.tol[c] = make([]float64, len(resources))
		for i, r := range resources {
			largest := 1.0
			row := make([]float64, p.Grid.N)
			f.whole[c][i] = cl.Capacity[r]
			if f.whole[c][i] == nil {
				f.whole[c][i] = make([]float64, p.Grid.N)
			}
			copy(row, f.whole[c][i])
			for _, v := range row {
				largest = max(largest, v)
			}
			if load := cl.Load[r]; load != nil {
				for t := range row {
					row[t] -= load[t]
				}
			}
			f.left[c][i] = row
			// Each resource has a scale of its own: bytes of memory dwarf CPUs.
			f.tol[c][i] = roundingShare * largest
		}
	}
	return f
}

// FitsUnder reports whether w workers of job j fit on cluster c in slot t while
// the share reserve of each resource's whole capacity stays free.
func (f *Free) FitsUnder(j, c, t, w int, reserve float64) bool {
	for _, d := range f.need[j] {
		kept := reserve * f.whole[c][d.resource][t]
		if d.amount*float64(w) > f.left[c][d.resource][t]-kept+f.tol[c][d.resource] {
			return false
		}
	}
	return true
}

// Used returns the largest share of a resource that is taken on cluster c in
// slot t, load included; 0 where there is no capacity.
func (f *Free) Used(c, t int) float64 {
	used := 0.0
	for r, whole := range f.whole[c] {
		if whole[t] > 0 {
			used = max(used, 1-f.left[c][r][t]/whole[t])
		}
	}
	return used
}

// Take removes w workers of job j from cluster c in slot t.
func (f *Free) Take(j, c, t, w int) {
	for _, d := range f.need[j] {
		f.left[c][d.resource][t] -= d.amount * float64(w)
	}
}
