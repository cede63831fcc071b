package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// reportOptions are the flags of lull report.
type reportOptions struct {
	ledger                   ledgerFlags
	q                        ledger.Question
	from, to, format, output string
	hardware                 ledger.Hardware
	embodiedKg, years        float64
}

func newReportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report emissions and savings from the ledger",
		Long: `Report sums the settled workloads of the ledger: emissions, emissions as submitted, delays, their
cost (--delay-cost), and the workloads that emitted most. With --embodied-kg it adds the Software Carbon
Intensity (ISO/IEC 21031). Format impact is a manifest of the Green Software Foundation's Impact Framework,
which computes the same result from energy and intensity of each workload.

No figure includes workloads that are not settled yet; Report says how many there are.

Report first checks the chain of a raw export (--export): it fails if the chain is broken, and says on standard
error how many entries it has and what its head is. To check the chain of a database, use lull ledger verify.`,
		Example: `  lull report --database ledger.db --from 2026-10-01 --to 2026-11-01 --by namespace
  lull report --database ledger.db --by label:team --format html -o october.html
  lull report --database ledger.db --by team --delay-cost label:cost-of-an-hour
  lull report --export ledger.jsonl --embodied-kg 1300 --server-cpus 64 --unit label:images`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.ledger.register(cmd)
	g := cmd.Flags()
	g.StringVar(&o.from, "from", "", "day or time; workloads that ended before it are left out (default: none)")
	g.StringVar(&o.to, "to", "", "day or time; workloads that ended then or later are left out (default: none)")
	g.StringVar(&o.q.By, "by", "", "group by namespace, team (the label of that name), policy, zone, kind or label:KEY")
	number(g, &o.q.Top, "top", 10, between(0, 1000), "how many workloads to name, those that emitted most")
	g.StringVar(&o.q.Signal, "signal", "", "only workloads whose intensities are average or marginal (default: the only signal in the ledger)")
	g.StringVar(&o.q.Factor, "factor", "", "only workloads whose intensities are lifecycle or direct (default: the only factor in the ledger)")
	number(g, &o.embodiedKg, "embodied-kg", 0, atLeast(0), "embodied emissions of a server in kgCO2eq, as its maker states; adds the SCI to the report")
	number(g, &o.hardware.CPUs, "server-cpus", 64, above0(), "CPUs (vCPUs) of that server")
	number(g, &o.years, "lifetime-years", 4, above0To(100), "how long that server is in use, in years")
	g.StringVar(&o.q.Unit, "unit", "", "functional unit of the SCI: workload, worker-hour or label:KEY, a label whose values are summed (default: workload)")
	g.StringVar(&o.q.DelayCost, "delay-cost", "", "cost of an hour by which a workload ends later, in any currency: a number, or label:KEY, a label whose value is the number")
	choice(g, &o.format, "format", "", "format; impact is a manifest of the Impact Framework", formatText, "html", formatJSON, formatYAML, "impact")
	g.StringVarP(&o.output, "output", "o", "", "file to write (default: standard output)")
	return cmd
}

// question checks what is asked of the ledger.
func (o *reportOptions) question(flags *pflag.FlagSet) error {
	if o.q.Signal != "" && o.q.Signal != string(carbon.Average) && o.q.Signal != string(carbon.Marginal) {
		return fmt.Errorf("--signal: %q; accepted: average or marginal", o.q.Signal)
	}
	if o.q.Factor != "" && o.q.Factor != string(carbon.Lifecycle) && o.q.Factor != string(carbon.Direct) {
		return fmt.Errorf("--factor: %q; accepted: lifecycle or direct", o.q.Factor)
	}
	if flags.Changed("embodied-kg") {
		o.hardware.Lifetime = time.Duration(o.years * 365.25 * 24 * float64(time.Hour))
		o.hardware.EmbodiedGrams = 1000 * o.embodiedKg
		o.q.Hardware = &o.hardware
	} else if name := firstGiven(flags, "unit", "server-cpus", "lifetime-years"); name != "" {
		return fmt.Errorf("--%s: accepted with --embodied-kg, because the SCI counts embodied emissions of hardware", name)
	}
	return nil
}

