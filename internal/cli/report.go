package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/ledger"
	"lull.dev/lull/internal/report"
	"lull.dev/lull/pkg/carbon"
)

func newReportCommand() *cobra.Command {
	var f ledgerFlags
	var q ledger.Question
	var from, to, format, output string
	hardware := ledger.Hardware{}
	var embodiedKg, years float64
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report emissions and savings from the ledger",
		Long: `Report sums what the ledger has settled: emissions, what they would have been as submitted, how late
that made what, what that costs (--delay-cost), and which workloads emitted most. With --embodied-kg it gives the Software Carbon Intensity
(ISO/IEC 21031). Format impact is a manifest of the Green Software Foundation's Impact Framework, which
works out the same from energy and intensity of each workload.`,
		Example: `  lull report --database ledger.db --from 2026-10-01 --to 2026-11-01 --by namespace
  lull report --database ledger.db --by label:team --format html -o october.html
  lull report --database ledger.db --by team --delay-cost label:cost-of-an-hour
  lull report --export ledger.jsonl --embodied-kg 1300 --server-cpus 64 --unit label:images`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			start, end, err := period(from, to)
			if err != nil {
				return err
			}
			if q.Top < 0 || q.Top > 1000 {
				return fmt.Errorf("--top: %d; accepted: 0 to 1000", q.Top)
			}
			if cmd.Flags().Changed("embodied-kg") {
				if !(years > 0 && years <= 100) {
					return fmt.Errorf("--lifetime-years: %v; accepted: above 0, to 100", years)
				}
				hardware.Lifetime = time.Duration(years * 365.25 * 24 * float64(time.Hour))
				hardware.EmbodiedGrams = 1000 * embodiedKg
				q.Hardware = &hardware
			} else if q.Unit != "" {
				return errors.New("--unit: accepted with --embodied-kg, as the SCI counts what hardware embodies")
			}
			write, known := map[string]func(io.Writer, ledger.Summary, ledger.Question) error{"text": writeSummaryText, "html": writeSummaryPage, "json": writeSummaryJSON, "impact": nil}[format]
			if !known {
				return fmt.Errorf("--format: %q; accepted: text, html, json, impact", format)
			}
			entries, closing, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closing()) }()
			list, err := ledger.Settlements(entries(ledger.Query{Kind: ledger.KindSettled}), start, end)
			if err != nil {
				return err
			}
			s, err := ledger.Summarize(list, q)
			if err != nil {
				return err
			}
			if format == "impact" {
				write = func(out io.Writer, _ ledger.Summary, q ledger.Question) error {
					return ledger.WriteImpact(out, list, q)
				}
			}
			return streamOut(output, cmd.OutOrStdout(), func(w io.Writer) error { return write(w, s, q) })
		},
	}
	f.register(cmd)
	g := cmd.Flags()
	g.StringVar(&from, "from", "", "first day, or time, of the ends of workloads (default: all)")
	g.StringVar(&to, "to", "", "the day, or time, after the last (default: all)")
	g.StringVar(&q.By, "by", "", "group by namespace, team (the label of that name), policy, zone, kind or label:KEY")
	g.IntVar(&q.Top, "top", 10, "how many of the workloads that emitted most are named")
	g.StringVar(&q.Signal, "signal", "", "only where intensities are average, or marginal (default: the only one there is)")
	g.StringVar(&q.Factor, "factor", "", "only where they are lifecycle, or direct (default: the only one there is)")
	g.Float64Var(&embodiedKg, "embodied-kg", 0, "kgCO2eq that a server embodies, as its maker states; gives the SCI")
	g.Float64Var(&hardware.CPUs, "server-cpus", 64, "CPUs (vCPUs) of that server")
	g.Float64Var(&years, "lifetime-years", 4, "how long it is in use")
	g.StringVar(&q.Unit, "unit", "", "functional unit of the SCI: workload, worker-hour or label:KEY, whose values are summed (default: workload)")
	g.StringVar(&q.DelayCost, "delay-cost", "", "what an hour by which a workload ends later costs, in any currency: a number, or label:KEY, a label that has one")
	g.StringVar(&format, "format", "text", "text, html, json, or impact, a manifest of the Impact Framework")
	g.StringVarP(&output, "output", "o", "", "file to write (default: standard output)")
	return cmd
}

