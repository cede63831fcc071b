package joint

import (
	"context"
	"slices"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// This file finds places for jobs that were left out, where deadlines are hard.

const (
	// repairBase and repairEach bound the steps of a repair: so many, and so many more for every job
	// left out; fewer, in proportion, if windows are longer than repairWindow slots.
	repairBase   = 200
	repairEach   = 40
	repairWindow = 336
	// repairLeast and repairPlacings bound what the steps look at, at effort 1: so many slots and parts, and so many
	// times those that are looked at to place all jobs.
	repairLeast    = 5_000_000
	repairPlacings = 50
	// ejectionTries is how many places of a job are looked at for one to clear.
	ejectionTries = 32
)

// leftOut lists the jobs without a place that would have one in an empty room.
func (s *search) leftOut() []int32 {
	var out []int32
	for j, parts := range s.parts {
		if len(parts) == 0 && s.fitsEmpty(j) {
			out = append(out, int32(j))
		}
	}
	return out
}

// fitsEmpty reports whether job j would have a place in the whole capacity without the other jobs.
func (s *search) fitsEmpty(j int) bool {
	if s.alone[j] == 0 {
		if s.empty == nil {
			s.empty = relax.NewRoom(s.m)
		}
		s.alone[j] = -1
		if _, _, ok := s.e.PlaceIn(j, s.empty); ok {
			s.alone[j] = 1
		}
	}
	return s.alone[j] > 0
}

// fitsAlone reports whether job j would have a place beside the reserve without the other jobs.
func (s *search) fitsAlone(j int) bool {
	room := relax.NewRoom(s.m)
	room.Keep(s.reserve)
	_, _, ok := s.e.PlaceIn(j, room)
	return ok
}

// repair places jobs that were left out by ejection chains (Nagata and Braysy 2009): a
// job without a place takes one, those it displaces look for another, and a job that
// often finds none is displaced by fewer. It leaves the best plan found, and returns
// the jobs that still lack a place. It begins no step after it has looked at so many slots and parts (relax.Pricer).
//
// Complexity: at most effort x (200 + 40 x jobs left out) steps, fewer for windows of more than 336
// slots, so that the slots looked at do not grow with the window. A step looks at up to 32 places of a job, each O(window +
// jobs in its slots + jobs displaced x their parts), and places the job and those displaced: O(clusters x window) each.
func (s *search) repair(ctx context.Context, effort float64, looks int64) []int32 {
	if !s.hard || s.missing == 0 {
		return nil
	}
	pool := s.leftOut()
	if len(pool) == 0 {
		return nil
	}
	s.list()
	best := s.keep()
	failures := make([]int32, len(s.parts))
	var victims, touched []int32
	until := s.e.Looked + looks
	for k := int(effort * s.repairSteps(pool)); k > 0 && len(pool) > 0 && s.e.Looked < until; k-- {
		if k%checkEvery == 0 && ctx.Err() != nil {
			break
		}
		j := pool[len(pool)-1]
		pool = pool[:len(pool)-1]
		touched = append(touched[:0], j)
		if !s.insert(int(j)) {
			failures[j]++
			victims = s.ejection(int(j), failures, victims[:0])
			for _, v := range victims {
				s.put(int(v), nil)
			}
			touched = append(touched, victims...)
			if !s.insert(int(j)) {
				pool = slices.Insert(pool, 0, j) // others first
			}
			slices.SortStableFunc(victims, s.larger)
			for _, v := range victims {
				if !s.insert(int(v)) {
					pool = append(pool, v)
				}
			}
		}
		best.note(s, touched)
	}
	best.restore(s)
	if s.missing == 0 {
		return nil
	}
	return s.leftOut()
}

// repairSteps is how many steps a repair of the jobs may take at effort 1.
func (s *search) repairSteps(pool []int32) float64 {
	longest := repairWindow
	for _, j := range pool {
		longest = max(longest, s.m.P.LastSlot(int(j))-s.m.P.Jobs[j].Arrival)
	}
	return float64(repairBase+repairEach*len(pool)) * repairWindow / float64(longest)
}

// larger orders jobs by size, the largest first.
func (s *search) larger(a, b int32) int {
	switch x, y := s.m.Size(int(a)), s.m.Size(int(b)); {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return 0
}

// ejection appends the jobs whose removal makes room for job j, from the places looked
// at those that failed least often together. They are still in the plan.
func (s *search) ejection(j int, failures, into []int32) []int32 {
	job := &s.m.P.Jobs[j]
	s.room.UseReserve(s.open != nil && s.open[j])
	from, last := job.Arrival, s.m.P.LastSlot(j)
	need := job.Slots()
	choices := s.m.Choices(j)
	home, on := s.m.RunOn(j)
	if from+on > last {
		on = 0
	}
	if len(choices) == 0 || last-from < need && on == 0 {
		return into
	}
	var trial []int32
	free := make([][]bool, len(choices)) // by choice: the first slots in which the job fits as it is
	best := int32(-1)
	for try := range ejectionTries {
		k := s.rng.IntN(len(choices))
		set := choices[k]
		var cost int32
		var ok bool
		trial = trial[:0]
		switch {
		case try == 0 && on > 0: // it goes on where it runs
			trial, cost, ok = s.clearRun(j, home, from, from+on, failures, trial, best)
		case last-from < need:
		case job.Kind == workload.Rigid:
			start := from + s.rng.IntN(last-from-need+1)
			trial, cost, ok = s.clearRun(j, set[0], start, start+need, failures, trial, best)
		default:
			if free[k] == nil {
				free[k] = s.freeSlots(j, set, from, last, need)
			}
			trial, cost, ok = s.clearSlots(j, set, free[k], from, need, failures, trial, best)
		}
		if ok && (best < 0 || cost < best) {
			into, best = append(into[:0], trial...), cost
		}
		for _, v := range trial {
			s.room.Take(int(v), s.parts[v], 1)
			s.marked[v] = false
			s.e.Looked += int64(2 * len(s.parts[v]))
		}
	}
	return into
}

// clearRun makes room for job j on cluster c in slots [from, to).
func (s *search) clearRun(j, c, from, to int, failures, trial []int32, limit int32) (out []int32, cost int32, ok bool) {
	ok = true
	for t := from; t < to && ok; t++ {
		trial, cost, ok = s.clear(j, c, t, failures, trial, cost, limit)
	}
	return trial, cost, ok
}

// clear takes jobs out of the room until MinWorkers of job j fit on cluster c in slot t,
// those that failed least often first. ok is false when that costs limit or more (-1: no
// limit), or cannot be.
func (s *search) clear(j, c, t int, failures, trial []int32, cost, limit int32) ([]int32, int32, bool) {
	for s.room.Scales(j, c, t) == 0 {
		victim, least := int32(-1), int32(0)
		list := s.in[c*s.m.T+t]
		s.e.Looked += int64(1 + len(list))
		shift := 0
		if len(list) > 0 {
			shift = s.rng.IntN(len(list))
		}
		for i := range list {
			k := list[(i+shift)%len(list)].job
			if price := failures[k] + 1; (victim < 0 || price < least) && !s.marked[k] {
				victim, least = k, price
			}
		}
		if victim < 0 {
			return trial, cost, false
		}
		trial, cost = append(trial, victim), cost+least
		s.marked[victim] = true
		s.room.Take(int(victim), s.parts[victim], -1)
		if limit >= 0 && cost >= limit {
			return trial, cost, false
		}
	}
	return trial, cost, true
}

// freeSlots marks, in the slots [from, last), the first slots in which job j fits on a cluster of
// the set, as many as it needs at most.
func (s *search) freeSlots(j int, set []int, from, last, need int) []bool {
	free := make([]bool, last-from)
	for t := from; t < last && need > 0; t++ {
		for _, c := range set {
			if s.room.Scales(j, c, t) > 0 {
				free[t-from] = true
				need--
				break
			}
		}
	}
	return free
}

// clearSlots makes room for job j, which may pause, in as many slots as it needs: those
// that are free, then others from a random one on.
func (s *search) clearSlots(j int, set []int, free []bool, from, need int, failures, trial []int32, limit int32) ([]int32, int32, bool) {
	for _, is := range free {
		if is {
			need--
		}
	}
	shift := s.rng.IntN(len(free))
	s.e.Looked += int64(2 * len(free))
	cost := int32(0)
	for i := 0; i < len(free) && need > 0; i++ {
		at := (i + shift) % len(free)
		if free[at] {
			continue
		}
		var ok bool
		trial, cost, ok = s.clear(j, set[s.rng.IntN(len(set))], from+at, failures, trial, cost, limit)
		if ok {
			need--
		} else if limit >= 0 && cost >= limit {
			break
		}
	}
	return trial, cost, need <= 0
}

// earliest is the plan that gives jobs in the given order their earliest place in the
// whole capacity (plan.Free.Earliest): what running as soon as possible does in the order
// of arrival, earliest deadline first in that of deadlines, and latest start first in that of urgency.
func (s *search) earliest(order []int) [][]relax.Part {
	p := s.m.P
	free := plan.NewFree(p)
	out := make([][]relax.Part, len(s.parts))
	for _, j := range order {
		segments, ok := free.Earliest(p, j, p.Jobs[j].Arrival, p.LastSlot(j), 0, false)
		if !ok {
			continue
		}
		free.TakeAll(j, segments)
		for _, g := range segments {
			out[j] = append(out[j], relax.Part{Slot: int32(g.Slot), Cluster: int32(g.Cluster), Scale: int32(g.Workers - p.Jobs[j].MinWorkers), Fraction: g.Fraction})
		}
	}
	return out
}

// fallBack takes over the plan of running as soon as possible, of earliest deadline first or of
// latest start first if it leaves out fewer jobs, and says whether it did.
func (s *search) fallBack() bool {
	missing := s.missing
	var better [][]relax.Part
	for _, order := range [][]int{plan.ByArrival(s.m.P), byDeadline(s.m.P), s.byUrgency()} {
		parts := s.earliest(order)
		without := 0
		for _, x := range parts {
			if len(x) == 0 {
				without++
			}
		}
		if without < missing {
			missing, better = without, parts
		}
	}
	if better == nil {
		return false
	}
	for j := range s.parts {
		s.put(j, nil)
	}
	for j, parts := range better {
		s.put(j, parts)
	}
	return true
}

// byDeadline returns the jobs in order of deadlines, then of arrival, then of ID.
func byDeadline(p *plan.Problem) []int {
	order := plan.ByArrival(p)
	slices.SortStableFunc(order, func(a, b int) int { return p.Jobs[a].Deadline - p.Jobs[b].Deadline })
	return order
}
