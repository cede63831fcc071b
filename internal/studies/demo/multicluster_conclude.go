package demo

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/units"
)

// gpuRun is a run that uses GPUs.
type gpuRun struct {
	run
	gpus float64
}

// levels sums the GPUs of runs over time (hours since 1970). What ends in the second in which
// something begins has ended before.
func levels(runs []gpuRun) []gpuChange {
	var steps []gpuChange
	for _, x := range runs {
		steps = append(steps, gpuChange{float64(x.start.Unix()) / 3600, x.gpus}, gpuChange{float64(x.end.Unix()) / 3600, -x.gpus})
	}
	sort.Slice(steps, func(a, b int) bool {
		return steps[a].at < steps[b].at || steps[a].at == steps[b].at && steps[a].gpus < steps[b].gpus
	})
	level := 0.0
	for i := range steps {
		level += steps[i].gpus
		steps[i].gpus = level
	}
	return steps
}

// conclude writes the table and the pictures, and judges.
func (r *caspianRun) conclude(live, simulated []outcome) error {
	head := []string{"omega1", "", "carbon, g", "saving, %", "on time, %", "mean alpha", "makespan, h", "GPU hours on " + strings.Join(r.zones, ", ")}
	var rows [][]string
	var failed []string
	doc := report.Document{
		Title: "Caspian's experiment, live",
		Intro: fmt.Sprintf("%d workloads on a hub with three spokes of %d GPUs (%s), real control planes with Kueue and MultiKueue; %s, %d times as fast, planner %s, seed %d.",
			len(r.jobs), gpusPerSpoke, strings.Join(r.zones, ", "), reproduce.CaspianStart.Format("2 January 2006"), r.Factor, r.Planner, r.Seed),
	}
	saving := func(of []outcome, i int) float64 { return 1 - float64(of[i].grams/of[0].grams) }
	for i, omega := range r.omegas {
		paper, known := caspianPapers[omega]
		if !known {
			paper = caspianPaper{"-", "-", "-", "-"}
		}
		name := fmt.Sprintf("%g", omega)
		rows = append(rows, []string{name, "paper", "-", paper.saving, paper.onTime, paper.alpha, paper.makespan, "-"})
		for what, of := range [][]outcome{simulated, live} {
			saved := "-"
			if i > 0 {
				saved = units.Number("%.1f", 100*saving(of, i))
			}
			rows = append(rows, []string{
				name, []string{"simulated", "live"}[what], fmt.Sprintf("%.0f", float64(of[i].grams)), saved,
				fmt.Sprintf("%.1f", 100*of[i].onTime), fmt.Sprintf("%.2f", of[i].alpha), fmt.Sprintf("%.1f", of[i].makespan), hours(of[i].gpuHours),
			})
		}
		l := &live[i]
		if len(l.unfinished) > 0 {
			failed = append(failed, fmt.Sprintf("omega1 = %g: not finished: %s", omega, strings.Join(l.unfinished, ", ")))
		}
		if l.twice+l.overfull > 0 {
			failed = append(failed, fmt.Sprintf("omega1 = %g: %d times a workload ran twice at once, %d times a cluster was over its quota", omega, l.twice, l.overfull))
		}
		if i > 0 {
			if off := saving(live, i)/saving(simulated, i) - 1; math.Abs(off) > caspianLimit {
				failed = append(failed, fmt.Sprintf("omega1 = %g: the live saving is %s the simulated one; accepted: a difference of at most %.0f %%", omega, against(off), 100*caspianLimit))
			}
		}
		doc.Sections = append(doc.Sections, report.Section{Title: fmt.Sprintf("GPUs in use, omega1 = %g", omega), Picture: r.picture(l).SVG()})
	}
	doc.Sections = append([]report.Section{{Title: "Section V", Head: head, Rows: rows, Notes: []string{
		"Paper: Caspian, Section V, 14 November 2023. Live: from the API servers' timestamps of pods on the spokes. Simulated: the simulator on the same workloads.",
		"The saving is over omega1 = " + fmt.Sprintf("%g", r.omegas[0]) + ". alpha is the share of its time until the deadline that a workload took. Workloads are " + dispatchTime.String() + " shorter than whole hours: what starting a Job through two Kueues takes at this speed, and until the hub knows that it has ended.",
	}}}, doc.Sections...)
	return r.publish(doc, head, rows, failed)
}

func hours(of []float64) string {
	var out []string
	for _, v := range of {
		out = append(out, fmt.Sprintf("%.0f", v))
	}
	return strings.Join(out, ", ")
}

// picture shows the GPUs in use on each cluster.
func (r *caspianRun) picture(o *outcome) report.Chart {
	c := report.Chart{Title: "GPUs in use on each cluster over time", From: reproduce.CaspianStart}
	for i, use := range o.use {
		line := report.Series{Name: r.zones[i], Stairs: true, X: []float64{0}, Y: []float64{0}}
		for _, x := range use {
			line.X, line.Y = append(line.X, x.at), append(line.Y, x.gpus)
		}
		c.Series = append(c.Series, line)
	}
	return c
}
