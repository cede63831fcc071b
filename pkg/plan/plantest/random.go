// Package plantest holds what tests of planners share: random instances and the
// laws that every planner obeys.
package plantest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// Options shape random instances.
type Options struct {
	Objective plan.ObjectiveKind // default Carbon
	Kinds     []workload.Kind    // default all
	MaxJobs   int                // default 12
	MaxSlots  int                // default 30
	MaxHosts  int                // clusters, default 3
	// Loose gives every cluster room for all jobs at once.
	Loose bool
	// Costs adds prices of resources and the energy of restarts and moves.
	Costs bool
	// Begun makes about half of the jobs that may pause run, or be paused, when they arrive, with
	// the energy of restarts and moves and with work that a pause loses. Not for MOSP.
	Begun bool
	// Whole keeps lengths whole numbers of slots.
	Whole bool
	// NoLoad leaves out what runs on clusters already: the file format does not state it.
	NoLoad bool
	// PlacesAll makes Laws fail a planner that names a job as unplaced although running
	// as soon as possible, in order of arrival, places all jobs. Without it Laws logs how
	// often that happens.
	PlacesAll bool
}

// Random returns a valid instance; equal seeds and options give equal instances. It
// covers several resources, fractional lengths, power profiles, restricted clusters,
// time-varying capacity and intensities that repeat (ties). Odd seeds also have what
// harden adds: measured curves, slots without emissions or capacity, load above
// capacity, unequal clusters, large requests and tight deadlines.
func Random(seed uint64, o Options) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 0x1ab))
	if o.Objective == "" {
		o.Objective = plan.Carbon
	}
	if o.Kinds == nil {
		o.Kinds = []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}
	}
	jobs := 1 + rng.IntN(defaulted(o.MaxJobs, 12))
	slots := 4 + rng.IntN(defaulted(o.MaxSlots, 30))
	hosts := 1 + rng.IntN(defaulted(o.MaxHosts, 3))
	slotLengths := []time.Duration{time.Hour, 30 * time.Minute, 15 * time.Minute}
	p := &plan.Problem{
		Grid: timegrid.Grid{
			Start: time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rng.IntN(8760)) * time.Hour),
			Slot:  slotLengths[rng.IntN(len(slotLengths))], N: slots,
		},
		Objective: plan.Objective{Kind: o.Objective},
	}
	if o.Objective == plan.MOSP {
		p.Objective.Weights = [3]float64{rng.Float64(), 1, 1}
		p.Objective.Theta = &[3]float64{0.01 + rng.Float64(), 1 + rng.Float64(), 0.5 + rng.Float64()}
	}
	for c := range hosts {
		p.Clusters = append(p.Clusters, randomCluster(rng, o, c, slots, jobs))
	}
	for j := range jobs {
		p.Jobs = append(p.Jobs, randomJob(rng, o, p, j))
	}
	if o.Costs {
		addCosts(rng, p)
	}
	if seed%2 == 1 {
		harden(rng, o, p)
	}
	if o.Begun {
		addBegun(rng, o, p)
	}
	return p
}

// addBegun draws what jobs do when they arrive. Energies are up to what a job takes in two slots.
func addBegun(rng *rand.Rand, o Options, p *plan.Problem) {
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if job.Kind == workload.Rigid || rng.IntN(3) == 0 {
			continue
		}
		c := rng.IntN(len(p.Clusters))
		slotKWh := p.Watts(j, c, job.MinWorkers) * p.Grid.Hours() / 1000
		job.RestartKWh, job.TransferKWh = slotKWh*float64(rng.IntN(3)), slotKWh*float64(rng.IntN(3))
		if rng.IntN(4) == 0 {
			continue
		}
		b := &workload.Begun{Cluster: p.Clusters[c].Name, Paused: rng.IntN(4) == 0}
		if !b.Paused && rng.IntN(3) > 0 {
			b.Lost = math.Floor(job.Length*rng.Float64()*4) / 4
			if o.Whole {
				b.Lost = math.Floor(b.Lost)
			}
			b.Lost = math.Max(0, math.Min(b.Lost, job.Length-0.25))
		}
		job.Begun = b
		if rng.IntN(2) == 0 { // as at the time of a decision
			job.Arrival, job.Deadline = 0, job.Deadline-job.Arrival
		}
	}
}

