package joint

import (
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// Memory is what a plan leaves for the next one: prices of capacity and places of
// jobs, by name and wall time, so that it fits a problem that begins later. It is not
// modified once made.
type Memory struct {
	start    time.Time
	slot     time.Duration
	slots    int
	clusters []string
	// prices are those of the search, bound those of the bound: rows by cluster and
	// resource, nil if none are known.
	prices, bound map[string][]float64
	jobs          []remembered // in order of IDs
	gap           float64      // that the last search of full effort reached
}

// remembered is the place of a job; Part.Cluster indexes Memory.clusters.
type remembered struct {
	id    string
	least int32 // MinWorkers
	open  bool  // it used the reserve
	parts []relax.Part
}

// Remember is the memory of a plan of p made by anyone: its places, without prices.
func Remember(p *plan.Problem, pl plan.Plan) *Memory {
	out := memoryOf(p)
	for _, jp := range pl.Jobs {
		job := &p.Jobs[jp.Job]
		r := remembered{id: job.ID, least: int32(job.MinWorkers)}
		for _, s := range jp.Segments {
			r.parts = append(r.parts, relax.Part{Slot: int32(s.Slot), Cluster: int32(s.Cluster), Scale: int32(s.Workers - job.MinWorkers), Fraction: s.Fraction})
		}
		slices.SortStableFunc(r.parts, func(a, b relax.Part) int {
			if a.Slot != b.Slot {
				return int(a.Slot - b.Slot)
			}
			return int(b.Scale - a.Scale) // the larger counts against capacity
		})
		out.jobs = append(out.jobs, r)
	}
	slices.SortFunc(out.jobs, func(a, b remembered) int { return strings.Compare(a.id, b.id) })
	return out
}

func memoryOf(p *plan.Problem) *Memory {
	out := &Memory{start: p.Grid.Start, slot: p.Grid.Slot, slots: p.Grid.N}
	for c := range p.Clusters {
		out.clusters = append(out.clusters, p.Clusters[c].Name)
	}
	return out
}

// remember is the memory of where a search ended.
func (v *solver) remember(s *search, gap float64) *Memory {
	out := memoryOf(v.m.P)
	out.gap = gap
	out.prices, out.bound = rowsOf(v.m, v.prices.Lambda), rowsOf(v.m, v.bound.Lambda)
	out.jobs = make([]remembered, 0, len(s.parts))
	for j, parts := range s.parts {
		if len(parts) > 0 {
			job := &v.m.P.Jobs[j]
			out.jobs = append(out.jobs, remembered{job.ID, int32(job.MinWorkers), s.open != nil && s.open[j], parts})
		}
	}
	return out
}

func rowsOf(m *relax.Model, lambda []float64) map[string][]float64 {
	out := map[string][]float64{}
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			row := (c*m.R + r) * m.T
			out[m.P.Clusters[c].Name+"\x00"+name] = slices.Clone(lambda[row : row+m.T])
		}
	}
	return out
}

// pricesFor are the prices remembered, slot by slot; the last one is taken to last. Nil
// where nothing is remembered of the problem's clusters.
func (last *Memory) pricesFor(m *relax.Model, prices map[string][]float64) []float64 {
	out := make([]float64, len(m.Cap))
	known := false
	for c := range m.P.Clusters {
		for r, name := range m.Resources() {
			row := prices[m.P.Clusters[c].Name+"\x00"+name]
			if row == nil {
				continue
			}
			known = true
			for t := range m.T {
				then := int(math.Floor(float64(m.P.Grid.Time(t).Sub(last.start)) / float64(last.slot)))
				out[(c*m.R+r)*m.T+t] = row[max(0, min(then, len(row)-1))]
			}
		}
	}
	if !known {
		return nil
	}
	return out
}

// resume puts jobs back where they were planned: first those that fit there as they
// were, or with less work, then those that need more, or another slot. It returns the
// jobs that are not where they were, in order.
func (s *search) resume(last *Memory) []int32 {
	p := s.m.P
	var rest []int32
	if last.slot != p.Grid.Slot {
		for j := range p.Jobs {
			rest = append(rest, int32(j))
		}
		return rest
	}
	shift := int32(math.Floor(float64(p.Grid.Start.Sub(last.start)) / float64(last.slot)))
	cluster := make([]int32, len(last.clusters))
	for i, name := range last.clusters {
		cluster[i] = int32(slices.IndexFunc(p.Clusters, func(c plan.Cluster) bool { return c.Name == name }))
	}
	type place struct {
		j     int
		parts []relax.Part
	}
	var later []place
	var parts []relax.Part
	at := 0
	for j := range p.Jobs {
		for at < len(last.jobs) && last.jobs[at].id < p.Jobs[j].ID {
			at++
		}
		if at == len(last.jobs) || last.jobs[at].id != p.Jobs[j].ID {
			rest = append(rest, int32(j))
			continue
		}
		r := &last.jobs[at]
		parts = s.translate(j, r, shift, cluster, parts[:0])
		s.room.UseReserve(s.open != nil && r.open)
		out, changed, ok := s.e.Adjust(j, parts, s.room)
		if !ok || changed {
			later = append(later, place{j, slices.Clone(parts)})
			continue
		}
		if s.open != nil {
			s.open[j] = r.open
		}
		s.put(j, out)
	}
	s.room.UseReserve(false)
	for _, x := range later {
		rest = append(rest, int32(x.j))
		if out, _, ok := s.e.Adjust(x.j, x.parts, s.room); ok {
			s.put(x.j, out)
		}
	}
	slices.Sort(rest)
	return rest
}

// translate appends the parts remembered in the slots, clusters and scales of the
// problem; parts before it are left out.
func (s *search) translate(j int, r *remembered, shift int32, cluster []int32, into []relax.Part) []relax.Part {
	p := s.m.P
	for _, x := range r.parts {
		x.Slot -= shift
		x.Cluster = cluster[x.Cluster]
		x.Scale += r.least - int32(p.Jobs[j].MinWorkers)
		if x.Slot >= 0 && int(x.Slot) < p.Grid.N && x.Cluster >= 0 {
			x.Scale = max(0, min(x.Scale, int32(len(p.Jobs[j].Curve)-1)))
			into = append(into, x)
		}
	}
	return into
}
