package joint

import (
	"math"
	"slices"

	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// Many tasks that wait are alike: they may all begin now, and lengths and deadlines are few. This
// file places one of them at the cost of a look-up where another has just been placed.

// kinsOf numbers the jobs: equal for jobs that have the same places in a room, at equal costs.
func kinsOf(m *relax.Model) (kins []int32, n int) {
	kins = make([]int32, len(m.P.Jobs))
	number := make(map[relax.Alike]int32)
	for j := range kins {
		a := m.Alike(j)
		kin, known := number[a]
		if !known {
			kin = int32(len(number))
			number[a] = kin
		}
		kins[j] = kin
	}
	return kins, len(number)
}

// kinOf numbers job j: equal for jobs that may have the same places, in the reserve too.
func (s *search) kinOf(j int) (kin int32, open bool) {
	if s.open != nil && s.open[j] {
		return 2*s.kins[j] + 1, true
	}
	return 2 * s.kins[j], false
}

// buildAlike is build for many jobs. While jobs are only put in, a job has its cheapest place
// where the last job had that is alike, as long as there is room.
//
// Complexity: O(parts) a job that finds room there, else O(clusters x window).
func (s *search) buildAlike(order []int) {
	last := make([]int, 2*s.kinds) // by kin: 1 + the job that was placed last
	for _, j := range order {
		if len(s.parts[j]) > 0 {
			continue
		}
		kin, open := s.kinOf(j)
		s.room.UseReserve(open)
		if k := last[kin] - 1; k >= 0 && s.room.Fits(j, s.parts[k]) {
			s.putAt(j, s.parts[k], s.cost[k])
		} else if s.insert(j) {
			last[kin] = j + 1
		}
	}
}

// mostLeft is how many places that were left since are looked at before a place is sought.
const mostLeft = 32

// spot is where a run begins, and what the job there is compared by.
type spot struct{ kin, slot, cluster int32 }

// settle lets the jobs, in order of arrival, take their cheapest place in what is
// left, without prices: the earlier of equal ones, so that nothing waits for nothing. A job at
// the place of another that is alike is left there if that one found no better place, and places left
// since then are no better.
//
// Complexity: O(clusters x window) a job, O(1) if it is left.
func (s *search) settle(jobs []int) {
	s.e.Set(make([]float64, len(s.m.Cap)))
	tried := make(map[spot]int) // how many places had been left when a better one was sought in vain
	var left [][]relax.Part     // by jobs that moved
	for _, j := range jobs {
		old, total, before := s.parts[j], s.total, s.cost[j]
		if len(old) == 0 {
			if s.insert(j) {
				left = append(left, nil)
			}
			continue
		}
		kin, open := s.kinOf(j)
		at, rigid := spot{kin, old[0].Slot, old[0].Cluster}, s.m.P.Jobs[j].Kind == workload.Rigid
		most := before + 1e-12*math.Abs(total)
		s.room.UseReserve(open)
		if n, known := tried[at]; rigid && known && s.noBetter(j, left[n:], most) {
			if n < len(left) {
				s.relist(j) // as a job is that is sought a place in vain: the order decides what moves take out
			}
			tried[at] = len(left)
			continue
		}
		s.put(j, nil)
		if _, parts, ok := s.e.PlaceBelow(j, s.room, most); ok && !slices.Equal(parts, old) {
			s.put(j, slices.Clone(parts))
			if s.total <= total+1e-12*math.Abs(total) {
				left = append(left, old)
				continue
			}
		}
		s.putAt(j, old, before)
		if rigid {
			tried[at] = len(left)
		}
	}
}

// noBetter reports whether rigid job j surely has no place that costs less than most and takes a part of
// those left.
func (s *search) noBetter(j int, left [][]relax.Part, most float64) bool {
	if len(left) > mostLeft {
		return false
	}
	for _, parts := range left {
		if s.e.MayFitAt(parts, j, s.parts[j][0], s.room, most) {
			return false
		}
	}
	return true
}
