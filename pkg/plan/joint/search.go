package joint

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
)

// search holds a plan while it is built and mended. Costs are without prices of
// capacity; a job without parts costs what leaving it out costs. Of two plans the one
// that leaves out fewer jobs is better, then the one that costs less; where deadlines are
// soft only the cost counts.
type search struct {
	m     *relax.Model
	e     *relax.Pricer // at the prices of the search
	room  *relax.Room
	empty *relax.Room // the whole capacity; nil until fitsEmpty needs it
	parts [][]relax.Part
	cost  []float64
	total float64
	hard  bool // deadlines are hard
	// missing counts the jobs left out, 0 where deadlines are soft.
	missing int
	// open marks the jobs that may use the reserve; nil without one.
	open    []bool
	reserve []float64 // by row, nil without one
	kins    []int32   // of each job: see kinsOf
	alone   []int8    // of each job: 1 if it fits in an empty cluster, -1 if not, 0 if that is not known yet
	kinds   int       // how many different ones
	lists

	changed []int32 // jobs touched by the move under way
	before  [][]relax.Part
	marked  []bool
	out     []int32
	best    []float64 // cost of each best response at the prices, NaN: not known yet
	prices  []float64 // by row, those of the search; nil before reprice
	scarce  []int32   // the rows with a price
	// fillShare is the share of the moves that fill rows.
	fillShare float64
	reach     int // multiplies how many neighbours a move takes out
	rng       *rand.Rand
}

// newSearch begins with every job left out. It takes over the memory of v.spare, which is no longer
// needed.
func (v *solver) newSearch() *search {
	m, e, reserve, n := v.m, v.e, v.reserve, len(v.m.P.Jobs)
	s := &search{
		m: m, e: e, room: relax.NewRoom(m), hard: m.P.Objective.Kind == plan.Carbon,
		kins: v.kins, kinds: v.kinds, alone: v.alone, reach: 1, rng: rand.New(rand.NewPCG(seed, uint64(n))),
	}
	if old := v.spare; old != nil {
		s.parts, s.cost, s.best, s.marked, s.noted = old.parts, old.cost, old.best, old.marked, old.noted[:0]
		clear(s.parts)
		clear(s.marked)
		v.spare = nil
	} else {
		s.parts, s.cost, s.best, s.marked = make([][]relax.Part, n), make([]float64, n), make([]float64, n), make([]bool, n)
	}
	s.fillShare = fillShare * (1 - elasticShare(m.P))
	if reserve != nil {
		s.room.Keep(reserve)
		s.reserve = reserve
		s.open = make([]bool, n)
	}
	for j := range s.cost {
		s.best[j] = math.NaN()
		s.cost[j] = m.Cost(j, nil)
		s.total += s.cost[j]
	}
	if s.hard {
		s.missing = n
	}
	return s
}

// put gives job j the parts (none: leaves it out).
func (s *search) put(j int, parts []relax.Part) { s.putAt(j, parts, s.m.Cost(j, parts)) }

// putAt is put for parts whose cost is known.
func (s *search) putAt(j int, parts []relax.Part, cost float64) {
	if s.hard {
		if len(s.parts[j]) > 0 {
			s.missing++
		}
		if len(parts) > 0 {
			s.missing--
		}
	}
	s.room.Take(j, s.parts[j], -1)
	s.room.Take(j, parts, 1)
	if s.in != nil {
		s.leave(j, s.parts[j])
		s.enter(j, parts)
	} else {
		s.note(j, parts)
	}
	s.parts[j] = parts
	s.total += cost - s.cost[j]
	s.cost[j] = cost
}

// sum is the total cost, added up anew: total has taken up and lost the large costs of jobs that were left out,
// which leave their rounding in it.
func (s *search) sum() float64 {
	sum := 0.0
	for _, cost := range s.cost {
		sum += cost
	}
	return sum
}

// count is how many parts the plan has.
func (s *search) count() (n int) {
	for _, parts := range s.parts {
		n += len(parts)
	}
	return n
}

// insert places job j at the prices if it fits anywhere.
func (s *search) insert(j int) bool {
	parts, ok := s.place(j)
	if ok {
		s.put(j, append([]relax.Part(nil), parts...))
	}
	return ok
}

// place finds the cheapest place of job j at the prices, in the reserve only if the job
// may use it. The parts are valid until the next call.
func (s *search) place(j int) ([]relax.Part, bool) {
	s.room.UseReserve(s.open != nil && s.open[j])
	_, parts, ok := s.e.PlaceIn(j, s.room)
	return parts, ok
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

// reprice sets the prices at which jobs are placed and regret is measured.
func (s *search) reprice(lambda []float64) {
	s.e.Set(lambda)
	s.prices = append(s.prices[:0], lambda...)
	s.scarce = s.scarce[:0]
	for row, price := range lambda {
		if price > 0 {
			s.scarce = append(s.scarce, int32(row))
		}
	}
	for j := range s.best {
		s.best[j] = math.NaN()
	}
}

// regret is what job j costs at the prices above its best response.
func (s *search) regret(j int) float64 {
	if math.IsNaN(s.best[j]) {
		s.best[j], _ = s.e.Best(j)
	}
	return s.e.Priced(j, s.parts[j]) - s.best[j]
}

// betterThan reports whether the plan is better than one that leaves so many jobs out at
// a total cost.
func (s *search) betterThan(missing int, total float64) bool {
	if s.missing != missing {
		return s.missing < missing
	}
	return s.total < total-1e-12*math.Abs(total)
}

// keeper remembers the best plan while a search goes on from worse ones.
type keeper struct {
	missing int
	total   float64
	parts   [][]relax.Part
	dirty   map[int32]struct{} // jobs that differ from it
}

func (s *search) keep() *keeper {
	return &keeper{s.missing, s.total, append([][]relax.Part(nil), s.parts...), map[int32]struct{}{}}
}

// note takes in the jobs changed since the last call: as the best plan if it is one.
func (k *keeper) note(s *search, changed []int32) {
	for _, j := range changed {
		k.dirty[j] = struct{}{}
	}
	if s.betterThan(k.missing, k.total) {
		k.missing, k.total = s.missing, s.total
		for j := range k.dirty {
			k.parts[j] = s.parts[j]
		}
		clear(k.dirty)
	}
}

// restore makes the best plan the plan.
func (k *keeper) restore(s *search) {
	differ := make([]int32, 0, len(k.dirty))
	for j := range k.dirty {
		differ = append(differ, j)
	}
	slices.Sort(differ) // a fixed order: equal bits
	for _, j := range differ {
		s.put(int(j), nil)
	}
	for _, j := range differ {
		s.put(int(j), k.parts[j])
	}
	clear(k.dirty)
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

// bySize returns all jobs, the largest first.
func (s *search) bySize() []int {
	order := make([]int, len(s.parts))
	size := make([]float64, len(s.parts))
	for j := range order {
		order[j], size[j] = j, s.m.Size(j)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return order
}

// byUrgency returns all jobs, the one that must start first first.
func (s *search) byUrgency() []int {
	order := make([]int, len(s.parts))
	latest := make([]int, len(s.parts))
	for j := range order {
		order[j], latest[j] = j, s.m.P.LastSlot(j)-s.m.P.Jobs[j].Slots()
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(latest[a], latest[b]) })
	return order
}
