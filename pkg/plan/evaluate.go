package plan

import (
	"maps"
	"math"
	"slices"

	"lull.dev/lull/pkg/workload"
)

// Evaluation is what a plan achieves.
type Evaluation struct {
	// CarbonG is the total emissions, gCO2eq; EnergyKWh the energy behind them.
	CarbonG   float64
	EnergyKWh float64
	// Money is what the plan costs at the clusters' prices.
	Money float64
	// Restarts counts how often jobs go on after a pause or on another cluster, Moves
	// those of them on another cluster; their energy is part of CarbonG and EnergyKWh.
	Restarts, Moves int
	// JobG is the emissions of each job of the problem.
	JobG []float64
	// Planned and Unscheduled count jobs; Late those that end past their deadline.
	Planned, Unscheduled, Late int
	// MeanAlpha is the mean of (finish - arrival) / (deadline - arrival).
	MeanAlpha float64
	// MeanWait is the mean of first slot - arrival, in slots.
	MeanWait float64
	// Makespan is the end of the last slot used.
	Makespan int
	// Z are Caspian's three objectives (MOSP problems only), and ZTotal their
	// weighted, normalised sum; ZTotal is NaN without theta.
	Z      [3]float64
	ZTotal float64
}

// Evaluate prices pl:
//
//	E = sum over segments of fraction * hours * watts(workers) * PUE * intensity / 1000
//	  + sum over restarts of restart energy * PUE * intensity + transfer energy * mean intensity
//
// A job restarts with each segment that does not follow the one before it in the next slot on the
// same cluster, and with its first one if it has begun before and does not go on (Job.Begun).
// It takes any plan whose indices are inside the problem, feasible or not; what
// Check would refuse to count (an index outside) is left out here too. The sum
// runs in the order of the plan's jobs.
//
// Complexity: O(segments).
func Evaluate(p *Problem, pl Plan) Evaluation {
	e := Evaluation{JobG: make([]float64, len(p.Jobs)), ZTotal: math.NaN()}
	alphas, sumAlpha, sumWait := 0, 0.0, 0.0
	for _, jp := range pl.Jobs {
		if jp.Job < 0 || jp.Job >= len(p.Jobs) {
			continue
		}
		j := &p.Jobs[jp.Job]
		first, last := p.Grid.N, -1
		cluster, workers, watts := -1, 0, 0.0 // of the segment before
		for _, s := range jp.Segments {
			if s.Cluster < 0 || s.Cluster >= len(p.Clusters) || s.Slot < 0 || s.Slot >= p.Grid.N ||
				s.Workers < j.MinWorkers || s.Workers > j.MaxWorkers {
				continue
			}
			if s.Cluster != cluster || s.Workers != workers {
				cluster, workers, watts = s.Cluster, s.Workers, p.Watts(jp.Job, s.Cluster, s.Workers)
			}
			grams := s.Fraction * p.grams(s.Cluster, s.Slot, watts)
			e.CarbonG += grams
			e.JobG[jp.Job] += grams
			e.Money += s.Fraction * p.SlotPrice(jp.Job, s.Cluster, s.Slot, s.Workers)
			e.EnergyKWh += s.Fraction * p.Grid.Hours() * watts * p.Clusters[s.Cluster].PUE / 1000
			first, last = min(first, s.Slot), max(last, s.Slot)
			if p.Objective.Kind == MOSP {
				e.Z[0] += p.z1(jp.Job, s)
			}
		}
		if last < 0 {
			continue
		}
		e.overheads(p, jp)
		e.Planned++
		e.Makespan = max(e.Makespan, last+1)
		finish := last + 1
		if j.Kind == workload.Rigid {
			finish = first + j.Slots() // a run cut off by the horizon counts in full
		}
		if finish > j.Deadline {
			e.Late++
		}
		if j.Deadline > j.Arrival {
			sumAlpha += float64(finish-j.Arrival) / float64(j.Deadline-j.Arrival)
			alphas++
		}
		sumWait += float64(first - j.Arrival)
		if p.Objective.Kind == MOSP {
			end := float64(first + j.Slots())
			e.Z[1] += 1 / math.Max(1, end-float64(j.Deadline))
			e.Z[2] += 1 / end
		}
	}
	e.Unscheduled = len(p.Jobs) - e.Planned
	if alphas > 0 {
		e.MeanAlpha = sumAlpha / float64(alphas)
	}
	if e.Planned > 0 {
		e.MeanWait = sumWait / float64(e.Planned)
	}
	if p.Objective.Kind == MOSP && p.Objective.Theta != nil {
		e.ZTotal = 0
		for k, z := range e.Z {
			e.ZTotal += p.Objective.Weights[k] * z / p.Objective.Theta[k]
		}
	}
	return e
}

// overheads adds what pauses and moves of a job that can have them cost.
func (e *Evaluation) overheads(p *Problem, jp JobPlan) {
	job := &p.Jobs[jp.Job]
	p.restarts(jp.Job, jp.Segments, func(a int, b Segment) {
		e.Restarts++
		kWh := job.RestartKWh * p.Clusters[b.Cluster].PUE
		if a != b.Cluster {
			e.Moves++
			kWh += job.TransferKWh
		}
		grams := p.RestartGrams(jp.Job, a, b.Cluster, b.Slot)
		e.EnergyKWh += kWh
		e.CarbonG += grams
		e.JobG[jp.Job] += grams
	})
}

func (p *Problem) inside(s Segment) bool {
	return s.Cluster >= 0 && s.Cluster < len(p.Clusters) && s.Slot >= 0 && s.Slot < p.Grid.N
}

// TransferGrams returns the emissions of moving job j from cluster a to b in slot t, at
// the mean of both intensities.
func (p *Problem) TransferGrams(j, a, b, t int) float64 {
	return p.Jobs[j].TransferKWh * (p.Clusters[a].Intensity[t] + p.Clusters[b].Intensity[t]) / 2
}

// Cost is what the objective minimises: emissions, or Z with its sign turned, and the
// weighted price. NaN for Z without theta.
func (e *Evaluation) Cost(o Objective) float64 {
	if o.Kind == MOSP {
		return o.PriceWeight*e.Money - e.ZTotal
	}
	return e.CarbonG + o.PriceWeight*e.Money
}

// z1 is one segment's share of Caspian's Z1: use of capacity weighted by
// 1 / (intensity * power factor).
func (p *Problem) z1(j int, s Segment) float64 {
	cl := &p.Clusters[s.Cluster]
	sum := 0.0
	request := p.Jobs[j].Request
	for _, r := range slices.Sorted(maps.Keys(request)) { // a fixed order: equal bits
		q := request[r]
		rho, stated := cl.Watts[r]
		if !stated {
			rho = 1
		}
		if cl.Capacity[r] == nil || cl.Capacity[r][s.Slot] <= 0 || rho <= 0 || cl.Intensity[s.Slot] <= 0 {
			continue
		}
		sum += q * float64(s.Workers) / (cl.Capacity[r][s.Slot] * cl.Intensity[s.Slot] * rho)
	}
	return sum
}
