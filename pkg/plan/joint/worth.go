package joint

import (
	"math"
	"time"

	"lull.dev/lull/pkg/plan/relax"
)

// worth is what capacity was worth in a plan: by cluster and resource, and by slot from
// start on. A row without any price is empty.
type worth struct {
	start time.Time
	slot  time.Duration
	slots int
	jobs  int // of the problem
	// search are the worths at the prices of the search, bound those at the prices of the bound.
	search, bound map[string][]float64
	gap           float64 // that the last search of full effort reached
}

func (v *solver) worth(gap float64) *worth {
	g := v.m.P.Grid
	return &worth{
		start: g.Start, slot: g.Slot, slots: g.N, jobs: len(v.m.P.Jobs),
		search: worthsAt(v.m, v.prices.Lambda), bound: worthsAt(v.m, v.bound.Lambda), gap: gap,
	}
}

func (w *worth) end() time.Time { return w.start.Add(time.Duration(w.slots) * w.slot) }

// worthsAt returns the worth of a unit of capacity through every slot, by row: its cost and
// its price. If a slot has no price, its worth is that of the slots with a price around it,
// at most its cost, as it would have a price otherwise. A worth changes less than a price
// when intensities change or slots begin at another time.
func worthsAt(m *relax.Model, lambda []float64) map[string][]float64 {
	out := map[string][]float64{}
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			row := (c*m.R + r) * m.T
			cost := make([]float64, m.T)
			for t := range cost {
				cost[t] = m.Unit(row + t)
			}
			out[rowName(m, c, name)] = worths(cost, lambda[row:row+m.T])
		}
	}
	return out
}

func rowName(m *relax.Model, c int, resource string) string {
	return m.P.Clusters[c].Name + "\x00" + resource
}

// worths are those of one row.
func worths(cost, price []float64) []float64 {
	out := make([]float64, len(cost))
	last := -1 // slot with a price
	for t := range cost {
		if price[t] <= 0 {
			continue
		}
		out[t] = cost[t] + price[t]
		for u := last + 1; u < t; u++ {
			between := out[t]
			if last >= 0 {
				between = out[last] + (out[t]-out[last])*float64(u-last)/float64(t-last)
			}
			out[u] = math.Min(cost[u], between)
		}
		last = t
	}
	if last < 0 {
		return []float64{}
	}
	for u := last + 1; u < len(out); u++ {
		out[u] = math.Min(cost[u], out[last])
	}
	return out
}

// pricesIn returns the prices at which the capacity of m is worth what it was at the same
// time; before and after the slots remembered, what it was worth in the first and in the last of
// them. It returns nil if nothing is remembered of the clusters of m.
//
// Complexity: O(rows), times the ratio of the slots if those of m are longer.
func (w *worth) pricesIn(m *relax.Model, rows map[string][]float64) []float64 {
	out := make([]float64, len(m.Cap))
	known := false
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			row, found := rows[rowName(m, c, name)]
			known = known || found
			if len(row) == 0 {
				continue
			}
			for t := range m.T {
				at := (c*m.R+r)*m.T + t
				out[at] = math.Max(0, w.through(row, m.P.Grid.Time(t), m.P.Grid.Slot)-m.Unit(at))
			}
		}
	}
	if !known {
		return nil
	}
	return out
}

// through is the worth of a unit of capacity through a slot that begins at a time.
func (w *worth) through(row []float64, at time.Time, slot time.Duration) float64 {
	from := float64(at.Sub(w.start)) / float64(w.slot)
	to := from + float64(slot)/float64(w.slot)
	sum := 0.0
	for t := math.Floor(from); t < to; t++ {
		share := math.Min(to, t+1) - math.Max(from, t)
		sum += share * row[int(math.Max(0, math.Min(t, float64(len(row)-1))))]
	}
	return sum
}

// idle reports whether capacity had no price at all: nothing competed.
func (w *worth) idle() bool {
	for _, rows := range []map[string][]float64{w.search, w.bound} {
		for _, row := range rows {
			if len(row) > 0 {
				return false
			}
		}
	}
	return true
}
