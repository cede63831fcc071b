package relax

import "math"

// This file has the best responses of interruptible jobs that need many slots of a long window and whose restarts
// cost: there are too many states to find them exactly.

// mostPicks is how many prices of a slot are tried: few are needed, since each gives a corner of the lower hull of the
// cost over the number of slots.
const mostPicks = 32

// picker holds what pickMany looks at.
type picker struct {
	from            []uint8 // by slot: in which state the one before was left, if the slot is used and if not, see pickAt
	cost, resume    []float64
	few, many, next picked
}

// picked are the slots used, how many they are, and what they cost.
type picked struct {
	used []bool
	n    int
	cost float64
}

// pickMany is pickRuns for many states. It returns a bound of the cost, and slots that cost little more: the number of
// slots to use is dropped, and a price for each slot used takes its place (a Lagrangian relaxation, again). At the
// price at which about as many slots are used as are needed, one best response uses too few and another too many, or
// one of them as many. The schedule takes the slots of one up to a moment and those of the other after it, such that
// they are as many as are needed.
//
// Complexity: O(window), at most 32 times.
func (e *Pricer) pickMany(jb *job, cl *class, tb *table) (float64, bool) {
	from, window, n := int(jb.arrival), int(jb.last-jb.arrival), cl.slots
	r := &e.picker
	r.begin(window)
	for i := range window {
		r.cost[i], r.resume[i] = tb.cost[from+i], 0
		if !math.IsInf(r.cost[i], 1) {
			r.resume[i] = cl.restart * e.m.perKWh(int(tb.at[from+i]), from+i)
			r.many.used[i] = true
			r.many.n++
		}
	}
	if r.many.n < n {
		return 0, false
	}
	r.many.cost = r.costOf(r.many.used)
	bound := math.Inf(-1)
	for k := 0; k < mostPicks && r.many.n > n; k++ {
		e.Looked += int64(window)
		price := (r.many.cost - r.few.cost) / float64(r.many.n-r.few.n)
		r.pickAt(price)
		value := r.next.cost - price*float64(r.next.n)
		rounding := pickRounding * float64(window) * (math.Abs(r.next.cost) + math.Abs(price)*float64(n+r.next.n))
		bound = math.Max(bound, value+price*float64(n)-rounding)
		if now := r.few.cost - price*float64(r.few.n); value >= now-rounding {
			break
		}
		if r.next.n >= n {
			r.many, r.next = r.next, r.many
		} else {
			r.few, r.next = r.next, r.few
		}
	}
	if r.many.n == n {
		bound = math.Max(bound, r.many.cost)
	}
	for i, used := range r.joined(n) {
		if used {
			e.parts = append(e.parts, Part{int32(from + i), tb.at[from+i], 0, 1})
		}
	}
	return bound * jb.size, true
}

// pickRounding is the rounding of a sum, for each of its terms, relative to their sum.
const pickRounding = 0x1p-52

func (r *picker) begin(window int) {
	if len(r.cost) < window {
		r.cost, r.resume, r.from = make([]float64, window), make([]float64, window), make([]uint8, window)
		for _, x := range []*picked{&r.few, &r.many, &r.next} {
			x.used = make([]bool, window)
		}
	}
	r.cost, r.resume, r.from = r.cost[:window], r.resume[:window], r.from[:window]
	for _, x := range []*picked{&r.few, &r.many, &r.next} {
		x.used = x.used[:window]
		clear(x.used)
		x.n, x.cost = 0, 0
	}
}

// costOf is what the slots used cost, with their restarts.
func (r *picker) costOf(used []bool) float64 {
	cost, begun := 0.0, false
	for i, is := range used {
		if !is {
			continue
		}
		cost += r.cost[i]
		if begun && !used[i-1] {
			cost += r.resume[i]
		}
		begun = true
	}
	return cost
}

// The states of a schedule before a slot.
const (
	unbegun = iota
	running
	paused
)

// pickAt sets next to slots of least cost, less the price for each of them.
func (r *picker) pickAt(price float64) {
	run, pause := math.Inf(1), math.Inf(1) // least cost so far; 0 if not begun
	for i, cost := range r.cost {
		before, state := 0.0, uint8(unbegun)
		if run < before {
			before, state = run, running
		}
		if v := pause + r.resume[i]; v < before {
			before, state = v, paused
		}
		if run < pause {
			pause, state = run, state|running<<2
		} else {
			state |= paused << 2
		}
		r.from[i] = state
		run = before + cost - price
	}
	state := uint8(unbegun)
	switch {
	case run < 0 && run <= pause:
		state = running
	case pause < 0:
		state = paused
	}
	r.next.n = 0
	for i := len(r.cost) - 1; i >= 0; i-- {
		r.next.used[i] = state == running
		switch state {
		case running:
			r.next.n++
			state = r.from[i] & 3
		case paused:
			state = r.from[i] >> 2
		}
	}
	r.next.cost = r.costOf(r.next.used)
}

// joined returns n slots: those of many up to a moment, then those of few, or the other way round, whichever costs
// least. Their number changes by at most one from moment to moment, from that of few to that of many, so there is a
// moment for every number between.
func (r *picker) joined(n int) []bool {
	var out []bool
	best := math.Inf(1)
	for _, pair := range [2][2]*picked{{&r.many, &r.few}, {&r.few, &r.many}} {
		count, at := pair[1].n, 0
		for count != n {
			count += number(pair[0].used[at]) - number(pair[1].used[at])
			at++
		}
		trial := append(append(make([]bool, 0, len(r.cost)), pair[0].used[:at]...), pair[1].used[at:]...)
		if cost := r.costOf(trial); cost < best {
			best, out = cost, trial
		}
	}
	return out
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}
