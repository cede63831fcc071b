package demo

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// replay is a demo under way.
type replay struct {
	Options
	client   client.Client
	recorder *recorder
	timeline timegrid.Timeline
	series   *carbon.Series
	specs    []spec
	stage    *Stage
	drawn    time.Time
	looked   time.Time
	states   []seen
	player   *Player
}

// play submits the jobs at their time and waits until all are done.
func (r *replay) play(ctx context.Context) error {
	next := 0
	end := r.timeline.ToWall(r.timeline.Grid.Add(span)).Add(tail)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		now := time.Now()
		for next < len(r.specs) && !now.Before(r.timeline.ToWall(r.timeline.Grid.Add(r.specs[next].arrival))) {
			if err := r.client.Create(ctx, r.specs[next].job()); err != nil {
				return fmt.Errorf("submit %s: %w", r.specs[next].name, err)
			}
			next++
		}
		if err := r.stage.Ended(); err != nil {
			return err
		}
		if err := r.player.Step(ctx, now); err != nil {
			return fmt.Errorf("play the elastic Jobs: %w", err)
		}
		counts := r.recorder.counts()
		r.look(ctx, now)
		r.draw(now, counts)
		if next == len(r.specs) && counts.done+counts.failed == len(r.specs) {
			return nil
		}
		if now.After(end) {
			return nil // finish says which Jobs are missing
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// draw shows the progress: over itself on a terminal, else a line every few
// hours of the replay.
func (r *replay) draw(now time.Time, c counts) {
	every := 250 * time.Millisecond
	if !r.Terminal {
		every = r.timeline.WallDuration(4 * time.Hour)
	}
	if now.Sub(r.drawn) < every {
		return
	}
	r.drawn = now
	at := r.timeline.ToGrid(now)
	sample, _ := r.series.At(at)
	const cells = 20
	share := min(1, max(0, float64(at.Sub(r.timeline.Grid))/float64(span)))
	bar := strings.Repeat("#", int(share*cells)) + strings.Repeat(".", cells-int(share*cells))
	emitted := "emissions withheld"
	if grams, _, err := r.emissions(now); err == nil {
		emitted = grams.String()
	}
	line := fmt.Sprintf("[%s] %s  %4.0f g/kWh  submitted %2d  waiting %2d  running %2d  done %2d  %s so far",
		bar, at.UTC().Format("Mon 15:04"), float64(sample.Value), c.submitted, c.waiting, c.running, c.done, emitted)
	for _, s := range r.specs {
		if s.elastic != nil {
			line += fmt.Sprintf("  %s x%d %.0f%%", s.name, r.recorder.pods(s.name), 100*r.player.Progress(s.name))
		}
	}
	if r.Terminal {
		fmt.Fprintf(r.Out, "\r\033[K%s", line)
		return
	}
	fmt.Fprintln(r.Out, line)
}

func (r *replay) model() power.PerUnit {
	return power.PerUnit{Watts: map[string]float64{"cpu": wattsPerCPU}, PUE: pue}
}

// emissions prices all runs observed so far; it returns the errors of priced.
func (r *replay) emissions(now time.Time) (grams units.Emissions, energy units.Energy, err error) {
	for _, s := range r.specs {
		g, e, err := s.used(r.recorder.runs(s.name, r.timeline, now), r.model(), r.series)
		if err != nil {
			return 0, 0, err
		}
		grams += g
		energy += e
	}
	return grams, energy, nil
}

// baseline simulates the same Jobs, run as submitted on the same cluster.
func (r *replay) baseline(ctx context.Context) (sim.Result, error) {
	capacity := map[string]float64{"cpu": nodes * cpusPerNode}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "lab", Zone: r.Zone, Capacity: capacity, Power: r.model(), Forecast: r.series, Actual: r.series}},
		Slot:     r.slot(), Margin: margin,
	}
	for _, s := range r.specs {
		cfg.Jobs = append(cfg.Jobs, s.simulated(r.timeline.Grid.Add(s.arrival), r.deadline(s)))
	}
	return sim.AsSubmitted(ctx, cfg)
}

// deadline is when a Job must be done, from the time the demo submitted it at;
// zero for a critical one.
func (r *replay) deadline(s spec) time.Time {
	if s.critical {
		return time.Time{}
	}
	return r.timeline.Grid.Add(s.arrival + s.slack + s.estimate)
}

