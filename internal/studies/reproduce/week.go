package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

// weekSpec is a week of a trace on a cluster of servers, as in CarbonFlex, Section 6.1.
type weekSpec struct {
	trace string
	zone  string
	year  string
	// week of the year, from 0; the grid and the jobs are of the same week.
	week int
	// servers is M; 0 sets it for 50 % utilisation by the week's own work at kmin.
	servers float64
	kmax    int
	// profiles that jobs draw from.
	profiles []string
	// delays of queues: jobs of up to 2 h, up to 12 h, longer.
	delays [3]int
	// arrivals and lengths are multiplied by these (distribution shifts); 0 is 1.
	rate, length float64
	// watts takes the measured power of profiles instead of equal watts a server.
	watts bool
	seed  uint64
}

// serverWatts is the power of a server where no measured one is taken: only ratios matter.
const serverWatts = 100

// week is a spec with its jobs.
type week struct {
	weekSpec
	problem *plan.Problem
	// told is the problem as planners that roll out see it; nil for as it is.
	told    *plan.Problem
	jobs    []sim.Job
	cluster sim.Cluster
}

// tail is how long after the week jobs may run on.
const tail = 21 * 24

// queueOf is the queue of a length.
func queueOf(length time.Duration) int {
	switch {
	case length <= 2*time.Hour:
		return 0
	case length <= 12*time.Hour:
		return 1
	}
	return 2
}

// trace reads a job trace once.
func (e *Env) trace(name string) (*trace.Trace, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if t, ok := e.traces[name]; ok {
		return t, nil
	}
	t, err := scenario.ReadTrace(filepath.Join(e.Data, "jobs", name+".csv.gz"), "", "")
	if err != nil {
		return nil, err
	}
	if e.traces == nil {
		e.traces = map[string]*trace.Trace{}
	}
	e.traces[name] = t
	return t, nil
}

// scales are the profiles by which jobs scale, at random.
func (s weekSpec) scales(env *Env) ([]*sim.Scale, error) {
	scales := make([]*sim.Scale, len(s.profiles))
	for i, name := range s.profiles {
		m, err := env.profile(name, s.kmax)
		if err != nil {
			return nil, err
		}
		scales[i] = &sim.Scale{MinWorkers: 1, MaxWorkers: s.kmax, Curve: make([]float64, s.kmax)}
		for k, v := range m.Curve {
			scales[i].Curve[k] = v / m.Curve[0] // p(kmin) = 1
		}
		if s.watts {
			scales[i].Watts = m.Watts
		}
	}
	return scales, nil
}

