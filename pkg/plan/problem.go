package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// ErrProblem marks a problem that is not valid.
var ErrProblem = errors.New("invalid planning problem")

// ObjectiveKind names what a plan optimises.
type ObjectiveKind string

// The objectives of the planning format.
const (
	// Carbon is least total emissions; deadlines are hard, every job must finish.
	Carbon ObjectiveKind = "carbon"
	// MOSP is Caspian's Z, to be maximised; deadlines are soft and jobs may stay
	// unscheduled.
	MOSP ObjectiveKind = "mosp"
)

// Objective is what a plan is judged by.
type Objective struct {
	Kind ObjectiveKind
	// Weights are omega_1..omega_3 of Caspian's Z (MOSP only).
	Weights [3]float64
	// Theta are the normalisers theta_1..theta_3, or nil where the LP optimum of
	// each objective alone is to be used.
	Theta *[3]float64
	// PriceWeight is what a unit of money counts in the objective, beside grams or
	// against Z; 0 leaves money out.
	PriceWeight float64
}

// Cluster is a place to run jobs.
type Cluster struct {
	Name string
	Zone string // grid zone that powers it
	// Capacity is the amount of each resource in every slot: N values each. A
	// resource without an entry is absent.
	Capacity map[string][]float64
	// Load is what runs there already and cannot be moved, N values each; nil
	// means nothing does.
	Load map[string][]float64
	// Watts is the power of one used unit of each resource.
	Watts map[string]float64
	// PUE multiplies it; at least 1.
	PUE float64
	// Intensity is the carbon intensity of every slot, gCO2eq/kWh.
	Intensity []float64
	// Before is the intensity of the slot before the first one, gCO2eq/kWh; nil where it is not known. Planners that look at how intensities rise and
	// fall use it.
	Before *float64
	// Price is the money that one unit of a resource costs for an hour, N values each;
	// a resource without an entry is free.
	Price map[string][]float64
	// Signals are other series of the place, N values each, for rankings: temperature
	// (air, Celsius), irradiance (W/m2), wind (m/s) and the like.
	Signals map[string][]float64
	// IntensityLow and IntensityHigh are the 10 % and 90 % quantiles of it where a
	// forecast states them, else nil. They grow with the age of what is known.
	IntensityLow, IntensityHigh []float64
}

// Problem is a planning instance. It is never modified by a planner.
type Problem struct {
	Grid      timegrid.Grid
	Objective Objective
	// Reserve is the share of the capacity of each cluster that the caller asks to keep free for work
	// to come, 0 <= Reserve < 1. Planners whose reserve is learned (KeptReserve) keep it; others
	// ignore it.
	Reserve  float64
	Clusters []Cluster
	Jobs     []workload.Job
}

// Segment is the use of Workers workers on a cluster for a fraction of a slot.
type Segment struct {
	Slot    int
	Cluster int // index into Problem.Clusters
	Workers int
	// Fraction of the slot used, 0 < Fraction <= 1.
	Fraction float64
}

// JobPlan is the schedule of one job, in order of slots.
type JobPlan struct {
	Job      int // index into Problem.Jobs
	Segments []Segment
}

// Start returns the first slot used; false when there is none.
func (jp JobPlan) Start() (int, bool) {
	if len(jp.Segments) == 0 {
		return 0, false
	}
	return jp.Segments[0].Slot, true
}

// Plan is a schedule: at most one entry a job, in the order of Problem.Jobs.
type Plan struct{ Jobs []JobPlan }

// Status says what is known of a plan.
type Status string

// The states of a result.
const (
	// Optimal: no feasible plan is better.
	Optimal Status = "optimal"
	// Feasible: every job is planned within its constraints.
	Feasible Status = "feasible"
	// Infeasible: this planner found no place for the jobs in Result.Unplaced.
	// The plan holds all the others.
	Infeasible Status = "infeasible"
)

// Unplaced is a job without a place, and why.
type Unplaced struct {
	Job int
	Why string
}

// Result is what a planner returns.
type Result struct {
	Plan     Plan
	Status   Status
	Unplaced []Unplaced
	// Bound is a proven bound on the objective of every feasible plan (below for
	// emissions, above for Z), or nil where the planner proves none.
	Bound *float64
	// Considered counts the placements that were looked at.
	Considered int64
}

// Planner is the one seam between a method and all that uses it.
type Planner interface {
	// Plan solves a valid problem. It returns an error only when it was
	// cancelled or its parameters do not fit the problem. Any number of
	// goroutines may call it at once.
	Plan(ctx context.Context, p *Problem) (Result, error)
}

