package plantest

import (
	"math"
	"math/rand/v2"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/workload"
)

// harden gives p, each with a chance, what real clusters have and plain draws lack:
// measured curves, slots without emissions or capacity, load above capacity, clusters
// of very different size, memory counted in odd bytes, requests of up to half of a
// cluster, and deadlines with next to no slack.
func harden(rng *rand.Rand, o Options, p *plan.Problem) {
	some := func() bool { return rng.IntN(3) == 0 }
	if some() {
		measure(rng, p)
	}
	if some() && p.Objective.Kind == plan.Carbon {
		cleanSlots(rng, p)
	}
	if some() {
		tighten(rng, p)
	}
	if o.Loose {
		return
	}
	if some() {
		unequal(rng, p)
	}
	if some() {
		wide(rng, p)
	}
	if some() {
		oddBytes(rng, p)
	}
	if some() {
		closeSlots(rng, p)
	}
	if some() && !o.NoLoad {
		addLoad(rng, p)
	}
}

// measure gives elastic jobs curves, and some of them powers, as measurements do.
func measure(rng *rand.Rand, p *plan.Problem) {
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if job.Kind != workload.Elastic {
			continue
		}
		job.Curve = generate.MeasuredCurve(rng, job.MinWorkers, len(job.Curve))
		if job.Watts != nil {
			job.Watts = measuredWatts(rng, len(job.Curve))
		}
	}
}

// cleanSlots sets intensities to 0, of single slots or of a cluster's whole horizon.
func cleanSlots(rng *rand.Rand, p *plan.Problem) {
	for c := range p.Clusters {
		always := rng.IntN(8) == 0
		for t := range p.Clusters[c].Intensity {
			if always || rng.IntN(5) == 0 {
				p.Clusters[c].Intensity[t] = 0
			}
		}
	}
}

// tighten leaves jobs at most two slots of slack.
func tighten(rng *rand.Rand, p *plan.Problem) {
	for j := range p.Jobs {
		job := &p.Jobs[j]
		job.Arrival = max(0, min(job.Arrival, p.Grid.N-job.Slots()))
		job.Deadline = job.Arrival + job.Slots() + rng.IntN(3)
	}
}

// unequal makes capacities differ by up to 1 : 8 between clusters.
func unequal(rng *rand.Rand, p *plan.Problem) {
	for c := range p.Clusters {
		factor := float64(int(1) << rng.IntN(4))
		for _, amounts := range p.Clusters[c].Capacity {
			for t := range amounts {
				amounts[t] *= factor
			}
		}
	}
}

// wide makes requests as large as half of a cluster.
func wide(rng *rand.Rand, p *plan.Problem) {
	for j := range p.Jobs {
		job := &p.Jobs[j]
		c := &p.Clusters[rng.IntN(len(p.Clusters))]
		if cpu := c.Capacity["cpu"][rng.IntN(p.Grid.N)]; cpu > 0 {
			job.Request["cpu"] = cpu * (0.1 + 0.4*rng.Float64()) / float64(job.MinWorkers)
		}
	}
}

// oddBytes gives most jobs memory whose bytes are no round number.
func oddBytes(rng *rand.Rand, p *plan.Problem) {
	for j := range p.Jobs {
		if rng.IntN(4) > 0 {
			p.Jobs[j].Request["memory"] = math.Floor(6 * gib * rng.Float64())
		}
	}
}

// closeSlots takes all capacity of some slots away: of one cluster, or of one resource.
func closeSlots(rng *rand.Rand, p *plan.Problem) {
	for c := range p.Clusters {
		for t := range p.Grid.N {
			if rng.IntN(5) > 0 {
				continue
			}
			one := ""
			if rng.IntN(2) == 0 {
				one = "memory"
			}
			for r, amounts := range p.Clusters[c].Capacity {
				if one == "" || one == r {
					amounts[t] = 0
				}
			}
		}
	}
}

// addLoad adds what cannot be moved, in some slots more than there is room for.
func addLoad(rng *rand.Rand, p *plan.Problem) {
	for c := range p.Clusters {
		cl := &p.Clusters[c]
		cl.Load = map[string][]float64{}
		for _, r := range []string{"cpu", "memory"} {
			load := make([]float64, p.Grid.N)
			for t := range load {
				load[t] = cl.Capacity[r][t] * 0.6 * rng.Float64()
				if rng.IntN(10) == 0 {
					load[t] = 1 + 1.3*cl.Capacity[r][t]
				}
			}
			cl.Load[r] = load
		}
	}
}
