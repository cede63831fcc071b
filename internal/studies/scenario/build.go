package scenario

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/pkg/zones"
)

// Build reads the files of s and returns the simulation, without the planner.
func (s *Scenario) Build() (sim.Config, error) {
	s.defaults()
	cfg := sim.Config{
		Slot: s.Slot.Duration, Margin: s.Margin.Duration, Horizon: s.Horizon.Duration, Overhead: s.Overhead.Duration, Seed: s.Seed,
		MinRun: s.MinRun.Duration, MinPause: s.MinPause.Duration, MinSaving: *s.MinSaving, SavingConfidence: s.SavingConfidence,
		Objective: plan.Objective{Kind: plan.ObjectiveKind(s.Objective), Weights: s.Weights},
	}
	if cfg.Objective.Kind != plan.Carbon && cfg.Objective.Kind != plan.MOSP {
		return cfg, fault("objective", s.Objective, "carbon or mosp")
	}
	if cfg.Slot < time.Minute || cfg.Slot > 24*time.Hour {
		return cfg, fault("slot", cfg.Slot, "1m to 24h")
	}
	if !(cfg.MinSaving >= 0 && cfg.MinSaving < 1) {
		return cfg, fault("minSaving", cfg.MinSaving, "at least 0, below 1")
	}
	if !(cfg.SavingConfidence >= 0 && cfg.SavingConfidence <= 1) {
		return cfg, fault("savingConfidence", cfg.SavingConfidence, "0 to 1")
	}
	tr, err := s.Jobs.trace(s.Seed)
	if err != nil {
		return cfg, err
	}
	s.reading = tr.Reading
	if len(tr.Jobs) == 0 {
		return cfg, fault("jobs", "none", "a trace with at least one job in the time that is simulated")
	}
	s.place(tr)
	series := make([]*carbon.Series, len(s.Clusters))
	for i := range s.Clusters {
		if series[i], err = s.Clusters[i].actual(); err != nil {
			return cfg, fmt.Errorf("cluster %s: %w", s.Clusters[i].Name, err)
		}
	}
	if s.Uncertain {
		s.beUncertain(series)
	}
	start := s.start(tr, series)
	for i := range s.Clusters {
		c, err := s.Clusters[i].build(series[i], start, tr.Span(), cfg.Slot, s.Seed+uint64(i))
		if err != nil {
			return cfg, err
		}
		cfg.Clusters = append(cfg.Clusters, c)
	}
	if cfg.Faults, err = s.faults(); err != nil {
		return cfg, err
	}
	if cfg.Jobs, err = s.Jobs.build(tr, start, s.Seed); err != nil {
		return cfg, err
	}
	if err := s.split(&cfg, start); err != nil {
		return cfg, err
	}
	cfg.Lengths, err = s.Jobs.lengths(cfg.Jobs)
	return cfg, err
}

// Reading returns what became of the entries of the trace as Build read it.
func (s *Scenario) Reading() trace.Reading { return s.reading }

