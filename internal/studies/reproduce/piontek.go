package reproduce

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// CriticalClass is the priority class of jobs that never wait.
const CriticalClass = "critical"

func piontekExperiments() []Experiment {
	return []Experiment{{
		Paper: "piontek", ID: "table3", Title: "Four scenarios (Table 3, Fig. 3)",
		Setup: "One server of 36 cores, 212 W idle, 597 W at most; the scenarios' rates, durations (exponential, at most 2 h), utilisation and shares of non-critical jobs, arrivals that follow the day by 30 %; windows of 6 h in 24 h, at most 24 h of waiting; DE 2022, sixty days six days apart, each its own run, seed = day; slots of 5 minutes; joint on every fifth of those days, with a perfect forecast. The workloads of SHARCNET and AuverGrid are not available, so their statistics in Table 2 are used.",
		Run:   piontekTable3,
	}}
}

// PiontekScenario is one of Table 2: mean duration, share of the cores in use, jobs an hour, share of
// those that are not critical; and the percentage by which Table 3 found CO2 to fall.
type PiontekScenario struct {
	Duration                 time.Duration
	Use, PerHour, Uncritical float64
	Paper                    float64
}

// PiontekScenarios are those of Table 2, of a server of PiontekCores.
var PiontekScenarios = []PiontekScenario{
	{10*time.Minute + 54*time.Second, 0.5124, 184.2, 0.2, 2.41},
	{32*time.Minute + 45*time.Second, 0.4981, 60.5, 0.4, 0.40},
	{10*time.Minute + 2*time.Second, 0.44, 185.2, 0.4, 1.81},
	{5 * time.Minute, 0.497, 378.3, 0.4, 0.37},
}

// PiontekIdle and PiontekMax are the watts of the server without work and with all its cores at work.
const (
	PiontekCores = 36
	PiontekIdle  = 212
	PiontekMax   = 597
)

const (
	piontekDays  = 60
	piontekEvery = 6
	piontekJoint = 5 // joint runs on every fifth of the days
)

// Config is a day of the scenario in the simulator, from start on: its jobs by a seed, on one server.
// Planner and intensities are still to be set.
func (s PiontekScenario) Config(seed uint64, start time.Time) (sim.Config, error) {
	const span = 24 * time.Hour
	tr, err := trace.Generate(trace.Spec{
		Arrivals: trace.Arrivals{PerHour: s.PerHour, Swing: 0.3, Peak: 14}, Span: span,
		Length: trace.Exponential(s.Duration.Hours(), 2), CPUs: trace.Constant(1), Seed: seed,
	})
	if err != nil {
		return sim.Config{}, err
	}
	request := map[string]float64{trace.CPU: s.Use * PiontekCores / (s.PerHour * s.Duration.Hours())}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{
			Name: "server", Capacity: map[string]float64{trace.CPU: PiontekCores},
			Power: power.PerUnit{Watts: map[string]float64{trace.CPU: (PiontekMax - PiontekIdle) / float64(PiontekCores)}, PUE: 1},
		}},
		Slot: 5 * time.Minute, Revise: sim.OnChange,
	}
	for i := range tr.Jobs {
		j := sim.Job{ID: tr.Jobs[i].ID, Submitted: start.Add(tr.Jobs[i].Arrival), Length: tr.Jobs[i].Length, Estimate: tr.Jobs[i].Length, Kind: workload.Rigid, Request: request}
		// Every n-th job may wait: the share of Table 2, by no chance.
		if int(float64(i+1)*s.Uncritical) > int(float64(i)*s.Uncritical) {
			j.MaxDelay = span
		} else {
			j.PriorityClass = CriticalClass
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg, nil
}

// piontekDay runs a scenario on a day and returns the emissions of a planner and of the
// default scheduler over the same two days.
func piontekDay(ctx context.Context, k, day int, actual, told *carbon.Series, planner plan.Planner) (aware, plain float64, missed int, err error) {
	const span = 24 * time.Hour
	start := actual.Start().Add(time.Duration(day) * span)
	cfg, err := PiontekScenarios[k].Config(uint64(day), start)
	if err != nil {
		return 0, 0, 0, err
	}
	cfg.Planner, cfg.Clusters[0].Forecast, cfg.Clusters[0].Actual = planner, told, actual
	a, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return 0, 0, 0, err
	}
	b, err := sim.AsSubmitted(ctx, cfg)
	if err != nil {
		return 0, 0, 0, err
	}
	// The machine is on either way; its idle power over the day is the same in both.
	on := power.PriceOver(units.Power(PiontekIdle), actual, start, start.Add(span))
	if unknown := max(on.Unknown, a.Unpriced, b.Unpriced); unknown > 0 {
		return 0, 0, 0, fmt.Errorf("day %d: %v have no carbon intensity; accepted: a series with a value within 7 days at each time of day", day, unknown)
	}
	idle := float64(on.Emissions)
	return float64(a.Emissions) + idle, float64(b.Emissions) + idle, a.Missed, nil
}