// build reads the jobs of one hour and more that arrive in the week, rounds arrivals up
// to hours and draws profiles by the seed.
func (s weekSpec) build(env *Env) (*week, error) {
	tr, err := env.trace(s.trace)
	if err != nil {
		return nil, err
	}
	years := []string{s.year}
	if next := map[string]string{"2021": "2022", "2022": "2023"}[s.year]; next != "" && s.week > 47 {
		years = append(years, next)
	}
	series, err := env.carbon(s.zone, years...)
	if err != nil {
		return nil, err
	}
	if s.rate == 0 {
		s.rate = 1
	}
	if s.length == 0 {
		s.length = 1
	}
	scales, err := s.scales(env)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(s.seed, uint64(s.week)))
	const span = 7 * 24 * time.Hour
	from := time.Duration(s.week) * span
	// A higher rate takes arrivals from a longer stretch and compresses them.
	part := tr.Between(from, from+time.Duration(float64(span)*s.rate))
	start := series.Start().Add(from)
	w := &week{weekSpec: s}
	n := 7*24 + tail
	p := &plan.Problem{Grid: timegrid.Grid{Start: start, Slot: time.Hour, N: n}, Objective: plan.Objective{Kind: plan.MOSP}}
	work := 0.0
	for i := range part.Jobs {
		j := &part.Jobs[i]
		if j.Length < time.Hour {
			continue
		}
		length := time.Duration(float64(j.Length) * s.length)
		arrival := int(math.Ceil(j.Arrival.Hours() / s.rate))
		queue := queueOf(length)
		sc := &sim.Scale{MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}}
		if len(scales) > 0 {
			sc = scales[rng.IntN(len(scales))]
		}
		id := fmt.Sprintf("%s-%d", j.ID, s.week)
		p.Jobs = append(p.Jobs, workload.Job{
			ID: id, Kind: workload.Elastic, Arrival: arrival, Deadline: arrival + int(math.Ceil(length.Hours()-workload.Eps)) + s.delays[queue],
			Length: length.Hours(), Request: map[string]float64{"server": 1}, MinWorkers: 1, MaxWorkers: sc.MaxWorkers, Curve: sc.Curve, Watts: sc.Watts,
		})
		w.jobs = append(w.jobs, sim.Job{
			ID: id, Submitted: start.Add(time.Duration(arrival) * time.Hour), Length: length, Estimate: length, MaxDelay: time.Duration(s.delays[queue]) * time.Hour,
			Kind: workload.Elastic, Request: map[string]float64{"server": 1}, Scale: sc,
		})
		work += length.Hours()
	}
	if len(w.jobs) == 0 {
		return nil, fmt.Errorf("%s, week %d: no jobs of an hour and more", s.trace, s.week)
	}
	if s.servers == 0 {
		s.servers = math.Round(work / (7 * 24) / 0.5)
	}
	w.servers = s.servers
	intensity, missing := series.OnGrid(p.Grid)
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s %s: week %d has gaps or ends", s.zone, s.year, s.week)
	}
	capacity := make([]float64, n)
	for t := range capacity {
		capacity[t] = s.servers
	}
	p.Clusters = []plan.Cluster{{
		Name: "cluster", Zone: s.zone, Watts: map[string]float64{"server": serverWatts}, PUE: 1,
		Intensity: intensity, Capacity: map[string][]float64{"server": capacity},
	}}
	w.problem = p
	w.cluster = sim.Cluster{
		Name: "cluster", Zone: s.zone, Capacity: map[string]float64{"server": s.servers},
		Power: power.PerUnit{Watts: map[string]float64{"server": serverWatts}, PUE: 1}, Forecast: series, Actual: series,
	}
	return w, p.Validate()
}

// history are the two weeks before.
func (w *week) history(env *Env) ([]*plan.Problem, error) {
	var out []*plan.Problem
	for back := 2; back >= 1; back-- {
		s := w.weekSpec
		s.week -= back
		s.rate, s.length = 1, 1
		h, err := s.build(env)
		if err != nil {
			return nil, err
		}
		out = append(out, h.problem)
	}
	return out, nil
}

// jointMargin is what planner joint keeps of the allowed delay where the cluster is full:
// jobs whose delay is used up need servers at once. At most a third of the least delay.
const jointMargin = 2 * time.Hour

// score is what a method did with a week.
type score struct {
	grams float64
	late  int
	// delay is the mean of how much later than at once jobs end, hours; wait until
	// their first slot.
	delay, wait float64
	// planned is how many jobs it ran.
	planned int
}

// rollOut lets a planner that decides slot by slot run the week.
func (w *week) rollOut(ctx context.Context, planner plan.Planner) (score, error) {
	p := w.problem
	if w.told != nil {
		p = w.told
	}
	res, err := planner.Plan(ctx, p)
	if err != nil {
		return score{}, err
	}
	return w.evaluate(res.Plan), nil
}

func (w *week) evaluate(pl plan.Plan) score {
	e := plan.Evaluate(w.problem, pl)
	s := score{grams: e.CarbonG, late: e.Late, planned: e.Planned, wait: e.MeanWait}
	for _, jp := range pl.Jobs {
		j := &w.problem.Jobs[jp.Job]
		last := jp.Segments[len(jp.Segments)-1]
		s.delay += (float64(last.Slot) + last.Fraction - float64(j.Arrival) - j.Length) / float64(len(pl.Jobs))
	}
	return s
}

// unscaled is the week with jobs that may pause but not scale.
func (w *week) unscaled() *week {
	out := *w
	p := *w.problem
	p.Jobs = append([]workload.Job(nil), p.Jobs...)
	for j := range p.Jobs {
		p.Jobs[j].MaxWorkers, p.Jobs[j].Curve = 1, p.Jobs[j].Curve[:1]
		if p.Jobs[j].Watts != nil {
			p.Jobs[j].Watts = p.Jobs[j].Watts[:1]
		}
	}
	out.problem = &p
	return &out
}

