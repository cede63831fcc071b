package carbonflex

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// Queues are the classes of jobs by allowed delay: up to 6 hours, up to 24, longer
// (Section 6.1: those of short, medium and long jobs).
const Queues = 3

// dims is the number of features of a state.
const dims = 4 + Queues

// State is what a decision knows (Table 2).
type State struct {
	// Intensity of the slot, gCO2eq/kWh, Gradient its rise since the slot before, and
	// Rank its place among the day ahead: 0 the cleanest, 1 the dirtiest.
	Intensity, Gradient, Rank float64
	// Queue counts the jobs, paused and running, of each class.
	Queue [Queues]float64
	// Elasticity is the mean over jobs of their mean normalised marginal throughput:
	// 1 scales perfectly, 1/kmax not at all.
	Elasticity float64
}

func (s State) vector() (v [dims]float64) {
	v[0], v[1], v[2], v[3] = s.Intensity, s.Gradient, s.Rank, s.Elasticity
	copy(v[4:], s.Queue[:])
	return v
}

// Case is what the oracle did in a state.
type Case struct {
	State State
	// Capacity is the share of the cluster that it used, Rho the lowest marginal
	// throughput of what it ran (1 where it ran nothing).
	Capacity, Rho float64
	At            time.Time
}

// Match is a case and its distance from the state asked for, in standard deviations
// of the features.
type Match struct {
	Case     Case
	Distance float64
}

// Knowledge is the knowledge base. Any number of callers may read it at once; Add must be alone.
type Knowledge struct {
	maxAge time.Duration
	cases  []Case
	scale  [dims]float64
	tree   []node // of cases, in order of a balanced tree: the children of i are 2i+1 and 2i+2
}

type node struct {
	v    [dims]float64
	at   int32 // index into cases
	axis int32
}

// NewKnowledge returns an empty base that forgets cases older than maxAge; 0 never
// forgets.
func NewKnowledge(maxAge time.Duration) *Knowledge { return &Knowledge{maxAge: maxAge} }

// Len is the number of cases.
func (k *Knowledge) Len() int { return len(k.cases) }

// Cases returns the cases, oldest first, to be kept elsewhere.
func (k *Knowledge) Cases() []Case { return append([]Case(nil), k.cases...) }

// Add takes cases in and forgets those that are too old by the newest.
//
// Complexity: O(n log^2 n) for all n cases of the base, so add many at a time. Errors: a case with a
// number that is not finite, named by its time.
func (k *Knowledge) Add(cases ...Case) error {
	for _, c := range cases {
		for _, v := range append(vectorOf(c), c.Capacity, c.Rho) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("carbonflex: case of %s: %v; accepted: finite numbers", c.At.Format(time.RFC3339), v)
			}
		}
	}
	k.cases = append(k.cases, cases...)
	sort.SliceStable(k.cases, func(a, b int) bool { return k.cases[a].At.Before(k.cases[b].At) })
	if n := len(k.cases); n > 0 {
		k.forget(k.cases[n-1].At)
	}
	k.build()
	return nil
}

func vectorOf(c Case) []float64 {
	v := c.State.vector()
	return v[:]
}

// forget drops the cases that are older than the base's age at the time now.
func (k *Knowledge) forget(now time.Time) {
	if k.maxAge == 0 {
		return
	}
	first := sort.Search(len(k.cases), func(i int) bool { return !k.cases[i].At.Before(now.Add(-k.maxAge)) })
	if first > 0 {
		k.cases = append([]Case(nil), k.cases[first:]...)
	}
}

// build makes the tree: features in standard deviations, split by the median of the
// axis that varies most.
//
// Complexity: O(n log^2 n).
func (k *Knowledge) build() {
	n := len(k.cases)
	var mean, square [dims]float64
	for i := range k.cases {
		for d, v := range k.cases[i].State.vector() {
			mean[d] += v / float64(n)
		}
	}
	for i := range k.cases {
		for d, v := range k.cases[i].State.vector() {
			square[d] += (v - mean[d]) * (v - mean[d]) / float64(n)
		}
	}
	for d := range k.scale {
		k.scale[d] = 0 // a feature that never varies says nothing
		if square[d] > 0 {
			k.scale[d] = 1 / math.Sqrt(square[d])
		}
	}
	list := make([]node, n)
	for i := range list {
		list[i] = node{v: k.scaled(k.cases[i].State), at: int32(i)}
	}
	k.tree = k.tree[:0]
	if n > 0 {
		k.tree = append(k.tree, make([]node, n)...)
		k.place(list, 0)
	}
}