// finish compares with the baseline, prints the table and writes the report.
func (r *replay) finish(ctx context.Context) error {
	if r.Terminal {
		fmt.Fprintln(r.Out)
	}
	now := time.Now()
	grams, energy, err := r.emissions(now)
	if err != nil {
		return err
	}
	base, err := r.baseline(ctx)
	if err != nil {
		return err
	}
	if base.Unpriced > 0 {
		return fmt.Errorf("%w: saving withheld: run as submitted, %v have no carbon intensity", ErrDemo, base.Unpriced)
	}
	var unfinished, missed []string
	var wait time.Duration
	flexible, started := 0, 0
	for _, s := range r.specs {
		o := r.recorder.job(s.name)
		if !o.succeeded {
			if o.failure != "" {
				o.failure = " (" + o.failure + ")"
			}
			unfinished = append(unfinished, s.name+o.failure)
			continue
		}
		if d := r.deadline(s); !d.IsZero() {
			flexible++
			if r.timeline.ToGrid(o.finished).After(d) {
				missed = append(missed, s.name)
			}
		}
		if runs := r.sortedRuns(s.name, now); len(runs) > 0 {
			wait += max(0, runs[0].start.Sub(r.timeline.Grid.Add(s.arrival)))
			started++
		}
	}
	meanWait := wait / time.Duration(max(1, started))
	saved := 100 * (1 - float64(grams)/float64(base.Emissions))
	rows := []report.Row{
		{Name: "emissions", Observed: grams.String(), Baseline: base.Emissions.String()},
		{Name: "saved", Observed: units.Number("%.1f %%", saved), Baseline: "-"},
		{Name: "energy", Observed: energy.String(), Baseline: base.Energy.String()},
		{Name: "mean intensity of the energy used", Observed: meanIntensity(grams, energy), Baseline: meanIntensity(base.Emissions, base.Energy)},
		{Name: "jobs finished", Observed: fmt.Sprintf("%d of %d", len(r.specs)-len(unfinished), len(r.specs)), Baseline: fmt.Sprintf("%d of %d", len(base.Jobs), len(r.specs))},
		{Name: "deadlines kept", Observed: fmt.Sprintf("%d of %d", flexible-len(missed), flexible), Baseline: fmt.Sprintf("%d of %d", flexible-base.Missed, flexible)},
		{Name: "mean wait", Observed: meanWait.Round(time.Minute).String(), Baseline: base.MeanWait.Round(time.Minute).String()},
	}
	fmt.Fprintln(r.Out)
	tw := tabwriter.NewWriter(r.Out, 0, 4, 3, ' ', 0)
	fmt.Fprintf(tw, "\t%s\t%s\n", observedName, baselineName)
	for _, row := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", row.Name, row.Observed, row.Baseline)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.Live != nil {
		fmt.Fprintf(r.Out, "\nwhat the zone's status said:\n")
		for _, line := range r.statesText() {
			fmt.Fprintf(r.Out, "  %s\n", line)
		}
	}
	if err := r.writeReport(rows, base, now); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "\nreport: %s\n", r.Report)
	switch {
	case len(unfinished) > 0:
		return fmt.Errorf("%w: not finished: %s", ErrDemo, strings.Join(unfinished, ", "))
	case len(missed) > 0:
		return fmt.Errorf("%w: deadline missed: %s", ErrDemo, strings.Join(missed, ", "))
	}
	return nil
}

const (
	observedName = "with Lull (observed)"
	baselineName = "as submitted (simulated)"
)

func meanIntensity(g units.Emissions, e units.Energy) string {
	if e <= 0 {
		return "-"
	}
	return units.CarbonIntensity(float64(g) / float64(e)).String()
}

func (r *replay) sortedRuns(job string, now time.Time) []run {
	runs := r.recorder.runs(job, r.timeline, now)
	sort.Slice(runs, func(a, b int) bool { return runs[a].start.Before(runs[b].start) })
	return runs
}

