// Package relax solves the linear relaxation of a planning problem: a price for
// every resource of every cluster in every slot, a bound on the objective that no
// plan can beat, and the fractions of schedules behind them.
//
// A pattern p of job i is a complete schedule of it with cost c_ip and use u_ip of
// the rows (cluster, resource, slot). With prices lambda >= 0 on the capacity C of
// the rows the problem falls apart by job:
//
//	L(lambda) = sum_i min_p (c_ip + lambda . u_ip) - lambda . C
//
// Any lambda proves that no plan costs less than L(lambda); the largest L is the
// value of the linear program over patterns, at least as tight as the one indexed
// by time. Costs are always minimised here: Caspian's Z enters with its sign turned.
package relax

import (
	"math"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Terms are the weights of what a plan costs.
type Terms struct {
	// Carbon weighs emissions in grams.
	Carbon float64
	// Z weighs the three objectives of Caspian, omega_k / theta_k each; they are
	// gained, not paid.
	Z [3]float64
	// Penalties are those of Caspian's Z2 and Z3; nil takes the paper's.
	Penalties *Penalties
}

// Penalties are the functions by which Caspian divides: gamma of the slots a job
// ends past its deadline (negative: before it), lambda of the slots until its end.
// Both must be at least 1 from the first slot on and never fall.
type Penalties struct {
	Lateness   func(late int) float64
	Completion func(end int) float64
}

// PaperPenalties are gamma = max(1, late) and lambda = end (Caspian, Section II-A).
func PaperPenalties() *Penalties {
	return &Penalties{
		Lateness:   func(late int) float64 { return math.Max(1, float64(late)) },
		Completion: func(end int) float64 { return math.Max(1, float64(end)) },
	}
}

// Model is a problem laid out for pricing. It holds no state of a solution and may
// be shared.
type Model struct {
	P       *plan.Problem
	M, T, R int
	// Cap is the capacity of every row less its load.
	Cap []float64

	terms     Terms
	resources []string
	perWatt   []float64 // cost of one W through slot t on cluster c, [c*T+t]
	perUnit   []float64 // cost of one unit of a row, power apart
	unit      []float64 // cost of one unit of a row, power of the resource included
	classes   []class
	jobs      []job
	// lanes are the classes that differ in what they ask for, one for each table of
	// prices: elastic and interruptible jobs of one request share theirs.
	lanes []lane
	// weights make steps along rows of different resources comparable: by row, the inverse square
	// of the mean capacity of its resource.
	weights []float64
	// rigid and rigidWatts are what rigid jobs ask for together, by resource, and what
	// power they state.
	rigid      []float64
	rigidWatts float64
	// highest is where prices are cut off: far above what any job would pay, and low
	// enough for sums of them to keep their digits. Rows without capacity need none.
	highest float64
	// onTime[x] is gained, times Z[1], by a job that ends x slots past its deadline,
	// soon[x] by one that ends in slot x.
	onTime, soon []float64
	longest      int // run that the terms tell from longer ones
}

// lane is a table of prices: that of a class, over the slots that any job of the lane
// may use.
type lane struct{ class, from, last int }

// job is a job of a class: size times as large, within [arrival, last).
type job struct {
	class         int32
	arrival, last int32
	deadline      int32
	size          float64
	weight        float64 // how many jobs it stands for
	// rest is the part of the last slot that an interruptible job needs where Z counts
	// whole slots, else 0.
	rest float64
	// large jobs do not fit everywhere, even alone: their responses are those that do.
	large bool
	begun *begun // nil if it has not run before
}

// New lays out p under the given terms.
//
// Complexity: O(jobs + clusters x resources x slots).
func New(p *plan.Problem, terms Terms) *Model {
	m := &Model{P: p, M: len(p.Clusters), T: p.Grid.N, terms: terms, resources: p.Resources()}
	m.R = len(m.resources)
	m.Cap = make([]float64, m.M*m.R*m.T)
	m.unit = make([]float64, len(m.Cap))
	m.perUnit = make([]float64, len(m.Cap))
	m.perWatt = make([]float64, m.M*m.T)
	for c := range p.Clusters {
		m.cluster(c)
	}
	m.closeRows()
	m.weigh()
	m.classify()
	if p.Objective.Kind == plan.MOSP {
		for j := range m.jobs {
			if m.classes[m.jobs[j].class].kind == workload.Interruptible {
				if rest := p.Jobs[j].Length - math.Floor(p.Jobs[j].Length); rest > workload.Eps {
					m.jobs[j].rest = rest
				}
			}
		}
	}
	for j := range m.jobs {
		jb := &m.jobs[j]
		l := &m.lanes[m.classes[jb.class].lane]
		l.from, l.last = min(l.from, int(jb.arrival)), max(l.last, int(jb.last))
	}
	m.rigid = make([]float64, m.R)
	for j := range m.jobs {
		if cl := &m.classes[m.jobs[j].class]; cl.kind == workload.Rigid {
			for _, d := range cl.need {
				m.rigid[d.Resource()] += m.jobs[j].size * d.Amount()
			}
			if cl.watts != nil {
				m.rigidWatts += m.jobs[j].size * cl.watts[0]
			}
		}
	}
	for i := range m.classes {
		m.longest = min(longestRun, max(m.longest, m.classes[i].slots))
	}
	if m.timed() {
		penalties := terms.Penalties
		if penalties == nil {
			penalties = PaperPenalties()
		}
		overdue := 0 // the most slots by which a deadline lies before the horizon
		for j := range m.jobs {
			overdue = max(overdue, -int(m.jobs[j].deadline))
		}
		m.soon, m.onTime = make([]float64, m.T+m.longest+1), make([]float64, m.T+m.longest+1+overdue)
		for i := range m.soon {
			m.soon[i] = 1 / penalties.Completion(i)
		}
		for i := range m.onTime {
			m.onTime[i] = 1 / penalties.Lateness(i)
		}
	}
	return m
}

// classify sorts jobs into classes, and classes into lanes.
func (m *Model) classify() {
	p := m.P
	index, lanes := map[string]int32{}, map[string]int{}
	m.jobs = make([]job, len(p.Jobs))
	var key []byte
	for j := range p.Jobs {
		pj := &p.Jobs[j]
		cl, size := m.classOf(j)
		key = cl.key(key[:0], pj)
		at, known := index[string(key)]
		if !known {
			at = int32(len(m.classes))
			index[string(key)] = at
			m.finish(&cl, j)
			cl.room = m.roomOf(&cl)
			if p.Objective.Kind == plan.Carbon {
				cl.shed = m.dearest(&cl)
			}
			key = cl.laneKey(key[:0], pj)
			if _, found := lanes[string(key)]; !found {
				lanes[string(key)] = len(m.lanes)
				m.lanes = append(m.lanes, lane{class: len(m.classes), from: m.T})
			}
			cl.lane = lanes[string(key)]
			m.classes = append(m.classes, cl)
		}
		m.jobs[j] = job{
			class: at, size: size, weight: 1, large: m.large(&m.classes[at], size),
			arrival: int32(min(pj.Arrival, m.T)), last: int32(p.LastSlot(j)), deadline: int32(max(-longestRun, min(pj.Deadline, math.MaxInt32))),
		}
		if pj.Begun != nil {
			m.jobs[j].begun, m.jobs[j].large = m.begunOf(j), false // its best response is a bound as it is
		}
	}
}

func (m *Model) row(c, r, t int) int { return (c*m.R+r)*m.T + t }

func (m *Model) cluster(c int) {
	p, cl := m.P, &m.P.Clusters[c]
	for t := range m.T {
		m.perWatt[c*m.T+t] = m.terms.Carbon * p.Grid.Hours() * cl.PUE * cl.Intensity[t] / 1000
	}
	for r, name := range m.resources {
		rho, stated := cl.Watts[name]
		if !stated {
			rho = 1
		}
		for t := range m.T {
			row := m.row(c, r, t)
			capacity := 0.0
			if v := cl.Capacity[name]; v != nil {
				capacity = v[t]
			}
			left := capacity
			if load := cl.Load[name]; load != nil {
				left -= load[t]
			}
			m.Cap[row] = math.Max(0, left)
			if capacity > 0 && rho > 0 && cl.Intensity[t] > 0 {
				m.perUnit[row] = -m.terms.Z[0] / (capacity * cl.Intensity[t] * rho)
			}
			if price := cl.Price[name]; price != nil {
				m.perUnit[row] += p.Objective.PriceWeight * p.Grid.Hours() * price[t]
			}
			m.unit[row] = m.perUnit[row] + cl.Watts[name]*m.perWatt[c*m.T+t]
		}
	}
}

const highestPrice = 100

// weigh sets the weights.
func (m *Model) weigh() {
	weights := make([]float64, m.R)
	for r := range weights {
		sum, open := 0.0, 0.0
		for c := range m.M {
			for t := range m.T {
				if v := m.Cap[m.row(c, r, t)]; v > 0 {
					sum += v
					open++
				}
			}
		}
		if mean := sum / math.Max(1, open); mean > 0 {
			weights[r] = 1 / (mean * mean)
		}
	}
	m.weights = make([]float64, len(m.Cap))
	for i := range m.weights {
		m.weights[i] = weights[i/m.T%m.R]
	}
}

// Bounded cuts the price of a row off: at least 0, no more than any job would pay, and 0
// for rows without capacity.
func (m *Model) Bounded(row int, price float64) float64 {
	if m.Cap[row] == 0 {
		return 0
	}
	return max(0, min(price, m.highest))
}

// closeRows makes rows without capacity dearer than any other, so that nothing is
// asked of them; no plan uses them, so every bound stays one.
func (m *Model) closeRows() {
	dear := m.terms.Z[1] + m.terms.Z[2]
	for _, u := range m.unit {
		dear = math.Max(dear, math.Abs(u))
	}
	dear *= shedFactor
	m.highest = highestPrice * dear
	for row, c := range m.Cap {
		if c == 0 {
			m.perUnit[row] += dear
			m.unit[row] += dear
		}
	}
}

// overhead is what pauses and moves of a schedule of a job of class cl cost, for a size of 1.
func (m *Model) overhead(jb *job, cl *class, parts []Part) float64 {
	if cl.restart == 0 && cl.move == 0 {
		return 0
	}
	cost := m.beginCost(jb, cl, int(parts[0].Cluster), int(parts[0].Slot))
	for i := 1; i < len(parts); i++ {
		a, b := &parts[i-1], &parts[i]
		if a.Slot == b.Slot || (a.Slot+1 == b.Slot && a.Cluster == b.Cluster) {
			continue
		}
		cost += m.restartCost(cl, int(a.Cluster), int(b.Cluster), int(b.Slot))
	}
	return cost
}

// perKWh is the cost of a kWh used on cluster c in slot t.
func (m *Model) perKWh(c, t int) float64 {
	return m.perWatt[c*m.T+t] * 1000 / m.P.Grid.Hours()
}

// startCost is what the moment at which job j begins costs: Caspian's lateness and
// completion terms, gained.
func (m *Model) startCost(j *job, slots, t int) float64 {
	if !m.timed() {
		return 0
	}
	end := t + min(slots, m.longest)
	return -j.weight * (m.terms.Z[1]*m.onTime[max(0, end-int(j.deadline))] + m.terms.Z[2]*m.soon[end])
}

// longestRun is the run, and the time since a deadline, from which on Z's terms make no
// difference: 1/x is nothing.
const longestRun = 1 << 20

// timed reports whether the moment a job begins has a cost of its own.
func (m *Model) timed() bool { return m.terms.Z[1] != 0 || m.terms.Z[2] != 0 }

// Rest returns a model of the given jobs alone, in the capacity left.
func (m *Model) Rest(jobs []int, left []float64) *Model {
	out := *m
	out.Cap = left
	out.jobs = make([]job, len(jobs))
	for i, j := range jobs {
		out.jobs[i] = m.jobs[j]
	}
	return &out
}

// sample returns a model of every stride-th job, which stands for stride of them.
func (m *Model) sample(stride int) *Model {
	out := *m
	out.jobs = nil
	for j := stride / 2; j < len(m.jobs); j += stride {
		jb := m.jobs[j]
		jb.size *= float64(stride)
		jb.weight = float64(stride)
		out.jobs = append(out.jobs, jb)
	}
	return &out
}

// Rounds is how often prices may be set while all jobs are placed once, at about
// the cost of placing them: at most 1,000 times.
func (m *Model) Rounds() int {
	place, set := m.placing()
	return max(10, min(1000, 2*place/set))
}

// Placing is about how many slots are looked at to place all jobs.
func (m *Model) Placing() int {
	place, _ := m.placing()
	return place
}

// placing is about how many slots are looked at to place all jobs, and to set prices.
func (m *Model) placing() (place, set int) {
	set = 1
	for i := range m.lanes {
		set += m.tabulating(&m.lanes[i])
	}
	for i := range m.jobs {
		place += m.M * max(0, int(m.jobs[i].last-m.jobs[i].arrival))
	}
	return place, set
}

// tabulating is how many slots are looked at to make the tables of a lane.
func (m *Model) tabulating(l *lane) int { return m.M * max(0, l.last-l.from) }

// Work is about how many slots an evaluation of the Lagrangian looks at; an elastic
// job's count eight times.
func (m *Model) Work() int {
	sum := 0
	for i := range m.jobs {
		jb := &m.jobs[i]
		cl := &m.classes[jb.class]
		n := max(0, int(jb.last-jb.arrival))
		if cl.kind != workload.Rigid {
			n *= len(cl.choices)
		}
		if cl.kind == workload.Elastic {
			n *= 8
		}
		sum += n
	}
	return sum
}
