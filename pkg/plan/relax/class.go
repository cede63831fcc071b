package relax

import (
	"encoding/binary"
	"math"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// class is what jobs share that differ only in size and time: the tables of prices
// are made once for each.
type class struct {
	kind    workload.Kind
	need    []capacity.Need // of MinWorkers workers, in units of the first
	slots   int
	length  float64
	minimum int
	scales  int
	lane    int
	choices [][]int   // sets of clusters that may be used together
	watts   []float64 // own power by scale, in units of the job's size, or nil
	hull    hull      // of an elastic job without watts of its own
	curve   []float64
	// restart and move are the energy of going on after a pause and of changing
	// cluster, kWh for a size of 1.
	restart, move float64
	room          float64 // the largest size that fits everywhere
	cut           []*hull // the hull of the first scales only, by their number
	// shed is the cost of leaving a job of size 1 out: 0 where jobs may stay
	// unscheduled, else more than any sensible schedule of it.
	shed float64
}

// classOf describes job j by its class and its size within it.
func (m *Model) classOf(j int) (class, float64) {
	job := &m.P.Jobs[j]
	cl := class{kind: job.Kind, slots: job.Slots(), length: job.Length, minimum: 1, scales: 1}
	if m.P.Objective.Kind == plan.MOSP && cl.kind == workload.Elastic {
		cl.kind = workload.Interruptible // Z is defined at one scale
	}
	switch cl.kind {
	case workload.Rigid:
		cl.length = float64(cl.slots)
	case workload.Elastic:
		cl.minimum, cl.scales, cl.curve = job.MinWorkers, len(job.Curve), job.Curve
	}
	size := 0.0
	for r, name := range m.resources {
		if q := job.Request[name] * float64(job.MinWorkers); q > 0 {
			if size == 0 {
				size = q
			}
			cl.need = append(cl.need, capacity.NeedOf(r, q/size))
		}
	}
	if size == 0 {
		size = 1
	}
	if cl.kind != workload.Rigid {
		cl.restart, cl.move = job.RestartKWh/size, job.TransferKWh/size
	}
	if job.Watts != nil {
		cl.watts = make([]float64, cl.scales)
		for i := range cl.watts {
			cl.watts[i] = job.Watts[i] / size
		}
	}
	return cl, size
}

// key is equal for equal classes of jobs with equal permissions.
func (cl *class) key(b []byte, job *workload.Job) []byte {
	b = appendNumbers(b, cl.length, float64(cl.minimum), cl.restart, cl.move)
	b = appendNumbers(append(b, cl.kind[0]), cl.watts...)
	b = appendNumbers(append(b, '|'), cl.curve...)
	return cl.requestKey(append(b, '|'), job)
}

// laneKey is equal for classes whose tables of prices are equal.
func (cl *class) laneKey(b []byte, job *workload.Job) []byte {
	switch {
	case cl.kind == workload.Rigid:
		b = appendNumbers(append(b, 'r'), cl.length)
	case cl.kind == workload.Elastic && cl.watts != nil:
		b = appendNumbers(append(b, 'e'), cl.curve...)
	}
	b = appendNumbers(append(b, '|'), cl.watts...)
	return cl.requestKey(append(b, '|'), job)
}

// requestKey is equal for equal requests, per unit of size, and permissions.
func (cl *class) requestKey(b []byte, job *workload.Job) []byte {
	for _, d := range cl.need {
		b = appendNumbers(b, float64(d.Resource()), d.Amount())
	}
	if job.Migratable && cl.kind != workload.Rigid {
		b = append(b, 'm')
	}
	for _, name := range job.Clusters {
		b = append(append(b, 0), name...)
	}
	return b
}

func appendNumbers(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// finish adds what only the first job of a class needs to compute.
func (m *Model) finish(cl *class, j int) {
	cl.choices = m.P.Choices(j)
	if cl.kind == workload.Rigid && m.P.Jobs[j].Migratable {
		cl.choices = nil
		for _, c := range m.P.Allowed(j) {
			cl.choices = append(cl.choices, []int{c})
		}
	}
	if cl.kind == workload.Elastic && cl.watts == nil {
		cl.hull = hullOf(nil, cl.steps())
		cl.cut = make([]*hull, cl.scales)
	}
}

// steps are the increments of scale; their Watts are workers in units of the least
// number of them.
func (cl *class) steps() []plan.Step {
	steps := make([]plan.Step, cl.scales)
	for i, work := range cl.curve {
		steps[i] = plan.Step{From: cl.minimum + i - 1, To: cl.minimum + i, Work: work, Watts: 1 / float64(cl.minimum)}
	}
	steps[0].From, steps[0].Watts = 0, 1
	return steps
}

var noHull hull

// truncated is the hull of the first n scales. The hulls are made when first asked
// for, so only one pricer of a model may place jobs at a time.
func (cl *class) truncated(n int) *hull {
	if n == 0 {
		return &noHull
	}
	if cl.cut[n] == nil {
		h := hullOf(nil, cl.steps()[:n])
		cl.cut[n] = &h
	}
	return cl.cut[n]
}

// large reports whether a job of class cl and the size does not fit some open slot.
// Elastic jobs that may migrate are never taken as such: their best response on the
// scales that fit would have to choose clusters by scale.
func (m *Model) large(cl *class, size float64) bool {
	if cl.kind == workload.Elastic {
		for _, set := range cl.choices {
			if len(set) > 1 {
				return false
			}
		}
		size *= float64(cl.minimum+cl.scales-1) / float64(cl.minimum)
	}
	return size > cl.room
}

// roomOf is the least capacity of an open slot for jobs of class cl, in their size.
func (m *Model) roomOf(cl *class) float64 {
	room := math.Inf(1)
	for _, set := range cl.choices {
		for _, c := range set {
			for _, d := range cl.need {
				row := m.row(c, d.Resource(), 0)
				for _, v := range m.Cap[row : row+m.T] {
					if v > 0 {
						room = math.Min(room, v/d.Amount())
					}
				}
			}
		}
	}
	return room
}

// dearest is more than any sensible schedule of a job of class cl and size 1 costs
// at no price.
func (m *Model) dearest(cl *class) float64 {
	most := 0.0
	for _, set := range cl.choices {
		for _, c := range set {
			for t := range m.T {
				most = math.Max(most, m.slotCost(cl, m.unit, c, t, 0))
			}
		}
	}
	if most == 0 {
		most = 1
	}
	return shedFactor * most * math.Max(1, cl.length)
}

// shedFactor is how many times the dearest slot a job would pay to be run at all.
const shedFactor = 20

// slotCost is the cost of scale index i (0: MinWorkers) of a job of class cl and
// size 1 through slot t on cluster c, at the given price of every row's unit
// (m.unit, or that plus a price of capacity).
func (m *Model) slotCost(cl *class, price []float64, c, t, i int) float64 {
	cost, scale := 0.0, float64(cl.minimum+i)/float64(cl.minimum)
	if cl.watts == nil {
		for _, d := range cl.need {
			cost += d.Amount() * price[m.row(c, d.Resource(), t)]
		}
		return cost * scale
	}
	for _, d := range cl.need {
		row := m.row(c, d.Resource(), t)
		cost += d.Amount() * (price[row] - m.unit[row] + m.perUnit[row])
	}
	return cost*scale + cl.watts[i]*m.perWatt[c*m.T+t]
}