func addCosts(rng *rand.Rand, p *plan.Problem) {
	p.Objective.PriceWeight = float64(rng.IntN(3))
	for c := range p.Clusters {
		price := make([]float64, p.Grid.N)
		for t := range price {
			price[t] = float64(rng.IntN(50))
		}
		p.Clusters[c].Price = map[string][]float64{"cpu": price}
	}
	for j := range p.Jobs {
		p.Jobs[j].RestartKWh, p.Jobs[j].TransferKWh = 0.1*float64(rng.IntN(3)), 0.1*float64(rng.IntN(3))
	}
}

// gib makes memory a resource whose numbers dwarf those of the others.
const gib = 1 << 30

func defaulted(v, otherwise int) int {
	if v == 0 {
		return otherwise
	}
	return v
}

func randomCluster(rng *rand.Rand, o Options, index, slots, jobs int) plan.Cluster {
	c := plan.Cluster{
		Name: fmt.Sprintf("c%d", index), Zone: fmt.Sprintf("Z%d", index),
		Watts: map[string]float64{"cpu": float64(1 + rng.IntN(200)), "gpu": float64(100 + rng.IntN(300))},
		PUE:   1 + math.Round(rng.Float64()*10)/10,
	}
	base := float64(4 + rng.IntN(20))
	if o.Loose {
		base = float64(jobs * 100)
	}
	cpu, gpu, memory := make([]float64, slots), make([]float64, slots), make([]float64, slots)
	c.Intensity = make([]float64, slots)
	varying := rng.IntN(2) == 0
	level := float64(50 + rng.IntN(400))
	for t := range slots {
		cpu[t], gpu[t], memory[t] = base, base/2, base*gib
		if varying && !o.Loose {
			cpu[t] = base * float64(rng.IntN(5)) / 4
		}
		// Rounded to tens: ties are common.
		c.Intensity[t] = math.Max(10, math.Round((level+level/2*math.Sin(float64(t)/4)+20*rng.Float64())/10)*10)
	}
	c.Capacity = map[string][]float64{"cpu": cpu, "gpu": gpu, "memory": memory}
	return c
}

func randomJob(rng *rand.Rand, o Options, p *plan.Problem, index int) workload.Job {
	kind := o.Kinds[rng.IntN(len(o.Kinds))]
	slots := p.Grid.N
	j := workload.Job{
		ID: fmt.Sprintf("j%03d", index), Kind: kind, Arrival: rng.IntN(slots),
		Request:    map[string]float64{"cpu": float64(1+rng.IntN(8)) / 2},
		MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
	}
	if rng.IntN(3) == 0 {
		j.Request["gpu"] = float64(rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		j.Request["memory"] = float64(1+rng.IntN(6)) * gib
	}
	j.Length = float64(1 + rng.IntN(max(1, slots/4)))
	if !o.Whole && rng.IntN(2) == 0 {
		j.Length -= rng.Float64() * 0.9
	}
	j.Deadline = j.Arrival + int(math.Ceil(j.Length)) + rng.IntN(slots/2+1)
	if rng.IntN(20) == 0 {
		j.Deadline = j.Arrival + rng.IntN(2) // may be impossible
	}
	if kind == workload.Elastic || rng.IntN(4) == 0 {
		j.MinWorkers = 1 + rng.IntN(2)
		j.MaxWorkers = j.MinWorkers
		if kind == workload.Elastic {
			j.MaxWorkers += rng.IntN(4)
		}
		j.Curve = nil
		gain := float64(j.MinWorkers)
		for range j.MaxWorkers - j.MinWorkers + 1 {
			j.Curve = append(j.Curve, gain)
			gain = rng.Float64()
		}
	}
	if rng.IntN(4) == 0 {
		watts := 50 + 100*rng.Float64()
		for range j.Curve {
			j.Watts = append(j.Watts, watts)
			watts += 100 * rng.Float64()
		}
	}
	if len(p.Clusters) > 1 && rng.IntN(3) == 0 {
		j.Clusters = []string{p.Clusters[rng.IntN(len(p.Clusters))].Name}
	}
	j.Migratable = kind != workload.Rigid && rng.IntN(2) == 0
	return j
}
