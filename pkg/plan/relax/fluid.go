package relax

import (
	"math"
	"sort"
)

// Fluid guesses prices: the work of every job is spread evenly over its window and
// poured, slot by slot, into the clusters from the cheapest on; capacity cheaper
// than the last one needed is priced at the difference. Only the resource that is
// asked for most, relative to its capacity, gets a price. Zero where starting early
// counts (Caspian's Z): even spreading says little there.
//
// Complexity: O(jobs + slots x clusters log clusters).
func (m *Model) Fluid() []float64 {
	lambda := make([]float64, len(m.Cap))
	if m.timed() {
		return lambda
	}
	demand := make([][]float64, m.R) // by resource and slot, differences first
	for r := range demand {
		demand[r] = make([]float64, m.T+1)
	}
	for j := range m.jobs {
		jb := &m.jobs[j]
		cl := &m.classes[jb.class]
		window := int(jb.last) - int(jb.arrival)
		if window < cl.slots || window == 0 {
			continue
		}
		for _, d := range cl.need {
			v := jb.size * d.Amount() * cl.length / float64(window)
			demand[d.Resource()][jb.arrival] += v
			demand[d.Resource()][jb.last] -= v
		}
	}
	total := make([]float64, m.R)
	scarce, most := 0, -1.0
	for r := range demand {
		capacity := 0.0
		for t := range m.T {
			if t > 0 {
				demand[r][t] += demand[r][t-1]
			}
			total[r] += demand[r][t]
			for c := range m.M {
				capacity += m.Cap[m.row(c, r, t)]
			}
		}
		if share := total[r] / math.Max(capacity, 1e-9); share > most {
			scarce, most = r, share
		}
	}
	if m.R == 0 || total[scarce] == 0 {
		return lambda
	}
	type offer struct {
		cost, room float64
		cluster    int
	}
	offers := make([]offer, m.M)
	for t := range m.T {
		for c := range m.M {
			cost := 0.0
			for r := range m.R {
				cost += m.unit[m.row(c, r, t)] * total[r] / total[scarce]
			}
			offers[c] = offer{cost, m.Cap[m.row(c, scarce, t)], c}
		}
		sort.SliceStable(offers, func(a, b int) bool { return offers[a].cost < offers[b].cost })
		left, level := demand[scarce][t], 0.0
		for _, o := range offers {
			if left <= 0 {
				break
			}
			left -= o.room
			level = o.cost
		}
		for _, o := range offers {
			lambda[m.row(o.cluster, scarce, t)] = math.Max(0, level-o.cost)
		}
	}
	return lambda
}
