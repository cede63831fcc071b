package scenario

import (
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// split takes the jobs that are submitted before start + Jobs.Learn out of cfg: they are
// what planners may learn from, the others are simulated.
func (s *Scenario) split(cfg *sim.Config, start time.Time) error {
	s.past = nil
	if s.Jobs.Learn.Duration == 0 {
		return nil
	}
	until := start.Add(s.Jobs.Learn.Duration)
	n := sort.Search(len(cfg.Jobs), func(i int) bool { return !cfg.Jobs[i].Submitted.Before(until) })
	if n == 0 || n == len(cfg.Jobs) {
		return fault("jobs.learn (--learn)", ShortDuration(s.Jobs.Learn.Duration), "a time with jobs in it and after it")
	}
	s.past, cfg.Jobs = cfg.Jobs[:n:n], cfg.Jobs[n:]
	return nil
}

// learnTail is how long after its last arrival a history goes on, for what came last.
const learnTail = 48 * time.Hour

// History returns the jobs of Jobs.Learn as a planning problem on the one cluster of cfg,
// for planners that learn from what the best plan would have done. It is nil without them.
//
// Errors: ErrScenario for several clusters or one without a capacity: what is learned is
// how much of the capacity to use.
func (s *Scenario) History(cfg sim.Config) (*plan.Problem, error) {
	if len(s.past) == 0 {
		return nil, nil
	}
	if len(cfg.Clusters) != 1 || len(cfg.Clusters[0].Capacity) == 0 {
		return nil, fault("jobs.learn (--learn)", ShortDuration(s.Jobs.Learn.Duration), "one cluster with a capacity (--capacity): what is learned is how much of it to use")
	}
	from := timegrid.Align(s.past[0].Submitted, cfg.Slot)
	until := s.past[len(s.past)-1].Submitted.Add(learnTail)
	grid, err := timegrid.New(from, cfg.Slot, int(math.Ceil(float64(until.Sub(from))/float64(cfg.Slot))))
	if err != nil {
		return nil, err
	}
	cl := &cfg.Clusters[0]
	filled, ok := carbon.FillSlots(cl.Actual, grid)
	if !ok {
		return nil, fault("jobs.learn (--learn)", ShortDuration(s.Jobs.Learn.Duration), "a carbon series with values")
	}
	p := &plan.Problem{Grid: grid, Objective: plan.Objective{Kind: plan.Carbon}}
	capacity := make(map[string][]float64, len(cl.Capacity))
	for r, v := range cl.Capacity {
		capacity[r] = make([]float64, grid.N)
		for t := range capacity[r] {
			capacity[r][t] = v
		}
	}
	p.Clusters = []plan.Cluster{{Name: cl.Name, Zone: cl.Zone, Capacity: capacity, Watts: cl.Power.Watts, PUE: max(1, cl.Power.PUE), Intensity: filled.Values}}
	for i := range s.past {
		if j := pastJob(&s.past[i], grid); j.Deadline-j.Arrival >= j.Slots() {
			p.Jobs = append(p.Jobs, j)
		} // else it goes on beyond the end
	}
	return p, nil
}

// pastJob is a job of the history in slots.
func pastJob(x *sim.Job, grid timegrid.Grid) workload.Job {
	j := workload.Job{
		ID: x.ID, Kind: x.Kind, Arrival: grid.CeilSlot(x.Submitted), Length: x.Length.Hours() / grid.Hours(), Request: x.Request,
		MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
	}
	if x.Watts > 0 {
		j.Watts = []float64{x.Watts}
	}
	if x.Scale != nil {
		j.MinWorkers, j.MaxWorkers, j.Curve, j.Watts = x.Scale.MinWorkers, x.Scale.MaxWorkers, x.Scale.Curve, x.Scale.Watts
	}
	delay := time.Duration(0)
	if d := deadline(x); !d.IsZero() {
		delay = max(0, d.Sub(x.Submitted)-x.Length)
	}
	j.Deadline = min(grid.N, j.Arrival+int(delay/grid.Slot)+j.Slots())
	return j
}