// kilograms writes grams for people.
func kilograms(g float64) string { return fmt.Sprintf("%.3f", g/1000) }

var totalsHead = []string{"", "workloads", "kWh", "kgCO2eq", "as submitted", "saved", "saved, %", "give or take", "mean delay, h", "late"}

func totalsRow(name string, t *ledger.Totals) []string {
	grams, share := kilograms, fmt.Sprintf("%.1f", 100*t.Share())
	if t.Withheld > 0 && t.Withheld == t.Workloads {
		grams, share = func(float64) string { return "withheld" }, "withheld"
	}
	return []string{
		name, fmt.Sprint(t.Workloads), fmt.Sprintf("%.3f", t.KWh), grams(t.Grams), grams(t.AsSubmittedGrams), grams(t.SavedGrams),
		share, grams(t.UncertainGrams), fmt.Sprintf("%.1f", t.DelayHours), fmt.Sprint(t.Late),
	}
}

// delayHead and delayRow are what delay brings and costs.
func delayHead(q *ledger.Question) []string {
	head := []string{"", "hours of delay", "longest, h", "g saved per hour"}
	if q.DelayCost != "" {
		head = append(head, "cost", "cost per kg saved")
	}
	return head
}

func delayRow(name string, t *ledger.Totals, q *ledger.Question) []string {
	perHour, perKilogram := "-", "-"
	if t.DelayedHours > 0 {
		perHour = fmt.Sprintf("%.1f", t.SavedPerDelayedHour())
	}
	if t.SavedGrams > 0 {
		perKilogram = fmt.Sprintf("%.2f", t.CostPerKilogram())
	}
	row := []string{name, fmt.Sprintf("%.1f", t.DelayedHours), fmt.Sprintf("%.1f", t.LongestDelayHours), perHour}
	if q.DelayCost != "" {
		row = append(row, fmt.Sprintf("%.2f", t.DelayCost), perKilogram)
	}
	return row
}

// totals are the rows of all workloads, and of each group, and those of their delay.
func totals(s *ledger.Summary, q *ledger.Question) (rows, delays [][]string) {
	rows, delays = [][]string{totalsRow("all", &s.All)}, [][]string{delayRow("all", &s.All, q)}
	for i := range s.Groups {
		g := &s.Groups[i]
		rows, delays = append(rows, totalsRow(g.Name, g)), append(delays, delayRow(g.Name, g, q))
	}
	return rows, delays
}

var emitterHead = []string{"workload", "kind", "start", "end", "kWh", "kgCO2eq", "saved"}

func emitterRow(r *ledger.Record) []string {
	const at = "2006-01-02 15:04"
	grams, saved := kilograms(r.Grams), kilograms(r.SavedGrams)
	if r.Withheld != "" {
		grams, saved = "withheld", "withheld"
	}
	return []string{r.Namespace + "/" + r.Name, r.Kind, r.Start.UTC().Format(at), r.End.UTC().Format(at), fmt.Sprintf("%.3f", r.KWh), grams, saved}
}

// about says what a summary counts.
func about(s *ledger.Summary) []string {
	if s.All.Workloads == 0 {
		return []string{"Nothing is settled in this time."}
	}
	counted := "none of them has run"
	if s.Signal != "" {
		counted = fmt.Sprintf("%s intensities, %s emissions, location-based", s.Signal, s.Factor)
	}
	lines := []string{fmt.Sprintf("%d workloads, submitted from %s, ended by %s; %s.", s.All.Workloads,
		s.From.UTC().Format("2006-01-02 15:04"), s.To.UTC().Format("2006-01-02 15:04"), counted)}
	lines = append(lines, fmt.Sprintf("%.0f %% of the energy was measured; the rest is by the policies' power models.", 100*s.All.MeasuredKWh/max(s.All.KWh, 1e-12)))
	return append(lines, gapLines(s)...)
}

