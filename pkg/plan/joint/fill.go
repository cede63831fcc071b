package joint

// This file has the moves that fill unused capacity. The distance of a plan to its bound
// is the sum of the regrets of its jobs and of the price of all capacity that stays
// unused. Where requests are large, most of the distance is unused capacity.

// ruinAny makes a move: it fills a row, or begins at a job far from its best response.
func (s *search) ruinAny() {
	if s.rng.Float64() < s.fillShare {
		if row := s.unusedRow(); row >= 0 {
			s.fill(row)
			return
		}
	}
	s.ruin(s.farthest())
}

// unusedRow returns a row whose unused capacity is worth much at the prices, or -1 if
// the rows drawn have none.
func (s *search) unusedRow() int {
	if len(s.scarce) == 0 {
		return -1
	}
	row, most := -1, 0.0
	for range fillRows {
		i := int(s.scarce[s.rng.IntN(len(s.scarce))])
		if worth := s.prices[i] * s.room.FreeRow(i) * (0.5 + s.rng.Float64()); worth > most {
			row, most = i, worth
		}
	}
	return row
}

// fill takes out jobs around the cluster and slot of a row, and jobs from elsewhere that
// may run in that slot, and puts them back.
func (s *search) fill(row int) {
	c, t := row/(s.m.R*s.m.T), row%s.m.T
	out := s.out[:0]
	take := func(j int32) {
		if !s.marked[j] {
			s.remember(int(j))
			out = append(out, j)
		}
	}
	n := len(s.parts)
	for tries := 0; tries < guestTries*fillGuests && len(out) < fillGuests; tries++ {
		j := s.rng.IntN(n)
		if job := &s.m.P.Jobs[j]; job.Arrival <= t && t < s.m.P.LastSlot(j) {
			take(int32(j))
		}
	}
	s.takeAround(c, t, len(out)+fillJobs, take, &out)
	s.takeLeftOut(take)
	s.replace(out)
}

// takeAround takes out jobs that run on cluster c in slot t or near it, until there are
// most.
func (s *search) takeAround(c, t, most int, take func(int32), out *[]int32) {
	row := c * s.m.T
	if list := s.in[row+t]; len(list) > 0 {
		shift := s.rng.IntN(len(list))
		for i := range list {
			if len(*out) >= most {
				return
			}
			take(list[(i+shift)%len(list)].job)
		}
	}
	for d := 1; d < s.m.T; d++ {
		for _, u := range [2]int{t + d, t - d} {
			if u < 0 || u >= s.m.T {
				continue
			}
			for _, j := range s.in[row+u] {
				if len(*out) >= most {
					return
				}
				take(j.job)
			}
		}
	}
}

// takeLeftOut takes some jobs that were left out into the move.
func (s *search) takeLeftOut(take func(int32)) {
	if s.missing == 0 && s.hard {
		return
	}
	for range leftDrawn {
		if j := s.rng.IntN(len(s.parts)); len(s.parts[j]) == 0 {
			take(int32(j))
		}
	}
}

// replace takes the jobs out of the plan and puts them back.
func (s *search) replace(out []int32) {
	for _, j := range out {
		s.put(int(j), nil)
	}
	if len(out) > 0 {
		s.recreate(out)
	}
	s.out = out
}
