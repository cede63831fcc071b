package joint

import (
	"context"
	"math/rand/v2"
	"slices"
)

// paces are those of the online insertions that are tried.
var paces = []float64{0.003, 0.03, 0.1}

// firstPlan is the best of several ways to insert all jobs: the largest first and the
// most urgent first at the prices given, and in random orders with prices that follow.
func (v *solver) firstPlan(ctx context.Context) *search {
	winner := v.newSearch()
	winner.reprice(v.lambda)
	winner.buildAlike(winner.bySize())
	try := func(s *search) {
		if s.betterThan(winner.missing, winner.total) {
			winner = s
		}
	}
	for i, pace := range paces {
		if ctx.Err() != nil || v.spent() || winner.missing == 0 && winner.total-v.bound.Bound <= v.near(winner) {
			break
		}
		s := v.newSearch()
		s.rng = rand.New(rand.NewPCG(seed, uint64(i)))
		s.buildOnline(v.lambda, pace)
		try(s)
	}
	winner.reprice(v.lambda)
	if winner.missing > 0 && ctx.Err() == nil {
		s := v.newSearch()
		s.build(s.byUrgency())
		try(s)
	}
	return winner
}

// placeAll finds places for the jobs that were left out: by repair beside the reserve,
// then in the reserve for those that need it, and at last by the plan of running as soon
// as possible, of earliest deadline first or of latest start first if it leaves out fewer. The first plan must
// exist; all of it is done even after ctx has ended, except the repair.
func (v *solver) placeAll(ctx context.Context, s *search) {
	if !s.hard || s.missing == 0 {
		return
	}
	left := v.repair(ctx, s, v.effort)
	for round := 0; round < grants && s.open != nil && len(left) > 0; round++ {
		slices.SortStableFunc(left, func(a, b int32) int { return s.m.P.Jobs[a].Deadline - s.m.P.Jobs[b].Deadline })
		for _, j := range left {
			s.open[j] = true
			s.insert(int(j))
		}
		left = v.repair(ctx, s, v.effort)
	}
	if len(left) > 0 && s.fallBack() && s.open != nil {
		s.openAll()
	}
	if s.open != nil {
		s.withdraw()
	}
}

// grants is how often jobs without a place are given access to the reserve before the
// fallback.
const grants = 3

// openAll gives access to the reserve to every job that runs where it is used.
func (s *search) openAll() {
	for j, parts := range s.parts {
		s.put(j, nil)
		s.room.UseReserve(false)
		for _, p := range parts {
			if s.room.Scales(j, int(p.Cluster), int(p.Slot)) <= int(p.Scale) {
				s.open[j] = true
			}
		}
		s.put(j, parts)
	}
}

// withdraw moves jobs out of the reserve that find a place beside it, until none does.
func (s *search) withdraw() {
	for again := true; again; {
		again = false
		for j, open := range s.open {
			if !open {
				continue
			}
			old := s.parts[j]
			s.put(j, nil)
			s.open[j] = false
			if len(old) == 0 {
				continue
			}
			if s.insert(j) {
				again = true
				continue
			}
			s.open[j] = true
			s.put(j, old)
		}
	}
}