// gapLines say what hours without a known intensity mean for the figures.
func gapLines(s *ledger.Summary) (lines []string) {
	t := &s.All
	if t.FilledHours > 0 {
		lines = append(lines, fmt.Sprintf("%.4g hours of run time, of both sides, have no known intensity and are filled: %s.", t.FilledHours, carbon.FillRule))
	}
	if t.Withheld > 0 {
		lines = append(lines, fmt.Sprintf("Emissions and savings of %d of %d workloads (%.3f kWh) are withheld, and in no figure in grams: they have hours that cannot be filled so, or were settled by a method that left hours out. lull ledger show says which.",
			t.Withheld, t.Workloads, t.WithheldKWh))
	}
	return lines
}

func (s sciText) lines() []string {
	lines := []string{
		fmt.Sprintf("%.4g gCO2eq per %s", s.PerUnit, s.Unit),
		fmt.Sprintf("(O %.4g g + M %.4g g) / R %.6g", s.Operational, s.Embodied, s.Units),
	}
	if s.Withheld > 0 {
		lines = append(lines, fmt.Sprintf("%d workloads whose emissions are withheld are in none of these", s.Withheld))
	}
	return lines
}

// holdOutLines tell what was measured against those held out.
func holdOutLines(h *ledger.HoldOut) []string {
	lines := []string{
		fmt.Sprintf("%.4g gCO2eq/kWh saved, 95 %% interval %.4g to %.4g (%.1f %% of %.4g); the model says %.4g", h.Saved, h.Low, h.High, 100*h.Saved/h.HeldOutMean, h.HeldOutMean, h.ModelSaved),
		fmt.Sprintf("%d workloads held out, %d planned at %.4g gCO2eq/kWh", h.HeldOut, h.Planned, h.PlannedMean),
	}
	if h.TooSmall {
		lines = append(lines, "The sample is too small to tell: fewer than 30 workloads on a side, or an interval wider than what was saved.")
	}
	return lines
}

// sciText is an SCI for people.
type sciText struct{ *ledger.SCI }

func writeSummaryText(out io.Writer, s ledger.Summary, q ledger.Question) error {
	for _, line := range slices.Concat(about(&s), besideLines(&s)) {
		fmt.Fprintln(out, line)
	}
	if s.All.Workloads == 0 {
		return nil
	}
	table := func(head []string, rows ...[]string) error {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{head}, rows...) {
			for i, cell := range row {
				if i > 0 {
					fmt.Fprint(w, "\t")
				}
				fmt.Fprint(w, cell)
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	}
	rows, delays := totals(&s, &q)
	if err := errors.Join(table(totalsHead, rows...), table(delayHead(&q), delays...)); err != nil {
		return err
	}
	if len(s.Top) > 0 {
		var rows [][]string
		for i := range s.Top {
			rows = append(rows, emitterRow(&s.Top[i]))
		}
		if err := table(emitterHead, rows...); err != nil {
			return err
		}
	}
	if s.HoldOut != nil {
		fmt.Fprintln(out, "\nAgainst the workloads that ran as submitted, by chance:")
		for _, line := range holdOutLines(s.HoldOut) {
			fmt.Fprintln(out, "  "+line)
		}
	}
	if s.SCI != nil {
		fmt.Fprintln(out, "\nSoftware Carbon Intensity (ISO/IEC 21031):")
		for _, line := range (sciText{s.SCI}).lines() {
			fmt.Fprintln(out, "  "+line)
		}
	}
	return nil
}

// besideLines say the same emissions by other signals and factors.
func besideLines(s *ledger.Summary) (out []string) {
	for _, t := range s.Beside {
		out = append(out, fmt.Sprintf("By %s intensities, %s emissions: %s kgCO2eq, as submitted %s, saved %s (%d of %d workloads; %d withheld, %.4g hours filled).",
			t.Signal, t.Factor, kilograms(t.Grams), kilograms(t.AsSubmittedGrams), kilograms(t.SavedGrams), t.Workloads, s.All.Workloads, t.Withheld, t.FilledHours))
	}
	return out
}

func writeSummaryJSON(out io.Writer, s ledger.Summary, _ ledger.Question) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(&s)
}

