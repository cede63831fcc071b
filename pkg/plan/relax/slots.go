package relax

import (
	"math"
	"slices"
)

// This file has the best responses of interruptible jobs: which slots to take.

// pick takes the cheapest slots for an interruptible job, the dearest for the part
// that is needed. Where the start has a cost, every start is tried with the
// cheapest slots after it.
//
// Complexity: O(window) on average; O(window x slots) where the start costs, or a restart if that is at most
// mostBoundStates, else O(window), at most 32 times.
func (e *Pricer) pick(jb *job, cl *class, tb *table) (float64, bool) {
	from, last := int(jb.arrival), int(jb.last)
	if last-from < cl.slots {
		return 0, false
	}
	e.Looked += int64(last - from)
	e.parts = e.parts[:0]
	if e.m.timed() {
		return e.pickTimed(jb, cl, tb)
	}
	// On several clusters the cheapest one of a slot need not be the cheapest to resume
	// on: restarts are left out of the bound there.
	if cl.restart > 0 && cl.length == float64(cl.slots) && e.m.terms.Carbon > 0 && len(cl.choices[0]) == 1 {
		if (last-from)*cl.slots > mostBoundStates {
			return e.pickMany(jb, cl, tb)
		}
		return e.pickRuns(jb, cl, tb)
	}
	// The cheapest so far in rising order of cost; ties keep the earlier slot first.
	kept := e.pool[:0]
	many := cl.slots > fewSlots
	for t := from; t < last; t++ {
		switch x := (increment{density: tb.cost[t], work: 1, slot: int32(t)}); {
		case math.IsInf(x.density, 1):
		case many:
			kept = append(kept, x)
		default:
			kept = keep(kept, x, cl.slots)
		}
	}
	e.pool = kept
	if len(kept) < cl.slots {
		return 0, false
	}
	if many {
		n, _ := selectWork(kept, float64(cl.slots))
		kept = kept[:n] // the dearest last
	}
	total, left := 0.0, cl.length
	for _, k := range kept {
		f := math.Min(1, left)
		left -= f
		total += f * k.density
		e.parts = append(e.parts, Part{k.slot, tb.at[k.slot], 0, f})
	}
	slices.SortFunc(e.parts, func(a, b Part) int { return int(a.Slot - b.Slot) })
	return total * jb.size, true
}

// pickRuns is pick where going on after a pause costs: the least cost of having done k
// slots by slot t, running in it or not, on one cluster.
//
// Complexity: O(window x slots).
func (e *Pricer) pickRuns(jb *job, cl *class, tb *table) (float64, bool) {
	from, last, n := int(jb.arrival), int(jb.last), cl.slots
	window := last - from
	e.Looked += int64(window * n)
	// paused[k], running[k]: the least cost of k slots before t.
	paused, running := make([]float64, n+1), make([]float64, n+1)
	for k := range paused {
		paused[k], running[k] = math.Inf(1), math.Inf(1)
	}
	paused[0] = 0
	// resumed[t][k]: slot t was the k-th, after a pause; used when walking back.
	resumed := make([]bool, window*(n+1))
	stopped := make([]bool, window*(n+1)) // before slot t, with k done, it was running
	for t := from; t < last; t++ {
		at := (t - from) * (n + 1)
		cost := tb.cost[t]
		for k := n; k >= 0; k-- {
			stopped[at+k] = running[k] < paused[k]
			go1, go2 := math.Inf(1), math.Inf(1)
			if k > 0 {
				go1 = running[k-1] + cost
				go2 = math.Min(paused[k-1], running[k-1]) + cost
				if k > 1 { // the first slot is a start, no resumption
					go2 = paused[k-1] + cost + cl.restart*e.m.perKWh(int(tb.at[t]), t)
				}
			}
			resumed[at+k] = go2 < go1
			paused[k] = math.Min(paused[k], running[k])
			running[k] = math.Min(go1, go2)
		}
	}
	best := math.Min(paused[n], running[n])
	if math.IsInf(best, 1) {
		return 0, false
	}
	// Walk back: is it running in slot t with k slots done?
	k, run := n, running[n] < paused[n]
	for t := last - 1; t >= from && k > 0; t-- {
		at := (t - from) * (n + 1)
		if run {
			e.parts = append(e.parts, Part{int32(t), tb.at[t], 0, 1})
			run = !resumed[at+k]
			k--
			continue
		}
		run = stopped[at+k]
	}
	slices.Reverse(e.parts)
	return best * jb.size, true
}

// fewSlots is the number of slots up to which the cheapest are kept in order.
const fewSlots = 32

// keep inserts x into the n cheapest.
func keep(kept []increment, x increment, n int) []increment {
	if len(kept) == n {
		if n == 0 || x.density >= kept[n-1].density {
			return kept
		}
		kept = kept[:n-1]
	}
	i := len(kept)
	kept = append(kept, x)
	for ; i > 0 && kept[i-1].density > x.density; i-- {
		kept[i] = kept[i-1]
	}
	kept[i] = x
	return kept
}

func (e *Pricer) pickTimed(jb *job, cl *class, tb *table) (float64, bool) {
	from, last := int(jb.arrival), int(jb.last)
	rest := cl.slots - 1
	kept, sum := e.pool[:0], 0.0
	best, at := math.Inf(1), -1
	for t := last - 1; t >= from; t-- {
		if math.IsInf(tb.cost[t], 1) {
			continue
		}
		if len(kept) == rest {
			if v := jb.size*(sum+tb.cost[t]) + e.m.startCost(jb, cl.slots, t); v < best {
				best, at = v, t
			}
		}
		if rest > 0 {
			before := 0.0
			if len(kept) == rest {
				before = kept[rest-1].density
			}
			if len(kept) < rest || tb.cost[t] < before {
				kept = keep(kept, increment{density: tb.cost[t], slot: int32(t)}, rest)
				sum = 0 // anew: a slot without capacity costs so much that a running sum keeps its rounding
				for _, k := range kept {
					sum += k.density
				}
			}
		}
	}
	if at < 0 {
		return 0, false
	}
	kept = kept[:0]
	for t := at + 1; t < last; t++ {
		if math.IsInf(tb.cost[t], 1) {
			continue
		}
		kept = keep(kept, increment{density: tb.cost[t], slot: int32(t)}, rest)
	}
	e.pool = kept
	e.parts = append(e.parts, Part{int32(at), tb.at[at], 0, 1})
	for _, k := range kept {
		e.parts = append(e.parts, Part{k.slot, tb.at[k.slot], 0, 1})
	}
	slices.SortFunc(e.parts, func(a, b Part) int { return int(a.Slot - b.Slot) })
	return best, true
}
