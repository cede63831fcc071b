package joint

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// search holds a plan while it is built and mended. Costs are without prices of
// capacity; a job without parts costs what leaving it out costs.
type search struct {
	m     *relax.Model
	e     *relax.Pricer // at the prices of the bound
	room  *relax.Room
	parts [][]relax.Part
	cost  []float64
	total float64
	// in lists, for every cluster and slot, the jobs that run there.
	in [][]int32

	changed []int32 // jobs touched by the move under way
	before  [][]relax.Part
	marked  []bool
	out     []int32
	best    []float64 // cost of each best response at the prices
	priced  []float64 // cost of the parts at the prices
	rng     *rand.Rand
}

// newSearch begins with every job left out; best is the cost of each one's best
// response at the prices.
func newSearch(m *relax.Model, e *relax.Pricer, best []float64) *search {
	n := len(m.P.Jobs)
	s := &search{
		m: m, e: e, room: relax.NewRoom(m), parts: make([][]relax.Part, n), cost: make([]float64, n), in: make([][]int32, m.M*m.T),
		best: best, priced: make([]float64, n), marked: make([]bool, n), rng: rand.New(rand.NewPCG(seed, uint64(n))),
	}
	for j := range s.cost {
		s.cost[j] = m.Cost(j, nil)
		s.priced[j] = s.cost[j]
		s.total += s.cost[j]
	}
	return s
}

// put gives job j the parts (none: leaves it out).
func (s *search) put(j int, parts []relax.Part) {
	s.room.Take(j, s.parts[j], -1)
	s.each(s.parts[j], func(at int) {
		list := s.in[at]
		for i, other := range list {
			if other == int32(j) {
				list[i] = list[len(list)-1]
				s.in[at] = list[:len(list)-1]
				break
			}
		}
	})
	s.parts[j] = parts
	s.room.Take(j, parts, 1)
	s.each(parts, func(at int) { s.in[at] = append(s.in[at], int32(j)) })
	cost := s.m.Cost(j, parts)
	s.total += cost - s.cost[j]
	s.cost[j] = cost
	s.priced[j] = s.e.Priced(j, parts)
}

func (s *search) each(parts []relax.Part, do func(at int)) {
	for i, p := range parts {
		if i == 0 || parts[i-1].Slot != p.Slot {
			do(int(p.Cluster)*s.m.T + int(p.Slot))
		}
	}
}

// insert places job j at the prices if it fits anywhere.
func (s *search) insert(j int) bool {
	_, parts, ok := s.e.PlaceIn(j, s.room)
	if ok {
		s.put(j, append([]relax.Part(nil), parts...))
	}
	return ok
}

// build inserts the jobs that have no place, in the given order.
func (s *search) build(order []int) {
	for _, j := range order {
		if len(s.parts[j]) == 0 {
			s.insert(j)
		}
	}
}

// buildOnline inserts the jobs in a random order and lets the prices follow: after
// every chunk of jobs the price of a row rises, by the factor exp(pace x what was
// used above its fair share of what was left), or falls. It is the exponentiated
// gradient step of online dual descent (Balseiro, Lu, Mirrokni 2023); in a random
// order the jobs to come resemble those that have been.
func (s *search) buildOnline(lambda []float64, pace float64) {
	n := len(s.parts)
	order := s.rng.Perm(n)
	lambda = append([]float64(nil), lambda...)
	before := append([]float64(nil), s.room.Left()...)
	s.e.Set(lambda)
	rounds := min(n, s.m.Rounds())
	for k := range rounds {
		from, to := n*k/rounds, n*(k+1)/rounds
		s.build(order[from:to])
		share := float64(to-from) / float64(n-from)
		left := s.room.Left()
		for r, had := range before {
			if fair := had * share; fair > 0 {
				step := pace * (had - left[r] - fair) / fair * float64(to-from) / 100
				lambda[r] = s.m.Bounded(r, lambda[r]*math.Exp(math.Min(step, largestStep)))
			}
			before[r] = left[r]
		}
		s.e.Set(lambda)
	}
	s.build(order) // what found no place
}

// largestStep bounds the growth of a price in a round: a factor of e^2.
const largestStep = 2

// reprice sets the prices at which regret is measured.
func (s *search) reprice(lambda []float64) {
	s.e.Set(lambda)
	for j := range s.parts {
		s.priced[j] = s.e.Priced(j, s.parts[j])
	}
}

// remember notes job j before the first change of a move.
func (s *search) remember(j int) {
	if !s.marked[j] {
		s.marked[j] = true
		s.changed = append(s.changed, int32(j))
		s.before = append(s.before, s.parts[j])
	}
}

// undo takes the move back.
func (s *search) undo() {
	for i := len(s.changed) - 1; i >= 0; i-- {
		s.put(int(s.changed[i]), nil)
	}
	for i, j := range s.changed {
		s.put(int(j), s.before[i])
	}
}

func (s *search) forget() {
	for _, j := range s.changed {
		s.marked[j] = false
	}
	s.changed, s.before = s.changed[:0], s.before[:0]
}

