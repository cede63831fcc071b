package relax

import (
	"math"
	"slices"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Part is the use of a slot by a schedule: Scale (an index into the job's scales)
// for Fraction of slot Slot.
type Part struct {
	Slot, Cluster, Scale int32
	Fraction             float64
}

// Pricer holds the tables of one vector of prices and finds best responses to it.
// It is not safe for concurrent use; a Model may have many.
type Pricer struct {
	m      *Model
	price  []float64 // unit cost of every row, price of its capacity included
	tables [][]table // by lane, by choice
	// theta is the last threshold of each elastic job: the next is near.
	theta []float64
	hint  float64
	diff  []float64
	parts []Part
	best  []Part
	// run sums: of price and of price less power by row, of perWatt by cluster.
	priceSum, bareSum, wattSum []float64
	pool                       []increment
	// rounding is how far the run sums may be off, over all rigid jobs.
	rounding float64
	steps    []plan.Step
	// of threshold
	lo    float64
	taken []increment
	share float64
	// corners is the scratch of partsOf: by slot the corner reached, -1 none.
	corners []int32
	empty   *Room // nothing placed: where large jobs fit
	// of PlaceIn
	scratch  table
	cutHulls []hull
}

// table is what jobs of a class may do with one choice of clusters: the cheapest
// cost of a slot (of a run beginning in it, for rigid jobs) and its cluster.
type table struct {
	cost []float64
	at   []int32
	// least[t] is the least cost of a run from t on.
	least []float64
	// hulls are those of each slot where the cost is not proportional to one
	// number a slot: power of their own.
	hulls []hull
	where [][]int32 // cluster of each corner
	// limit is how many scales of a job fit in each slot, where room is limited.
	limit []int32
}

type increment struct {
	density, work float64
	slot, corner  int32
}

// NewPricer returns a pricer of m at prices zero.
func NewPricer(m *Model) *Pricer {
	e := &Pricer{m: m, price: make([]float64, len(m.unit)), tables: make([][]table, len(m.lanes)), diff: make([]float64, m.M*m.R*(m.T+1)), priceSum: make([]float64, m.M*m.R*(m.T+1)), wattSum: make([]float64, m.M*(m.T+1))}
	for k := range m.lanes {
		cl := &m.classes[m.lanes[k].class]
		if cl.watts != nil && e.bareSum == nil {
			e.bareSum = make([]float64, len(e.priceSum))
		}
		n := len(cl.choices)
		if cl.kind == workload.Rigid {
			n = min(n, 1)
		}
		e.tables[k] = make([]table, n)
		for i := range e.tables[k] {
			e.tables[k][i] = table{cost: make([]float64, m.T), at: make([]int32, m.T)}
			if cl.kind == workload.Rigid {
				e.tables[k][i].least = make([]float64, m.T)
			}
			if cl.kind == workload.Elastic && cl.watts != nil {
				e.tables[k][i].hulls = make([]hull, m.T)
				e.tables[k][i].where = make([][]int32, m.T)
			}
		}
	}
	e.theta = make([]float64, len(m.jobs))
	return e
}

// Set computes the tables for prices lambda of all rows.
//
// Complexity: O(lanes x clusters x resources x slots that jobs of the lane may use).
func (e *Pricer) Set(lambda []float64) {
	for i, u := range e.m.unit {
		e.price[i] = u + lambda[i]
	}
	e.sums()
	for k := range e.m.lanes {
		l := &e.m.lanes[k]
		cl := &e.m.classes[l.class]
		switch {
		case len(cl.choices) == 0:
		case cl.kind == workload.Rigid:
			e.runs(cl, l, &e.tables[k][0])
		case cl.kind == workload.Elastic && cl.watts != nil:
			for i, set := range cl.choices {
				e.hulls(cl, l, set, &e.tables[k][i])
			}
		default:
			for i, set := range cl.choices {
				e.slots(cl, l, set, &e.tables[k][i])
			}
		}
	}
}

// runs tabulates the cheapest cluster for a run that begins in each slot; one that
// would pass the horizon is cut off there.
func (e *Pricer) runs(cl *class, l *lane, tb *table) {
	m, T := e.m, e.m.T
	for i, set := range cl.choices {
		c := set[0]
		if len(cl.need) == 1 && cl.watts == nil { // the common case, without calls
			at := (c*m.R + cl.need[0].resource) * (T + 1)
			sum := e.priceSum[at : at+T+1]
			for t := l.from; t < l.last; t++ {
				if v := sum[min(T, t+cl.slots)] - sum[t]; i == 0 || v < tb.cost[t] {
					tb.cost[t], tb.at[t] = v, int32(c)
				}
			}
			continue
		}
		for t := l.from; t < l.last; t++ {
			if v := e.runCost(cl, c, t); i == 0 || v < tb.cost[t] {
				tb.cost[t], tb.at[t] = v, int32(c)
			}
		}
	}
	least := math.Inf(1)
	for t := l.last - 1; t >= l.from; t-- {
		least = math.Min(least, tb.cost[t])
		tb.least[t] = least
	}
}

// runCost is the cost of a run of a rigid job of class cl and size 1 that begins
// in slot t on cluster c.
//
// Complexity: O(resources).
func (e *Pricer) runCost(cl *class, c, t int) float64 {
	m, T := e.m, e.m.T
	end, cost := min(T, t+cl.slots), 0.0
	sums := e.priceSum
	if cl.watts != nil {
		sums = e.bareSum
		cost = cl.watts[0] * (e.wattSum[c*(T+1)+end] - e.wattSum[c*(T+1)+t])
	}
	for _, d := range cl.need {
		at := (c*m.R + d.resource) * (T + 1)
		cost += d.amount * (sums[at+end] - sums[at+t])
	}
	return cost
}

// sumRounding is the relative error of a difference of run sums: a few units in the
// last place of the largest of them.
const sumRounding = 0x1p-50

// sums prepares the run sums for the prices set.
func (e *Pricer) sums() {
	m, T := e.m, e.m.T
	e.rounding = 0
	for cr := range m.M * m.R {
		largest := 0.0
		s := e.priceSum[cr*(T+1) : (cr+1)*(T+1)]
		for t, v := range e.price[cr*T : (cr+1)*T] {
			s[t+1] = s[t] + v
			largest = math.Max(largest, math.Abs(s[t+1]))
		}
		e.rounding += sumRounding * largest * m.rigid[cr%m.R]
	}
	if e.bareSum == nil {
		return
	}
	for cr := range m.M * m.R {
		s := e.bareSum[cr*(T+1) : (cr+1)*(T+1)]
		for t := range T {
			row := cr*T + t
			s[t+1] = s[t] + e.price[row] - m.unit[row] + m.perUnit[row]
		}
	}
	for c := range m.M {
		s := e.wattSum[c*(T+1) : (c+1)*(T+1)]
		for t, v := range m.perWatt[c*T : (c+1)*T] {
			s[t+1] = s[t] + v
		}
		e.rounding += sumRounding * s[T] * m.rigidWatts
	}
}

func (e *Pricer) slots(cl *class, l *lane, set []int, tb *table) {
	for i, c := range set {
		for t := l.from; t < l.last; t++ {
			if v := e.m.slotCost(cl, e.price, c, t, 0); i == 0 || v < tb.cost[t] {
				tb.cost[t], tb.at[t] = v, int32(c)
			}
		}
	}
}

// hulls tabulates, for jobs with a power of their own, the hull of every slot: the
// cheapest cluster of each scale, then the corners.
func (e *Pricer) hulls(cl *class, l *lane, set []int, tb *table) {
	where := make([]int32, cl.scales)
	for t := l.from; t < l.last; t++ {
		e.steps = e.steps[:0]
		from, before := 0, 0.0
		for i, work := range cl.curve {
			cost := math.Inf(1)
			for _, c := range set {
				if v := e.m.slotCost(cl, e.price, c, t, i); v < cost {
					cost, where[i] = v, int32(c)
				}
			}
			to := cl.minimum + i
			e.steps = append(e.steps, plan.Step{From: from, To: to, Work: work, Watts: cost - before})
			from, before = to, cost
		}
		tb.hulls[t] = hullOf(&tb.hulls[t], e.steps)
		tb.where[t] = tb.where[t][:0]
		for _, s := range tb.hulls[t].scale {
			tb.where[t] = append(tb.where[t], where[s])
		}
	}
}

// Lagrangian returns L(lambda), less what rounding may have added to it, and, in use, how much of every row the best
// responses ask for.
//
// Complexity: O(lanes x clusters x resources x slots + jobs x window), times the
// number of clusters for jobs that may pause and may not migrate.
func (e *Pricer) Lagrangian(lambda, use []float64) float64 {
	e.Set(lambda)
	m := e.m
	clear(e.diff)
	total := 0.0
	for j := range m.jobs {
		jb := &m.jobs[j]
		cl := &m.classes[jb.class]
		if cl.kind == workload.Rigid && !jb.large {
			cost, t, c := e.run(jb, cl)
			total += cost
			if t >= 0 {
				for _, d := range cl.need {
					at := (c*m.R + d.resource) * (m.T + 1)
					e.diff[at+t] += jb.size * d.amount
					e.diff[at+min(m.T, t+cl.slots)] -= jb.size * d.amount
				}
			}
			continue
		}
		if cl.kind == workload.Elastic && len(cl.choices) == 1 && !jb.large { // without making parts
			tb := &e.tables[cl.lane][0]
			cost, ok := e.threshold(j, jb, cl, tb)
			if shed := cl.shed * jb.size; !ok || cost >= shed {
				total += shed
				continue
			}
			total += cost
			e.demandOf(jb, cl, tb)
			continue
		}
		cost, parts := e.Best(j)
		total += cost
		for _, s := range parts {
			amount := jb.size * s.Fraction * float64(cl.minimum+int(s.Scale)) / float64(cl.minimum)
			for _, d := range cl.need {
				at := (int(s.Cluster)*m.R+d.resource)*(m.T+1) + int(s.Slot)
				e.diff[at] += amount * d.amount
				e.diff[at+1] -= amount * d.amount
			}
		}
	}
	for cr := range m.M * m.R {
		sum := 0.0
		for t := range m.T {
			sum += e.diff[cr*(m.T+1)+t]
			use[cr*m.T+t] = sum
		}
	}
	for i, l := range lambda {
		if l != 0 {
			total -= l * m.Cap[i]
		}
	}
	return total - e.rounding
}

// run is the best response of a rigid job: its cost, first slot (-1: left out) and
// cluster.
func (e *Pricer) run(jb *job, cl *class) (cost float64, slot, cluster int) {
	best, at := cl.shed*jb.size, -1
	if len(cl.choices) == 0 {
		return best, -1, 0
	}
	tb := &e.tables[cl.lane][0]
	last := int(jb.last)
	if !e.m.cutOff() {
		last = last - cl.slots + 1
	}
	if e.m.timed() {
		z2, z3, onTime, soon, deadline := jb.weight*e.m.terms.Z[1], jb.weight*e.m.terms.Z[2], e.m.onTime, e.m.soon, int(jb.deadline)
		slots := min(cl.slots, e.m.longest)
		for t := int(jb.arrival); t < last; t++ {
			end := t + slots
			gain := z2*onTime[max(0, end-deadline)] + z3*soon[end]
			if v := jb.size*tb.cost[t] - gain; v < best {
				best, at = v, t
			}
			if jb.size*tb.least[t]-gain >= best { // the gain only falls from here on
				break
			}
		}
	} else if int(jb.arrival) < last {
		least := best / jb.size
		for t, v := range tb.cost[jb.arrival:last] {
			if v < least {
				least, at = v, int(jb.arrival)+t
			}
		}
		best = least * jb.size
	}
	if at < 0 {
		return best, -1, 0
	}
	return best, at, int(tb.at[at])
}

// cutOff reports whether a rigid run may be cut off by the horizon.
func (m *Model) cutOff() bool { return m.P.Objective.Kind == plan.MOSP }

// Best returns the cheapest schedule of job j at the prices set and its cost; no
// parts where leaving it out is cheaper. The parts are valid until the next call.
// Every part of an elastic or interruptible schedule is charged for its fraction:
// the schedule is one of the relaxation.
func (e *Pricer) Best(j int) (cost float64, parts []Part) {
	m := e.m
	jb := &m.jobs[j]
	cl := &m.classes[jb.class]
	if jb.large {
		if e.empty == nil {
			e.empty = NewRoom(m)
		}
		if cost, parts, ok := e.PlaceIn(j, e.empty); ok && cost < cl.shed*jb.size {
			return cost, parts
		}
		return cl.shed * jb.size, nil
	}
	if cl.kind == workload.Rigid {
		cost, t, c := e.run(jb, cl)
		e.best = e.best[:0]
		if t >= 0 {
			for s := t; s < min(m.T, t+cl.slots); s++ {
				e.best = append(e.best, Part{int32(s), int32(c), 0, 1})
			}
		}
		return cost, e.best
	}
	best := cl.shed * jb.size
	e.best = e.best[:0]
	for i := range e.tables[cl.lane] {
		var v float64
		var ok bool
		if cl.kind == workload.Interruptible {
			v, ok = e.pick(jb, cl, &e.tables[cl.lane][i])
		} else {
			v, ok = e.scale(j, jb, cl, &e.tables[cl.lane][i])
		}
		if ok && v < best {
			best = v
			e.best, e.parts = e.parts, e.best
		}
	}
	return best, e.best
}

// pick takes the cheapest slots for an interruptible job, the dearest for the part
// that is needed. Where the start has a cost, every start is tried with the
// cheapest slots after it.
//
// Complexity: O(window) on average; O(window x slots) where the start or a restart costs.
func (e *Pricer) pick(jb *job, cl *class, tb *table) (float64, bool) {
	from, last := int(jb.arrival), int(jb.last)
	if last-from < cl.slots {
		return 0, false
	}
	e.parts = e.parts[:0]
	if e.m.timed() {
		return e.pickTimed(jb, cl, tb)
	}
	if cl.restart > 0 && cl.length == float64(cl.slots) && e.m.terms.Carbon > 0 {
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
// slots by slot t, running in it or not. Moves between clusters are not charged here.
//
// Complexity: O(window x slots).
func (e *Pricer) pickRuns(jb *job, cl *class, tb *table) (float64, bool) {
	from, last, n := int(jb.arrival), int(jb.last), cl.slots
	window := last - from
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
				sum += tb.cost[t] - before
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

// scale takes the steps of scale of least cost per work until the work is done: one
// threshold on the density over all slots of the window, shared in time in the
// last. The search starts near the threshold of the last prices.
//
// Complexity: O(window log scales + steps near the threshold).
func (e *Pricer) scale(j int, jb *job, cl *class, tb *table) (float64, bool) {
	cost, ok := e.threshold(j, jb, cl, tb)
	if ok {
		e.partsOf(cl, tb, int(jb.arrival), int(jb.last))
	}
	return cost, ok
}

// near is the relative width of the first bracket around a threshold.
const near = 0.03

// threshold leaves the schedule it finds in e.lo (all steps of a density up to it are
// taken), e.taken (steps above, in no order, the last one in part) and e.share.
func (e *Pricer) threshold(j int, jb *job, cl *class, tb *table) (float64, bool) {
	from, last := int(jb.arrival), int(jb.last)
	work := cl.length * cl.curve[0]
	if e.theta[j] == 0 {
		e.theta[j] = e.guess(cl, tb, from, last, work)
	}
	lo, hi := e.theta[j]*(1-near), e.theta[j]*(1+near)
	var below, cost float64
	for {
		var within float64
		below, cost, within = e.bracket(cl, tb, from, last, lo, hi)
		if below < work && below+within >= work*(1-1e-12) {
			break
		}
		switch {
		case below >= work:
			hi, lo = lo, lo*0.7
			if lo < 1e-300 {
				lo = -1
			}
		case math.IsInf(hi, 1):
			return 0, false // the window does not hold the work
		case hi < 1e-300:
			lo, hi = -1, math.Inf(1)
		default:
			if lo, hi = hi, hi*1.5; hi > math.MaxFloat64/16 {
				hi = math.Inf(1)
			}
		}
	}
	n, left := selectWork(e.pool, work-below)
	e.lo, e.taken = lo, e.pool[:n]
	for _, x := range e.taken[:n-1] {
		cost += x.work * x.density
	}
	x := e.taken[n-1]
	e.share = math.Min(1, left/x.work)
	cost += e.share * x.work * x.density
	e.theta[j], e.hint = x.density, x.density
	return cost * jb.size, true
}

// guessSlots is how many slots of a long window a guess looks at.
const guessSlots = 96

// guess finds a threshold near the one that does the work, from the last one found by
// whole powers and then halves of a power, on a sample of the slots.
func (e *Pricer) guess(cl *class, tb *table, from, last int, work float64) float64 {
	stride := 1 + (last-from)/guessSlots
	done := func(d float64) float64 {
		sum := 0.0
		for t := from; t < last; t += stride {
			h, scale := e.slotHull(cl, tb, t)
			if a := h.upTo(ratio(d, scale)); a > 0 {
				sum += h.work[a-1]
			}
		}
		return sum * float64(stride)
	}
	at := e.hint
	if at == 0 {
		for t := from; t < last; t++ {
			if h, scale := e.slotHull(cl, tb, t); len(h.density) > 0 {
				at = math.Max(at, scale*h.density[0])
			}
		}
	}
	if at == 0 {
		return 0
	}
	const most = 60 // powers of two
	lo, hi := at, at
	for i := 0; i < most && done(lo) >= work; i++ {
		hi, lo = lo, lo/2
	}
	for i := 0; i < most && done(hi) < work; i++ {
		lo, hi = hi, hi*2
	}
	for hi > lo*(1+near) {
		mid := math.Sqrt(lo * hi)
		if done(mid) < work {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// bracket returns the work and the cost of all steps of a density up to lo and the
// work of those up to hi, which it puts in the pool.
func (e *Pricer) bracket(cl *class, tb *table, from, last int, lo, hi float64) (below, cost, within float64) {
	e.pool = e.pool[:0]
	for t := from; t < last; t++ {
		h, scale := e.slotHull(cl, tb, t)
		a := h.upTo(ratio(lo, scale))
		done := 0.0
		if a > 0 {
			done = h.work[a-1]
			below += done
			cost += scale * h.cost[a-1]
		}
		for i := a; i < len(h.density); i++ {
			d := scale * h.density[i]
			if d > hi {
				break
			}
			w := h.work[i] - done
			done = h.work[i]
			within += w
			e.pool = append(e.pool, increment{d, w, int32(t), int32(i)})
		}
	}
	return below, cost, within
}

// before is the order in which steps are taken.
func (a *increment) before(b *increment) bool {
	if a.density != b.density {
		return a.density < b.density
	}
	if a.slot != b.slot {
		return a.slot < b.slot
	}
	return a.corner < b.corner
}

// selectWork reorders steps so that the first n of them, the last in part, do the
// work; left is what the last of them has to do. It needs at least one step.
//
// Complexity: O(steps) on average.
func selectWork(x []increment, work float64) (n int, left float64) {
	from, to := 0, len(x)
	for to-from > 1 {
		// The median of three as pivot, then a partition.
		mid := from + (to-from)/2
		a, b, c := &x[from], &x[mid], &x[to-1]
		p := b
		switch {
		case a.before(b) != a.before(c):
			p = a
		case c.before(a) != c.before(b):
			p = c
		}
		pivot := *p
		i, k, sum := from, to-1, 0.0
		for {
			for x[i].before(&pivot) {
				sum += x[i].work
				i++
			}
			for pivot.before(&x[k]) {
				k--
			}
			if i >= k {
				break
			}
			x[i], x[k] = x[k], x[i]
		}
		// x[i] is the pivot: no two steps are equal in order.
		switch {
		case sum >= work:
			to = i
		case sum+x[i].work >= work || i == to-1:
			return i + 1, work - sum
		default:
			work -= sum + x[i].work
			from = i + 1
		}
	}
	return from + 1, work
}

func ratio(a, b float64) float64 {
	if b == 0 {
		if a >= 0 {
			return math.Inf(1)
		}
		return -1
	}
	return a / b
}

func (e *Pricer) slotHull(cl *class, tb *table, t int) (*hull, float64) {
	if tb.hulls != nil {
		return &tb.hulls[t], 1
	}
	if tb.limit != nil && int(tb.limit[t]) < cl.scales {
		return cl.truncated(int(tb.limit[t])), tb.cost[t]
	}
	return &cl.hull, tb.cost[t]
}

// partsOf writes the parts of the schedule that threshold found, in order of slots, the
// larger of a shared slot first: it counts against capacity.
func (e *Pricer) partsOf(cl *class, tb *table, from, last int) {
	e.parts = e.parts[:0]
	e.corners = e.corners[:0]
	for t := from; t < last; t++ {
		h, scale := e.slotHull(cl, tb, t)
		e.corners = append(e.corners, int32(h.upTo(ratio(e.lo, scale))-1))
	}
	n := len(e.taken) - 1
	for _, x := range e.taken[:n] {
		at := &e.corners[int(x.slot)-from]
		*at = max(*at, x.corner)
	}
	shared, share := e.taken[n], e.share
	for t := from; t < last; t++ {
		h, _ := e.slotHull(cl, tb, t)
		corner := e.corners[t-from]
		if t != int(shared.slot) {
			if corner >= 0 {
				e.parts = append(e.parts, e.corner(h, tb, t, int(corner), 1))
			}
			continue
		}
		e.parts = append(e.parts, e.corner(h, tb, t, int(shared.corner), share))
		if corner >= 0 && share < 1 {
			e.parts = append(e.parts, e.corner(h, tb, t, int(corner), 1-share))
		}
	}
}

// demandOf adds the use of the schedule that threshold found.
func (e *Pricer) demandOf(jb *job, cl *class, tb *table) {
	workers := func(h *hull, corner int) float64 {
		if corner < 0 {
			return 0
		}
		return float64(cl.minimum+int(h.scale[corner])) / float64(cl.minimum)
	}
	for t := int(jb.arrival); t < int(jb.last); t++ {
		h, scale := e.slotHull(cl, tb, t)
		if a := h.upTo(ratio(e.lo, scale)); a > 0 {
			e.ask(cl, tb, t, a-1, jb.size*workers(h, a-1))
		}
	}
	for i, x := range e.taken {
		f := jb.size
		if i == len(e.taken)-1 {
			f *= e.share
		}
		h, _ := e.slotHull(cl, tb, int(x.slot))
		if tb.where != nil && x.corner > 0 { // the corner below may be on another cluster
			e.ask(cl, tb, int(x.slot), int(x.corner)-1, -f*workers(h, int(x.corner)-1))
			e.ask(cl, tb, int(x.slot), int(x.corner), f*workers(h, int(x.corner)))
			continue
		}
		e.ask(cl, tb, int(x.slot), int(x.corner), f*(workers(h, int(x.corner))-workers(h, int(x.corner)-1)))
	}
}

func (e *Pricer) ask(cl *class, tb *table, t, corner int, amount float64) {
	c := tb.at[t]
	if tb.where != nil {
		c = tb.where[t][corner]
	}
	for _, d := range cl.need {
		at := (int(c)*e.m.R+d.resource)*(e.m.T+1) + t
		e.diff[at] += amount * d.amount
		e.diff[at+1] -= amount * d.amount
	}
}

func (e *Pricer) corner(h *hull, tb *table, t, corner int, f float64) Part {
	c := tb.at[t]
	if tb.where != nil {
		c = tb.where[t][corner]
	}
	return Part{int32(t), c, h.scale[corner], f}
}