// start is when arrivals of tr count from on the clock of the simulation: the start of
// the whole trace and what was cut off before them, so that a job keeps its time of day
// and of the week whatever is left out.
func (s *Scenario) start(tr *trace.Trace, series []*carbon.Series) time.Time {
	if !s.Start.IsZero() {
		return s.Start.UTC().Add(tr.Offset)
	}
	if !tr.Start.IsZero() {
		return tr.Start
	}
	var start time.Time
	for _, c := range series {
		if c != nil && c.Start().After(start) {
			start = c.Start()
		}
	}
	if s.Uncertain && !start.IsZero() {
		start = start.Add(modelHistory) // models learn before the first job comes
	}
	if start.IsZero() {
		start = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return start.UTC().Add(tr.Offset)
}

// String states the kind and the values that are not 0.
func (d Distribution) String() string {
	parts := []string{fmt.Sprintf("kind %q", d.Kind)}
	for _, v := range []struct {
		name  string
		value float64
	}{{"value", d.Value}, {"low", float64(d.Low)}, {"high", float64(d.High)}, {"mean", d.Mean}, {"median", d.Median}, {"sigma", d.Sigma}, {"most", d.Most}} {
		if v.value != 0 {
			parts = append(parts, fmt.Sprintf("%s %g", v.name, v.value))
		}
	}
	return strings.Join(parts, ", ")
}

func (d Distribution) build(field string) (trace.Distribution, error) {
	most := d.Most
	if most == 0 {
		most = 1e6
	}
	switch {
	case d.Kind == "constant" && d.Value > 0:
		return trace.Constant(d.Value), nil
	case d.Kind == "uniform" && d.Low >= 1 && d.High >= d.Low:
		return trace.UniformInt(d.Low, d.High), nil
	case d.Kind == "exponential" && d.Mean > 0:
		return trace.Exponential(d.Mean, most), nil
	case d.Kind == "lognormal" && d.Median > 0 && d.Sigma >= 0:
		return trace.LogNormal(d.Median, d.Sigma, most), nil
	}
	return nil, fault(field, d.String(), "constant (value), uniform (low, high), exponential (mean) or lognormal (median, sigma), all above 0")
}

// build makes jobs of the trace.
func (j *Jobs) build(tr *trace.Trace, start time.Time, seed uint64) ([]sim.Job, error) {
	kind := workload.Kind(j.Kind)
	switch kind {
	case "":
		kind = workload.Rigid
		if j.Elastic != nil {
			kind = workload.Elastic
		}
	case workload.Rigid, workload.Interruptible, workload.Elastic:
	default:
		return nil, fault("jobs.kind", j.Kind, "rigid, interruptible or elastic")
	}
	if !(j.Estimate.Error >= 0 && j.Estimate.Error < 1) {
		return nil, fault("jobs.estimate.error", j.Estimate.Error, "0 to below 1")
	}
	scales, err := j.Elastic.scales(seed)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6a6f6273))
	seen := make(map[string]bool, len(tr.Jobs))
	jobs := make([]sim.Job, 0, len(tr.Jobs))
	for i := range tr.Jobs {
		t := &tr.Jobs[i]
		if seen[t.ID] {
			return nil, fault("jobs: id", fmt.Sprintf("%q", t.ID), "each id once")
		}
		seen[t.ID] = true
		x := sim.Job{
			ID: t.ID, Submitted: start.Add(t.Arrival), Length: t.Length, Estimate: t.Length, Kind: kind, Request: t.Request,
			PriorityClass: t.PriorityClass, RestartKWh: j.RestartKWh, TransferKWh: j.TransferKWh, MaxDelay: t.MaxDelay, Watts: t.Watts,
		}
		if t.Kind != "" {
			x.Kind = t.Kind
		}
		if t.Deadline > 0 {
			x.Deadline = start.Add(t.Deadline)
		} else if x.MaxDelay == 0 {
			if x.MaxDelay, err = j.delayOf(t); err != nil {
				return nil, err
			}
		}
		if j.Estimate.Kind == "requested" && t.Estimate > 0 {
			x.Estimate = t.Estimate
		}
		if e := j.Estimate.Error; e > 0 {
			x.Estimate = time.Duration(float64(x.Estimate) * (1 + e*(2*rng.Float64()-1)))
		}
		if x.Kind == workload.Elastic {
			if x.Scale, err = pickScale(scales, t, rng); err != nil {
				return nil, err
			}
			x.Scale, x.Watts = withWatts(x.Scale, t.Watts), 0
		}
		jobs = append(jobs, x)
	}
	return jobs, nil
}

// classOf is the entry of MaxDelay that counts for a length.
func (j *Jobs) classOf(length time.Duration) int {
	for i, d := range j.MaxDelay {
		if d.UpTo.Duration == 0 || length <= d.UpTo.Duration {
			return i
		}
	}
	return len(j.MaxDelay) - 1
}

// delayOf is the allowed delay of a job that states none.
func (j *Jobs) delayOf(t *trace.Job) (time.Duration, error) {
	d := j.MaxDelay[j.classOf(t.Length)]
	if d.UpTo.Duration > 0 && t.Length > d.UpTo.Duration {
		return 0, fault("jobs.maxDelay", "lengths up to "+ShortDuration(d.UpTo.Duration),
			fmt.Sprintf("a last entry without upTo (--max-delay ...,DELAY), as job %q runs for %s", t.ID, ShortDuration(t.Length)))
	}
	return d.Delay.Duration, nil
}

// lengths is how run times are estimated as jobs go, nil where Job.Estimate stands.
func (j *Jobs) lengths(jobs []sim.Job) (sim.Lengths, error) {
	class := func(x *sim.Job) int { return j.classOf(x.Length) }
	switch j.Estimate.Kind {
	case "", "exact", "requested":
		return nil, nil
	case "mean":
		sums, counts := make([]time.Duration, len(j.MaxDelay)), make([]time.Duration, len(j.MaxDelay))
		for i := range jobs {
			c := class(&jobs[i])
			sums[c] += jobs[i].Length / time.Second
			counts[c]++
		}
		m := sim.MeanOf{Class: class}
		for c := range sums {
			m.Means = append(m.Means, sums[c]/max(1, counts[c])*time.Second)
		}
		return m, nil
	case "learned":
		return &sim.Learned{Class: class}, nil
	}
	return nil, fault("jobs.estimate.kind", j.Estimate.Kind, "exact, requested, mean or learned")
}

