package capacity

import "math"

// Slots counts what is taken of the capacity of clusters in the slots of a grid. It is the
// counterpart of Ledger where times are slots already, as in planners: a dense table by cluster,
// resource and slot, with the same allowance for rounding.
//
//	s := capacity.NewSlots(1, []string{"cpu"}, 24)
//	s.Offer(0, 0, cpus)                            // of the first cluster, by slot
//	need := s.Demand(map[string]float64{"cpu": 2}) // of one worker
//	if s.Fits(0, need, 3, 7) {                     // 3 workers in slot 7?
//		s.Take(0, need, 3, 7)
//	}
//
// Clusters, resources and slots are indices from 0; an index out of range panics. A Slots is
// not safe for concurrent use.
type Slots struct {
	resources []string
	n         int // slots
	// The rest is by row, see Row. used may exceed total.
	total, used []float64
	// limit is the most that may be used: total and the allowance for rounding, less the
	// reserve unless it may be used. closed and open are the limit without and with the reserve.
	limit, closed, open []float64
	reserve             []float64 // nil for none
}

// NewSlots returns a table without capacity. The index of a resource is its place in resources.
//
// Memory: 3 x clusters x resources x slots; 5 times that with a reserve.
func NewSlots(clusters int, resources []string, slots int) *Slots {
	rows := clusters * len(resources) * slots
	values := make([]float64, 3*rows)
	s := &Slots{resources: resources, n: slots, total: values[:rows:rows], used: values[rows : 2*rows : 2*rows], open: values[2*rows:]}
	for i := range s.open {
		s.open[i] = roundingShare
	}
	s.limit, s.closed = s.open, s.open
	return s
}

// Row returns the index of a cluster, resource and slot in tables by row: rows are in the order
// of clusters, then resources, then slots.
func (s *Slots) Row(cluster, resource, slot int) int {
	return (cluster*len(s.resources)+resource)*s.n + slot
}

// Offer sets the capacity of a resource on a cluster in every slot. It must not be called after
// Keep.
func (s *Slots) Offer(cluster, resource int, total []float64) {
	row := s.Row(cluster, resource, 0)
	copy(s.total[row:row+s.n], total)
	for i, v := range total[:s.n] {
		s.open[row+i] = Usable(v)
	}
}

// Load takes an amount of a resource on a cluster in every slot.
func (s *Slots) Load(cluster, resource int, amounts []float64) {
	row := s.Row(cluster, resource, 0)
	for i, v := range amounts[:s.n] {
		s.used[row+i] += v
	}
}

// Keep sets an amount of every row aside. Nothing fits into it until UseReserve(true).
func (s *Slots) Keep(reserve []float64) {
	s.reserve, s.closed = reserve, make([]float64, len(s.open))
	for i, v := range reserve {
		s.closed[i] = s.open[i] - v
	}
	s.limit = s.closed
}

// UseReserve says whether the reserve may be used from now on.
func (s *Slots) UseReserve(may bool) {
	s.limit = s.closed
	if may {
		s.limit = s.open
	}
}

// Demand returns what a request takes, in the order of resources. It leaves out amounts of 0
// and resources that the table does not have.
func (s *Slots) Demand(request map[string]float64) []Need {
	out := make([]Need, 0, len(request))
	for r, name := range s.resources {
		if q := request[name]; q > 0 {
			out = append(out, Need{r, q})
		}
	}
	return out
}

// NeedOf returns the need of an amount of the resource with an index.
func NeedOf(resource int, amount float64) Need { return Need{resource, amount} }

// Resource returns the index of the resource that is needed.
func (n Need) Resource() int { return n.resource }

// Amount returns how much of the resource one worker needs.
func (n Need) Amount() float64 { return n.amount }

// Take takes what workers need on a cluster in a slot, whether it is free or not; a negative
// number of workers gives it back. The number may be a fraction.
func (s *Slots) Take(cluster int, need []Need, workers float64, slot int) {
	for _, n := range need {
		s.used[s.Row(cluster, n.resource, slot)] += workers * n.amount
	}
}

// Fits reports whether workers fit on a cluster in a slot.
func (s *Slots) Fits(cluster int, need []Need, workers float64, slot int) bool {
	for _, n := range need {
		if row := s.Row(cluster, n.resource, slot); n.amount*workers > s.limit[row]-s.used[row] {
			return false
		}
	}
	return true
}

// FitsBeside reports whether workers fit on a cluster in a slot while a share of the capacity
// of each resource stays free.
func (s *Slots) FitsBeside(cluster int, need []Need, workers float64, slot int, share float64) bool {
	for _, n := range need {
		if row := s.Row(cluster, n.resource, slot); n.amount*workers > s.limit[row]-s.used[row]-share*s.total[row] {
			return false
		}
	}
	return true
}

// Blocked returns the first slot of [from, to) in which workers do not fit on a cluster; -1 for
// none.
//
// Complexity: O((to - from) x resources needed).
func (s *Slots) Blocked(cluster int, need []Need, workers float64, from, to int) int {
	blocked := -1
	for _, n := range need {
		row, amount := s.Row(cluster, n.resource, 0), n.amount*workers
		for i := row + from; i < row+to; i++ {
			if amount > s.limit[i]-s.used[i] {
				blocked, to = i-row, i-row
			}
		}
	}
	return blocked
}

// Room returns how many workers, from least to most, fit on a cluster in a slot; 0 if least do
// not. least workers need size times need; more need in proportion.
//
// Complexity: O(resources needed).
func (s *Slots) Room(cluster int, need []Need, size float64, least, most, slot int) int {
	for _, n := range need {
		row := s.Row(cluster, n.resource, slot)
		amount, free := size*n.amount, s.limit[row]-s.used[row]
		if free < amount {
			return 0
		}
		if amount*float64(most)/float64(least) > free {
			most = min(most, max(least, int(free/amount*float64(least)+roundingWorkers)))
		}
	}
	return most
}

// roundingWorkers is the part of a worker that Room adds for the rounding of its division.
const roundingWorkers = 1e-12

// Free returns what is free of a resource on a cluster in a slot, less the reserve; below 0
// where the reserve is in use, or more is used than there is.
func (s *Slots) Free(cluster, resource, slot int) float64 {
	row := s.Row(cluster, resource, slot)
	free := s.total[row] - s.used[row]
	if s.reserve != nil {
		free -= s.reserve[row]
	}
	return free
}

// AppendFree appends Free of every row to a slice.
func (s *Slots) AppendFree(to []float64) []float64 {
	for i, v := range s.total {
		to = append(to, v-s.used[i])
	}
	for i, v := range s.reserve {
		to[len(to)-len(s.total)+i] -= v
	}
	return to
}

// Used returns how much of a resource is used on a cluster in a slot.
func (s *Slots) Used(cluster, resource, slot int) float64 {
	return s.used[s.Row(cluster, resource, slot)]
}

// Share returns the largest share of a needed resource that is used on a cluster in a slot.
// Resources without capacity do not count. Shares that differ only by rounding are equal.
func (s *Slots) Share(cluster int, need []Need, slot int) float64 {
	share := 0.0
	for _, n := range need {
		if row := s.Row(cluster, n.resource, slot); s.total[row] > 0 {
			share = math.Max(share, s.used[row]/s.total[row])
		}
	}
	return roundShare(share)
}

// Overfull reports whether more of a resource is used on a cluster in a slot than there is.
func (s *Slots) Overfull(cluster, slot int) bool {
	for r := range s.resources {
		if row := s.Row(cluster, r, slot); s.used[row] > s.open[row] {
			return true
		}
	}
	return false
}
