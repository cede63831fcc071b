package joint

import (
	"cmp"
	"context"
	"slices"

	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// This file lends the reserve to jobs that can give it back.

// lendRounds is how often jobs are placed anew at the prices of the whole capacity.
const lendRounds = 2

// lend lets jobs that may pause use the reserve as long as they can give it back. Each job
// has a fallback: a place in time beside the reserve, together with the fallbacks of all others. A job
// may leave its place in the plan for a cheaper one, in the reserve too, if at the end of every slot
// it has then done at least as much as by its fallback. Whatever slot an urgent job comes in, the
// jobs in the reserve can pause and still finish in time beside it.
//
// Rigid jobs cannot give anything back, jobs that need the reserve have no fallback, and hedge has placed jobs of unknown
// length by what they are expected to emit: all of them stay where they are. The plan never gets worse. lend returns the fallbacks, nil if nothing competes for
// the capacity beside the reserve.
//
// Complexity: O(clusters x window) a job that is far from its best place, lendRounds + 1 times.
func (v *solver) lend(ctx context.Context, s *search) (fallbacks [][]relax.Part) {
	if s.open == nil || !s.hard || !anyAbove(v.prices.Lambda) {
		return nil
	}
	fallbacks = s.fallbacks()
	none := make([]float64, len(s.m.Cap))
	for round := range lendRounds + 1 {
		prices := v.bound.Lambda
		if round == lendRounds {
			prices = none
		}
		s.reprice(prices)
		for _, j := range s.far() {
			if ctx.Err() != nil {
				return fallbacks
			}
			if fallbacks[j] != nil {
				s.borrow(int(j), fallbacks[j])
			}
		}
	}
	return fallbacks
}

func anyAbove(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
}

// borrow moves job j to its cheapest place at the prices in the whole room, if that is cheaper than its
// place and never behind the fallback.
func (s *search) borrow(j int, fallback []relax.Part) {
	old := s.parts[j]
	before := s.e.Priced(j, old)
	s.put(j, nil)
	s.room.UseReserve(true)
	_, parts, ok := s.e.PlaceIn(j, s.room)
	s.room.UseReserve(false)
	if ok && s.e.Priced(j, parts) < before-1e-12*before && s.keepsUp(j, parts, fallback) {
		old = slices.Clone(parts)
	}
	s.put(j, old)
}

// fallbacks returns a place beside the reserve for each job that may pause and does not need the
// reserve, as late as there is one; nil for the others. All of them fit together.
func (s *search) fallbacks() [][]relax.Part {
	out := make([][]relax.Part, len(s.parts))
	room := relax.NewRoom(s.m)
	room.Keep(s.reserve)
	order := make([]int, 0, len(s.parts))
	for j, parts := range s.parts {
		room.Take(j, parts, 1)
		if job := &s.m.P.Jobs[j]; len(parts) > 0 && !s.open[j] && job.Kind != workload.Rigid && job.Unknown == nil {
			out[j], order = parts, append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.m.P.Jobs[b].Deadline, s.m.P.Jobs[a].Deadline) })
	for _, j := range order {
		room.Take(j, out[j], -1)
		if late := s.latest(j, room); late != nil && s.keepsUp(j, out[j], late) {
			out[j] = late
		}
		room.Take(j, out[j], 1)
	}
	return out
}

// latest returns the latest place of job j at its least scale in the room on the clusters where it is
// planned; nil if there is none.
func (s *search) latest(j int, room *relax.Room) []relax.Part {
	job := &s.m.P.Jobs[j]
	for _, set := range s.m.Choices(j) {
		if !slices.Contains(set, int(s.parts[j][0].Cluster)) {
			continue
		}
		left := job.Slots()
		var out []relax.Part
		for t := min(s.m.P.LastSlot(j), s.m.T) - 1; t >= job.Arrival && left > 0; t-- {
			for _, c := range set {
				if room.Scales(j, c, t) > 0 {
					out = append(out, relax.Part{Slot: int32(t), Cluster: int32(c), Fraction: 1})
					left--
					break
				}
			}
		}
		if left == 0 {
			slices.Reverse(out)
			return out
		}
	}
	return nil
}

// keepsUp reports whether job j has done at least as much by parts as by other at the end of every
// slot, on clusters that it may go on from.
func (s *search) keepsUp(j int, parts, other []relax.Part) bool {
	job := &s.m.P.Jobs[j]
	if !job.Migratable && parts[0].Cluster != other[0].Cluster {
		return false
	}
	work := func(p relax.Part) float64 {
		return workload.Speedup(job.Curve, job.MinWorkers, job.MinWorkers+int(p.Scale)) * p.Fraction
	}
	total := 0.0
	for _, p := range other {
		total += work(p)
	}
	// Less than a slot of the last one may be needed: what other does before it is what counts.
	done, want, excess := 0.0, 0.0, max(0, total-job.Length)
	i := 0
	for k, p := range other {
		want += work(p)
		if k+1 < len(other) && other[k+1].Slot == p.Slot {
			continue
		}
		for ; i < len(parts) && parts[i].Slot <= p.Slot; i++ {
			done += work(parts[i])
		}
		if done < min(want-excess, job.Length)-workload.Eps {
			return false
		}
	}
	return true
}
