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
	e := NewPricer(m)
	out := Exact{Bound: math.Inf(-1), Lambda: make([]float64, len(m.Cap))}
	capacity := make([]float64, len(m.Cap))
	scale := make([]float64, len(m.Cap))
	for i, c := range m.Cap {
		// A different, tiny slack in every row keeps ties from cycling.
		scale[i] = math.Max(c, 1)
		h := uint32(i+1) * 2654435761
		capacity[i] = c/scale[i] + 1e-7*(1+float64(h>>16)/65536)
	}
	// The first columns: a plan built at the first prices, jobs without a place left out.
	keys := make([]column, len(m.jobs))
	for j := range m.jobs {
		cl := &m.classes[m.jobs[j].class]
		keys[j] = column{set: int32(j), cost: cl.shed * m.jobs[j].size, id: -1}
	}
	lambda := make([]float64, len(m.Cap))
	if start != nil {
		copy(lambda, start)
	}
	e.Set(lambda)
	room := NewRoom(m)
	order := make([]int, len(m.jobs))
	for j := range order {
		order[j] = j
	}
	sort.SliceStable(order, func(a, b int) bool { return m.Size(order[a]) > m.Size(order[b]) })
	for _, j := range order {
		if _, parts, ok := e.PlaceIn(j, room); ok {
			room.Take(j, parts, 1)
			keys[j] = m.column(j, parts, scale)
			keys[j].id = int32(len(out.patterns))
			out.patterns = append(out.patterns, append([]Part(nil), parts...))
		}
	}
	s := newSimplex(capacity, keys)
	use := make([]float64, len(m.Cap))
	type candidate struct {
		col column
		d   float64
	}
	var candidates []candidate
	last := 0
	at, pull := make([]float64, len(m.Cap)), 0.0
	for {
		if err := ctx.Err(); err != nil {
			out.finish(s)
			return out, err
		}
		out.Rounds++
		for i := range at {
			at[i] = pull*out.Lambda[i] + (1-pull)*lambda[i]
		}
		if bound := e.Lagrangian(at, use); bound > out.Bound {
			out.Bound = bound
			copy(out.Lambda, at)
		}
		value := s.value()
		if out.Rounds > 1 && value-out.Bound <= tolerance*math.Abs(out.Bound) {
			break
		}
		candidates = candidates[:0]
		for j := range m.jobs {
			_, parts := e.Best(j)
			col := m.column(j, parts, scale)
			d := s.reduced(&col)
			if d < -1e-12*math.Max(1, math.Abs(col.cost)) || (out.Rounds == 1 && len(parts) > 0) {
				col.id = int32(len(out.patterns))
				out.patterns = append(out.patterns, append([]Part(nil), parts...))
				candidates = append(candidates, candidate{col, d})
			}
		}
		sort.SliceStable(candidates, func(a, b int) bool { return candidates[a].d < candidates[b].d })
		moved := false
		for i := range candidates {
			q := &candidates[i].col
			if s.reduced(q) < -1e-10*math.Max(1e-6, math.Abs(q.cost)) {
				moved = s.enter(q, 0) || moved
			}
			for k := 0; k < 4; k++ { // slacks whose price turned negative
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
			if s.pivots-last > 800 {
				last = s.pivots
				if !s.refactor() {
					out.finish(s)
					return out, nil
				}
			}
		}
		switch {
		case moved:
			pull = firstPull
		case pull > 0.05:
			pull /= 2
		case pull > 0:
			pull = 0
		default:
			out.finish(s)
			return out, nil
		}
		s.prices(lambda)
		for i := range lambda {
			lambda[i] = m.Bounded(i, lambda[i]/scale[i])
		}
	}
	out.finish(s)
	return out, nil
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

func (out *Exact) finish(s *simplex) {
	out.Value, out.Pivots, out.shares = s.value(), s.pivots, s.shares()
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
