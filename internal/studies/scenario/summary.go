package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// Summary is a trial in figures.
type Summary struct {
	Planner string `json:"planner"`
	Jobs    int    `json:"jobs"`
	// CarbonG, Saving and IdleG are NaN, null in JSON, where they are withheld.
	CarbonG float64 `json:"carbonG"`
	// Saving against the baseline, as a share of the emissions of all its jobs.
	Saving    float64 `json:"saving"`
	EnergyKWh float64 `json:"energyKWh"`
	IdleG     float64 `json:"idleG"`
	// Missed jobs end after their deadline, the last WorstLateH, in the mean MeanLateH late.
	Missed      int     `json:"missed"`
	WorstLateH  float64 `json:"worstLateH"`
	MeanLateH   float64 `json:"meanLateH"`
	MeanWaitH   float64 `json:"meanWaitH"`
	MedianWaitH float64 `json:"medianWaitH"`
	P95WaitH    float64 `json:"p95WaitH"`
	// MeanDelayH is below 0 where scaling makes jobs end earlier.
	MeanDelayH float64 `json:"meanDelayH"`
	MakespanH  float64 `json:"makespanH"`
	// WorkerHours are hours of workers, of any size; ResourceHours those of the resource
	// that most jobs ask for, and PeakUse the most of it in use at once.
	WorkerHours   float64 `json:"workerHours"`
	ResourceHours float64 `json:"resourceHours"`
	PeakUse       float64 `json:"peakUse"`
	Runs          int     `json:"runs"`
	Denied        int     `json:"denied"`
	Evicted       int     `json:"evicted"`
	// EmitsMore is how many jobs emit more than in the baseline.
	EmitsMore int `json:"emitsMore"`
	// FilledH are hours of run time priced by carbon.FillRule, UnpricedH those that it
	// cannot fill; Withheld is why figures are withheld then.
	FilledH   float64 `json:"filledH"`
	UnpricedH float64 `json:"unpricedH"`
	Withheld  string  `json:"withheld,omitempty"`
	Decisions int     `json:"decisions"`
	Planned   int     `json:"planned"`
}

// MarshalJSON writes figures that are withheld as null.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		plain
		CarbonG *float64 `json:"carbonG"`
		Saving  *float64 `json:"saving"`
		IdleG   *float64 `json:"idleG"`
	}{plain(s), known(s.CarbonG), known(s.Saving), known(s.IdleG)})
}

// equalEmissions is by which share emissions that are equal may differ by rounding.
const equalEmissions = 1e-9

// Summarize sums trials up; the first is the baseline.
func Summarize(cfg sim.Config, trials []Trial) []Summary {
	out := make([]Summary, len(trials))
	resource := mainResource(cfg)
	for i := range trials {
		t := &trials[i]
		s := &out[i]
		*s = Summary{
			Planner: t.Label, Jobs: len(t.Jobs), CarbonG: float64(t.Emissions), Saving: Saving(trials[0].Emissions, t.Emissions),
			EnergyKWh: float64(t.Energy), IdleG: float64(t.IdleEmissions), Missed: t.Missed,
			MeanWaitH: t.MeanWait.Hours(), MeanDelayH: t.MeanDelay.Hours(), MakespanH: t.Makespan.Hours(),
			WorkerHours: t.WorkerHours, PeakUse: peak(cfg, t, resource), FilledH: t.Filled.Hours(),
			Denied: t.Denied, Evicted: t.Evicted, UnpricedH: t.Unpriced.Hours(), Decisions: t.Decisions, Planned: t.Planned,
		}
		waits := make([]float64, len(t.Jobs))
		for j := range t.Jobs {
			o, job := &t.Jobs[j], &cfg.Jobs[j]
			waits[j] = o.Wait.Hours()
			s.Runs += len(o.Runs)
			if o.Emissions > trials[0].Jobs[j].Emissions*(1+equalEmissions) {
				s.EmitsMore++
			}
			s.ResourceHours += o.WorkerHours * job.Request[resource]
			if o.Missed {
				late := t.At(o.Finish).Sub(deadline(job)).Hours()
				s.WorstLateH = max(s.WorstLateH, late)
				s.MeanLateH += late
			}
		}
		if t.Missed > 0 {
			s.MeanLateH /= float64(t.Missed)
		}
		slices.Sort(waits)
		s.MedianWaitH, s.P95WaitH = quantile(waits, 0.5), quantile(waits, 0.95)
		s.withhold(t, &trials[0])
	}
	return out
}

// withhold takes back what a summary cannot state where hours have no price.
func (s *Summary) withhold(t, baseline *Trial) {
	switch {
	case t.Unpriced > 0:
		s.Withheld = fmt.Sprintf("%.1f h of run time are more than 7 days from any known intensity at their time of day", t.Unpriced.Hours())
		s.CarbonG, s.IdleG, s.Saving = math.NaN(), math.NaN(), math.NaN()
	case baseline.Unpriced > 0:
		s.Withheld = fmt.Sprintf("the jobs as submitted run %.1f h more than 7 days from any known intensity at their time of day", baseline.Unpriced.Hours())
		s.Saving = math.NaN()
	}
}

// deadline is when a job must have ended; the zero time for none.
func deadline(j *sim.Job) time.Time {
	if j.Deadline.IsZero() && (j.MaxDelay > 0 || j.Scale != nil) {
		return j.Submitted.Add(j.MaxDelay + j.Length)
	}
	return j.Deadline
}