// staircase draws the workers of an elastic job against the intensity.
func (r *replay) staircase(s spec, steps []stair) report.Figure {
	from := r.timeline.Grid
	hour := func(at time.Time) float64 { return at.Sub(from).Hours() }
	workers := report.Series{Name: "workers", Stairs: true, X: []float64{0}, Y: []float64{0}}
	last := from
	for _, x := range steps {
		if x.from.After(last) {
			workers.X, workers.Y = append(workers.X, hour(last)), append(workers.Y, 0)
		}
		workers.X, workers.Y = append(workers.X, hour(x.from)), append(workers.Y, float64(x.pods))
		last = x.to
	}
	workers.X, workers.Y = append(workers.X, hour(last), span.Hours()), append(workers.Y, 0, 0)
	intensity := report.Series{Stairs: true}
	most := 0.0
	for h := range int(span.Hours()) {
		sample, _ := r.series.At(from.Add(time.Duration(h) * time.Hour))
		intensity.X, intensity.Y = append(intensity.X, float64(h)), append(intensity.Y, float64(sample.Value))
		most = max(most, float64(sample.Value))
	}
	unit := 10.0
	for most/unit > float64(len(s.elastic.throughput)) {
		unit *= 2
	}
	for i := range intensity.Y {
		intensity.Y[i] /= unit
	}
	intensity.Name = fmt.Sprintf("carbon intensity, %g gCO2eq/kWh", unit)
	return report.Figure{Title: s.name, Picture: report.Chart{
		Title: "Workers of " + s.name + " and carbon intensity over time", From: from, Height: 150, Series: []report.Series{workers, intensity},
	}.SVG()}
}

func (r *replay) writeReport(rows []report.Row, base sim.Result, now time.Time) error {
	from := r.timeline.Grid
	title := "Lull demo: jobs that wait for clean power"
	if r.Elastic {
		title = "Lull demo: jobs that grow when power is clean"
	}
	page := report.Page{
		Title: title,
		Intro: fmt.Sprintf("%d Kubernetes Jobs over 48 hours from %s on a real control plane; carbon intensity of %s: %s.",
			len(r.specs), from.Format("2 January 2006"), r.Zone, r.series.Source),
		ObservedName: observedName, BaselineName: baselineName, Rows: rows,
		Notes: []string{
			"Observed: start and end of every pod as the API server's timestamps give them (whole seconds; at this time factor one second is " + r.timeline.GridDuration(time.Second).String() + " of the replay).",
			"Baseline: the same Jobs, each started as soon as the same cluster has room for it, simulated with the run times they really have.",
			fmt.Sprintf("Energy: %g W per requested CPU (elastic jobs: the measured power of their profiles), PUE %g; both columns are priced on the same recorded intensity.", wattsPerCPU, pue),
			fmt.Sprintf("Planner %s, time factor %d, seed %d.", r.Planner, r.Factor, r.Seed),
		},
		From: from, To: from.Add(span), Intensity: r.series, Capacity: nodes * cpusPerNode,
	}
	if r.Live == nil {
		page.Notes = append(page.Notes, "The planner saw the replayed series as its forecast: perfect foresight. A real forecast saves less (--live).")
	} else {
		page.Notes = append(page.Notes, "The planner saw the forecasts of a fake provider, 10 % off a day ahead, and forecasts made from 60 days of history beyond their end.")
		if r.Live.Outage > 0 {
			page.Notes = append(page.Notes, fmt.Sprintf("The provider failed for %v from %s on.", r.Live.Outage, from.Add(outageFrom).Format("2 January 15:04")))
		}
		for _, line := range r.statesText() {
			page.Notes = append(page.Notes, "Status of the zone from "+line+".")
		}
	}
	for i, s := range r.specs {
		j := report.Job{Name: s.name, Arrival: from.Add(s.arrival), Deadline: r.deadline(s), Note: fmt.Sprintf("%d CPUs, %s", s.cpus, s.length)}
		switch {
		case s.critical:
			j.Note += ", critical"
		case s.chunks > 1:
			j.Note += ", interruptible"
		case s.elastic != nil:
			j.Note = fmt.Sprintf("1 to %d workers of %d CPUs, %s with one", len(s.elastic.throughput), s.cpus, s.length)
		}
		steps := stairs(r.recorder.runs(s.name, r.timeline, now))
		for _, x := range steps {
			j.Observed = append(j.Observed, report.Bar{From: x.from, To: x.to, CPUs: float64(int64(x.pods) * s.cpus)})
		}
		if s.elastic != nil {
			page.Stairs = append(page.Stairs, r.staircase(s, steps))
		}
		for _, run := range base.Jobs[i].Runs {
			j.Baseline = append(j.Baseline, report.Bar{From: base.At(run.From), To: base.At(run.To), CPUs: float64(s.cpus)})
		}
		page.Jobs = append(page.Jobs, j)
	}
	return outfile.Write(r.Report, func(w io.Writer) error { return report.Write(w, page) })
}
