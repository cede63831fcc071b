package joint

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// Memory is what a plan leaves for the next one: what capacity was worth, and places of
// jobs, by name and wall time, so that it fits a problem that begins at any other time.
// Replan does not modify the memory that it is given.
type Memory struct {
	worth *worth                // nil if it is not known
	jobs  map[string]remembered // by ID
	kept  int                   // jobs when those whose place had passed were last forgotten
}

// frame is what the places of a plan refer to.
type frame struct {
	start    time.Time
	slot     time.Duration
	clusters []string
}

// remembered is the place of a job; Part.Slot counts in the frame, Part.Cluster indexes
// its clusters.
type remembered struct {
	frame *frame
	least int32 // MinWorkers
	open  bool  // it used the reserve
	parts []relax.Part
}

// Remember is the memory of a plan of p made by anyone: its places only.
func Remember(p *plan.Problem, pl plan.Plan) *Memory {
	out := &Memory{jobs: make(map[string]remembered, len(pl.Jobs))}
	f := frameOf(p)
	for _, jp := range pl.Jobs {
		job := &p.Jobs[jp.Job]
		r := remembered{frame: f, least: int32(job.MinWorkers)}
		for _, s := range jp.Segments {
			r.parts = append(r.parts, relax.Part{Slot: int32(s.Slot), Cluster: int32(s.Cluster), Scale: int32(s.Workers - job.MinWorkers), Fraction: s.Fraction})
		}
		slices.SortStableFunc(r.parts, func(a, b relax.Part) int {
			if a.Slot != b.Slot {
				return int(a.Slot - b.Slot)
			}
			return int(b.Scale - a.Scale) // the larger counts against capacity
		})
		out.jobs[job.ID] = r
	}
	return out
}

func frameOf(p *plan.Problem) *frame {
	out := &frame{start: p.Grid.Start, slot: p.Grid.Slot}
	for c := range p.Clusters {
		out.clusters = append(out.clusters, p.Clusters[c].Name)
	}
	return out
}

// remember is the memory of where a search ended.
func (v *solver) remember(s *search, gap float64) *Memory {
	out := &Memory{worth: v.worth(gap), jobs: make(map[string]remembered, len(s.parts))}
	f := frameOf(v.m.P)
	for j, parts := range s.parts {
		if len(parts) > 0 {
			job := &v.m.P.Jobs[j]
			out.jobs[job.ID] = remembered{f, int32(job.MinWorkers), s.open != nil && s.open[j], parts}
		}
	}
	return out
}

const (
	// minorShare: a plan of less than this share of the jobs of an earlier one says little
	// of what capacity is worth when all of them are planned again.
	minorShare = 0.5
	// mostRemembered is how many jobs are remembered, or as many as the last problem has.
	mostRemembered = 100_000
	// passedAllowed is how many jobs more than last time are remembered before those are
	// sought whose place has passed, as a share and at least.
	passedShare, passedAllowed = 0.5, 1000
)

// learn takes a plan of p over, and keeps what is known of other jobs: a caller that keeps
// to most plans has only some of its jobs planned at a time. Places that have passed are
// forgotten, and the soonest of more than most.
//
// Complexity: O(jobs of p), and now and then O(jobs remembered).
func (m *Memory) learn(p *plan.Problem, next *Memory, most int) {
	w := m.worth
	if w == nil || float64(next.worth.jobs) >= minorShare*float64(w.jobs) || !w.end().After(p.Grid.Start) {
		m.worth = next.worth
	}
	for j := range p.Jobs {
		id := p.Jobs[j].ID
		if r, placed := next.jobs[id]; placed {
			m.jobs[id] = r
		} else {
			delete(m.jobs, id)
		}
	}
	most = max(most, len(p.Jobs))
	if n := len(m.jobs); n <= most && float64(n) <= passedAllowed+(1+passedShare)*float64(m.kept) {
		return
	}
	for id, r := range m.jobs {
		if !r.end().After(p.Grid.Start) {
			delete(m.jobs, id)
		}
	}
	if len(m.jobs) > most {
		ids := slices.Collect(maps.Keys(m.jobs))
		slices.SortFunc(ids, func(a, b string) int {
			x, y := m.jobs[a], m.jobs[b]
			return cmp.Or(x.end().Compare(y.end()), strings.Compare(a, b))
		})
		for _, id := range ids[:len(ids)-most] {
			delete(m.jobs, id)
		}
	}
	m.kept = len(m.jobs)
}

// end is when the place of a job has passed.
func (r *remembered) end() time.Time {
	last := int32(0)
	for _, x := range r.parts {
		last = max(last, x.Slot)
	}
	return r.frame.start.Add(time.Duration(last+1) * r.frame.slot)
}

// view is how a frame is seen in a problem.
type view struct {
	shift   int32 // of slots, to the nearest
	cluster []int32
}

// viewOf returns ok false if places of the frame cannot be told in slots of p.
func (f *frame) viewOf(p *plan.Problem) (v view, ok bool) {
	shift := math.Round(float64(p.Grid.Start.Sub(f.start)) / float64(f.slot))
	if f.slot != p.Grid.Slot || math.Abs(shift) > math.MaxInt32/2 {
		return view{}, false
	}
	v = view{int32(shift), make([]int32, len(f.clusters))}
	for i, name := range f.clusters {
		v.cluster[i] = int32(slices.IndexFunc(p.Clusters, func(c plan.Cluster) bool { return c.Name == name }))
	}
	return v, true
}

// resume puts jobs back in the slots nearest to where they were planned: first those that
// fit there as they were, or with less work, then those that need more, or another slot. It
// returns the jobs that are not where they were, in order.
func (s *search) resume(last *Memory) []int32 {
	p := s.m.P
	var rest []int32
	views := map[*frame]*view{}
	viewOf := func(f *frame) *view {
		v, seen := views[f]
		if !seen {
			if x, ok := f.viewOf(p); ok {
				v = &x
			}
			views[f] = v
		}
		return v
	}
	type place struct {
		j     int
		parts []relax.Part
	}
	var later []place
	var parts []relax.Part
	for j := range p.Jobs {
		r, known := last.jobs[p.Jobs[j].ID]
		if !known || viewOf(r.frame) == nil {
			rest = append(rest, int32(j))
			continue
		}
		parts = s.translate(j, &r, viewOf(r.frame), parts[:0])
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
func (s *search) translate(j int, r *remembered, v *view, into []relax.Part) []relax.Part {
	p := s.m.P
	for _, x := range r.parts {
		x.Slot -= v.shift
		x.Cluster = v.cluster[x.Cluster]
		x.Scale += r.least - int32(p.Jobs[j].MinWorkers)
		if x.Slot >= 0 && int(x.Slot) < p.Grid.N && x.Cluster >= 0 {
			x.Scale = max(0, min(x.Scale, int32(len(p.Jobs[j].Curve)-1)))
			into = append(into, x)
		}
	}
	return into
}