func (o *reportOptions) run(cmd *cobra.Command) (err error) {
	start, end, err := period(o.from, o.to)
	if err != nil {
		return err
	}
	if err := o.question(cmd.Flags()); err != nil {
		return err
	}
	write := writeSummaryText
	switch o.format {
	case "html":
		write = writeSummaryPage
	case formatJSON, formatYAML:
		write = func(out io.Writer, s ledger.Summary, _ ledger.Question) error {
			return writeStructured(out, o.format, &s)
		}
	}
	l, err := o.ledger.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.closing()) }()
	open := unsettled{}
	list, err := ledger.Settlements(open.among(l.ofKinds(ledger.KindSubmitted, ledger.KindSettled)), start, end)
	if err != nil {
		return err
	}
	s, err := ledger.Summarize(list, o.q)
	if err != nil {
		return err
	}
	s.Unsettled = open.before(end)
	if s.All.Workloads == 0 && len(list) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "none of the %d workloads that are settled in this time has --signal %q and --factor %q; they have: %s\n", len(list), o.q.Signal, o.q.Factor, signalsOf(list))
	}
	if o.format == "impact" {
		write = func(out io.Writer, _ ledger.Summary, q ledger.Question) error {
			return ledger.WriteImpact(out, list, q)
		}
	}
	if err := streamOut(o.output, cmd.OutOrStdout(), func(w io.Writer) error { return write(w, s, o.q) }); err != nil {
		return err
	}
	return l.writeChecked(cmd.ErrOrStderr())
}

// unsettled are the workloads that are submitted and not settled, with when they were submitted.
type unsettled map[string]time.Time

