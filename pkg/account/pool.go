package account

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// Pool is the capacity that submitted work shares, by cluster and over time. It places work as early as a
// capacity.Ledger has room for it. The zero Pool is empty and ready; it is not safe for concurrent use.
type Pool struct {
	ledger capacity.Ledger
	names  []string // of the clusters, in order
	index  []int    // of each in the ledger
}

// never is later than any time at which work could end.
var never = time.Unix(0, math.MaxInt64)

// Offer states what a cluster has for governed work from a time on until the next such time, by resource;
// before its first one a cluster has what it has then.
func (p *Pool) Offer(cluster string, from time.Time, total map[string]float64) {
	if i, known := slices.BinarySearch(p.names, cluster); !known {
		p.names, p.index = slices.Insert(p.names, i, cluster), slices.Insert(p.index, i, p.ledger.Cluster(cluster))
	}
	p.ledger.Offer(cluster, from, total)
}

// Place is the earliest place for work from a time on, on one of some clusters (none: any): what came
// first is served first, if it is placed first. Of clusters that serve as early it is the first by name.
// False where it fits nowhere, ever. Take takes it.
//
// Complexity: O(steps from then on x resources) a cluster.
func (p *Pool) Place(clusters []string, from time.Time, length time.Duration, request map[string]float64) (cluster string, start time.Time, ok bool) {
	need := p.ledger.Demand(request)
	length = max(length, 1) // what takes no time needs room as well
	latest := never
	for i, name := range p.names {
		if len(clusters) > 0 && !slices.Contains(clusters, name) {
			continue
		}
		if at, fits := p.ledger.Earliest(p.index[i], need, 1, from, length, latest); fits && (!ok || at.Before(start)) {
			cluster, start, ok = name, at, true
			latest = at.Add(length)
		}
	}
	return cluster, start, ok
}

// Clone is a pool of the same, of which something else can be taken.
func (p *Pool) Clone() *Pool {
	return &Pool{ledger: *p.ledger.Clone(), names: slices.Clone(p.names), index: slices.Clone(p.index)}
}

// Names are those of its clusters, in order; not to be modified.
func (p *Pool) Names() []string { return p.names }

// Most is the most that each cluster ever has, by resource.
func (p *Pool) Most() map[string]map[string]float64 {
	out := make(map[string]map[string]float64, len(p.names))
	for i, name := range p.names {
		out[name] = p.ledger.Most(p.index[i])
	}
	return out
}

// Take marks a request as used on a cluster over a time. A cluster of which nothing was offered has nothing
// to take.
func (p *Pool) Take(cluster string, from, to time.Time, request map[string]float64) {
	if i, known := slices.BinarySearch(p.names, cluster); known {
		p.ledger.Take(p.index[i], p.ledger.Demand(request), 1, from, to)
	}
}

// Forget drops what lies before a time, which nothing will be placed at any more.
func (p *Pool) Forget(before time.Time) { p.ledger.Forget(before) }
