package cli

import (
	"context"
	"math"
	"slices"
	"time"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/sim"
	jobtrace "lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

// history tries all jobs of a trace.
func (o *adviseOptions) history(ctx context.Context, a *advice, list []adviceZone, slacks []time.Duration, planners []scenario.Planner, kind workload.Kind, slot time.Duration, b *bar) error {
	scales := o.maxWorkers
	if kind != workload.Elastic || len(scales) == 0 {
		scales = []int{0}
	}
	all, done := float64(len(list)*len(slacks)*len(scales)), 0.0
	for _, z := range list {
		for _, most := range scales {
			for _, slack := range slacks {
				s := &scenario.Scenario{
					Slot: scenario.Duration{Duration: slot}, Seed: o.seed, Planners: planners, MinSaving: new(o.minSaving / 100),
					Jobs: scenario.Jobs{File: o.jobs, Format: o.format, TimeZone: o.timeZone, Kind: string(kind), MaxDelay: []scenario.Delay{{Delay: scenario.Duration{Duration: slack}}}},
					Clusters: []scenario.Cluster{{
						Name: z.name, Zone: z.name, Carbon: z.files, Watts: map[string]float64{"cpu": o.watts}, PUE: o.pue,
						Forecast: scenario.Forecast{Kind: "noise", Error: o.error},
					}},
				}
				if kind == workload.Elastic {
					s.Jobs.Elastic = &scenario.Elastic{Min: o.minWorkers, Max: most, Profiles: []string{o.profile}, Watts: true}
				}
				cfg, err := s.Build()
				if err != nil {
					return err
				}
				list, err := entries(s, cfg)
				if err != nil {
					return err
				}
				trials, err := scenario.Run(ctx, cfg, list, func(share float64) { b.set((done + share) / all) })
				if err != nil {
					return err
				}
				a.read(s.Reading())
				a.Skipped = a.reading.Skipped
				sums := scenario.Summarize(cfg, trials)
				for i := range planners {
					x := a.add(option{Zone: z.name, Planner: planners[i].Label, Slack: slack, MaxWorkers: most, plan: planners[i]}, outcomesOf(cfg, trials[0], trials[i+1], slot), slot, 0)
					x.of(&sums[0], &sums[i+1], o.price)
				}
				done++
			}
		}
	}
	return nil
}

// read takes what became of the entries of the history, with the notes of each zone that is tried, once.
func (a *advice) read(reading jobtrace.Reading) {
	notes := a.reading.Notes
	for _, note := range reading.Notes {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	a.reading = reading
	a.reading.Notes = notes
}

// of takes what the summaries of the baseline and of a trial say of all jobs together:
// jobs differ in size, so that cost is in hours of their main resource.
func (x *option) of(baseline, s *scenario.Summary, price float64) {
	x.Saving, x.Withheld = s.Saving, s.Withheld
	x.FilledH = baseline.FilledH + s.FilledH
	x.Cost, x.Money = s.ResourceHours/baseline.ResourceHours, price*s.ResourceHours
	x.Late, x.WorstLateH, x.MeanLateH = s.Missed, s.WorstLateH, s.MeanLateH
	x.PerCost = nil
	if added := x.Cost - 1; added > 1e-9 {
		per := x.Saving / added
		x.PerCost = &per
	}
}

// outcomesOf are the jobs of a trial as outcomes.
func outcomesOf(cfg sim.Config, baseline, t scenario.Trial, slot time.Duration) []advise.Outcome {
	out := make([]advise.Outcome, len(cfg.Jobs))
	for j := range out {
		out[j] = advise.Outcome{
			Grams: float64(t.Jobs[j].Emissions), Agnostic: float64(baseline.Jobs[j].Emissions),
			Delay: t.Jobs[j].Delay.Hours() / slot.Hours(), Wait: t.Jobs[j].Wait.Hours() / slot.Hours(),
			Withheld: t.Jobs[j].Unpriced > 0 || baseline.Jobs[j].Unpriced > 0,
			Workers:  t.Jobs[j].WorkerHours, WorkersAtOnce: math.Max(1e-9, baseline.Jobs[j].WorkerHours),
		}
	}
	return out
}