// forecast is the week of which planners know the days to come from a model alone, which learns from the
// sixty days before and issues a forecast every hour. What rolls out over the whole week is told of each
// day what was forecast at its beginning.
func (w *week) forecast() (*week, error) {
	out := *w
	actual := w.cluster.Actual
	out.cluster.Outlook = func() sim.Outlook {
		return sim.Modelled(actual, forecast.NewBlend(), time.Hour, time.Hour, 60*24*time.Hour, 96*time.Hour)
	}
	told := *w.problem
	told.Clusters = append([]plan.Cluster(nil), told.Clusters...)
	told.Clusters[0].Intensity = nil
	outlook := out.cluster.Outlook()
	for t := 0; t < told.Grid.N; t += 24 {
		day := timegrid.Grid{Start: told.Grid.Time(t), Slot: time.Hour, N: min(24, told.Grid.N-t)}
		series, _ := outlook.At(day.Start)
		filled, ok := carbon.FillSlots(series, day)
		if !ok {
			return nil, fmt.Errorf("%s %s: no forecast for %s", w.zone, w.year, day.Start.Format(time.DateOnly))
		}
		told.Clusters[0].Intensity = append(told.Clusters[0].Intensity, filled.Values...)
	}
	out.told = &told
	return &out, nil
}

// live simulates the week with a planner that is told estimates of run times: the mean
// of each queue over the history, or what is learned as jobs run.
func (w *week) live(ctx context.Context, planner plan.Planner, kind workload.Kind, learned bool, history []*plan.Problem) (score, error) {
	cfg := w.config(planner, kind, learned, history)
	run := sim.Simulate
	if planner == nil {
		run = sim.AsSubmitted
	}
	res, err := run(ctx, cfg)
	if err != nil {
		return score{}, err
	}
	s := scoreOf(&res)
	if kind != workload.Elastic && w.watts {
		// Without a scale the simulator takes the watts of the request: put the measured
		// ones of one server in.
		s.grams = 0
		for i := range res.Jobs {
			if watts := w.jobs[i].Scale.Watts; watts != nil {
				s.grams += float64(res.Jobs[i].Emissions) * watts[0] / serverWatts
			}
		}
	}
	return s, nil
}

// config is the simulation of the week with jobs of a kind.
func (w *week) config(planner plan.Planner, kind workload.Kind, learned bool, history []*plan.Problem) sim.Config {
	cfg := sim.Config{Clusters: []sim.Cluster{w.cluster}, Planner: planner, Slot: time.Hour}
	if learned {
		cfg.Margin = min(jointMargin, time.Duration(w.delays[0])*time.Hour/3)
	}
	class := func(j *sim.Job) int { return queueOf(j.Length) }
	cfg.Lengths = w.lengths(class, learned, history)
	cfg.Jobs = append(cfg.Jobs, w.jobs...)
	for i := range cfg.Jobs {
		cfg.Jobs[i].Kind = kind
		if kind != workload.Elastic {
			cfg.Jobs[i].Scale = nil
		}
	}
	return cfg
}

func scoreOf(res *sim.Result) score {
	return score{grams: float64(res.Emissions), late: res.Missed, delay: res.MeanDelay.Hours(), wait: res.MeanWait.Hours(), planned: len(res.Jobs)}
}

// lengths is how run times are estimated.
func (w *week) lengths(class func(*sim.Job) int, learned bool, history []*plan.Problem) sim.Lengths {
	if learned {
		l := &sim.Learned{Class: class}
		for _, p := range history {
			for i := range p.Jobs {
				l.Observe(&sim.Job{Length: time.Duration(p.Jobs[i].Length * float64(time.Hour))})
			}
		}
		return l
	}
	m := sim.MeanOf{Class: class, Means: []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour}}
	sums, counts := [3]float64{}, [3]float64{}
	for _, p := range history {
		for i := range p.Jobs {
			q := queueOf(time.Duration(p.Jobs[i].Length * float64(time.Hour)))
			sums[q] += p.Jobs[i].Length
			counts[q]++
		}
	}
	for q := range sums {
		if counts[q] > 0 {
			m.Means[q] = time.Duration(sums[q] / counts[q] * float64(time.Hour))
		}
	}
	return m
}
