package joint

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"lull.dev/lull/pkg/plan"
)

// This file improves a plan made from the memory that is not as near to its bound as the last
// full search came, as after a forecast that changed.

const (
	// polishes is how often at most a plan that is not good enough is polished. The first
	// evaluates prices as often as polishPrices of a full search does or, up to mostPolish times,
	// at about the cost of placing all jobs; each further one twice as often. One that leaves
	// more than the share worthPolishing of the gap is the last. From wellPriced evaluations on,
	// prices are good enough to place all jobs anew at them; if they cost no more than that,
	// the plan is polished cheapPolishes times and jobs are placed up to samples times each, at
	// prices that differ by up to the share disturbance; manyJobs or more are instead placed once more
	// with prices that follow.
	polishes       = 2
	cheapPolishes  = 3
	polishPrices   = 0.06
	mostPolish     = 512
	wellPriced     = 128
	samples        = 6
	polishPace     = 0.03 // see paces
	disturbance    = 3e-4
	worthPolishing = 0.9
	// A polished plan that is not good enough gets these shares of the prices and of the moves
	// of a full search.
	finerPrices = 0.5
	finerMoves  = 0.25
)

// polish improves the prices a little and moves jobs to where they are best at these prices, then
// all to where that costs least without prices. It returns the best plan found.
//
// Where jobs that are alike make prices cheap, all jobs are placed anew at them: up to six times, at prices
// that are disturbed, if there are fewer than 10,000. Otherwise, or if one time is not enough for more jobs,
// those are placed anew that are far from their best response.
func (v *solver) polish(ctx context.Context, s *search, enough float64) *search {
	all := plan.ByArrival(v.m.P)
	gap := v.gap(s)
	steps, most, cheap := max(v.steps(polishPrices), min(v.prices.Rounds(), mostPolish)), polishes, v.cheap()
	order := s.bySize()
	sampled, tries := cheap && len(s.parts) < manyJobs, 1
	if cheap {
		most, tries = cheapPolishes, 2
	}
	if sampled {
		tries = samples
	}
	for k := 0; k < most && gap > enough && ctx.Err() == nil; k++ {
		v.prices.RefineSampled(ctx, steps<<k)
		if v.bound != v.prices {
			v.bound.RefineSampled(ctx, steps<<k/2)
		}
		v.takePrices()
		s.reprice(v.lambda)
		if gap = v.gap(s); gap <= enough {
			break
		}
		improved := false
		if steps<<k >= wellPriced {
			for n := 0; n < tries && (n == 0 || v.gap(s) > enough); n++ {
				pace := 0.0
				if n > 0 && !sampled {
					pace = polishPace
				}
				if next := v.rebuilt(s, all, order, v.disturbed(n), pace); next.betterThan(s.missing, s.total) {
					v.spare, s, improved = s, next, true
				} else {
					v.spare = next
				}
			}
		}
		if !sampled && (!improved || v.gap(s) > enough) {
			improved = v.reseated(s, all) || improved
		}
		last := gap
		if gap = v.gap(s); (sampled || !cheap) && (!improved || gap > last*worthPolishing) {
			break
		}
	}
	return s
}

// cheap reports whether good prices cost no more than placing all jobs once.
func (v *solver) cheap() bool { return v.prices.Rounds() >= wellPriced }

// finer spends shares of a full search on prices, then on the last of its moves, until the gap is
// enough.
func (v *solver) finer(ctx context.Context, s *search, enough float64) {
	all := plan.ByArrival(v.m.P)
	v.refine(ctx, finerPrices)
	s.reprice(v.lambda)
	v.reseated(s, all)
	gap := v.gap(s)
	if gap <= enough {
		return
	}
	n := finerMoves * v.effort * moves(v.p)
	wanted := s.total - (gap-enough)*s.placedCost()
	v.moves += int64(s.mend(ctx, budget{
		share: func(k int) float64 { return 1 - finerMoves + finerMoves*float64(k)/n }, from: 1 - finerMoves, to: 1, width: threshold * s.meanCost(),
		stop: func(total float64) bool { return total <= wanted },
	}, nil))
	s.settle(all)
}

// rebuilt places all jobs anew: at the given prices, in the given order, or in a random order with the
// prices of the search, which follow at the pace given, if that is above 0. Jobs of s keep their access to the reserve.
func (v *solver) rebuilt(s *search, all, order []int, prices []float64, pace float64) *search {
	next := v.newSearch()
	copy(next.open, s.open)
	next.reprice(prices)
	if pace > 0 {
		next.buildOnline(v.lambda, pace)
	} else {
		next.buildAlike(order)
	}
	v.moves += int64(len(all))
	next.settle(all)
	next.reprice(v.lambda)
	return next
}

// disturbed returns the prices of the search, each changed a little at random; those of sample 0 are
// unchanged. At the best prices many jobs have several best places, and which ones they take decides how
// well the plan fits together. A small change of the prices makes them take others.
func (v *solver) disturbed(sample int) []float64 {
	if sample == 0 {
		return v.lambda
	}
	rng := rand.New(rand.NewPCG(seed, uint64(sample)))
	out := make([]float64, len(v.lambda))
	for i, price := range v.lambda {
		out[i] = v.m.Bounded(i, price*(1+disturbance*(2*rng.Float64()-1)))
	}
	return out
}

// reseated moves the jobs that are far from their best response, and reports whether the plan is
// better for it. If not, it stays as it was.
func (v *solver) reseated(s *search, all []int) bool {
	before := s.keep()
	v.moves += int64(s.reseat())
	s.settle(all)
	s.reprice(v.lambda)
	if s.betterThan(before.missing, before.total) {
		return true
	}
	for j := range s.parts {
		before.dirty[int32(j)] = struct{}{}
	}
	before.restore(s)
	return false
}

// regretShare is the share of the mean cost of a job that a regret must exceed.
const regretShare = 1e-3

// far lists the jobs that are far from their best response, the farthest first.
func (s *search) far() []int32 {
	least := regretShare * s.meanCost()
	far := make([]int32, 0, len(s.parts)/4)
	regret := make([]float64, len(s.parts))
	for j := range s.parts {
		if regret[j] = s.regret(j); regret[j] > least {
			far = append(far, int32(j))
		}
	}
	slices.SortStableFunc(far, func(a, b int32) int { return cmp.Compare(regret[b], regret[a]) })
	return far
}

// reseat places the jobs that are far from their best response anew at the prices, the
// farthest first. It returns how many they were. No job loses its place.
func (s *search) reseat() int {
	far := s.far()
	for _, j := range far {
		old := s.parts[j]
		s.put(int(j), nil)
		if !s.insert(int(j)) {
			s.put(int(j), old)
		}
	}
	return len(far)
}