// among yields entries and takes note of them.
func (u unsettled) among(entries iter.Seq2[ledger.Entry, error]) iter.Seq2[ledger.Entry, error] {
	settled := map[string]bool{}
	return func(yield func(ledger.Entry, error) bool) {
		for e, err := range entries {
			switch {
			case err != nil:
			case e.Kind == ledger.KindSettled:
				settled[e.Workload] = true
				delete(u, e.Workload)
			case e.Kind == ledger.KindSubmitted && !settled[e.Workload]:
				u[e.Workload] = e.At
				var b ledger.Submitted
				if json.Unmarshal(e.Body, &b) == nil && !b.At.IsZero() {
					u[e.Workload] = b.At
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// before counts those that were submitted before a time; all if it is zero.
func (u unsettled) before(end time.Time) (n int) {
	for _, at := range u {
		if end.IsZero() || at.Before(end) {
			n++
		}
	}
	return n
}

// signalsOf are the signals and factors of settlements.
func signalsOf(list []ledger.Settlement) string {
	var found []string
	for i := range list {
		if text := list[i].Signal + " " + list[i].Factor; list[i].Signal != "" && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	if len(found) == 0 {
		return "none, as none has run"
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// kilograms writes grams for people.
func kilograms(g float64) string { return units.Number("%.3f", g/1000) }

var totalsHead = []string{"", "workloads", "kWh", "kgCO2eq", "as submitted", "saved", "saved, %", "give or take", "mean delay, h", "late"}

func totalsRow(name string, t *ledger.Totals) []string {
	grams, share := kilograms, units.Number("%.1f", 100*t.Share())
	if t.Withheld > 0 && t.Withheld == t.Workloads {
		grams, share = func(float64) string { return "withheld" }, "withheld"
	}
	return []string{
		name, fmt.Sprint(t.Workloads), fmt.Sprintf("%.3f", t.KWh), grams(t.Grams), grams(t.AsSubmittedGrams), grams(t.SavedGrams),
		share, grams(t.UncertainGrams), units.Number("%.1f", t.DelayHours), fmt.Sprint(t.Late),
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
		perHour = units.Number("%.1f", t.SavedPerDelayedHour())
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
	var open []string
	if s.Unsettled > 0 {
		open = []string{fmt.Sprintf("%d workloads submitted by then are not settled yet, and in no figure: work is settled when it is over and the intensities of its hours are published.", s.Unsettled)}
	}
	if s.All.Workloads == 0 {
		return append([]string{"Nothing is settled in this time."}, open...)
	}
	counted := "none of them has run"
	if s.Signal != "" {
		counted = fmt.Sprintf("%s intensities, %s emissions, location-based", s.Signal, s.Factor)
	}
	lines := []string{fmt.Sprintf("%d workloads, submitted from %s, ended by %s; %s.", s.All.Workloads,
		s.From.UTC().Format("2006-01-02 15:04"), s.To.UTC().Format("2006-01-02 15:04"), counted)}
	lines = append(lines, fmt.Sprintf("%.0f %% of the energy was measured; the rest is computed with the power models of the policies.", 100*s.All.MeasuredKWh/max(s.All.KWh, 1e-12)))
	if lost := s.All.FailedHours + s.All.EvictedHours; lost > 0 {
		lines = append(lines, fmt.Sprintf("Of %.4g pod hours, %.4g are of pods that failed and %.4g of pods that were evicted: their energy counts. As submitted, it counts only if no work was done again.", s.All.WorkerHours, s.All.FailedHours, s.All.EvictedHours))
	}
	if t := &s.All; t.Unplanned > 0 {
		lines = append(lines, fmt.Sprintf("%d of %d workloads (%.3f kWh) ran as submitted, as they were held out for comparison (holdOut) or their policy was in Shadow mode. All sums include them. Of the emissions of the others as submitted, %.1f %% was saved.",
			t.Unplanned, t.Workloads, t.UnplannedKWh, 100*t.PlannedShare()))
	}
	return slices.Concat(lines, open, gapLines(s))
}

// gapLines say what hours without a known intensity mean for the figures.
func gapLines(s *ledger.Summary) (lines []string) {
	t := &s.All
	if t.FilledHours > 0 {
		lines = append(lines, fmt.Sprintf("%.4g hours of run time, of the workloads and of the baseline together, have no known intensity and are filled: %s.", t.FilledHours, carbon.FillRule))
	}
	if t.Withheld > 0 {
		lines = append(lines, fmt.Sprintf("Emissions and savings of %d of %d workloads (%.3f kWh) are withheld, and no figure in grams includes them: they have hours that cannot be filled, or a settlement that left hours out. lull ledger show says which.",
			t.Withheld, t.Workloads, t.WithheldKWh))
	}
	const most = 10
	for i, r := range s.Refused {
		if i == most {
			lines = append(lines, "More workloads are left out of a sum; --format json names a hundred of them.")
			break
		}
		lines = append(lines, fmt.Sprintf("%s is left out of a sum: %s.", r.Name, r.Why))
	}
	return lines
}

func (s sciText) lines() []string {
	lines := []string{
		fmt.Sprintf("%.4g gCO2eq per %s", s.PerUnit, s.Unit),
		fmt.Sprintf("(O %.4g g + M %.4g g) / R %.6g", s.Operational, s.Embodied, s.Units),
	}
	if s.Withheld > 0 {
		lines = append(lines, fmt.Sprintf("these figures leave out %d workloads whose emissions are withheld", s.Withheld))
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
		lines = append(lines, "The sample is too small for a conclusion: fewer than 30 workloads in a group, or an interval wider than the saving.")
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

func writeSummaryPage(out io.Writer, s ledger.Summary, q ledger.Question) error {
	doc := report.Document{Title: "Emissions and savings", Intro: about(&s)[0]}
	if s.All.Workloads == 0 {
		doc.Intro = strings.Join(about(&s), " ")
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
