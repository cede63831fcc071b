package scenario

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
)

// This file says what planners know: as much as in production, or all.

// modelHistory is the past that models of the intensity learn from at least.
const modelHistory = 60 * 24 * time.Hour

// beUncertain sets what Scenario.Uncertain says. A series is nil where the intensity is that of the climatology, which
// differs little from day to day.
func (s *Scenario) beUncertain(series []*carbon.Series) {
	if s.Jobs.Estimate.Kind == "" {
		s.Jobs.Estimate.Kind = "learned"
	}
	for i := range s.Clusters {
		if f := &s.Clusters[i].Forecast; f.Kind == "" && series[i] != nil {
			f.Kind, f.Model = "model", "blend"
			if f.Every.Duration == 0 {
				f.Every.Duration = time.Hour
			}
		}
	}
}

// KnowsAll is the label of a trial whose planner knows all run times, capacity curves and intensities. It knows of a job when it
// comes, as the others do: with all jobs known from the start, plans would reach over the whole trace, in slots that are too coarse.
const KnowsAll = "all but arrivals known (joint)"

// Unsure reports whether planners of the simulation do not know run times, capacity curves or intensities.
func Unsure(cfg sim.Config) bool {
	return cfg.Lengths != nil ||
		slices.ContainsFunc(cfg.Jobs, func(j sim.Job) bool { return j.Estimate != j.Length || j.Scale != nil && j.Scale.Actual != nil }) ||
		slices.ContainsFunc(cfg.Clusters, func(c sim.Cluster) bool { return c.Outlook != nil || c.Forecast != c.Actual })
}

// knowing is the simulation in which planners know all but arrivals and faults.
func knowing(cfg sim.Config) sim.Config {
	cfg.Lengths = nil
	cfg.Clusters, cfg.Jobs = slices.Clone(cfg.Clusters), slices.Clone(cfg.Jobs)
	for i := range cfg.Clusters {
		c := &cfg.Clusters[i]
		c.Forecast, c.Outlook = c.Actual, nil
	}
	scales := map[*sim.Scale]*sim.Scale{}
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Estimate, j.Quantiles = j.Length, nil
		if j.Scale == nil || j.Scale.Actual == nil {
			continue
		}
		if scales[j.Scale] == nil {
			s := *j.Scale
			s.Curve, s.Actual = s.Actual, nil
			scales[j.Scale] = &s
		}
		j.Scale = scales[j.Scale]
	}
	return cfg
}
