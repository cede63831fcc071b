package relax

import (
	"context"
	"math"
	"sort"

	"lull.dev/lull/pkg/workload"
)

// Exact is the linear relaxation solved to optimality.
type Exact struct {
	// Lambda are the prices; Bound is L at them.
	Lambda []float64
	Bound  float64
	// Value is that of the fractional solution.
	Value float64
	// Pivots counts the steps of the simplex method, Rounds the pricings.
	Pivots, Rounds int

	patterns [][]Part
	shares   [][]share
}

// firstPull is how far pricing leans to the prices of the best bound: those of the
// restricted program swing (smoothing; Wentges 1997).
const firstPull = 0.95

// Solve solves the linear program over patterns by column generation: the best
// response of every job to the prices of the restricted program is priced in until
// none saves anything, or tolerance relative to the bound is reached. It begins at
// start, prices of a first guess, or nil.
//
// Errors: that of ctx; the solution so far comes with it.
func Solve(ctx context.Context, m *Model, start []float64, tolerance float64) (Exact, error) {
	g := newGeneration(m, start)
	for {
		if err := ctx.Err(); err != nil {
			return g.finish(), err
		}
		if g.bound(tolerance) {
			return g.finish(), nil
		}
		moved, sound := g.enter(g.price())
		if !sound || !g.leanTo(moved) {
			return g.finish(), nil
		}
	}
}

// generation is column generation under way: the restricted program has the schedules (columns) found so far.
type generation struct {
	m       *Model
	pricer  *Pricer
	program *simplex
	out     Exact
	// scale of each row: the program has shares of it, so that its numbers are near 1.
	scale []float64
	// lambda are the prices of the restricted program; pricing is done at, which lies between them and those of the best
	// bound: at = pull x out.Lambda + (1 - pull) x lambda.
	lambda, at []float64
	pull       float64
	use        []float64
	candidates []candidate
	refactored int // pivots when the basis was last inverted anew
}

// candidate is a column with its reduced cost: below 0, it saves.
type candidate struct {
	column  column
	reduced float64
}

func newGeneration(m *Model, start []float64) *generation {
	rows := len(m.Cap)
	g := &generation{
		m: m, pricer: NewPricer(m), out: Exact{Bound: math.Inf(-1), Lambda: make([]float64, rows)},
		scale: make([]float64, rows), lambda: make([]float64, rows), at: make([]float64, rows), use: make([]float64, rows),
	}
	capacity := make([]float64, rows)
	for i, c := range m.Cap {
		// A different, tiny slack in every row keeps ties from cycling.
		g.scale[i] = math.Max(c, 1)
		h := uint32(i+1) * 2654435761
		capacity[i] = c/g.scale[i] + 1e-7*(1+float64(h>>16)/65536)
	}
	if start != nil {
		copy(g.lambda, start)
	}
	g.pricer.Set(g.lambda)
	g.program = newSimplex(capacity, g.firstColumns())
	return g
}

// firstColumns is a plan built at the first prices, the largest jobs first; jobs without a place are left out.
func (g *generation) firstColumns() []column {
	m := g.m
	keys, order := make([]column, len(m.jobs)), make([]int, len(m.jobs))
	for j := range m.jobs {
		cl := &m.classes[m.jobs[j].class]
		keys[j] = column{set: int32(j), cost: cl.shed * m.jobs[j].size, id: -1}
		order[j] = j
	}
	sort.SliceStable(order, func(a, b int) bool { return m.Size(order[a]) > m.Size(order[b]) })
	room := NewRoom(m)
	for _, j := range order {
		if _, parts, ok := g.pricer.PlaceIn(j, room); ok {
			room.Take(j, parts, 1)
			keys[j] = g.keep(m.column(j, parts, g.scale), parts)
		}
	}
	return keys
}

// keep numbers the schedule of a column.
func (g *generation) keep(col column, parts []Part) column {
	col.id = int32(len(g.out.patterns))
	g.out.patterns = append(g.out.patterns, append([]Part(nil), parts...))
	return col
}

// bound takes the Lagrangian bound at the prices, if it is the best so far, and reports whether the program is as good as that.
func (g *generation) bound(tolerance float64) bool {
	g.out.Rounds++
	for i := range g.at {
		g.at[i] = g.pull*g.out.Lambda[i] + (1-g.pull)*g.lambda[i]
	}
	if bound := g.pricer.Lagrangian(g.at, g.use); bound > g.out.Bound {
		g.out.Bound = bound
		copy(g.out.Lambda, g.at)
	}
	return g.out.Rounds > 1 && g.program.value()-g.out.Bound <= tolerance*math.Abs(g.out.Bound)
}

