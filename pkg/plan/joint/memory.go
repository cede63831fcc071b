package joint

import (
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// Memory is what a plan leaves for the next one: prices of capacity and places of
// jobs, by name and time, so that it fits a problem that begins later.
type Memory struct {
	start  time.Time
	slot   time.Duration
	slots  int
	lambda map[string][]float64 // by cluster and resource
	places map[string][]place   // by job
}

type place struct {
	at       time.Time
	cluster  string
	workers  int
	fraction float64
}

// Remember is the memory of a plan of p made by anyone: its places, without prices.
func Remember(p *plan.Problem, pl plan.Plan) *Memory {
	out := &Memory{start: p.Grid.Start, slot: p.Grid.Slot, slots: p.Grid.N, places: map[string][]place{}}
	for _, jp := range pl.Jobs {
		id := p.Jobs[jp.Job].ID
		for _, s := range jp.Segments {
			out.places[id] = append(out.places[id], place{p.Grid.Time(s.Slot), p.Clusters[s.Cluster].Name, s.Workers, s.Fraction})
		}
	}
	return out
}

func remember(m *relax.Model, lambda []float64, parts [][]relax.Part) *Memory {
	g := m.P.Grid
	out := &Memory{start: g.Start, slot: g.Slot, slots: g.N, lambda: map[string][]float64{}, places: map[string][]place{}}
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			out.lambda[m.P.Clusters[c].Name+"\x00"+name] = append([]float64(nil), lambda[(c*m.R+r)*m.T:(c*m.R+r+1)*m.T]...)
		}
	}
	for j := range parts {
		for _, s := range m.Segments(j, parts[j]) {
			id := m.P.Jobs[j].ID
			out.places[id] = append(out.places[id], place{g.Time(s.Slot), m.P.Clusters[s.Cluster].Name, s.Workers, s.Fraction})
		}
	}
	return out
}

// prices are those remembered, slot by slot; the last one is taken to last. Nil
// where nothing is remembered of the problem's clusters.
func (last *Memory) prices(m *relax.Model) []float64 {
	if last == nil || last.slots == 0 {
		return nil
	}
	out := make([]float64, len(m.Cap))
	known := false
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			row := last.lambda[m.P.Clusters[c].Name+"\x00"+name]
			if row == nil {
				continue
			}
			known = true
			for t := range m.T {
				then := int(math.Floor(float64(m.P.Grid.Time(t).Sub(last.start)) / float64(last.slot)))
				out[(c*m.R+r)*m.T+t] = row[max(0, min(then, last.slots-1))]
			}
		}
	}
	if !known {
		return nil
	}
	return out
}

// resume puts jobs back where they were planned, if that still does their work.
func (s *search) resume(last *Memory) {
	p := s.m.P
	if last.slot != p.Grid.Slot {
		return
	}
	clusters := map[string]int{}
	for c := range p.Clusters {
		clusters[p.Clusters[c].Name] = c
	}
	for j := range p.Jobs {
		var parts []relax.Part
		for _, pl := range last.places[p.Jobs[j].ID] {
			c, known := clusters[pl.cluster]
			since := pl.at.Sub(p.Grid.Start)
			if !known || since < 0 || since%p.Grid.Slot != 0 {
				parts = nil
				break
			}
			parts = append(parts, relax.Part{
				Slot: int32(since / p.Grid.Slot), Cluster: int32(c), Scale: int32(pl.workers - p.Jobs[j].MinWorkers), Fraction: pl.fraction,
			})
		}
		sort.SliceStable(parts, func(a, b int) bool {
			if parts[a].Slot != parts[b].Slot {
				return parts[a].Slot < parts[b].Slot
			}
			return parts[a].Scale > parts[b].Scale // the larger counts against capacity
		})
		if s.m.Serves(j, parts) && s.room.Fits(j, parts) {
			s.put(j, parts)
		}
	}
}