// mend improves the plan by ruin and recreate (Schrimpf et al. 2000), for so many
// moves or until ctx ends or stop says so of the best total: a worse plan is accepted
// within a threshold, in mean costs of a job above the best plan, that shrinks to
// nothing. It leaves the best plan found and returns the number of moves.
func (s *search) mend(ctx context.Context, moves int, threshold float64, stop func(total, share float64) bool) int {
	best := s.total
	kept := append([][]relax.Part(nil), s.parts...) // of the best plan
	dirty := map[int32]struct{}{}                   // jobs that differ from it
	mean := math.Abs(best) / math.Max(1, float64(len(s.parts)))
	k := 0
	for ; k < moves; k++ {
		if k%checkEvery == 0 && (ctx.Err() != nil || stop(best, float64(k)/float64(moves))) {
			break
		}
		old := s.total
		s.ruin()
		if s.total < old || s.total < best+threshold*mean*(1-float64(k)/float64(moves)) {
			for _, j := range s.changed {
				dirty[j] = struct{}{}
			}
			if s.total < best-1e-12*math.Abs(best) {
				best = s.total
				for j := range dirty {
					kept[j] = s.parts[j]
				}
				clear(dirty)
			}
		} else {
			s.undo()
		}
		s.forget()
	}
	differ := slices.Sorted(maps.Keys(dirty)) // a fixed order: equal bits
	for _, j := range differ {
		s.put(int(j), nil)
	}
	for _, j := range differ {
		s.put(int(j), kept[j])
	}
	return k
}

// settle lets every job, in order of arrival, take its cheapest place in what is
// left, without prices: the earlier of equal ones, so that nothing waits for nothing.
func (s *search) settle() {
	s.e.Set(make([]float64, len(s.m.Cap)))
	for _, j := range plan.ByArrival(s.m.P) {
		old, total := s.parts[j], s.total
		s.put(j, nil)
		if _, parts, ok := s.e.PlaceIn(j, s.room); ok {
			s.put(j, append([]relax.Part(nil), parts...))
		}
		if s.total > total+1e-12*math.Abs(total) {
			s.put(j, old)
		}
	}
}

const (
	ruinJobs   = 10 // taken out where the first of a move wants to be
	drawn      = 8  // jobs drawn to find one that is far from its best response
	chainDrawn = 3  // slots drawn where those taken out might go
	leftDrawn  = 6  // jobs drawn to find some that were left out
	checkEvery = 64
)

// regret is what job j costs at the prices above its best response.
func (s *search) regret(j int) float64 { return s.priced[j] - s.best[j] }

// ruin takes jobs out and puts them back. It begins with a job that is far from its
// best response and makes room for it there.
func (s *search) ruin() {
	n := len(s.parts)
	first, most := -1, 0.0
	for range drawn {
		j := s.rng.IntN(n)
		if r := s.regret(j) * (0.5 + s.rng.Float64()); r > most {
			first, most = j, r
		}
	}
	if first < 0 {
		first = s.rng.IntN(n)
	}
	out := s.out[:0]
	take := func(j int32) {
		if !s.marked[j] {
			s.remember(int(j))
			out = append(out, j)
		}
	}
	take(int32(first))
	_, parts := s.e.Best(first)
	for tries := 0; tries < 3*ruinJobs && len(out) < ruinJobs && len(parts) > 0; tries++ {
		p := parts[s.rng.IntN(len(parts))]
		if list := s.in[int(p.Cluster)*s.m.T+int(p.Slot)]; len(list) > 0 {
			take(list[s.rng.IntN(len(list))])
		}
	}
	if own := s.parts[first]; len(own) > 0 {
		for range ruinJobs / 3 {
			p := own[s.rng.IntN(len(own))]
			list := s.in[int(p.Cluster)*s.m.T+int(p.Slot)]
			take(list[s.rng.IntN(len(list))])
		}
	}
	for range chainDrawn { // where those displaced might go, others may have to
		j := out[s.rng.IntN(len(out))]
		job := &s.m.P.Jobs[j]
		if width := min(s.m.P.LastSlot(int(j)), s.m.T) - job.Arrival; width > 0 {
			list := s.in[s.rng.IntN(s.m.M)*s.m.T+job.Arrival+s.rng.IntN(width)]
			if len(list) > 0 {
				take(list[s.rng.IntN(len(list))])
			}
		}
	}
	for range leftDrawn {
		if j := s.rng.IntN(n); len(s.parts[j]) == 0 {
			take(int32(j))
		}
	}
	for _, j := range out {
		s.put(int(j), nil)
	}
	s.insert(first)
	rest := out[1:]
	s.rng.Shuffle(len(rest), func(a, b int) { rest[a], rest[b] = rest[b], rest[a] })
	if s.rng.IntN(2) == 0 {
		sort.SliceStable(rest, func(a, b int) bool { return s.m.Size(int(rest[a])) > s.m.Size(int(rest[b])) })
	}
	for _, j := range rest {
		s.insert(int(j))
	}
	s.out = out
}
