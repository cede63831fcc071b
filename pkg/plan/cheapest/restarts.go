package cheapest

import (
	"math"

	"lull.dev/lull/pkg/plan"
)

// mostStates is the number of states up to which restarts and moves are part of what the slots
// of a job are chosen by; beyond it they count only against going on.
const mostStates = 1 << 20

// bestWithRestarts is best with the restarts and moves of a schedule, for a job that has run before or whose restarts
// cost. A schedule that goes on wins ties. least is at most what any schedule at MinWorkers costs.
func (s *search) bestWithRestarts(j, last int) (segments []plan.Segment, least float64, ok bool) {
	p, job := s.p, &s.p.Jobs[j]
	cost := 0.0
	consider := func(found []plan.Segment, bound float64) {
		v := p.JobCost(j, found)
		if !ok || v < cost {
			segments, cost = found, v
		}
		if !ok || bound < least {
			least = bound
		}
		ok = true
	}
	for _, c := range p.Allowed(j) {
		if on := s.free.GoOn(p, j, c, job.Arrival, last, s.reserve); on != nil {
			consider(on, p.JobCost(j, on))
		}
	}
	for _, clusters := range p.Choices(j) {
		if found, bound, has := s.slots(j, clusters, last); has {
			consider(found, bound)
		}
	}
	return segments, least, ok
}

// slots are the cheapest slots of job j at MinWorkers on the given clusters, and the least that such slots
// cost. Without restarts and moves, or with too many states, they are the slots of least emissions.
func (s *search) slots(j int, clusters []int, last int) (segments []plan.Segment, least float64, ok bool) {
	p, job, w := s.p, &s.p.Jobs[j], s.p.Jobs[j].MinWorkers
	r := &s.runs // its buffers are used again
	r.N, r.Part = job.Slots(), math.Min(1, job.Length-float64(job.Slots()-1))
	r.From, r.Last, r.Clusters = job.Arrival, last, len(clusters)
	r.Slot = func(k, t int) float64 {
		if !s.free.FitsUnder(j, clusters[k], t, w, s.reserve) {
			return math.Inf(1)
		}
		s.considered++
		return p.SlotCost(j, clusters[k], t, w)
	}
	r.Start = func(k, t int) float64 { return p.BeginGrams(j, clusters[k], t) }
	r.Resume = func(k, t int) float64 { return p.RestartGrams(j, clusters[k], clusters[k], t) }
	r.Leave = func(k, t int) float64 { return p.TransferGrams(j, clusters[k], clusters[k], t) / 2 }
	r.Arrive = r.Leave
	if job.RestartKWh+job.TransferKWh == 0 || r.Size() > mostStates {
		segments, least, n, ok := s.free.CheapestSlots(p, j, w, clusters, job.Arrival, last, s.reserve)
		s.considered += n
		return segments, least, ok
	}
	picked, least, ok := r.Cheapest()
	for _, x := range picked {
		f := 1.0
		if x.Part {
			f = r.Part
		}
		segments = append(segments, plan.Segment{Slot: x.Slot, Cluster: clusters[x.Cluster], Workers: w, Fraction: f})
	}
	return segments, least, ok
}
