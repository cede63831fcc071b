// Package planio reads and writes planning instances and plans in Lull's JSON
// formats (version 1). Everything is converted and checked here, once.
package planio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// ErrFormat marks a text that is not of the format.
var ErrFormat = errors.New("invalid file")

// MaxBytes bounds what is read: 100,000 jobs on 50 clusters fit several times.
const MaxBytes = 1 << 30

// version is the version of both formats.
const version = 1

// maxCells bounds clusters x resources x slots, the memory a horizon costs.
const maxCells = 100_000_000

type instanceJSON struct {
	Version   int           `json:"version"`
	Start     string        `json:"start"`
	Slot      string        `json:"slot"`
	Horizon   int           `json:"horizon"`
	Objective objectiveJSON `json:"objective"`
	Clusters  []clusterJSON `json:"clusters"`
	Jobs      []jobJSON     `json:"jobs"`
}

type objectiveJSON struct {
	Kind    plan.ObjectiveKind `json:"kind"`
	Weights []float64          `json:"weights,omitempty"`
	Theta   []float64          `json:"theta,omitempty"`
	// PriceWeight and the fields marked so below are Lull's own, beyond the common
	// format; an instance without them is of the common format.
	PriceWeight float64 `json:"priceWeight,omitempty"`
}

type clusterJSON struct {
	Name      string             `json:"name"`
	Zone      string             `json:"zone,omitempty"`
	Capacity  map[string]series  `json:"capacity"`
	Watts     map[string]float64 `json:"watts,omitempty"`
	PUE       *float64           `json:"pue,omitempty"`
	Intensity series             `json:"intensity"`
	Price     map[string]series  `json:"price,omitempty"`   // Lull's own
	Signals   map[string]series  `json:"signals,omitempty"` // Lull's own
}

type jobJSON struct {
	ID         string             `json:"id"`
	Arrival    int                `json:"arrival"`
	Length     float64            `json:"length"`
	Deadline   int                `json:"deadline"`
	Kind       workload.Kind      `json:"kind"`
	Request    map[string]float64 `json:"request"`
	MinWorkers *int               `json:"minWorkers,omitempty"`
	MaxWorkers *int               `json:"maxWorkers,omitempty"`
	Curve      []float64          `json:"curve,omitempty"`
	Watts      []float64          `json:"watts,omitempty"`
	Clusters   []string           `json:"clusters,omitempty"`
	Migratable bool               `json:"migratable,omitempty"`

	// Lull's own.
	RestartKWh  float64        `json:"restartKWh,omitempty"`
	TransferKWh float64        `json:"transferKWh,omitempty"`
	Quantiles   []quantileJSON `json:"quantiles,omitempty"`
	Begun       *begunJSON     `json:"begun,omitempty"`
}

type begunJSON struct {
	Cluster string  `json:"cluster"`
	Paused  bool    `json:"paused,omitempty"`
	Lost    float64 `json:"lost,omitempty"`
}

type quantileJSON struct {
	P      float64 `json:"p"`
	Length float64 `json:"length"`
}

// series is a number (constant) or one number a slot.
type series struct {
	constant float64
	values   []float64 // nil for a constant
	set      bool
}

// UnmarshalJSON reads a number or an array of numbers.
func (s *series) UnmarshalJSON(text []byte) error {
	s.set = true
	if len(text) > 0 && text[0] == '[' {
		s.values = []float64{}
		return json.Unmarshal(text, &s.values)
	}
	return json.Unmarshal(text, &s.constant)
}

// MarshalJSON writes the shorter of the two forms.
func (s series) MarshalJSON() ([]byte, error) {
	if s.values == nil {
		return json.Marshal(s.constant)
	}
	return json.Marshal(s.values)
}

func (s series) over(n int, what string) ([]float64, error) {
	if !s.set {
		return nil, fmt.Errorf("%w: %s: absent; accepted: a number or an array of %d numbers", ErrFormat, what, n)
	}
	if s.values != nil {
		if len(s.values) != n {
			return nil, fmt.Errorf("%w: %s: %d values; accepted: a number or an array of %d, the horizon", ErrFormat, what, len(s.values), n)
		}
		return s.values, nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = s.constant
	}
	return out, nil
}

