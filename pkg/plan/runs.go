package plan

import (
	"math"
	"slices"
)

// Runs finds the slots of least cost for a job that pauses and moves at a cost:
//
//	minimize   sum of Slot over the slots used, one of them times Part
//	           + Start of the first + Resume of each that does not follow the one before
//	           + Leave of the cluster before and Arrive at the new one of each move
//
// over all sets of N slots in [From, Last), each on one of Clusters clusters. It is exact, by
// dynamic programming over the slots used so far and where the last one was. The zero value
// is ready; its buffers are used again. It is not safe for concurrent use.
type Runs struct {
	N          int     // slots to use
	Part       float64 // of one of them, above 0, at most 1
	From, Last int
	Clusters   int
	// Slot is the cost of the whole of slot t on a cluster: +Inf where the job may not run.
	// Start is the cost of beginning there, Resume that of going on there after a pause or a move.
	Slot, Start, Resume func(cluster, t int) float64
	// Leave and Arrive are the cost of a move in slot t, by its two clusters.
	Leave, Arrive func(cluster, t int) float64

	running, stopped []reached // by part used, slots done, cluster: the last slot was t-1, or before
	before           []reached // by part used and cluster: the least cost of being about to use slot t
	row              []slotCosts
	nodes            []node
	picked           []RunSlot
}

// RunSlot is a slot that Runs uses: wholly, or for Part of it.
type RunSlot struct {
	Slot, Cluster int
	Part          bool
}

// reached is the least cost of a state and the node that says how: -1 for none.
type reached struct {
	cost float64
	node int32
}

type node struct {
	slot, cluster, before int32
	part                  bool
}

// slotCosts are the costs of the slot under way on a cluster.
type slotCosts struct{ slot, start, resume, leave, arrive float64 }

// Size is about how many states the search looks at.
func (r *Runs) Size() int { return max(0, r.Last-r.From) * r.N * r.Clusters }

// Cheapest returns the slots in order and their cost; false if there are not enough. The slots
// are valid until the next call. Ties: a schedule that ends earlier, then one that goes on rather than pauses.
//
// Complexity: O(slots x N x clusters).
func (r *Runs) Cheapest() ([]RunSlot, float64, bool) {
	if r.N < 1 || r.Last-r.From < r.N {
		return nil, 0, false
	}
	parts := 1 // the states in which no part has been used yet, and those in which one has
	if r.Part < 1 {
		parts = 2
	}
	r.reset(parts)
	for t := r.From; t < r.Last; t++ {
		for c := range r.row {
			r.row[c] = slotCosts{r.Slot(c, t), r.Start(c, t), r.Resume(c, t), r.Leave(c, t), r.Arrive(c, t)}
		}
		// From the most slots done down: what uses slot t comes from states without it.
		for k := min(r.N, t-r.From+1); k >= max(1, r.N-(r.Last-t-1)); k-- {
			for part := range parts {
				r.arrive(part, k)
			}
			for part := range parts {
				r.use(part, k, t)
			}
		}
	}
	best := reached{math.Inf(1), -1}
	for _, states := range [][]reached{r.stopped, r.running} {
		for c := range r.Clusters {
			if x := states[r.at(parts-1, r.N, c)]; x.cost < best.cost {
				best = x
			}
		}
	}
	if best.node < 0 {
		return nil, 0, false
	}
	r.picked = r.picked[:0]
	for n := best.node; n >= 0; n = r.nodes[n].before {
		x := &r.nodes[n]
		r.picked = append(r.picked, RunSlot{int(x.slot), int(x.cluster), x.part})
	}
	slices.Reverse(r.picked)
	return r.picked, best.cost, true
}

func (r *Runs) at(part, k, c int) int { return (part*(r.N+1)+k)*r.Clusters + c }

func (r *Runs) reset(parts int) {
	none := func(s []reached, n int) []reached {
		s = slices.Grow(s[:0], n)[:n]
		for i := range s {
			s[i] = reached{math.Inf(1), -1}
		}
		return s
	}
	size := parts * (r.N + 1) * r.Clusters
	r.running, r.stopped = none(r.running, size), none(r.stopped, size)
	r.before = none(r.before, parts*r.Clusters)
	r.row = slices.Grow(r.row[:0], r.Clusters)[:r.Clusters]
	r.nodes = r.nodes[:0]
}

// arrive finds the least cost of being about to use the slot under way as the k-th, by cluster.
func (r *Runs) arrive(part, k int) {
	at := r.at(part, k-1, 0)
	running, stopped := r.running[at:at+r.Clusters], r.stopped[at:at+r.Clusters]
	before := r.before[part*r.Clusters : (part+1)*r.Clusters]
	move := reached{math.Inf(1), -1} // the least cost of leaving any cluster
	if r.Clusters > 1 {
		for c := range r.row {
			x := running[c]
			if stopped[c].cost < x.cost {
				x = stopped[c]
			}
			if v := x.cost + r.row[c].leave; v < move.cost {
				move = reached{v, x.node}
			}
		}
	}
	first := k == 1 && part == 0
	for c := range r.row {
		costs := &r.row[c]
		best := running[c]
		if v := stopped[c].cost + costs.resume; v < best.cost {
			best = reached{v, stopped[c].node}
		}
		if v := move.cost + costs.arrive + costs.resume; v < best.cost {
			best = reached{v, move.node}
		}
		if first {
			best = reached{costs.start, -1}
		}
		before[c] = best
	}
}

// use has slot t used as the k-th.
func (r *Runs) use(part, k, t int) {
	at := r.at(part, k, 0)
	running, stopped := r.running[at:at+r.Clusters], r.stopped[at:at+r.Clusters]
	for c := range r.row {
		if running[c].cost < stopped[c].cost {
			stopped[c] = running[c]
		}
		slot := r.row[c].slot
		from, isPart := r.before[part*r.Clusters+c], false
		cost := from.cost + slot
		if part == 1 {
			if v := r.before[c].cost + r.Part*slot; v < cost {
				from, cost, isPart = r.before[c], v, true
			}
		}
		if cost > math.MaxFloat64 {
			running[c] = reached{cost, -1}
			continue
		}
		running[c] = reached{cost, int32(len(r.nodes))}
		if len(r.nodes) == cap(r.nodes) {
			r.nodes = slices.Grow(r.nodes, len(r.nodes)+64) // append grows large slices by a quarter, and copies five times as much
		}
		r.nodes = append(r.nodes, node{int32(t), int32(c), from.node, isPart})
	}
}
