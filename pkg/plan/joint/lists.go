package joint

import "lull.dev/lull/pkg/plan/relax"

// This file lists the jobs that run in each slot of each cluster. Only the moves that mend a plan
// need these lists, and most plans are built, compared and thrown away.

// lists holds, once list was called, the jobs that run in every cluster and slot; before that, the
// changes of the plan in their order.
type lists struct {
	// in lists, for every cluster and slot, the jobs that run there. at says where they stand: for
	// every job the index in the list of each of its slots, so that it leaves without a search.
	in [][]standing
	at [][]int32
	// noted are the changes until the lists are made.
	noted []change
}

// standing is a job in the list of a slot, the nth of its slots.
type standing struct{ job, nth int32 }

// change is what a job was given.
type change struct {
	job   int32
	parts []relax.Part
}

// note notes that job j was given the parts.
func (l *lists) note(j int, parts []relax.Part) {
	if n := len(l.noted); n > 0 && l.noted[n-1].job == int32(j) {
		l.noted[n-1].parts = parts // it left its old slots already
		return
	}
	l.noted = append(l.noted, change{int32(j), parts})
}

// relist moves job j to the end of its lists.
func (s *search) relist(j int) {
	if s.in == nil {
		s.note(j, s.parts[j])
		return
	}
	s.leave(j, s.parts[j])
	s.enter(j, s.parts[j])
}

// list makes the lists, in the order that they would have if they had been kept from the beginning.
//
// Complexity: O(changes x parts).
func (s *search) list() {
	if s.in != nil {
		return
	}
	s.in, s.at = make([][]standing, s.m.M*s.m.T), make([][]int32, len(s.parts))
	parts := make([][]relax.Part, len(s.parts))
	for _, c := range s.noted {
		s.leave(int(c.job), parts[c.job])
		s.enter(int(c.job), c.parts)
		parts[c.job] = c.parts
	}
	s.noted = nil
}

// leave takes job j with the given parts out of the lists.
//
// Complexity: O(parts) on average.
func (s *search) leave(j int, parts []relax.Part) {
	stands := s.at[j]
	k := 0
	for i := range parts {
		if i > 0 && parts[i-1].Slot == parts[i].Slot {
			continue
		}
		cell := s.cell(&parts[i])
		list := s.in[cell]
		last := len(list) - 1
		moved := list[last]
		list[stands[k]] = moved
		s.at[moved.job][moved.nth] = stands[k]
		s.in[cell] = list[:last]
		k++
	}
	s.at[j] = stands[:0]
}

// enter gives job j with the given parts its places in the lists.
func (s *search) enter(j int, parts []relax.Part) {
	for i := range parts {
		if i > 0 && parts[i-1].Slot == parts[i].Slot {
			continue
		}
		cell := s.cell(&parts[i])
		s.at[j] = append(s.at[j], int32(len(s.in[cell])))
		s.in[cell] = append(s.in[cell], standing{int32(j), int32(len(s.at[j]) - 1)})
	}
}

func (s *search) cell(p *relax.Part) int { return int(p.Cluster)*s.m.T + int(p.Slot) }