func (k *Knowledge) scaled(s State) [dims]float64 {
	v := s.vector()
	for d := range v {
		v[d] *= k.scale[d]
	}
	return v
}

// place puts the nodes of a subtree at position at and below, as a complete tree.
func (k *Knowledge) place(list []node, at int) {
	axis := widest(list)
	sort.Slice(list, func(a, b int) bool {
		if list[a].v[axis] != list[b].v[axis] {
			return list[a].v[axis] < list[b].v[axis]
		}
		return list[a].at < list[b].at
	})
	left := leftSize(len(list))
	k.tree[at] = list[left]
	k.tree[at].axis = int32(axis)
	if left > 0 {
		k.place(list[:left], 2*at+1)
	}
	if left+1 < len(list) {
		k.place(list[left+1:], 2*at+2)
	}
}

func widest(list []node) int {
	axis, most := 0, -1.0
	for d := range dims {
		lo, hi := math.Inf(1), math.Inf(-1)
		for i := range list {
			lo, hi = math.Min(lo, list[i].v[d]), math.Max(hi, list[i].v[d])
		}
		if hi-lo > most {
			axis, most = d, hi-lo
		}
	}
	return axis
}

// leftSize is the size of the left subtree of a complete tree of n nodes.
func leftSize(n int) int {
	if n < 2 {
		return 0
	}
	level := 1 // nodes of the deepest full level
	for 4*level-1 <= n {
		level *= 2
	}
	rest := n - (2*level - 1) // nodes below it
	return level - 1 + min(rest, level)
}

// Nearest returns the n cases nearest to s by Euclidean distance of the features in
// standard deviations, nearest first; ties: the older case.
//
// Complexity: O(log cases) nodes where cases are dense, all at worst.
func (k *Knowledge) Nearest(s State, n int) []Match {
	n = min(n, len(k.cases))
	if n <= 0 {
		return nil
	}
	q := search{tree: k.tree, v: k.scaled(s), best: make([]found, 0, n), n: n, worst: math.Inf(1)}
	q.visit(0, 0)
	out := make([]Match, len(q.best))
	for i, f := range q.best {
		out[i] = Match{k.cases[f.at], math.Sqrt(f.d)}
	}
	return out
}

type found struct {
	d  float64 // squared
	at int32
}

type search struct {
	tree []node
	v    [dims]float64
	best []found // nearest first
	n    int
	// worst is the distance of the last of n, infinite before there are so many.
	worst float64
	// off is, by axis, how far the region of the node visited is from v.
	off [dims]float64
}

// visit looks at the subtree at i, whose region is at the squared distance away.
func (q *search) visit(i int, away float64) {
	x := &q.tree[i]
	d := 0.0
	for k := range dims {
		e := q.v[k] - x.v[k]
		d += e * e
	}
	if d <= q.worst {
		q.offer(found{d, x.at})
	}
	e := q.v[x.axis] - x.v[x.axis]
	near, far := 2*i+1, 2*i+2
	if near >= len(q.tree) {
		return // a leaf: its children would be past the end
	}
	if e > 0 {
		near, far = far, near
	}
	if near < len(q.tree) {
		q.visit(near, away)
	}
	if far >= len(q.tree) {
		return
	}
	before := q.off[x.axis]
	if away += e*e - before*before; away <= q.worst*(1+1e-12) {
		q.off[x.axis] = e
		q.visit(far, away)
		q.off[x.axis] = before
	}
}

func (q *search) offer(f found) {
	less := func(a, b found) bool { return a.d < b.d || (a.d == b.d && a.at < b.at) }
	if len(q.best) == q.n {
		if !less(f, q.best[q.n-1]) {
			return
		}
		q.best = q.best[:q.n-1]
	}
	i := len(q.best)
	q.best = append(q.best, f)
	for ; i > 0 && less(f, q.best[i-1]); i-- {
		q.best[i] = q.best[i-1]
	}
	q.best[i] = f
	if len(q.best) == q.n {
		q.worst = q.best[q.n-1].d
	}
}
