package joint

import (
	"cmp"
	"context"
	"math"
	"slices"

	"lull.dev/lull/pkg/plan/relax"
)

const (
	ruinJobs   = 10 // taken out where the first of a move wants to be
	ownDrawn   = 3  // taken out where it is
	drawn      = 8  // jobs drawn to find one that is far from its best response
	chainDrawn = 3  // slots drawn where those taken out might go
	leftDrawn  = 6  // jobs drawn to find some that were left out
	checkEvery = 16
	// windowShare of the moves clear all of a cluster around a slot, of windowJobs jobs.
	windowShare = 0.3
	windowJobs  = 12
	// fillShare of the moves fill the unused capacity of a row, fewer where jobs are elastic:
	// these fit into what others leave. A move draws fillRows rows to
	// choose one from, and takes out fillJobs jobs around it and fillGuests jobs from
	// elsewhere that may run there.
	fillShare  = 0.5
	fillRows   = 8
	fillJobs   = 8
	fillGuests = 4
	guestTries = 40 // draws for each guest
)

// budget is what a search may spend.
type budget struct {
	// share is how much of the effort or the time has been spent after so many moves.
	share    func(moves int) float64
	from, to float64 // the part of it that one call may spend
	// width is by how much above the best plan a worse one is accepted at first.
	width float64
	stop  func(total float64) bool // says of the best total whether it will do
}

// mend improves the plan by ruin and recreate (Schrimpf et al. 2000) until the budget is
// spent or ctx ends: a worse plan that leaves out no more jobs is accepted within a width
// above the best plan that shrinks to nothing. first, where given, are the jobs with
// which moves begin. It leaves the best plan found and returns the number of moves.
func (s *search) mend(ctx context.Context, b budget, first []int32) int {
	s.list()
	best := s.keep()
	k, share := 0, b.from
	for ; ; k++ {
		if k%checkEvery == 0 {
			if share = b.share(k); share >= b.to || ctx.Err() != nil || b.stop(best.total) {
				break
			}
		}
		total, missing := s.total, s.missing
		if len(first) > 0 {
			s.ruin(int(first[s.rng.IntN(len(first))]))
		} else {
			s.ruinAny()
		}
		within := s.total < total || s.total < best.total+b.width*(1-share)
		if s.missing < missing || (s.missing == missing && within) {
			best.note(s, s.changed)
		} else {
			s.undo()
		}
		s.forget()
	}
	best.restore(s)
	return k
}

// meanCost is the mean cost of the jobs that have a place.
func (s *search) meanCost() float64 {
	n := 0
	for _, parts := range s.parts {
		if len(parts) > 0 {
			n++
		}
	}
	return s.placedCost() / math.Max(1, float64(n))
}

// placedCost is the absolute of placedSum.
func (s *search) placedCost() float64 { return math.Abs(s.placedSum()) }

// placedSum is what the jobs cost that have a place.
func (s *search) placedSum() float64 {
	sum := 0.0
	for j, parts := range s.parts {
		if len(parts) > 0 {
			sum += s.cost[j]
		}
	}
	return sum
}

// farthest is a job far from its best response, or any.
func (s *search) farthest() int {
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
	return first
}

// ruin takes jobs out and puts them back. It begins with job first and makes room for it
// at its best response.
func (s *search) ruin(first int) {
	out := s.out[:0]
	take := func(j int32) {
		if !s.marked[j] {
			s.remember(int(j))
			out = append(out, j)
		}
	}
	take(int32(first))
	_, parts := s.e.Best(first)
	if s.rng.Float64() < windowShare {
		s.window(parts, take, &out)
		parts = nil
	}
	for tries := 0; tries < 3*ruinJobs && len(out) < ruinJobs && len(parts) > 0; tries++ {
		p := parts[s.rng.IntN(len(parts))]
		if list := s.in[int(p.Cluster)*s.m.T+int(p.Slot)]; len(list) > 0 {
			take(list[s.rng.IntN(len(list))].job)
		}
	}
	if own := s.parts[first]; len(own) > 0 {
		for range ownDrawn * s.reach {
			p := own[s.rng.IntN(len(own))]
			list := s.in[int(p.Cluster)*s.m.T+int(p.Slot)]
			take(list[s.rng.IntN(len(list))].job)
		}
	}
	for range chainDrawn * s.reach { // where those displaced might go, others may have to
		j := out[s.rng.IntN(len(out))]
		job := &s.m.P.Jobs[j]
		if width := min(s.m.P.LastSlot(int(j)), s.m.T) - job.Arrival; width > 0 {
			list := s.in[s.rng.IntN(s.m.M)*s.m.T+job.Arrival+s.rng.IntN(width)]
			if len(list) > 0 {
				take(list[s.rng.IntN(len(list))].job)
			}
		}
	}
	s.takeLeftOut(take)
	s.replace(out)
}

// window takes out all jobs of a cluster around a slot where the first job wants to be.
func (s *search) window(parts []relax.Part, take func(int32), out *[]int32) {
	if len(parts) == 0 {
		return
	}
	p := parts[s.rng.IntN(len(parts))]
	row := int(p.Cluster) * s.m.T
	for d := 0; d < s.m.T && len(*out) < windowJobs; d++ {
		for _, t := range []int{int(p.Slot) + d, int(p.Slot) - d} {
			if t < 0 || t >= s.m.T {
				continue
			}
			for _, j := range s.in[row+t] {
				take(j.job)
				if len(*out) >= windowJobs {
					return
				}
			}
		}
	}
}

// recreate puts jobs back: the first of them first, the others in a random order or the
// largest first.
func (s *search) recreate(out []int32) {
	s.insert(int(out[0]))
	rest := out[1:]
	s.rng.Shuffle(len(rest), func(a, b int) { rest[a], rest[b] = rest[b], rest[a] })
	if s.rng.IntN(2) == 0 {
		slices.SortStableFunc(rest, s.larger)
	}
	for _, j := range rest {
		s.insert(int(j))
	}
}

// arrivals returns the given jobs in order of arrival, then of ID.
func (s *search) arrivals(jobs []int32) []int {
	out := make([]int, len(jobs))
	for i, j := range jobs {
		out[i] = int(j)
	}
	slices.SortFunc(out, func(a, b int) int { // jobs are in order of IDs
		return cmp.Or(s.m.P.Jobs[a].Arrival-s.m.P.Jobs[b].Arrival, a-b)
	})
	return out
}
