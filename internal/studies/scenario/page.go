package scenario

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

// Most of what pictures show: points of a curve, rows of a Gantt chart.
const (
	mostPoints = 600
	mostRows   = 48
)

// WritePage writes the report of trials: a table and pictures. reading is what became of the
// entries of the trace.
func WritePage(w io.Writer, title string, cfg sim.Config, trials []Trial, reading trace.Reading) error {
	sums := Summarize(cfg, trials)
	d := report.Document{Title: title, Intro: intro(cfg)}
	head, rows := Table(cfg, sums)
	d.Sections = append(d.Sections, report.Section{Head: head, Rows: rows, Notes: Notes(cfg, sums, reading)})
	d.Sections = append(d.Sections, carbonAndLoad(cfg, trials)...)
	d.Sections = append(d.Sections, waits(trials), savings(sums))
	for i := range trials[1:] {
		d.Sections = append(d.Sections, chart(cfg, trials[0], trials[i+1]))
	}
	d.Sections = append(d.Sections, report.Section{Title: "How these numbers were made", Notes: notes(cfg)})
	return report.WriteDocument(w, d)
}

func intro(cfg sim.Config) string {
	names := ""
	for i := range cfg.Clusters {
		if i > 0 {
			names += ", "
		}
		names += cfg.Clusters[i].Name
	}
	return fmt.Sprintf("%d jobs from %s on %s. Savings are against the same jobs started when they were submitted, or as soon as there was room.",
		len(cfg.Jobs), firstSlot(cfg).Format(time.DateOnly), names)
}

// carbonAndLoad are the pictures of intensity and use over time.
func carbonAndLoad(cfg sim.Config, trials []Trial) []report.Section {
	slots := 0
	for i := range trials {
		for _, l := range trials[i].Load {
			slots = max(slots, len(l))
		}
	}
	from, hours := firstSlot(cfg), cfg.Slot.Hours()
	scaled := func(values []float64) (x, y []float64) {
		x, y = report.Thin(values, mostPoints)
		for i := range x {
			x[i] *= hours
		}
		return x, y
	}
	carbon := report.Chart{Title: "Carbon intensity over time", From: from, Height: 150}
	for c := range cfg.Clusters {
		values := make([]float64, slots)
		for t := range values {
			at := from.Add(time.Duration(t) * cfg.Slot)
			values[t] = float64(cfg.Clusters[c].Actual.FilledMean(at, at.Add(cfg.Slot)).Mean)
		}
		x, y := scaled(values)
		carbon.Series = append(carbon.Series, report.Series{Name: cfg.Clusters[c].Name, X: x, Y: y, Stairs: true})
	}
	out := []report.Section{{Title: "Carbon intensity, gCO2eq/kWh", Picture: carbon.SVG()}}
	for c := range cfg.Clusters {
		load := report.Chart{Title: "Use over time on " + cfg.Clusters[c].Name, From: from, Height: 180}
		for i := range trials {
			x, y := scaled(trials[i].Load[c])
			load.Series = append(load.Series, report.Series{Name: trials[i].Label, X: x, Y: y, Stairs: true})
		}
		out = append(out, report.Section{Title: fmt.Sprintf("In use of %s on %s", mainResource(cfg), cfg.Clusters[c].Name), Picture: load.SVG()})
	}
	return out
}

// waits is the picture of the distribution of waiting times.
func waits(trials []Trial) report.Section {
	c := report.Chart{Title: "Distribution of waiting times", XUnit: " h"}
	for i := range trials {
		values := make([]float64, len(trials[i].Jobs))
		for j := range values {
			values[j] = trials[i].Jobs[j].Wait.Hours()
		}
		slices.Sort(values)
		x, y := report.CDF(values, 400)
		c.Series = append(c.Series, report.Series{Name: trials[i].Label, X: x, Y: y, Stairs: true})
	}
	return report.Section{Title: "Share of jobs that had started after a wait", Picture: c.SVG()}
}

// savings is the picture of savings against delay.
func savings(sums []Summary) report.Section {
	c := report.Chart{Title: "Saving against mean delay", XUnit: " h", YUnit: " %"}
	for _, s := range sums {
		if math.IsNaN(s.Saving) {
			continue // withheld
		}
		c.Series = append(c.Series, report.Series{Name: s.Planner, X: []float64{s.MeanDelayH}, Y: []float64{100 * s.Saving}, Points: true, Labels: []string{s.Planner}})
	}
	return report.Section{Title: "Saving against mean delay", Picture: c.SVG()}
}

// chart is the Gantt chart of the first jobs of a trial.
func chart(cfg sim.Config, baseline, t Trial) report.Section {
	n := min(mostRows, len(t.Jobs))
	order := make([]int, len(t.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cfg.Jobs[a].Submitted.Compare(cfg.Jobs[b].Submitted) })
	from, to := firstSlot(cfg), firstSlot(cfg).Add(cfg.Slot)
	var jobs []report.Job
	for _, j := range order[:n] {
		job := &cfg.Jobs[j]
		row := report.Job{Name: clip(job.ID), Note: string(job.Kind), Arrival: job.Submitted, Deadline: deadline(job)}
		for _, r := range t.Jobs[j].Runs {
			row.Observed = append(row.Observed, report.Bar{From: t.At(r.From), To: t.At(r.To), CPUs: float64(r.Workers)})
			if end := t.At(r.To); end.After(to) {
				to = end
			}
		}
		for _, r := range baseline.Jobs[j].Runs {
			row.Baseline = append(row.Baseline, report.Bar{From: baseline.At(r.From), To: baseline.At(r.To), CPUs: float64(r.Workers)})
		}
		jobs = append(jobs, row)
	}
	return report.Section{
		Title:   fmt.Sprintf("The first %d jobs with %s", n, t.Label),
		Text:    "Filled: running. Thin: waiting. Outlined: as submitted. Mark: deadline.",
		Picture: report.Gantt(from, to, jobs),
	}
}

// clip shortens a name to what fits beside a chart.
func clip(name string) string {
	const most = 9
	if len(name) <= most {
		return name
	}
	return "…" + name[len(name)-most+1:]
}

func notes(cfg sim.Config) []string {
	return []string{
		"Every start, pause and change of scale was decided by the function that the live controllers call.",
		fmt.Sprintf("Slots of %s; seed %d; emissions on the intensity that occurred, decisions on what was told of it before.", cfg.Slot, cfg.Seed),
	}
}
