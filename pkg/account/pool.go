package account

import (
	"maps"
	"slices"
	"time"
)

// Pool is the capacity that submitted work shares: by cluster, over time.
type Pool struct {
	clusters map[string]*supply
	names    []string
}

// supply is what a cluster has: steps in order of time, each until the next.
type supply struct {
	steps  []step
	offers []time.Time // when what it has changes, in order
}

type step struct {
	from  time.Time
	total map[string]float64
	used  map[string]float64
}

// Offer states what a cluster has for governed work from a time on until the next such time, by resource;
// before its first one a cluster has what it has then.
func (p *Pool) Offer(cluster string, from time.Time, total map[string]float64) {
	if p.clusters == nil {
		p.clusters = map[string]*supply{}
	}
	s := p.clusters[cluster]
	if s == nil {
		s = &supply{}
		p.clusters[cluster] = s
		p.names = append(p.names, cluster)
		slices.Sort(p.names)
	}
	at, known := slices.BinarySearchFunc(s.offers, from, time.Time.Compare)
	if !known {
		s.offers = slices.Insert(s.offers, at, from)
	}
	first := s.cut(from)
	if at == 0 {
		first = 0
	}
	for i := first; i < len(s.steps) && (at+1 == len(s.offers) || s.steps[i].from.Before(s.offers[at+1])); i++ {
		s.steps[i].total = total
	}
}

// cut makes a step begin at a time and returns it.
func (s *supply) cut(at time.Time) int {
	i, found := slices.BinarySearchFunc(s.steps, at, func(x step, at time.Time) int { return x.from.Compare(at) })
	if found {
		return i
	}
	x := step{from: at, used: map[string]float64{}}
	switch {
	case i > 0:
		x.total = s.steps[i-1].total
		for r, v := range s.steps[i-1].used {
			x.used[r] = v
		}
	case len(s.steps) > 0:
		x.total = s.steps[0].total
	}
	s.steps = slices.Insert(s.steps, i, x)
	return i
}

// fits says whether a request fits a step.
func (x *step) fits(request map[string]float64) bool {
	const eps = 1e-9
	for r, v := range request {
		if v > 0 && x.used[r]+v > x.total[r]+eps {
			return false
		}
	}
	return true
}

// earliest is the first time from which a request fits for as long as it takes; false where it never
// does. Complexity: O(steps x resources).
func (s *supply) earliest(from time.Time, length time.Duration, request map[string]float64) (time.Time, bool) {
	i := s.cut(from)
	start := from
	for ; i < len(s.steps); i++ {
		if !s.steps[i].fits(request) {
			if i+1 == len(s.steps) {
				return time.Time{}, false
			}
			start = s.steps[i+1].from
			continue
		}
		if i+1 == len(s.steps) || !s.steps[i+1].from.Before(start.Add(length)) {
			return start, true
		}
	}
	return time.Time{}, false
}

// Place is the earliest place for work from a time on, on one of some clusters (none: any): what came
// first is served first, if it is placed first. Of clusters that serve as early it is the first by name.
// False where it fits nowhere, ever. Take takes it.
func (p *Pool) Place(clusters []string, from time.Time, length time.Duration, request map[string]float64) (cluster string, start time.Time, ok bool) {
	for _, name := range p.names {
		if len(clusters) > 0 && !slices.Contains(clusters, name) {
			continue
		}
		if at, fits := p.clusters[name].earliest(from, length, request); fits && (!ok || at.Before(start)) {
			cluster, start, ok = name, at, true
		}
	}
	return cluster, start, ok
}

// Clone is a pool of the same, of which something else can be taken.
func (p *Pool) Clone() *Pool {
	out := &Pool{clusters: make(map[string]*supply, len(p.clusters)), names: p.names}
	for name, s := range p.clusters {
		steps := slices.Clone(s.steps)
		for i := range steps {
			steps[i].used = maps.Clone(steps[i].used)
		}
		out.clusters[name] = &supply{steps: steps, offers: s.offers}
	}
	return out
}

// Names are those of its clusters, in order; not to be modified.
func (p *Pool) Names() []string { return p.names }

// Most is the most that each cluster ever has, by resource.
func (p *Pool) Most() map[string]map[string]float64 {
	out := make(map[string]map[string]float64, len(p.clusters))
	for name, s := range p.clusters {
		most := map[string]float64{}
		for i := range s.steps {
			for r, v := range s.steps[i].total {
				most[r] = max(most[r], v)
			}
		}
		out[name] = most
	}
	return out
}

// Take marks a request as used on a cluster over a time.
func (p *Pool) Take(cluster string, from, to time.Time, request map[string]float64) {
	s := p.clusters[cluster]
	if s == nil || !to.After(from) {
		return
	}
	i, end := s.cut(from), s.cut(to)
	for ; i < end; i++ {
		for r, v := range request {
			s.steps[i].used[r] += v
		}
	}
}

// Forget drops what lies before a time, which nothing will be placed at any more.
func (p *Pool) Forget(before time.Time) {
	for _, s := range p.clusters {
		if i := s.cut(before); i > 0 {
			s.steps = slices.Delete(s.steps, 0, i)
		}
		// The last one before holds on.
		if i, _ := slices.BinarySearchFunc(s.offers, before, time.Time.Compare); i > 1 {
			s.offers = slices.Delete(s.offers, 0, i-1)
		}
	}
}