// decode reads one JSON value strictly: unknown fields and trailing data are
// errors that name them.
func decode(r io.Reader, into any) error {
	bounded := &io.LimitedReader{R: r, N: MaxBytes + 1}
	text, err := units.PlainText(bounded)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	dec := json.NewDecoder(text)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if bounded.N == 0 {
			return fmt.Errorf("%w: larger than %d MiB", ErrFormat, MaxBytes>>20)
		}
		return fmt.Errorf("%w: %w", ErrFormat, units.ReadError(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more data after the JSON object", ErrFormat)
	}
	return nil
}

// ReadInstance reads and validates a planning instance. Errors name the field,
// the value and what is accepted, and wrap ErrFormat, plan.ErrProblem or
// workload.ErrJob.
func ReadInstance(r io.Reader) (*plan.Problem, error) {
	var in instanceJSON
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if in.Version != version {
		return nil, fmt.Errorf("%w: version: %d; accepted: %d", ErrFormat, in.Version, version)
	}
	start, err := time.Parse(time.RFC3339, in.Start)
	if err != nil {
		return nil, fmt.Errorf("%w: start: %q; accepted: RFC 3339, e.g. 2023-11-14T11:00:00Z", ErrFormat, in.Start)
	}
	slot, err := units.ParseDuration(in.Slot)
	if err != nil {
		return nil, fmt.Errorf("%w: slot: %w", ErrFormat, err)
	}
	grid, err := timegrid.New(start, slot, in.Horizon)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	p := &plan.Problem{Grid: grid}
	if p.Objective, err = in.Objective.objective(); err != nil {
		return nil, err
	}
	cells := 0
	for i := range in.Clusters {
		cells += (len(in.Clusters[i].Capacity) + 1) * in.Horizon
		if cells > maxCells {
			return nil, fmt.Errorf("%w: clusters x resources x horizon is above %d", ErrFormat, maxCells)
		}
		c, err := in.Clusters[i].cluster(in.Horizon)
		if err != nil {
			return nil, err
		}
		p.Clusters = append(p.Clusters, c)
	}
	p.Jobs = make([]workload.Job, len(in.Jobs))
	for i := range in.Jobs {
		p.Jobs[i] = in.Jobs[i].job()
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

func (o objectiveJSON) objective() (plan.Objective, error) {
	out := plan.Objective{Kind: o.Kind}
	out.PriceWeight = o.PriceWeight
	if o.Kind == "" {
		out.Kind = plan.Carbon
	}
	if out.Kind != plan.MOSP {
		if o.Weights != nil || o.Theta != nil {
			return out, fmt.Errorf("%w: objective: weights and theta belong to kind %q", ErrFormat, plan.MOSP)
		}
		return out, nil
	}
	if len(o.Weights) != 3 {
		return out, fmt.Errorf("%w: objective.weights: %d values; accepted: 3", ErrFormat, len(o.Weights))
	}
	copy(out.Weights[:], o.Weights)
	if o.Theta != nil {
		if len(o.Theta) != 3 {
			return out, fmt.Errorf("%w: objective.theta: %d values; accepted: 3", ErrFormat, len(o.Theta))
		}
		out.Theta = &[3]float64{o.Theta[0], o.Theta[1], o.Theta[2]}
	}
	return out, nil
}

func (c clusterJSON) cluster(n int) (plan.Cluster, error) {
	out := plan.Cluster{Name: c.Name, Zone: c.Zone, Watts: c.Watts, PUE: 1, Capacity: make(map[string][]float64, len(c.Capacity))}
	if c.PUE != nil {
		out.PUE = *c.PUE
	}
	var err error
	if out.Intensity, err = c.Intensity.over(n, fmt.Sprintf("cluster %q: intensity", c.Name)); err != nil {
		return out, err
	}
	for r, s := range c.Capacity {
		if out.Capacity[r], err = s.over(n, fmt.Sprintf("cluster %q: capacity[%q]", c.Name, r)); err != nil {
			return out, err
		}
	}
	if out.Price, err = all(c.Price, n, fmt.Sprintf("cluster %q: price", c.Name)); err != nil {
		return out, err
	}
	out.Signals, err = all(c.Signals, n, fmt.Sprintf("cluster %q: signals", c.Name))
	return out, err
}

func all(given map[string]series, n int, what string) (map[string][]float64, error) {
	if given == nil {
		return nil, nil
	}
	out := make(map[string][]float64, len(given))
	for name, s := range given {
		values, err := s.over(n, fmt.Sprintf("%s[%q]", what, name))
		if err != nil {
			return nil, err
		}
		out[name] = values
	}
	return out, nil
}

func (j jobJSON) job() workload.Job {
	out := workload.Job{
		ID: j.ID, Kind: j.Kind, Arrival: j.Arrival, Deadline: j.Deadline, Length: j.Length,
		Request: j.Request, MinWorkers: 1, Curve: j.Curve, Watts: j.Watts,
		Clusters: j.Clusters, Migratable: j.Migratable, RestartKWh: j.RestartKWh, TransferKWh: j.TransferKWh,
	}
	for _, q := range j.Quantiles {
		out.Quantiles = append(out.Quantiles, workload.Quantile(q))
	}
	out.Begun = (*workload.Begun)(j.Begun)
	if j.MinWorkers != nil {
		out.MinWorkers = *j.MinWorkers
	}
	out.MaxWorkers = out.MinWorkers
	if j.MaxWorkers != nil {
		out.MaxWorkers = *j.MaxWorkers
	}
	if out.Curve == nil {
		out.Curve = []float64{1}
	}
	return out
}

// WriteInstance writes p so that ReadInstance gives it back. Load, priority
// classes and time waited are not part of the format and are an error when present. The intensity before the first slot is not part of it either,
// and is left out.
func WriteInstance(w io.Writer, p *plan.Problem) error {
	out := instanceJSON{
		Version: version, Start: p.Grid.Start.Format(time.RFC3339Nano), Slot: p.Grid.Slot.String(), Horizon: p.Grid.N,
		Objective: objectiveJSON{Kind: p.Objective.Kind, PriceWeight: p.Objective.PriceWeight}, Clusters: []clusterJSON{}, Jobs: []jobJSON{},
	}
	if p.Objective.Kind == plan.MOSP {
		out.Objective.Weights = p.Objective.Weights[:]
		if p.Objective.Theta != nil {
			out.Objective.Theta = p.Objective.Theta[:]
		}
	}
	for i := range p.Clusters {
		c := &p.Clusters[i]
		if c.Load != nil {
			return fmt.Errorf("%w: cluster %q: a load cannot be written; subtract it from the capacity", ErrFormat, c.Name)
		}
		cj := clusterJSON{Name: c.Name, Zone: c.Zone, Watts: c.Watts, PUE: &c.PUE, Intensity: compact(c.Intensity), Capacity: map[string]series{}}
		for r, v := range c.Capacity {
			cj.Capacity[r] = compact(v)
		}
		cj.Price, cj.Signals = compactAll(c.Price), compactAll(c.Signals)
		out.Clusters = append(out.Clusters, cj)
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if j.PriorityClass != "" || j.Waited != 0 {
			return fmt.Errorf("%w: job %q: a priority class and a time waited cannot be written", ErrFormat, j.ID)
		}
		var quantiles []quantileJSON
		for _, q := range j.Quantiles {
			quantiles = append(quantiles, quantileJSON(q))
		}
		out.Jobs = append(out.Jobs, jobJSON{
			ID: j.ID, Arrival: j.Arrival, Length: j.Length, Deadline: j.Deadline, Kind: j.Kind, Request: j.Request,
			MinWorkers: &j.MinWorkers, MaxWorkers: &j.MaxWorkers, Curve: j.Curve, Watts: j.Watts,
			Clusters: j.Clusters, Migratable: j.Migratable, RestartKWh: j.RestartKWh, TransferKWh: j.TransferKWh, Quantiles: quantiles,
			Begun: (*begunJSON)(j.Begun),
		})
	}
	return encode(w, out)
}

func compactAll(all map[string][]float64) map[string]series {
	if all == nil {
		return nil
	}
	out := make(map[string]series, len(all))
	for name, v := range all {
		out[name] = compact(v)
	}
	return out
}

// compact turns equal values into a constant.
func compact(v []float64) series {
	for _, x := range v {
		if x != v[0] {
			return series{values: v, set: true}
		}
	}
	if len(v) == 0 {
		return series{values: v, set: true}
	}
	return series{constant: v[0], set: true}
}

type planJSON struct {
	Version     int           `json:"version"`
	Planner     string        `json:"planner,omitempty"`
	CarbonG     *float64      `json:"carbonG,omitempty"`
	BoundG      *float64      `json:"boundG,omitempty"`
	Z           *float64      `json:"z,omitempty"`
	BoundZ      *float64      `json:"boundZ,omitempty"`
	Cost        *float64      `json:"cost,omitempty"`      // of the objective with money; Lull's own
	BoundCost   *float64      `json:"boundCost,omitempty"` // Lull's own
	Gap         *float64      `json:"gap,omitempty"`
	Status      plan.Status   `json:"status,omitempty"`
	Jobs        []planJobJSON `json:"jobs"`
	Unscheduled []string      `json:"unscheduled"`
}

type planJobJSON struct {
	ID       string        `json:"id"`
	Segments []segmentJSON `json:"segments"`
}

type segmentJSON struct {
	T        int      `json:"t"`
	Cluster  string   `json:"cluster"`
	Workers  int      `json:"workers"`
	Fraction *float64 `json:"fraction,omitempty"`
}

// WritePlan writes a result of the named planner on p. Equal results give
// equal bytes.
func WritePlan(w io.Writer, p *plan.Problem, planner string, res plan.Result) error {
	e := plan.Evaluate(p, res.Plan)
	out := planJSON{Version: version, Planner: planner, CarbonG: &e.CarbonG, Status: res.Status, Jobs: []planJobJSON{}, Unscheduled: []string{}}
	if gap, ok := Gap(p, res, e); ok {
		out.Gap = &gap
	}
	if p.Objective.Kind == plan.MOSP && p.Objective.Theta != nil {
		out.Z = &e.ZTotal
	}
	switch cost := e.Cost(p.Objective); {
	case math.IsNaN(cost): // Z without theta: nothing to compare
	case p.Objective.PriceWeight > 0:
		out.Cost, out.BoundCost = &cost, res.Bound
	case p.Objective.Kind == plan.Carbon:
		out.BoundG = res.Bound
	default:
		out.BoundZ = res.Bound
	}
	planned := make([]bool, len(p.Jobs))
	for _, jp := range res.Plan.Jobs {
		pj := planJobJSON{ID: p.Jobs[jp.Job].ID, Segments: make([]segmentJSON, len(jp.Segments))}
		planned[jp.Job] = len(jp.Segments) > 0
		for i, s := range jp.Segments {
			pj.Segments[i] = segmentJSON{T: s.Slot, Cluster: p.Clusters[s.Cluster].Name, Workers: s.Workers}
			if f := s.Fraction; f != 1 {
				pj.Segments[i].Fraction = &f
			}
		}
		out.Jobs = append(out.Jobs, pj)
	}
	for j, ok := range planned {
		if !ok {
			out.Unscheduled = append(out.Unscheduled, p.Jobs[j].ID)
		}
	}
	return encode(w, out)
}

// Gap returns how far a result may be from optimal, relative to its bound;
// false where the planner proved none.
func Gap(p *plan.Problem, res plan.Result, e plan.Evaluation) (float64, bool) {
	if res.Bound == nil || *res.Bound == 0 || res.Status == plan.Infeasible {
		return 0, false
	}
	cost, bound := e.Cost(p.Objective), *res.Bound
	if p.Objective.Kind == plan.MOSP && p.Objective.PriceWeight == 0 {
		bound = -bound // Z is gained
	}
	return (cost - bound) / math.Abs(bound), !math.IsNaN(cost)
}

// ReadPlan reads a plan of p. It checks the form only; use plan.Check for the
// constraints. Segments come back in order of slots.
func ReadPlan(r io.Reader, p *plan.Problem) (plan.Plan, error) {
	var in planJSON
	if err := decode(r, &in); err != nil {
		return plan.Plan{}, err
	}
	if in.Version != version {
		return plan.Plan{}, fmt.Errorf("%w: version: %d; accepted: %d", ErrFormat, in.Version, version)
	}
	jobs := make(map[string]int, len(p.Jobs))
	for i := range p.Jobs {
		jobs[p.Jobs[i].ID] = i
	}
	clusters := make(map[string]int, len(p.Clusters))
	for i := range p.Clusters {
		clusters[p.Clusters[i].Name] = i
	}
	var pl plan.Plan
	for _, pj := range in.Jobs {
		j, ok := jobs[pj.ID]
		if !ok {
			return plan.Plan{}, fmt.Errorf("%w: jobs: id %q is not in the instance", ErrFormat, pj.ID)
		}
		jp := plan.JobPlan{Job: j}
		for _, s := range pj.Segments {
			c, ok := clusters[s.Cluster]
			if !ok {
				return plan.Plan{}, fmt.Errorf("%w: job %q: cluster %q is not in the instance", ErrFormat, pj.ID, s.Cluster)
			}
			fraction := 1.0
			if s.Fraction != nil {
				fraction = *s.Fraction
			}
			jp.Segments = append(jp.Segments, plan.Segment{Slot: s.T, Cluster: c, Workers: s.Workers, Fraction: fraction})
		}
		sort.SliceStable(jp.Segments, func(a, b int) bool { return jp.Segments[a].Slot < jp.Segments[b].Slot })
		pl.Jobs = append(pl.Jobs, jp)
	}
	sort.SliceStable(pl.Jobs, func(a, b int) bool { return pl.Jobs[a].Job < pl.Jobs[b].Job })
	return pl, nil
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}
