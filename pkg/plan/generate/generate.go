// Package generate makes planning instances by seed, with the distributions of the
// published experiments and wider ones.
package generate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// ErrOptions marks options out of range.
var ErrOptions = errors.New("invalid options of the generator")

// Options shape an instance. Every count is at least 1.
type Options struct {
	Seed                  uint64
	Jobs, Clusters, Slots int
	// Objective is Carbon or MOSP (weights 0.5, 1, 1 and no theta).
	Objective plan.ObjectiveKind
	// Capacity is the units of the resource "gpu" of every cluster; 0 takes 32,
	// that of Caspian's experiment, unless Load is set.
	Capacity float64
	// Load sets the capacity instead: the share of all capacity that the jobs ask
	// for, above 0.
	Load float64
	// Kinds are drawn with equal chances; none means rigid.
	Kinds []workload.Kind
	// MaxRequest and MaxLength bound the uniform draws of GPUs and of slots, from 1;
	// 0 takes 5, those of Caspian's experiment.
	MaxRequest, MaxLength int
	// SlackLow and SlackHigh bound the uniform draw of beta: deadline = arrival +
	// beta * length. 0 takes 2 and 4, those of Caspian's experiment.
	SlackLow, SlackHigh float64
	// MaxScale is the largest scale of elastic jobs; 0 takes 8. A quarter of the
	// elastic jobs has a curve that is not concave.
	MaxScale int
	// Memory adds a second resource.
	Memory bool
	// Varying makes capacity vary in time by half.
	Varying bool
	// Measured gives elastic jobs curves as measurements of programs have them, with
	// bumps, workers that add nothing and scales in powers of two.
	Measured bool
	// Unequal makes capacities differ by 1 : 2 : 4 : 8 from cluster to cluster; the
	// least is Capacity, or the sum what Load asks for.
	Unequal bool
	// Gaps takes the capacity of a tenth of the slots away, and the emissions of another.
	Gaps bool
}

const (
	paperCapacity = 32
	paperDraw     = 5
	maxCount      = 1_000_000
)

func (o *Options) complete() error {
	for name, n := range map[string]int{"jobs": o.Jobs, "clusters": o.Clusters, "slots": o.Slots} {
		if n < 1 || n > maxCount {
			return fmt.Errorf("%w: %s: %d; accepted: 1 to %d", ErrOptions, name, n, maxCount)
		}
	}
	if o.Objective == "" {
		o.Objective = plan.Carbon
	}
	if o.Objective != plan.Carbon && o.Objective != plan.MOSP {
		return fmt.Errorf("%w: objective: %q; accepted: %q or %q", ErrOptions, o.Objective, plan.Carbon, plan.MOSP)
	}
	for name, v := range map[string]float64{"capacity": o.Capacity, "load": o.Load, "slack": o.SlackLow} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("%w: %s: %v; accepted: finite and at least 0", ErrOptions, name, v)
		}
	}
	for name, n := range map[string]int{"max-request": o.MaxRequest, "max-length": o.MaxLength, "max-scale": o.MaxScale} {
		if n < 0 || n > workload.MaxScale {
			return fmt.Errorf("%w: %s: %d; accepted: 0 (the default) to %d", ErrOptions, name, n, workload.MaxScale)
		}
	}
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	set(&o.MaxRequest, paperDraw)
	set(&o.MaxLength, paperDraw)
	set(&o.MaxScale, 8)
	if o.SlackLow == 0 && o.SlackHigh == 0 {
		o.SlackLow, o.SlackHigh = 2, 4
	}
	if !(o.SlackHigh >= o.SlackLow && o.SlackLow >= 1) || math.IsInf(o.SlackHigh, 0) {
		return fmt.Errorf("%w: slack: %v to %v; accepted: at least 1, the second no less than the first", ErrOptions, o.SlackLow, o.SlackHigh)
	}
	for _, k := range o.Kinds {
		if k != workload.Rigid && k != workload.Interruptible && k != workload.Elastic {
			return fmt.Errorf("%w: kinds: %q; accepted: rigid, interruptible, elastic", ErrOptions, k)
		}
	}
	if len(o.Kinds) == 0 {
		o.Kinds = []workload.Kind{workload.Rigid}
	}
	if o.Capacity == 0 {
		o.Capacity = paperCapacity
	}
	return nil
}

