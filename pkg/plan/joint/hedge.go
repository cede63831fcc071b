package joint

import (
	"context"
	"math"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// This file places elastic jobs of unknown length by what they are expected to emit, see design 0023.

const (
	// hedgeSteps are the steps of progress that a schedule distinguishes.
	hedgeSteps = 32
	// hedgeLimit bounds the states, times scales, that one plan looks at. Further jobs keep the places that the
	// search found.
	hedgeLimit = 10_000_000
	// hedgeTail is how far beyond its largest quantile, and beyond its mean, a length is taken to reach.
	hedgeTail, hedgeTailMean = 1.05, 1.5
	// lateCost is what a slot costs in which a job must run and finds no room, in mean slots.
	lateCost = 100
)

// hedge places the jobs of unknown length anew, in order of arrival: each takes the schedule of least expected cost in the
// room that is left, at the prices of the search. An hour of a schedule counts with the probability that the job still runs.
// Jobs that lose work or energy by a pause stay where they are: the schedule does not count that. So do jobs that need the
// reserve; the others are placed beside it.
//
// Complexity: O(slots x hedgeSteps x scales) a job, up to hedgeLimit in all.
func (v *solver) hedge(ctx context.Context, s *search) {
	if !s.hard {
		return
	}
	h := hedger{s: s, limit: hedgeLimit}
	defer func() { v.hedged = h.placed }()
	priced := false
	for _, j := range plan.ByArrival(v.m.P) {
		job := &v.m.P.Jobs[j]
		if job.Unknown == nil || len(job.Unknown.Quantiles) == 0 || job.Kind != workload.Elastic || job.RestartKWh > 0 || (job.Begun != nil && job.Begun.Lost > 0) {
			continue
		}
		if len(s.parts[j]) == 0 || !onOneCluster(s.parts[j]) || s.open != nil && s.open[j] {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if !priced {
			s.reprice(v.lambda)
			priced = true
		}
		h.place(j, job)
	}
}

func onOneCluster(parts []relax.Part) bool {
	for _, p := range parts {
		if p.Cluster != parts[0].Cluster {
			return false
		}
	}
	return true
}

// hedger finds the schedules. Its slices serve one job after the other.
type hedger struct {
	s      *search
	limit  int
	placed bool // a job has been placed anew

	step     float64     // progress from one state to the next, in slots at MinWorkers
	expected []float64   // by state: how much of the length is expected to be needed up to it
	scales   []scaleStep // by scale
	costs    []float64   // by slot and scale
	fit      []int       // by slot: the scales that fit
	values   []float64   // by slot and state: the least expected cost from there on
	mean     float64     // cost of a slot at MinWorkers
}

// scaleStep is what a slot at a scale does.
type scaleStep struct {
	work  float64   // progress, in slots at MinWorkers
	used  []float64 // by state: the share of the slot that is expected to be needed
	jump  int       // states that the progress passes
	share float64   // of a state more
}

// place gives job j its schedule, or leaves it where it is if none ends by its deadline with the length that is expected.
func (h *hedger) place(j int, job *workload.Job) {
	old := h.s.parts[j]
	c := int(old[0].Cluster)
	h.longest(job)
	last := h.last(job)
	states := (last - job.Arrival) * hedgeSteps * (len(job.Curve) + 1)
	if states > h.limit {
		return
	}
	h.limit -= states
	h.lengths(job)
	h.s.put(j, nil)
	h.s.room.UseReserve(false)
	h.price(j, c, job.Arrival, last)
	h.solve(job, last)
	parts := h.schedule(job, c, last)
	if parts == nil {
		parts = old
	} else {
		h.placed = true
	}
	h.s.put(j, parts)
}

// last is the slot after the last one in which the job may run, within the horizon.
func (h *hedger) last(job *workload.Job) int {
	latest := float64(job.Arrival) + math.Max(0, job.Unknown.Delay) + h.step*hedgeSteps
	return int(math.Min(float64(h.s.m.T), math.Ceil(latest)))
}

// longest sets the step of progress by the longest run time that is reckoned with.
func (h *hedger) longest(job *workload.Job) {
	qs := job.Unknown.Quantiles
	h.step = math.Max(qs[len(qs)-1].Length*hedgeTail, job.Length*hedgeTailMean) / hedgeSteps
}

// lengths sets what depends on the distribution of the length alone.
func (h *hedger) lengths(job *workload.Job) {
	qs := job.Unknown.Quantiles
	longest := h.step * hedgeSteps
	runs := func(done float64) float64 { // the probability that the job is longer
		p, from := 0.0, 0.0
		for _, q := range append(qs[:len(qs):len(qs)], workload.Quantile{P: 1, Length: longest}) {
			if done < q.Length {
				return 1 - p - (q.P-p)*(done-from)/(q.Length-from)
			}
			p, from = q.P, q.Length
		}
		return 0
	}
	h.expected = append(h.expected[:0], 0)
	for k := range hedgeSteps {
		middle := (float64(k) + 0.5) * h.step
		h.expected = append(h.expected, h.expected[k]+runs(middle)*h.step)
	}
	h.scales = h.scales[:0]
	work := 0.0
	for _, x := range job.Curve {
		work += x / job.Curve[0]
		whole, share := math.Modf(work / h.step)
		sc := scaleStep{work: work, jump: int(math.Min(whole, hedgeSteps)), share: share}
		for k := range hedgeSteps + 1 {
			sc.used = append(sc.used, (h.at(h.expected, k, sc.jump, share)-h.expected[k])/work)
		}
		h.scales = append(h.scales, sc)
	}
}

// at interpolates values of states, the given steps beyond state k.
func (h *hedger) at(values []float64, k, jump int, share float64) float64 {
	if k += jump; k >= hedgeSteps {
		return values[hedgeSteps]
	}
	return values[k] + share*(values[k+1]-values[k])
}

// price sets what each slot costs at each scale that fits, for a whole slot.
func (h *hedger) price(j, c, from, last int) {
	h.costs, h.fit, h.mean = h.costs[:0], h.fit[:0], 0
	for t := from; t < last; t++ {
		fit := min(len(h.scales), h.s.room.Scales(j, c, t))
		h.fit = append(h.fit, fit)
		for i := range h.scales {
			x := math.Inf(1)
			if i < max(1, fit) {
				x = h.s.e.SlotCost(j, c, t, i)
			}
			h.costs = append(h.costs, x)
		}
		h.mean += h.costs[len(h.costs)-len(h.scales)] / float64(last-from)
	}
}

// solve fills values, from the end on. After the last slot the rest costs what it does in a mean slot.
func (h *hedger) solve(job *workload.Job, last int) {
	const states = hedgeSteps + 1
	slots := last - job.Arrival
	h.values = append(h.values[:0], make([]float64, (slots+1)*states)...)
	for k := range states {
		h.values[slots*states+k] = h.mean * (h.expected[hedgeSteps] - h.expected[k])
	}
	for t := slots - 1; t >= 0; t-- {
		next := h.values[(t+1)*states : (t+2)*states]
		for k := range hedgeSteps { // of the last state nothing is left
			best := math.Inf(1)
			if float64(t+1)-float64(k)*h.step <= job.Unknown.Delay+workload.Eps {
				best = next[k]
			}
			for i := range h.fit[t] {
				sc := &h.scales[i]
				if x := h.costs[t*len(h.scales)+i]*sc.used[k] + h.at(next, k, sc.jump, sc.share); x < best {
					best = x
				}
			}
			if math.IsInf(best, 1) {
				best = next[k] + lateCost*h.mean
			}
			h.values[t*states+k] = best
		}
	}
}

// schedule is the schedule of a job that has the length that is expected, nil if it does not end by its deadline.
func (h *hedger) schedule(job *workload.Job, c, last int) (parts []relax.Part) {
	const states = hedgeSteps + 1
	done := 0.0
	for t := 0; job.Arrival+t < min(last, job.Unknown.Deadline) && done < job.Length-workload.Eps; t++ {
		next := h.values[(t+1)*states : (t+2)*states]
		value := func(progress float64, of []float64) float64 {
			whole, share := math.Modf(progress / h.step)
			return h.at(of, 0, int(math.Min(whole, hedgeSteps)), share)
		}
		best, scale := math.Inf(1), -1
		if float64(t+1)-done <= job.Unknown.Delay+workload.Eps {
			best = value(done, next)
		}
		from := value(done, h.expected)
		for i := range h.fit[t] {
			sc := &h.scales[i]
			used := (value(done+sc.work, h.expected) - from) / sc.work
			if x := h.costs[t*len(h.scales)+i]*used + value(done+sc.work, next); x < best {
				best, scale = x, i
			}
		}
		if math.IsInf(best, 1) {
			return nil // no room where the job must run
		}
		if scale >= 0 {
			f := math.Min(1, (job.Length-done)/h.scales[scale].work)
			parts = append(parts, relax.Part{Slot: int32(job.Arrival + t), Cluster: int32(c), Scale: int32(scale), Fraction: f})
			done += h.scales[scale].work * f
		}
	}
	if done < job.Length-workload.Eps {
		return nil
	}
	return parts
}