// price returns the best response of each job that saves something, the most first.
func (g *generation) price() []candidate {
	g.candidates = g.candidates[:0]
	for j := range g.m.jobs {
		_, parts := g.pricer.Best(j)
		col := g.m.column(j, parts, g.scale)
		d := g.program.reduced(&col)
		if d < -1e-12*math.Max(1, math.Abs(col.cost)) || (g.out.Rounds == 1 && len(parts) > 0) {
			g.candidates = append(g.candidates, candidate{g.keep(col, parts), d})
		}
	}
	sort.SliceStable(g.candidates, func(a, b int) bool { return g.candidates[a].reduced < g.candidates[b].reduced })
	return g.candidates
}

// enter has columns enter the basis that still save something. It reports whether one did, and whether the basis is sound.
func (g *generation) enter(candidates []candidate) (moved, sound bool) {
	s := g.program
	for i := range candidates {
		q := &candidates[i].column
		if s.reduced(q) < -1e-10*math.Max(1e-6, math.Abs(q.cost)) {
			moved = s.enter(q, 0) || moved
		}
		for range 4 { // slacks whose price turned negative
			worst, at := 1e-10, -1
			for r, v := range s.pi {
				if v > worst {
					worst, at = v, r
				}
			}
			if at < 0 {
				break
			}
			moved = s.enter(nil, at) || moved
		}
		if s.pivots-g.refactored > 800 {
			g.refactored = s.pivots
			if !s.refactor() {
				return moved, false
			}
		}
	}
	return moved, true
}

// leanTo takes the prices of the restricted program, and says how far the next pricing leans to those of the best bound: less each
// time that no column entered. It reports false if none entered at the program's own prices: then none saves anything.
func (g *generation) leanTo(moved bool) bool {
	switch {
	case moved:
		g.pull = firstPull
	case g.pull > 0.05:
		g.pull /= 2
	case g.pull > 0:
		g.pull = 0
	default:
		return false
	}
	g.program.prices(g.lambda)
	for i := range g.lambda {
		g.lambda[i] = g.m.Bounded(i, g.lambda[i]/g.scale[i])
	}
	return true
}

// finish states the solution of the restricted program.
func (g *generation) finish() Exact {
	s := g.program
	g.out.Value, g.out.Pivots, g.out.shares = s.value(), s.pivots, s.shares()
	return g.out
}

// Share is how much of a schedule the fractional solution uses.
type Share struct {
	Amount float64
	Parts  []Part // none: the job is left out
}

// Shares returns the schedules of job j in the solution, the most used first.
func (out *Exact) Shares(j int) []Share {
	list := make([]Share, 0, len(out.shares[j]))
	for _, s := range out.shares[j] {
		var parts []Part
		if s.id >= 0 {
			parts = out.patterns[s.id]
		}
		list = append(list, Share{s.amount, parts})
	}
	return list
}

// column is the column of a schedule of job j.
func (m *Model) column(j int, parts []Part, scale []float64) column {
	jb := &m.jobs[j]
	cl := &m.classes[jb.class]
	col := column{set: int32(j), cost: m.Cost(j, parts)}
	for _, s := range parts {
		amount := jb.size * s.Fraction * float64(cl.minimum+int(s.Scale)) / float64(cl.minimum)
		for _, d := range cl.need {
			row := int32(m.row(int(s.Cluster), d.Resource(), int(s.Slot)))
			u := amount * d.Amount() / scale[row]
			if k := len(col.rows) - 1; k >= 0 && col.rows[k] == row {
				col.use[k] += u
				continue
			}
			col.rows, col.use = append(col.rows, row), append(col.use, u)
		}
	}
	return col
}

// Cost is what a schedule of job j costs without prices of capacity.
func (m *Model) Cost(j int, parts []Part) float64 { return m.costAt(m.unit, j, parts) }

// Priced is what a schedule of job j costs at the prices set.
func (e *Pricer) Priced(j int, parts []Part) float64 { return e.m.costAt(e.price, j, parts) }

func (m *Model) costAt(price []float64, j int, parts []Part) float64 {
	jb := &m.jobs[j]
	cl := &m.classes[jb.class]
	if len(parts) == 0 {
		return cl.shed * jb.size
	}
	cost, first := 0.0, m.T
	for _, s := range parts {
		cost += s.Fraction * m.slotCost(cl, price, int(s.Cluster), int(s.Slot), int(s.Scale))
		first = min(first, int(s.Slot))
	}
	cost += m.overhead(jb, cl, parts)
	if cl.kind == workload.Elastic {
		return cost * jb.size
	}
	return cost*jb.size + m.startCost(jb, cl.slots, first)
}