// centred is the outlook of the published experiments: smoothed over the days around.
func centred(s *carbon.Series) (*carbon.Series, error) {
	values := forecast.Centred(hours(s), 24)
	samples := make([]carbon.Sample, s.Len())
	for i := range samples {
		samples[i] = s.Sample(i)
		if !math.IsNaN(values[i]) {
			samples[i].Value = units.CarbonIntensity(values[i])
		}
	}
	return carbon.NewSeries(s.Provenance, samples)
}

// piontekKey is a scenario and the planner that its days were planned with.
type piontekKey struct {
	scenario int
	method   string
}

// addPiontekRows states the reductions of the days, and how many jobs missed their deadlines.
func (res *Result) addPiontekRows(c *report.Chart, found map[piontekKey][]float64, missed map[piontekKey]int) {
	for k, s := range PiontekScenarios {
		own, other := advise.SpreadOf(found[piontekKey{k, "window"}]), advise.SpreadOf(found[piontekKey{k, "joint"}])
		res.Rows = append(res.Rows,
			Row{What: fmt.Sprintf("scenario #%d: reduction of CO2, mean of days", k+1), Unit: "%", Paper: Value(s.Paper), Anchor: None, Here: percent(own.Mean), Joint: percent(other.Mean),
				Why: fmt.Sprintf("the paper's is one day of another year and load; here 5th to 95th percentile of days %.1f to %.1f %%", 100*own.P5, 100*own.P95)},
			Row{What: fmt.Sprintf("scenario #%d: jobs later than allowed", k+1), Unit: "", Paper: 0, Anchor: None, Here: Value(missed[piontekKey{k, "window"}]), Joint: Value(missed[piontekKey{k, "joint"}]), Why: "\"every SLA kept\""})
		values := found[piontekKey{k, "window"}]
		x, y := report.CDF(values, 100)
		for i := range x {
			x[i] *= 100
		}
		c.Series = append(c.Series, report.Series{Name: fmt.Sprintf("scenario #%d", k+1), X: x, Y: y, Stairs: true})
	}
}

func piontekTable3(ctx context.Context, env *Env) (*Result, error) {
	actual, err := env.carbon("DE", "2022", "2023")
	if err != nil {
		return nil, err
	}
	smooth, err := centred(actual)
	if err != nil {
		return nil, err
	}
	window, err := env.Planner("window", nil)
	if err != nil {
		return nil, err
	}
	joint, err := env.Planner("joint", map[string]string{"effort": "0.1"})
	if err != nil {
		return nil, err
	}
	res := &Result{Notes: []string{
		"The figure of one day says little: single days range from a few percent more to several percent less. So the distribution is given.",
		"Both sums contain the idle power of the day, as in the paper. This is why the shares are small.",
	}}
	c := report.Chart{Title: "Days by reduction", XUnit: " %"}
	found, missed := map[piontekKey][]float64{}, map[piontekKey]int{}
	var lock sync.Mutex
	var wg sync.WaitGroup
	limit := make(chan struct{}, 2)
	errs := make([]error, 0)
	done := 0
	for k := range PiontekScenarios {
		for d := range piontekDays {
			limit <- struct{}{}
			wg.Go(func() {
				defer func() { <-limit }()
				for _, m := range []struct {
					name    string
					told    *carbon.Series
					planner plan.Planner
				}{{"window", smooth, window}, {"joint", actual, joint}} {
					if m.name == "joint" && d%piontekJoint > 0 {
						continue
					}
					a, b, late, err := piontekDay(ctx, k, 2+d*piontekEvery, actual, m.told, m.planner)
					lock.Lock()
					if err != nil {
						errs = append(errs, err)
					} else {
						found[piontekKey{k, m.name}] = append(found[piontekKey{k, m.name}], 1-a/b)
						missed[piontekKey{k, m.name}] += late
					}
					lock.Unlock()
				}
				lock.Lock()
				done++
				env.progress(done, len(PiontekScenarios)*piontekDays)
				lock.Unlock()
			})
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	res.addPiontekRows(&c, found, missed)
	res.Charts = []report.Chart{c}
	return res, nil
}
