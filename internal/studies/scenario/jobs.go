package scenario

import (
	"time"

	"lull.dev/lull/pkg/sim"
)

// JobRow is a job of a trial, as WriteJSON writes it. Its field names are stable: others are
// only added.
type JobRow struct {
	// Planner is the label of the trial, ID the job's in the trace.
	Planner string `json:"planner"`
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	// Cluster is where it ran last.
	Cluster   string    `json:"cluster"`
	Submitted time.Time `json:"submitted"`
	// Started and Ended are its first start and its end.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Deadline is nil where it has none; LateS is how long after it the job ended, in seconds.
	Deadline *time.Time `json:"deadline,omitempty"`
	LateS    float64    `json:"late_s"`
	// LengthS is its run time at its least scale, WaitS from submission to the first start.
	LengthS   float64 `json:"length_s"`
	WaitS     float64 `json:"wait_s"`
	EnergyKWh float64 `json:"energy_kwh"`
	// Grams were emitted, gCO2eq; BaselineGrams by the same job run as submitted. Either is nil,
	// withheld, where the run has hours without any intensity (UnpricedS seconds of Grams).
	Grams         *float64 `json:"grams"`
	BaselineGrams *float64 `json:"baseline_grams"`
	// FilledS seconds of run time are priced by carbon.FillRule.
	FilledS   float64 `json:"filled_s"`
	UnpricedS float64 `json:"unpriced_s"`
	// Request is what one worker asks for, by resource.
	Request map[string]float64 `json:"request"`
	Runs    []JobRun           `json:"runs"`
}

// JobRun is one uninterrupted run of a job at one scale.
type JobRun struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Workers int       `json:"workers"`
	Cluster string    `json:"cluster"`
}

// jobRows returns a row for each job of each trial, in the order of the trials and of
// cfg.Jobs. Complexity: O(trials x (jobs + runs)).
func jobRows(cfg sim.Config, trials []Trial) []JobRow {
	out := make([]JobRow, 0, len(trials)*len(cfg.Jobs))
	stated := func(o *sim.Outcome) *float64 {
		if o.Unpriced > 0 {
			return nil
		}
		g := float64(o.Emissions)
		return &g
	}
	for i := range trials {
		t := &trials[i]
		for j := range t.Jobs {
			o, job := &t.Jobs[j], &cfg.Jobs[j]
			r := JobRow{
				Planner: t.Label, ID: job.ID, Kind: string(job.Kind), Submitted: job.Submitted.UTC(), Ended: t.At(o.Finish).UTC(),
				LengthS: job.Length.Seconds(), WaitS: o.Wait.Seconds(), EnergyKWh: float64(o.Energy),
				Grams: stated(o), BaselineGrams: stated(&trials[0].Jobs[j]), FilledS: o.Filled.Seconds(), UnpricedS: o.Unpriced.Seconds(),
				Request: job.Request, Runs: make([]JobRun, 0, len(o.Runs)),
			}
			if d := deadline(job); !d.IsZero() {
				d = d.UTC()
				r.Deadline = &d
				if o.Missed {
					r.LateS = r.Ended.Sub(d).Seconds()
				}
			}
			for _, x := range o.Runs {
				r.Runs = append(r.Runs, JobRun{t.At(x.From).UTC(), t.At(x.To).UTC(), int(x.Workers), cfg.Clusters[x.Cluster].Name})
			}
			if n := len(r.Runs); n > 0 {
				r.Started, r.Cluster = r.Runs[0].From, r.Runs[n-1].Cluster
			}
			out = append(out, r)
		}
	}
	return out
}
