package capacity

import "math"

// blockSize is how many steps one summary covers.
const blockSize = 64

// index summarises the slack of whole blocks of steps, so that a search passes over blocks that are full, or
// free, without looking at their steps. Summaries are computed when they are asked for.
type index struct {
	known       []bool      // by block; blocks beyond its end are not known
	least, most [][]float64 // slack by resource, then block
}

// changed discards the summaries of the blocks in which steps [first, last) lie.
func (x *index) changed(first, last int) {
	for b := first / blockSize; b < len(x.known) && b*blockSize < last; b++ {
		x.known[b] = false
	}
}

// moved discards the summaries from a step on.
func (x *index) moved(first int) {
	if b := first / blockSize; b < len(x.known) {
		x.known = x.known[:b]
	}
}

// slack is how much of a resource is free in a step, and what rounding may take beyond that.
func (s *steps) slack(resource, i int) float64 {
	return Usable(s.total[resource][i]) - s.used[resource][i]
}

// fits reports whether workers fit in a step.
func (s *steps) fits(need []Need, workers float64, i int) bool {
	for _, n := range need {
		if n.amount*workers > s.slack(n.resource, i) {
			return false
		}
	}
	return true
}

// summarise makes the summary of a whole block known.
func (s *steps) summarise(block int) {
	x := &s.index
	for len(x.known) <= block {
		x.known = append(x.known, false)
	}
	if x.known[block] && len(x.least) == len(s.used) {
		return
	}
	if len(x.least) != len(s.used) { // a resource has been added
		clear(x.known)
		x.least, x.most = make([][]float64, len(s.used)), make([][]float64, len(s.used))
	}
	for r := range s.used {
		for len(x.least[r]) <= block {
			x.least[r], x.most[r] = append(x.least[r], 0), append(x.most[r], 0)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for i := block * blockSize; i < (block+1)*blockSize; i++ {
			slack := s.slack(r, i)
			least, most = min(least, slack), max(most, slack)
		}
		x.least[r][block], x.most[r][block] = least, most
	}
	x.known[block] = true
}

// block returns the block that begins at a step, summarised; -1 if none does, or it is not full.
func (s *steps) block(i int) int {
	if i%blockSize != 0 || i+blockSize > len(s.at) {
		return -1
	}
	s.summarise(i / blockSize)
	return i / blockSize
}

// blocked returns the first step, from i on and before a time, in which workers do not fit; -1 for none.
func (s *steps) blocked(need []Need, workers float64, i int, to int64) int {
	for i < len(s.at) && s.at[i] < to {
		if b := s.block(i); b >= 0 && s.at[i+blockSize-1] < to {
			free := true
			for _, n := range need {
				free = free && n.amount*workers <= s.index.least[n.resource][b]
			}
			if free {
				i += blockSize
				continue
			}
		}
		if !s.fits(need, workers, i) {
			return i
		}
		i++
	}
	return -1
}

// free returns the first step, from i on and no later than a time, in which workers fit; -1 for none.
func (s *steps) free(need []Need, workers float64, i int, latest int64) int {
	for i < len(s.at) && s.at[i] <= latest {
		if b := s.block(i); b >= 0 {
			full := false
			for _, n := range need {
				full = full || n.amount*workers > s.index.most[n.resource][b]
			}
			if full {
				i += blockSize
				continue
			}
		}
		if s.fits(need, workers, i) {
			return i
		}
		i++
	}
	return -1
}