// WithReserve returns the problem with a share of each resource taken away, as far as it is
// free. What is not changed is shared with p.
func (p *Problem) WithReserve(share float64) *Problem {
	out := *p
	out.Clusters = slices.Clone(p.Clusters)
	for i := range out.Clusters {
		c := &out.Clusters[i]
		capacity := make(map[string][]float64, len(c.Capacity))
		for r, amounts := range c.Capacity {
			left := make([]float64, len(amounts))
			for slot, v := range amounts {
				left[slot] = v * (1 - share)
				if load := c.Load[r]; load != nil {
					left[slot] = min(v, max(left[slot], load[slot]))
				}
			}
			capacity[r] = left
		}
		c.Capacity = capacity
	}
	return &out
}

// Validate reports the first fault: an error wrapping ErrProblem or
// workload.ErrJob that names the field, the value and what is accepted.
func (p *Problem) Validate() error {
	if _, err := timegrid.New(p.Grid.Start, p.Grid.Slot, p.Grid.N); err != nil {
		return fmt.Errorf("%w: %w", ErrProblem, err)
	}
	if err := p.Objective.validate(); err != nil {
		return err
	}
	if !(p.Reserve >= 0 && p.Reserve < 1) {
		return fmt.Errorf("%w: reserve: %v; accepted: at least 0, below 1", ErrProblem, p.Reserve)
	}
	if len(p.Clusters) == 0 {
		return fmt.Errorf("%w: clusters: none; accepted: at least one", ErrProblem)
	}
	names := map[string]bool{}
	for i := range p.Clusters {
		if err := p.Clusters[i].validate(p.Grid.N, p.Objective.Kind); err != nil {
			return err
		}
		if names[p.Clusters[i].Name] {
			return fmt.Errorf("%w: clusters: name %q stands twice", ErrProblem, p.Clusters[i].Name)
		}
		names[p.Clusters[i].Name] = true
	}
	var ids map[string]bool
	if len(p.Jobs) > 1 {
		ids = make(map[string]bool, len(p.Jobs))
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if err := j.Validate(); err != nil {
			return err
		}
		if ids != nil {
			if ids[j.ID] {
				return fmt.Errorf("%w: jobs: id %q stands twice", ErrProblem, j.ID)
			}
			ids[j.ID] = true
		}
		for _, c := range j.Clusters {
			if !names[c] {
				return fmt.Errorf("%w: job %q: clusters: %q is not a cluster of the instance", ErrProblem, j.ID, c)
			}
		}
		if b := j.Begun; b != nil && !names[b.Cluster] {
			return fmt.Errorf("%w: job %q: begun.cluster: %q is not a cluster of the instance", ErrProblem, j.ID, b.Cluster)
		}
		if j.Begun != nil && p.Objective.Kind != Carbon {
			return fmt.Errorf("%w: job %q: begun: set; accepted: absent for objective %q", ErrProblem, j.ID, p.Objective.Kind)
		}
	}
	return nil
}

func (o Objective) validate() error {
	if !finite(o.PriceWeight) || o.PriceWeight < 0 {
		return fmt.Errorf("%w: objective.priceWeight: %v; accepted: 0 to 1e+18", ErrProblem, o.PriceWeight)
	}
	switch o.Kind {
	case Carbon:
		return nil
	case MOSP:
	default:
		return fmt.Errorf("%w: objective.kind: %q; accepted: %q or %q", ErrProblem, o.Kind, Carbon, MOSP)
	}
	for i, w := range o.Weights {
		if !finite(w) || w < 0 {
			return fmt.Errorf("%w: objective.weights[%d]: %v; accepted: 0 to 1e+18", ErrProblem, i, w)
		}
	}
	if o.Theta != nil {
		for i, th := range o.Theta {
			if !finite(th) || th <= 0 {
				return fmt.Errorf("%w: objective.theta[%d]: %v; accepted: above 0, at most 1e+18", ErrProblem, i, th)
			}
		}
	}
	return nil
}