// scale is a capacity curve by its name.
type scale struct {
	name string
	*sim.Scale
}

// scales reads the capacity curves.
func (e *Elastic) scales(seed uint64) ([]scale, error) {
	if e == nil {
		return nil, nil
	}
	if e.Error < 0 || e.Error > 1 {
		return nil, fault("jobs.elastic.error", e.Error, "0 to 1")
	}
	var out []scale
	for i, file := range e.Profiles {
		err := source.WithFile(file, func(r io.Reader) error {
			curve, err := trace.ReadProfile(r)
			if err != nil {
				return err
			}
			low, high := max(1, e.Min), e.Max
			if high == 0 {
				high = curve.MaxWorkers()
			}
			s, err := curve.Scale(low, high)
			if err != nil {
				return err
			}
			x := &sim.Scale{MinWorkers: low, MaxWorkers: high, Curve: s.Curve}
			if e.Watts {
				x.Watts = s.Watts
			}
			if e.Error > 0 {
				x = sim.ProfileError(x, e.Error, seed+uint64(i))
			}
			name := file[strings.LastIndexByte(file, '/')+1:]
			out = append(out, scale{strings.TrimSuffix(name, ".csv"), x})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pickScale is the curve that the trace names, or one by chance.
func pickScale(scales []scale, t *trace.Job, rng *rand.Rand) (*sim.Scale, error) {
	if len(scales) == 0 {
		return nil, fault("jobs.elastic.profiles", "none", "capacity curves for elastic jobs")
	}
	if t.Profile == "" {
		return scales[rng.IntN(len(scales))].Scale, nil
	}
	for _, s := range scales {
		if s.name == t.Profile {
			return s.Scale, nil
		}
	}
	return nil, fault(fmt.Sprintf("job %q: profile", t.ID), t.Profile, "one of jobs.elastic.profiles")
}

func (s *Scenario) faults() (sim.Faults, error) {
	f := sim.Faults{Deny: s.Faults.Deny, Retry: s.Faults.Retry.Duration}
	for i, l := range s.Faults.Losses {
		x := sim.Loss{Cluster: -1, From: l.From, To: l.To, Capacity: l.Capacity}
		for c := range s.Clusters {
			if s.Clusters[c].Name == l.Cluster {
				x.Cluster = c
			}
		}
		if x.Cluster < 0 {
			return f, fault(fmt.Sprintf("faults.losses[%d].cluster", i), l.Cluster, "the name of a cluster")
		}
		f.Losses = append(f.Losses, x)
	}
	return f, nil
}

// actual is the intensity that files state, nil where none does: that of carbon, else
// what came after recorded forecasts.
func (c *Cluster) actual() (*carbon.Series, error) {
	if len(c.Carbon) > 0 {
		return source.ReadFiles(c.Carbon...)
	}
	if c.Forecast.Kind != "recorded" {
		return nil, nil
	}
	issued, err := source.ReadRecorded(c.Forecast.File)
	if err != nil {
		return nil, err
	}
	h, err := forecast.Actuals(issued)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Forecast.File, err)
	}
	var samples []carbon.Sample
	for i, v := range h.Values {
		if from := h.Start.Add(time.Duration(i) * h.Step); !math.IsNaN(v) {
			samples = append(samples, carbon.Sample{From: from, To: from.Add(h.Step), Value: units.CarbonIntensity(v)})
		}
	}
	return carbon.NewSeries(carbon.Provenance{Zone: c.Zone, Source: c.Forecast.File}, samples)
}

// climate is how long a climatology is taken beyond the last arrival.
const climate = 60 * 24 * time.Hour

func (c *Cluster) build(actual *carbon.Series, start time.Time, span, slot time.Duration, seed uint64) (sim.Cluster, error) {
	out := sim.Cluster{Name: c.Name, Zone: c.Zone, Capacity: c.Capacity}
	field := func(name string) string { return fmt.Sprintf("cluster %s: %s", c.Name, name) }
	if actual == nil {
		var err error
		if actual, err = climatology.Series(c.Zone, start.AddDate(0, 0, -14), start.Add(span+climate)); err != nil {
			zone := c.Zone
			if c.AnyZone {
				zone += ", in which most energy of the trace was used"
			}
			return out, fault(field("zone"), zone, "carbon files, or one of "+strings.Join(climatology.Zones(), ", ")+zones.Hint(c.Zone))
		}
	}
	if actual.Len() == 0 || start.Before(actual.Start()) || !start.Before(actual.End()) {
		return out, fault(field("carbon"), fmt.Sprintf("%s to %s", actual.Start().Format(time.RFC3339), actual.End().Format(time.RFC3339)),
			"a series that has the start of the trace, "+start.Format(time.RFC3339)+", or another start (--start) for it")
	}
	out.Actual, out.Forecast = actual, actual
	watts := map[string]float64{trace.CPU: power.DefaultWattsPerCPU}
	if c.Watts != nil {
		watts = map[string]float64{}
		for r, w := range c.Watts {
			watts[r] = w
		}
	}
	if c.EtaNet != 0 {
		watts[trace.Network] = c.EtaNet
	}
	if n := c.Nodes; n != nil {
		if n.Resource == "" {
			n.Resource = trace.CPU
		}
		linear, err := power.NewLinear(units.Power(n.Idle), units.Power(n.Peak))
		if err != nil || n.Count < 1 || !(n.Each > 0) {
			return out, fault(field("nodes"), fmt.Sprintf("count %d, each %g, idle %g, peak %g", n.Count, n.Each, n.Idle, n.Peak), "count of at least 1, each above 0, 0 <= idle <= peak")
		}
		watts[n.Resource] = float64(linear.At(1)-linear.At(0)) / n.Each
		out.Nodes = sim.Nodes{Count: n.Count, Idle: linear.At(0), Resource: n.Resource}
		if n.PowerOff {
			out.Nodes.Each = n.Each
		}
		if out.Capacity == nil {
			out.Capacity = map[string]float64{n.Resource: float64(n.Count) * n.Each}
		}
	}
	var err error
	if out.Power, err = power.NewPerUnit(watts, c.PUE); err != nil {
		return out, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	for _, x := range c.Changes {
		out.Changes = append(out.Changes, sim.Change{At: x.At, Capacity: x.Capacity})
	}
	out.Announced = c.Announced
	for _, x := range c.Load {
		out.Load = append(out.Load, sim.Load{From: x.From, To: x.To, Amount: x.Amount, Announced: x.Announced})
	}
	return out, c.outlook(&out, slot, seed)
}

// outlook sets what planners are told.
func (c *Cluster) outlook(out *sim.Cluster, slot time.Duration, seed uint64) error {
	field := func(name string) string { return fmt.Sprintf("cluster %s: forecast.%s", c.Name, name) }
	f := &c.Forecast
	switch f.Kind {
	case "", "perfect":
	case "noise":
		var err error
		if out.Forecast, err = sim.Noisy(out.Actual, f.Error, seed); err != nil {
			return fault(field("error"), f.Error, "0 to 1")
		}
	case "recorded":
		issued, err := source.ReadRecorded(f.File)
		if err != nil {
			return fmt.Errorf("%s: %w", field("file"), err)
		}
		actual := out.Actual
		out.Outlook = func() sim.Outlook { return sim.Recorded(actual, issued) }
	case "model":
		if _, ok := Model(f.Model); !ok {
			return fault(field("model"), f.Model, "persistence, day-before, week-before, moving-average, day-weighted, holt-winters, ridge or blend")
		}
		every, ahead := f.Every.Duration, f.Ahead.Duration
		if every == 0 {
			every = 24 * time.Hour
		}
		if ahead == 0 {
			ahead = 96 * time.Hour
		}
		actual := out.Actual
		out.Outlook = func() sim.Outlook {
			m, _ := Model(f.Model)
			return sim.Modelled(actual, m, max(slot, time.Hour), every, modelHistory, ahead)
		}
	default:
		return fault(field("kind"), f.Kind, "perfect, noise, recorded or model")
	}
	for i, o := range c.Outages {
		if !o.To.After(o.From) {
			return fault(fmt.Sprintf("cluster %s: outages[%d]", c.Name, i), o.From.Format(time.RFC3339)+" to "+o.To.Format(time.RFC3339), "an end after the start")
		}
		if out.Outlook == nil {
			return fault(fmt.Sprintf("cluster %s: outages", c.Name), len(c.Outages), "none with a forecast that is known from the start (perfect, noise)")
		}
		answering := out.Outlook
		out.Outlook = func() sim.Outlook { return sim.Outage{Of: answering(), From: o.From, To: o.To} }
	}
	return nil
}

// Model returns a forecaster by name.
func Model(name string) (forecast.Model, bool) {
	switch name {
	case "persistence":
		return forecast.Persistence{}, true
	case "day-before":
		return forecast.SeasonalNaive{Days: 1}, true
	case "week-before":
		return forecast.SeasonalNaive{Days: 7}, true
	case "moving-average":
		return forecast.MovingAverage{}, true
	case "day-weighted":
		return forecast.DayWeighted{}, true
	case "holt-winters":
		return &forecast.HoltWinters{}, true
	case "ridge":
		return &forecast.Ridge{}, true
	case "", "blend":
		return forecast.NewBlend(), true
	}
	return nil, false
}
