package plan

import (
	"math"
	"slices"

	"lull.dev/lull/pkg/workload"
)

// This file says what a schedule of a job that has run before costs and must do
// (workload.Begun): the one definition that Check, Evaluate and the planners share.

// clusterOf is the index of a cluster by name, -1 if there is none.
func (p *Problem) clusterOf(name string) int {
	return slices.IndexFunc(p.Clusters, func(c Cluster) bool { return c.Name == name })
}

// continues reports whether job j runs already on cluster c when slot t begins, so that
// beginning there is no restart.
func (p *Problem) continues(j, c, t int) bool {
	job := &p.Jobs[j]
	b := job.Begun
	return b != nil && !b.Paused && t == job.Arrival && p.Clusters[c].Name == b.Cluster
}

// GoesOn reports whether the segments of job j, in order of slots, are one run that goes on
// where the job runs, without a pause or a move until it is done: slots that follow one
// another from Arrival on, on the cluster where it runs, each of them but the last used
// wholly. Its scale may change.
func (p *Problem) GoesOn(j int, segments []Segment) bool {
	if len(segments) == 0 || p.Jobs[j].Begun == nil || !p.inside(segments[0]) || !p.continues(j, segments[0].Cluster, segments[0].Slot) {
		return false
	}
	used := segments[0].Fraction // of the last slot seen
	for i := 1; i < len(segments); i++ {
		a, b := segments[i-1], segments[i]
		switch {
		case b.Cluster != a.Cluster:
			return false
		case b.Slot == a.Slot:
			used += b.Fraction
			continue
		case b.Slot != a.Slot+1 || used < 1-checkEps:
			return false
		}
		used = b.Fraction
	}
	return true
}

// Need is the work that the segments of job j, in order of slots, must do: Job.Work, less what a
// pause or a move would lose if they are a run that goes on.
func (p *Problem) Need(j int, segments []Segment) float64 {
	job := &p.Jobs[j]
	need := job.Work()
	if job.Begun != nil && job.Begun.Lost > 0 && p.GoesOn(j, segments) {
		need -= job.Begun.Lost * job.Curve[0]
	}
	return need
}

// RestartGrams is what it emits that job j goes on in slot t on cluster b after a pause, or
// after a move if it was at another cluster a.
func (p *Problem) RestartGrams(j, a, b, t int) float64 {
	grams := p.KWhGrams(b, t, p.Jobs[j].RestartKWh)
	if a != b {
		grams += p.TransferGrams(j, a, b, t)
	}
	return grams
}

// restarts calls do for every segment of job j with which it goes on after a pause or on another
// cluster, and with the cluster where it was before.
func (p *Problem) restarts(j int, segments []Segment, do func(a int, b Segment)) {
	job := &p.Jobs[j]
	if job.Kind == workload.Rigid || len(segments) == 0 {
		return
	}
	if first := segments[0]; job.Begun != nil && p.inside(first) && !p.continues(j, first.Cluster, first.Slot) {
		do(p.clusterOf(job.Begun.Cluster), first)
	}
	for i := 1; i < len(segments); i++ {
		a, b := segments[i-1], segments[i]
		if b.Slot == a.Slot || (b.Slot == a.Slot+1 && b.Cluster == a.Cluster) || !p.inside(a) || !p.inside(b) {
			continue
		}
		do(a.Cluster, b)
	}
}

// BeginGrams is what it emits, beside its work, that job j begins in slot t on cluster c: nothing if
// it has not run before or goes on there.
func (p *Problem) BeginGrams(j, c, t int) float64 {
	b := p.Jobs[j].Begun
	if b == nil || p.continues(j, c, t) {
		return 0
	}
	return p.RestartGrams(j, p.clusterOf(b.Cluster), c, t)
}

// JobCost is what a schedule of job j costs: its emissions, those of restarts and moves, and the
// weighted price. It is for problems with the carbon objective.
func (p *Problem) JobCost(j int, segments []Segment) float64 {
	cost := 0.0
	for _, s := range segments {
		cost += s.Fraction * p.SlotCost(j, s.Cluster, s.Slot, s.Workers)
	}
	p.restarts(j, segments, func(a int, b Segment) { cost += p.RestartGrams(j, a, b.Cluster, b.Slot) })
	return cost
}

// SlotCost is what w workers of job j cost on cluster c through the whole of slot t: emissions
// and the weighted price.
func (p *Problem) SlotCost(j, c, t, w int) float64 {
	cost := p.SlotGrams(j, c, t, w)
	if p.Objective.PriceWeight > 0 {
		cost += p.Objective.PriceWeight * p.SlotPrice(j, c, t, w)
	}
	return cost
}

// GoOn is the run in which job j goes on as it is on cluster c at MinWorkers until it is done;
// nil if it does not run there, from is later than its arrival, it would use a slot from last
// on, or the run does not fit f with the reserve kept.
//
// Complexity: O(length).
func (f *Free) GoOn(p *Problem, j, c, from, last int, reserve float64) []Segment {
	job := &p.Jobs[j]
	if from > job.Arrival || !p.continues(j, c, job.Arrival) || !job.Allows(p.Clusters[c].Name) {
		return nil
	}
	length := job.Length - job.Begun.Lost
	n := max(1, int(math.Ceil(length-workload.Eps)))
	if job.Arrival+n > last || f.FitsRun(j, c, job.Arrival, n, job.MinWorkers, reserve) >= 0 {
		return nil
	}
	out := make([]Segment, n)
	for i := range out {
		out[i] = Segment{Slot: job.Arrival + i, Cluster: c, Workers: job.MinWorkers, Fraction: math.Min(1, length-float64(i))}
	}
	return out
}