// Instance draws an instance: jobs arrive over the first 60 % of the horizon and
// ask for U{1..MaxRequest} GPUs for U{1..MaxLength} slots with a deadline of U(2,4)
// lengths (Caspian, Section V); zones differ in level, swing and hour of their
// lowest intensity, and in power (100 or 200 W a GPU). Equal options give equal
// instances.
//
// Errors: one wrapping ErrOptions.
func Instance(o Options) (*plan.Problem, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x9e4))
	p := &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Date(2023, 11, 14, 11, 0, 0, 0, time.UTC), Slot: time.Hour, N: o.Slots},
		Objective: plan.Objective{Kind: o.Objective},
	}
	if o.Objective == plan.MOSP {
		p.Objective.Weights = [3]float64{0.5, 1, 1}
	}
	demand := 0.0
	for i := range o.Jobs {
		j := o.job(rng, i)
		demand += j.Length * j.Request["gpu"] * float64(j.MinWorkers)
		p.Jobs = append(p.Jobs, j)
	}
	if o.Load > 0 {
		clusters := 0.0
		for c := range o.Clusters {
			clusters += o.share(c)
		}
		o.Capacity = math.Max(float64(o.MaxRequest), math.Ceil(demand/o.Load/(clusters*float64(o.Slots))))
	}
	for c := range o.Clusters {
		p.Clusters = append(p.Clusters, o.cluster(rng, c))
	}
	return p, nil
}

func (o *Options) job(rng *rand.Rand, index int) workload.Job {
	j := workload.Job{
		ID: fmt.Sprintf("w%06d", index), Kind: o.Kinds[rng.IntN(len(o.Kinds))],
		Length: float64(1 + rng.IntN(o.MaxLength)), MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
		Request: map[string]float64{"gpu": float64(1 + rng.IntN(o.MaxRequest))},
	}
	if o.Memory {
		j.Request["memory"] = float64(int(4)<<rng.IntN(4)) * (1 << 30)
	}
	j.Arrival = rng.IntN(max(1, min(o.Slots*6/10, o.Slots-int(j.Length))+1))
	j.Deadline = j.Arrival + int(math.Ceil(j.Length*(o.SlackLow+(o.SlackHigh-o.SlackLow)*rng.Float64())))
	if o.Objective == plan.Carbon {
		j.Deadline = max(min(j.Deadline, o.Slots), j.Arrival+1)
	}
	if j.Kind == workload.Elastic {
		j.MaxWorkers = 1 + rng.IntN(o.MaxScale)
		if o.Measured {
			j.Curve = MeasuredCurve(rng, 1, j.MaxWorkers)
		} else {
			j.Curve = curve(rng, j.MaxWorkers)
		}
		j.Request["gpu"] = 1
	}
	return j
}

// curve draws a marginal capacity curve: falling, or falling with bumps.
func curve(rng *rand.Rand, scales int) []float64 {
	decay, bumpy := 0.7+0.3*rng.Float64(), rng.IntN(4) == 0
	out := make([]float64, scales)
	gain := 1.0
	for i := range out {
		out[i] = gain
		if bumpy && i > 0 {
			out[i] *= 0.6 + 0.8*rng.Float64()
		}
		gain *= decay
	}
	return out
}

// unequal are the capacities of clusters, relative to the least, where they differ.
var unequal = [...]float64{1, 8, 2, 4}

// share is the capacity of a cluster, relative to Options.Capacity.
func (o *Options) share(cluster int) float64 {
	if !o.Unequal {
		return 1
	}
	return unequal[cluster%len(unequal)]
}

// gaps closes a tenth of the slots of c and cleans another.
func (o *Options) gaps(rng *rand.Rand, c *plan.Cluster) {
	for t := range o.Slots {
		switch rng.IntN(10) {
		case 0:
			for _, amounts := range c.Capacity {
				amounts[t] = 0
			}
		case 1:
			if o.Objective == plan.Carbon { // Z divides by the intensity
				c.Intensity[t] = 0
			}
		}
	}
}

func (o *Options) cluster(rng *rand.Rand, index int) plan.Cluster {
	c := plan.Cluster{
		Name: fmt.Sprintf("spoke%d", index+1), Zone: fmt.Sprintf("ZONE-%d", index+1), PUE: 1,
		Watts: map[string]float64{"gpu": float64(100 * (1 + rng.IntN(2)))}, Capacity: map[string][]float64{},
	}
	level, swing, phase := 60+440*rng.Float64(), 0.1+0.4*rng.Float64(), 24*rng.Float64()
	gpu, memory := make([]float64, o.Slots), make([]float64, o.Slots)
	for t := range o.Slots {
		v := level * (1 + swing*math.Sin(2*math.Pi*(float64(t)-phase)/24) + 0.05*rng.NormFloat64())
		c.Intensity = append(c.Intensity, math.Max(5, math.Round(v*10)/10))
		capacity := o.Capacity * o.share(index)
		gpu[t], memory[t] = capacity, capacity*8*(1<<30)
		if o.Varying {
			gpu[t] = math.Ceil(capacity * (0.5 + 0.5*rng.Float64()))
		}
	}
	c.Capacity["gpu"] = gpu
	if o.Memory {
		c.Capacity["memory"] = memory
	}
	if o.Gaps {
		o.gaps(rng, &c)
	}
	return c
}
