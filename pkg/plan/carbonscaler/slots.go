package carbonscaler

import (
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// slot is where a job may run: at most limit of its cluster's steps fit.
type slot struct {
	t, cluster, limit int
	// cost is the emissions of a watt for a slot, gCO2eq.
	cost  float64
	steps []plan.Step
	taken int
	curve *curve // of steps, for skip
}

// better rates the next steps by work per emissions; free power rates above all.
func (s *slot) better(than *slot) bool {
	a, b := s.steps[s.taken], than.steps[than.taken]
	left, right := a.Work*b.Watts*than.cost, b.Work*a.Watts*s.cost
	if left != right {
		return left > right
	}
	return s.t < than.t
}

// ladder has the steps of a job's scale on a cluster that are worth taking.
type ladder struct {
	raw  []plan.Step // one scale each
	hull []plan.Step // of raw
	// plain is set where the hull has every scale up to the last that adds work: that
	// of fewer scales is then a part of it.
	plain bool
	cut   map[int][]plan.Step // the hull of the first scales, by their number
}

func newLadder(p *plan.Problem, j, c int) *ladder {
	l := &ladder{raw: p.Steps(j, c), cut: map[int][]plan.Step{}}
	if p.Jobs[j].Kind != workload.Elastic {
		l.raw = l.raw[:1]
	}
	l.hull = plan.Hull(l.raw)
	l.plain = true
	for i, s := range l.raw {
		if i < len(l.hull) {
			l.plain = l.plain && s == l.hull[i]
		} else {
			l.plain = l.plain && s.Work <= 0
		}
	}
	return l
}

// first returns steps of which the first limit are the hull of the first n scales.
func (l *ladder) first(n int) (steps []plan.Step, limit int) {
	switch {
	case n == len(l.raw):
		return l.hull, len(l.hull)
	case l.plain:
		return l.hull, min(n, len(l.hull))
	}
	if _, made := l.cut[n]; !made {
		l.cut[n] = plan.Hull(l.raw[:n])
	}
	return l.cut[n], len(l.cut[n])
}

// fits is how many of the scales have room in a slot.
func (l *ladder) fits(free *plan.Free, j, c, t int) int {
	return sort.Search(len(l.raw), func(i int) bool { return !free.FitsUnder(j, c, t, l.raw[i].To, 0) })
}

// slotsOf returns the slots in which job j may run on the given clusters, each on one
// of them. The schedule has what was considered, and is exact unless another cluster
// has room for more scales than the one taken.
func slotsOf(p *plan.Problem, free *plan.Free, j int, clusters []int, how mode) ([]slot, schedule) {
	job := &p.Jobs[j]
	ladders := make([]*ladder, len(clusters))
	price := make([]float64, len(clusters)) // of a slot, relative to intensity
	for i, c := range clusters {
		ladders[i] = newLadder(p, j, c)
		price[i] = p.Grid.Hours() * p.Clusters[c].PUE / 1000
		if job.Watts == nil { // else every cluster draws the same
			price[i] *= ladders[i].raw[0].Watts
		}
	}
	out := schedule{exact: true}
	var slots []slot
	for t := job.Arrival; t < min(job.Deadline, p.Grid.N); t++ {
		at, room, most, least := -1, 0, 0, 0.0
		for i, c := range clusters {
			n := ladders[i].fits(free, j, c, t)
			if n == 0 {
				continue
			}
			most = max(most, n)
			key := price[i] * p.Clusters[c].Intensity[t]
			if wider := how == widest && n != room; at < 0 || (wider && n > room) || (!wider && key < least) {
				at, room, least = i, n, key
			}
		}
		if at < 0 {
			continue
		}
		out.exact = out.exact && room == most
		if how == relaxed {
			room = most
		}
		c := clusters[at]
		s := slot{t: t, cluster: c, cost: p.Grid.Hours() * p.Clusters[c].PUE * p.Clusters[c].Intensity[t] / 1000}
		s.steps, s.limit = ladders[at].first(room)
		out.considered += int64(s.limit)
		slots = append(slots, s)
	}
	return slots, out
}