func writeSummaryPage(out io.Writer, s ledger.Summary, q ledger.Question) error {
	doc := report.Document{Title: "Emissions and savings", Intro: about(&s)[0]}
	if s.All.Workloads == 0 {
		return report.WriteDocument(out, doc)
	}
	rows, delays := totals(&s, &q)
	title := "In all"
	if s.By != "" {
		title = "By " + s.By
	}
	notes := slices.Concat(about(&s)[1:], besideLines(&s))
	notes = append(notes, "As submitted: the same work in one piece, first come first served, as early as it fit into the capacity that was there. Give or take: of the emissions, at 90 %.")
	doc.Sections = append(doc.Sections, report.Section{Title: title, Head: totalsHead, Rows: rows, Notes: notes})
	doc.Sections = append(doc.Sections, report.Section{Title: "What it took in delay", Head: delayHead(&q), Rows: delays, Notes: []string{
		"Hours by which workloads ended later than as submitted; those that ended earlier count as none."}})
	if len(s.Days) > 1 {
		doc.Sections = append(doc.Sections, report.Section{Title: "By the day", Picture: days(&s).SVG()})
	}
	if len(s.Top) > 0 {
		var rows [][]string
		for i := range s.Top {
			rows = append(rows, emitterRow(&s.Top[i]))
		}
		doc.Sections = append(doc.Sections, report.Section{Title: "What emitted most", Head: emitterHead, Rows: rows})
	}
	if s.HoldOut != nil {
		lines := holdOutLines(s.HoldOut)
		doc.Sections = append(doc.Sections, report.Section{Title: "Against the workloads that ran as submitted, by chance", Text: lines[0], Notes: lines[1:]})
	}
	if s.SCI != nil {
		lines := (sciText{s.SCI}).lines()
		doc.Sections = append(doc.Sections, report.Section{Title: "Software Carbon Intensity (ISO/IEC 21031)", Text: lines[0], Notes: lines[1:]})
	}
	return report.WriteDocument(out, doc)
}

// days shows the emissions of the days, and what they would have been.
func days(s *ledger.Summary) report.Chart {
	actual, otherwise := report.Series{Name: "kgCO2eq", Stairs: true}, report.Series{Name: "as submitted", Stairs: true}
	first, err := time.Parse(time.DateOnly, s.Days[0].Name)
	if err != nil { // the name was written from a time
		return report.Chart{}
	}
	add := func(hour, g, as float64) {
		actual.X, actual.Y = append(actual.X, hour), append(actual.Y, g/1000)
		otherwise.X, otherwise.Y = append(otherwise.X, hour), append(otherwise.Y, as/1000)
	}
	for i := range s.Days {
		d := &s.Days[i]
		day, err := time.Parse(time.DateOnly, d.Name)
		if err != nil {
			continue
		}
		hour := day.Sub(first).Hours()
		if n := len(actual.X); n > 0 && actual.X[n-1]+24 < hour {
			add(actual.X[n-1]+24, 0, 0) // days without any
		}
		add(hour, d.Grams, d.AsSubmittedGrams)
	}
	add(actual.X[len(actual.X)-1]+24, 0, 0)
	return report.Chart{Title: "Emissions by the day on which workloads ended", From: first, Series: []report.Series{otherwise, actual}}
}