// peak is the most of a resource that is in use at once.
//
// Complexity: O(runs log runs).
func peak(cfg sim.Config, t *Trial, resource string) float64 {
	type edge struct {
		at time.Duration
		by float64
	}
	var edges []edge
	for j := range t.Jobs {
		for _, r := range t.Jobs[j].Runs {
			q := cfg.Jobs[j].Request[resource] * float64(r.Workers)
			edges = append(edges, edge{r.From, q}, edge{r.To, -q})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return int(min(1, max(-1, a.at-b.at)))
		case a.by < b.by: // what ends makes room for what begins
			return -1
		case a.by > b.by:
			return 1
		}
		return 0
	})
	most, now := 0.0, 0.0
	for _, e := range edges {
		now += e.by
		most = max(most, now)
	}
	return math.Round(most*1e6) / 1e6 // without what rounding leaves
}

// withheld stands for a figure that is not stated; notes say why.
const withheld = "withheld"

// Table returns the table of summaries. Notes says what its columns are relative to.
func Table(cfg sim.Config, sums []Summary) (head []string, rows [][]string) {
	resource := mainResource(cfg)
	head = []string{"planner", "emissions", "saved of all", "energy", "late", "peak " + resource, "mean wait", "95 % wait", "mean delay", resource + "-hours", "makespan"}
	for _, s := range sums {
		emissions, saved, late := withheld, withheld, fmt.Sprint(s.Missed)
		if !math.IsNaN(s.CarbonG) {
			emissions = units.Emissions(s.CarbonG).String()
		}
		if !math.IsNaN(s.Saving) {
			saved = units.Number("%.1f %%", 100*s.Saving)
		}
		if s.Missed > 0 {
			late += fmt.Sprintf(" (worst %.1f h, mean %.1f h)", s.WorstLateH, s.MeanLateH)
		}
		rows = append(rows, []string{
			s.Planner, emissions, saved, units.Energy(s.EnergyKWh).String(), late, fmt.Sprintf("%.4g", s.PeakUse),
			hoursText(s.MeanWaitH), hoursText(s.P95WaitH), report.Delay(s.MeanDelayH), fmt.Sprintf("%.0f", s.ResourceHours), hoursText(s.MakespanH),
		})
	}
	return head, rows
}

func hoursText(h float64) string { return fmt.Sprintf("%.1f h", h) }

// Notes says what the columns of a table are relative to, and what a reader must know
// before the figures are quoted. The first is about the jobs.
func Notes(cfg sim.Config, sums []Summary, reading trace.Reading) []string {
	resource := mainResource(cfg)
	out := []string{
		fmt.Sprintf("%s; \"saved of all\" is of the emissions of all jobs together, against the same jobs run %s", report.Count(sums[0].Jobs, "job", "jobs"), Submitted),
		"wait is from submission to the first start; delay is against a run at once at the least scale; late is after the deadline",
	}
	if slices.ContainsFunc(sums, func(s Summary) bool { return s.Planner == KnowsAll }) {
		out = append(out, KnowsAll+" is what planner joint saves if it knows all run times and intensities, and each job from its submission on: better forecasts and estimates could save up to that")
	}
	if Unsure(cfg) {
		out = append(out, emitsMoreNote(sums))
	}
	out = append(out, ReadingNotes(reading)...)
	most := 0
	for i := range sums {
		if sums[i].PeakUse > sums[most].PeakUse {
			most = i
		}
	}
	if s := &sums[most]; s.PeakUse > 1.05*sums[0].PeakUse {
		out = append(out, fmt.Sprintf("the most %s in use at once rises from %.4g %s to %.4g with %s: a cluster with less room saves less (--capacity)", resource, sums[0].PeakUse, Submitted, s.PeakUse, s.Planner))
	}
	return append(out, priceNotes(sums)...)
}

// emitsMoreNote says which share of the jobs a forecast that errs lets emit more than as submitted.
func emitsMoreNote(sums []Summary) string {
	var shares []string
	for _, s := range sums[1:] {
		shares = append(shares, fmt.Sprintf("%s %.1f %%", s.Planner, 100*float64(s.EmitsMore)/float64(max(1, s.Jobs))))
	}
	return "of the jobs, so many emit more than " + Submitted + ": " + strings.Join(shares, ", ")
}

// ReadingNotes say which entries of a trace are left out, and what a reader must know of the others.
func ReadingNotes(reading trace.Reading) (out []string) {
	if n := reading.Skipped.Total(); n > 0 {
		out = append(out, fmt.Sprintf("left out of the trace: %s: %s", report.Count(n, "entry", "entries"), reading.Skipped))
	}
	for _, note := range reading.Notes {
		out = append(out, "of the trace: "+note)
	}
	return out
}

// priceNotes say which figures rest on filled hours or are withheld.
func priceNotes(sums []Summary) []string {
	var out []string
	filled := ""
	for _, s := range sums {
		if s.FilledH > 0 {
			if filled != "" {
				filled += ", "
			}
			filled += fmt.Sprintf("%s: %.1f h", s.Planner, s.FilledH)
		}
		if s.Withheld != "" {
			out = append(out, fmt.Sprintf("%s: figures are withheld: %s; state a carbon series that covers the jobs and their delays", s.Planner, s.Withheld))
		}
	}
	if filled != "" {
		out = append(out, fmt.Sprintf("run time without a known intensity is filled (%s): %s", filled, carbon.FillRule))
	}
	return out
}
