package relax

import (
	"math"

	"lull.dev/lull/pkg/capacity"
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
	// brackets counts the passes over windows in search of thresholds.
	brackets int
	// Looked counts the slots, and the states of slots, that were looked at: the work done. A caller may add its own.
	Looked int64
	// corners is the scratch of partsOf: by slot the corner reached, -1 none.
	corners []int32
	empty   *Room // nothing placed: where large jobs fit
	runsOf  plan.Runs
	// of starts
	rigid []int32
	start []int32 // by job: the cheapest slot to begin in, -1 for none
	stack []int32
	// of PlaceIn
	scratch  table
	blocked  []int32 // by choice: no run fits before
	fitting  []int32 // by choice: from the start under way on, all slots before have room
	cutHulls []hull
	picker   picker
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
	e.Looked += int64(len(e.price))
	for k := range e.m.lanes {
		l := &e.m.lanes[k]
		cl := &e.m.classes[l.class]
		e.Looked += int64(e.m.tabulating(l))
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
			at := (c*m.R + cl.need[0].Resource()) * (T + 1)
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
		if v := tb.cost[t]; v < least {
			least = v
		}
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
		at := (c*m.R + d.Resource()) * (T + 1)
		cost += d.Amount() * (sums[at+end] - sums[at+t])
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
			largest = max(largest, math.Abs(s[t+1]))
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

// Lagrangian returns L(lambda), less what rounding may have added to it, and, in use,
// how much of every row the best responses ask for.
//
// Complexity: O(lanes x clusters x resources x slots + jobs x window), times the
// number of clusters for jobs that may pause and may not migrate. Of a rigid job O(log window),
// unless the moment at which it begins has a cost.
func (e *Pricer) Lagrangian(lambda, use []float64) float64 {
	e.Set(lambda)
	m := e.m
	if e.start == nil {
		e.start, e.rigid = make([]int32, len(m.jobs)), m.runJobs()
	}
	e.starts()
	e.Looked += int64(len(m.jobs) + len(use))
	clear(e.diff)
	total := 0.0
	for j := range m.jobs {
		jb := &m.jobs[j]
		cl := &m.classes[jb.class]
		if cl.kind == workload.Rigid && !jb.large {
			cost, t, c := e.started(j)
			total += cost
			if t >= 0 {
				for _, d := range cl.need {
					at := (c*m.R + d.Resource()) * (m.T + 1)
					e.diff[at+t] += jb.size * d.Amount()
					e.diff[at+min(m.T, t+cl.slots)] -= jb.size * d.Amount()
				}
			}
			continue
		}
		if cl.kind == workload.Elastic && len(cl.choices) == 1 && !jb.large && jb.begun == nil { // without making parts
			tb := &e.tables[cl.lane][0]
			cost, ok := e.threshold(j, jb, cl, tb, cl.length)
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
				at := (int(s.Cluster)*m.R+d.Resource())*(m.T+1) + int(s.Slot)
				e.diff[at] += amount * d.Amount()
				e.diff[at+1] -= amount * d.Amount()
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

// Proven is the lower bound on the cost of every plan that bound, L(lambda), proves: less what a plan may use of the
// capacities beyond themselves through rounding, which counts where prices are high.
//
// Complexity: O(clusters x resources x slots).
func (m *Model) Proven(lambda []float64, bound float64) float64 {
	for i, l := range lambda {
		bound -= l * (capacity.Usable(m.Cap[i]) - m.Cap[i])
	}
	return bound
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
	e.Looked += int64(max(0, last-int(jb.arrival)))
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
	if jb.begun != nil {
		return e.bestBegun(j, jb, cl)
	}
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
			v, ok = e.scale(j, jb, cl, &e.tables[cl.lane][i], cl.length)
		}
		if ok && v < best {
			best = v
			e.best, e.parts = e.parts, e.best
		}
	}
	return best, e.best
}
