package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// CapacityWeek is a week of elastic jobs on one cluster, as in CarbonFlex, Section 6.1, but small
// enough to run live: a share of the arrivals, jobs of one hour to a day, up to four servers each.
type CapacityWeek struct {
	Start  time.Time
	Series *carbon.Series
	// Servers is M, Watts the power of one.
	Servers int
	Watts   float64
	// Jobs of the week, and those of the two weeks before.
	Jobs, Past []CapacityJob

	week *week
	env  *Env
}

// CapacityJob is a job of it.
type CapacityJob struct {
	ID        string
	Submitted time.Time
	// Length is its run time with one server, Delay by how much its start may be delayed.
	Length, Delay time.Duration
	// Profile names the shape of Curve, its marginal throughputs.
	Profile string
	Curve   []float64
}

// The methods that it is run by.
const (
	CapacityAgnostic = mAgnostic
	CapacityVCC      = mVCC
	CapacityFlex     = mFlex
	CapacityPlanned  = mJoint
	CapacityOracle   = mOracle
)

// NewCapacityWeek reads week 13 of 2022 (AU-SA, Azure), with a share of its arrivals, which is above 0.
func NewCapacityWeek(env *Env, share float64) (*CapacityWeek, error) {
	s := azureWeek(13)
	s.kmax, s.rate = 4, share
	out := &CapacityWeek{env: env, Watts: serverWatts}
	for back := 2; back >= 0; back-- {
		of := s
		of.week -= back
		if back > 0 {
			of.servers = 1 // not its own
		}
		w, err := of.build(env)
		if err != nil {
			return nil, err
		}
		w.shorten(24 * time.Hour)
		jobs := w.submitted(env)
		if back > 0 {
			out.Past = append(out.Past, jobs...)
			continue
		}
		out.week, out.Jobs = w, jobs
		work := 0.0
		for _, j := range jobs {
			work += j.Length.Hours()
		}
		out.Servers = int(math.Ceil(work/(7*24)/0.5/3)) * 3 // nodes of three
		out.Start, out.Series = w.problem.Grid.Start, w.cluster.Actual
	}
	out.Provide(out.Servers)
	return out, nil
}

// Provide sets the number of servers.
func (c *CapacityWeek) Provide(servers int) {
	c.Servers = servers
	for t := range c.week.problem.Clusters[0].Capacity["server"] {
		c.week.problem.Clusters[0].Capacity["server"][t] = float64(servers)
	}
	c.week.cluster.Capacity = map[string]float64{"server": float64(servers)}
}

// shorten drops the jobs that run for longer.
func (w *week) shorten(most time.Duration) {
	jobs, problem := w.jobs[:0], w.problem.Jobs[:0]
	for i := range w.jobs {
		if w.jobs[i].Length <= most {
			jobs, problem = append(jobs, w.jobs[i]), append(problem, w.problem.Jobs[i])
		}
	}
	w.jobs, w.problem.Jobs = jobs, problem
}

// submitted are the week's jobs as they are submitted.
func (w *week) submitted(env *Env) []CapacityJob {
	var out []CapacityJob
	for i := range w.jobs {
		j := &w.jobs[i]
		out = append(out, CapacityJob{ID: j.ID, Submitted: j.Submitted, Length: j.Length, Delay: j.MaxDelay, Curve: j.Scale.Curve, Profile: w.profileOf(env, j.Scale)})
	}
	return out
}

// profileOf names the profile of a scale.
func (w *week) profileOf(env *Env, s *sim.Scale) string {
	for _, name := range w.profiles {
		if m, err := env.profile(name, w.kmax); err == nil && math.Abs(m.Curve[len(m.Curve)-1]/m.Curve[0]-s.Curve[len(s.Curve)-1]) < 1e-9 {
			return name
		}
	}
	return "none"
}

// CapacityScore is what a method does with the week.
type CapacityScore struct {
	Grams float64
	Late  int
	// MeanWait is from submission to start, of Unscaled.
	MeanWait time.Duration
}