func (c *Cluster) validate(n int, objective ObjectiveKind) error {
	if c.Name == "" {
		return fmt.Errorf("%w: clusters: a name is empty", ErrProblem)
	}
	fault := func(field string, value any, accepted string) error {
		return fmt.Errorf("%w: cluster %q: %s: %v; accepted: %s", ErrProblem, c.Name, field, value, accepted)
	}
	if !finite(c.PUE) || c.PUE < 1 {
		return fault("pue", c.PUE, "1 to 1e+18")
	}
	for r, w := range c.Watts {
		if !finite(w) || w < 0 {
			return fault(fmt.Sprintf("watts[%q]", r), w, "0 to 1e+18")
		}
	}
	if len(c.Intensity) != n {
		return fault("intensity", fmt.Sprintf("%d values", len(c.Intensity)), fmt.Sprintf("%d, the horizon", n))
	}
	for t, v := range c.Intensity {
		if !finite(v) || v < 0 {
			return fault(fmt.Sprintf("intensity[%d]", t), v, "0 to 1e+18")
		}
		if v == 0 && objective == MOSP {
			return fault(fmt.Sprintf("intensity[%d]", t), v, "above 0 for the mosp objective, which divides by it")
		}
	}
	if c.Before != nil && !(finite(*c.Before) && *c.Before >= 0) {
		return fault("before", *c.Before, "0 to 1e+18, or none")
	}
	for k, bound := range [][]float64{c.IntensityLow, c.IntensityHigh} {
		field := [...]string{"intensityLow", "intensityHigh"}[k]
		if bound != nil && len(bound) != n {
			return fault(field, fmt.Sprintf("%d values", len(bound)), fmt.Sprintf("%d, the horizon, or none", n))
		}
		for t, v := range bound {
			if !finite(v) || v < 0 {
				return fault(fmt.Sprintf("%s[%d]", field, t), v, "0 to 1e+18")
			}
		}
	}
	for name, values := range c.Signals {
		if len(values) != n {
			return fault(fmt.Sprintf("signals[%q]", name), fmt.Sprintf("%d values", len(values)), fmt.Sprintf("%d, the horizon", n))
		}
		for t, v := range values {
			if !finite(v) {
				return fault(fmt.Sprintf("signals[%q][%d]", name, t), v, "-1e+18 to 1e+18")
			}
		}
	}
	for k, series := range []map[string][]float64{c.Capacity, c.Load, c.Price} {
		what := [...]string{"capacity", "load", "price"}[k]
		for r, values := range series {
			if len(values) != n {
				return fault(fmt.Sprintf("%s[%q]", what, r), fmt.Sprintf("%d values", len(values)), fmt.Sprintf("%d, the horizon", n))
			}
			for t, v := range values {
				if !finite(v) || v < 0 {
					return fault(fmt.Sprintf("%s[%q][%d]", what, r, t), v, "0 to 1e+18")
				}
			}
		}
	}
	return nil
}

// Watts returns the power of w workers of job j on cluster c, PUE apart.
func (p *Problem) Watts(j, c, w int) float64 {
	job := &p.Jobs[j]
	if job.Watts != nil {
		return job.Watts[w-job.MinWorkers]
	}
	return power.Sum(job.Request, p.Clusters[c].Watts) * float64(w)
}

// SlotGrams returns the emissions of w workers of job j on cluster c through
// the whole of slot t: hours * watts * PUE * intensity / 1000.
func (p *Problem) SlotGrams(j, c, t, w int) float64 {
	return p.grams(c, t, p.Watts(j, c, w))
}

// grams is the emissions of a power, PUE apart, through the whole of slot t.
func (p *Problem) grams(c, t int, watts float64) float64 {
	cl := &p.Clusters[c]
	return p.Grid.Hours() * watts * cl.PUE * cl.Intensity[t] / 1000
}

// SlotPrice returns the money that w workers of job j cost on cluster c through the
// whole of slot t.
func (p *Problem) SlotPrice(j, c, t, w int) float64 {
	if len(p.Clusters[c].Price) == 0 {
		return 0
	}
	sum := 0.0
	request := p.Jobs[j].Request
	for _, r := range slices.Sorted(maps.Keys(request)) { // a fixed order: equal bits
		if price := p.Clusters[c].Price[r]; price != nil {
			sum += request[r] * float64(w) * price[t]
		}
	}
	return sum * p.Grid.Hours()
}

// KWhGrams returns the emissions of an energy, kWh, used on cluster c in slot t, PUE
// included.
func (p *Problem) KWhGrams(c, t int, kWh float64) float64 {
	return kWh * p.Clusters[c].PUE * p.Clusters[c].Intensity[t]
}

// Plain reports whether emissions of slots are all that a plan costs: no price, and no
// energy of restarts and moves.
func (p *Problem) Plain() bool {
	for j := range p.Jobs {
		if p.Jobs[j].RestartKWh > 0 || p.Jobs[j].TransferKWh > 0 {
			return false
		}
	}
	return p.Objective.PriceWeight == 0
}

// LastSlot returns the first slot job j may not use: its deadline or the end
// of the horizon, whichever comes first; the horizon where deadlines are soft.
func (p *Problem) LastSlot(j int) int {
	if p.Objective.Kind == MOSP {
		return p.Grid.N
	}
	return min(p.Jobs[j].Deadline, p.Grid.N)
}

// Allowed returns the clusters that job j may use, in order.
func (p *Problem) Allowed(j int) []int {
	var out []int
	for c := range p.Clusters {
		if p.Jobs[j].Allows(p.Clusters[c].Name) {
			out = append(out, c)
		}
	}
	return out
}

// Resources returns the names of all resources that jobs ask for, sorted.
func (p *Problem) Resources() []string {
	seen := map[string]bool{}
	for i := range p.Jobs {
		for r := range p.Jobs[i].Request {
			seen[r] = true
		}
	}
	names := make([]string, 0, len(seen))
	for r := range seen {
		names = append(names, r)
	}
	sort.Strings(names)
	return names
}

// finite reports whether a number is one that a problem may have; NaN is none.
func finite(v float64) bool { return math.Abs(v) <= workload.MaxNumber }