// RollOut runs the week by a planner that decides slot by slot.
func (c *CapacityWeek) RollOut(ctx context.Context, p plan.Planner) (CapacityScore, error) {
	return c.rollOut(ctx, c.week, p)
}

// RollOutUnscaled is RollOut with jobs that keep one server, of a kind.
func (c *CapacityWeek) RollOutUnscaled(ctx context.Context, p plan.Planner, kind workload.Kind) (CapacityScore, error) {
	w := c.week.unscaled()
	for j := range w.problem.Jobs {
		w.problem.Jobs[j].Kind = kind
	}
	return c.rollOut(ctx, w, p)
}

func (c *CapacityWeek) rollOut(ctx context.Context, w *week, p plan.Planner) (CapacityScore, error) {
	s, err := w.rollOut(ctx, p)
	if err == nil && s.planned != len(c.week.jobs) {
		err = fmt.Errorf("%d of %d jobs done", s.planned, len(c.week.jobs))
	}
	return CapacityScore{Grams: s.grams, Late: s.late, MeanWait: time.Duration(s.wait * float64(time.Hour))}, err
}

// Simulate runs the week by a method: vcc and the oracle roll out over it, agnostic and joint run in the
// simulator, with lengths known.
func (c *CapacityWeek) Simulate(ctx context.Context, method string, margin time.Duration) (CapacityScore, error) {
	var s score
	var err error
	switch method {
	case CapacityAgnostic, CapacityPlanned:
		cfg := sim.Config{Clusters: []sim.Cluster{c.week.cluster}, Slot: time.Hour, Jobs: c.week.jobs, Margin: margin}
		run := sim.AsSubmitted
		if method == CapacityPlanned {
			run = sim.Simulate
			if cfg.Planner, err = c.env.Planner("joint", map[string]string{"effort": jointEffort}); err != nil {
				return CapacityScore{}, err
			}
		}
		res, err := run(ctx, cfg)
		if err != nil {
			return CapacityScore{}, err
		}
		return CapacityScore{Grams: float64(res.Emissions), Late: res.Missed}, nil
	case CapacityVCC:
		p, e := c.env.VCC(c.expected)
		if e != nil {
			return CapacityScore{}, e
		}
		s, err = c.week.unscaled().rollOut(ctx, p)
	default:
		p, e := c.env.Planner("carbonflex-oracle", nil)
		if e != nil {
			return CapacityScore{}, e
		}
		s, err = c.week.rollOut(ctx, p)
	}
	if err == nil && s.planned != len(c.week.jobs) {
		err = fmt.Errorf("%s: %d of %d jobs done", method, s.planned, len(c.week.jobs))
	}
	return CapacityScore{Grams: s.grams, Late: s.late}, err
}

// expected is the median of the work that the fourteen days before a day of the week brought.
func (c *CapacityWeek) expected(day int) float64 {
	const days = 14
	var work [days]float64
	from := c.Start.AddDate(0, 0, day-days)
	for _, j := range slices.Concat(c.Past, c.Jobs) {
		if i := int(math.Floor(j.Submitted.Sub(from).Hours() / 24)); i >= 0 && i < days {
			work[i] += j.Length.Hours()
		}
	}
	slices.Sort(work[:])
	return work[days/2-1]
}

// Unscaled runs the week in the simulator with jobs that keep one server, of a kind, by a planner, or as submitted if it is nil. Lengths are known.
func (c *CapacityWeek) Unscaled(ctx context.Context, planner plan.Planner, kind workload.Kind, margin time.Duration) (CapacityScore, error) {
	cfg := sim.Config{Clusters: []sim.Cluster{c.week.cluster}, Slot: time.Hour, Planner: planner, Margin: margin}
	for _, j := range c.week.jobs {
		j.Kind, j.Scale = kind, nil
		cfg.Jobs = append(cfg.Jobs, j)
	}
	run := sim.Simulate
	if planner == nil {
		run = sim.AsSubmitted
	}
	res, err := run(ctx, cfg)
	if err != nil {
		return CapacityScore{}, err
	}
	return CapacityScore{Grams: float64(res.Emissions), Late: res.Missed, MeanWait: res.MeanWait}, nil
}
