package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// judge marks what no other option of its zone beats, finds the sweet spot and puts it
// into words.
func (a *advice) judge(o *adviseOptions, slot time.Duration) {
	for _, z := range a.Zones {
		var at []int
		var saving, delay, cost []float64
		for i, x := range a.Options {
			if x.Zone == z.Zone && x.Withheld == "" {
				at = append(at, i)
				saving, delay, cost = append(saving, x.Saving), append(delay, x.DelayH.Mean), append(cost, x.Cost)
			}
		}
		for _, k := range advise.Pareto(saving, delay, cost) {
			a.Options[at[k]].Pareto = true
		}
	}
	best, most, stated := -1, 0.0, 0
	for _, x := range a.Options {
		if x.Withheld == "" {
			most = max(most, x.Saving)
			stated++
		}
	}
	if stated == 0 {
		a.Text = "No saving can be stated: the carbon series does not cover the jobs and their delays. State one that does (--carbon)."
		return
	}
	for i, x := range a.Options {
		if x.Pareto && x.Saving >= most/2 && (best < 0 || sweeter(x, a.Options[best])) {
			best = i
		}
	}
	if best < 0 || most <= 0 {
		a.Text = "No option saves anything here: the intensity hardly varies within the slack. A cleaner zone would do more than waiting."
		return
	}
	x := &a.Options[best]
	x.SweetSpot = true
	a.Text = a.words(x, o)
	a.policy = policyOf(x, o, slot)
}

// sweeter says which of two options gives more saving for its cost: percent for percent
// of added cost, and where nothing is added the larger saving, then the shorter delay, then what a CarbonPolicy
// does by default.
func sweeter(x, y option) bool {
	switch {
	case x.PerCost == nil && y.PerCost == nil || x.PerCost != nil && y.PerCost != nil && *x.PerCost == *y.PerCost:
		if math.Abs(x.Saving-y.Saving) > 1e-9 {
			return x.Saving > y.Saving
		}
		if math.Abs(x.DelayH.Mean-y.DelayH.Mean) > 1e-9 {
			return x.DelayH.Mean < y.DelayH.Mean
		}
		return isPolicyDefault(x.plan) && !isPolicyDefault(y.plan)
	case x.PerCost == nil:
		return true
	case y.PerCost == nil:
		return false
	}
	return *x.PerCost > *y.PerCost
}

func (a *advice) words(x *option, o *adviseOptions) string {
	var b strings.Builder
	what := "this job"
	if o.jobs != "" {
		what = "these jobs"
	}
	byDefault := ""
	if isPolicyDefault(x.plan) {
		byDefault = " (the default of a CarbonPolicy)"
	}
	fmt.Fprintf(&b, "In %s, planner %s%s with up to %s of delay saves %s of the emissions of %s", x.Zone, parametersText(x.plan, " "), byDefault, scenario.ShortDuration(x.Slack), units.Number("%.1f %%", 100*x.Saving), what)
	each, hours, ends := "single starts", "worker-hours", "it ends"
	if o.jobs != "" {
		each, hours, ends = "single jobs", "CPU-hours", "they end"
	}
	fmt.Fprintf(&b, " (%s: %s to %s from the 5th to the 95th percentile)", each, units.Number("%.0f", 100*x.SavingOf.P5), units.Number("%.0f %%", 100*x.SavingOf.P95))
	switch {
	case x.DelayH.Mean < -0.05:
		fmt.Fprintf(&b, "; %s %.1f h earlier on average", ends, -x.DelayH.Mean)
	default:
		fmt.Fprintf(&b, "; %s %.1f h later on average", ends, math.Max(0, x.DelayH.Mean))
	}
	if added := x.Cost - 1; added > 1e-3 {
		fmt.Fprintf(&b, ", with %.1f %% more %s", 100*added, hours)
	}
	b.WriteString(". ")
	best := *x
	for _, y := range a.Options {
		if y.Zone == x.Zone && y.Withheld == "" && y.Saving > best.Saving+0.005 {
			best = y
		}
	}
	if best.Planner != x.Planner || best.Slack != x.Slack || best.MaxWorkers != x.MaxWorkers {
		fmt.Fprintf(&b, "The largest saving found there is %.1f %%, by %s with %s of delay at %s more %s. ", 100*best.Saving, best.Planner, scenario.ShortDuration(best.Slack), units.Number("%.1f %%", 100*(best.Cost-1)), hours)
	}
	for _, z := range a.Zones {
		if z.Zone == x.Zone {
			switch {
			case z.Daily < 0.05:
				fmt.Fprintf(&b, "The intensity there hardly varies within a day (coefficient of variation %.2f): waiting can do little.", z.Daily)
			case z.Daily < 0.15:
				fmt.Fprintf(&b, "The intensity there varies moderately within a day (coefficient of variation %.2f).", z.Daily)
			default:
				fmt.Fprintf(&b, "The intensity there varies much within a day (coefficient of variation %.2f): waiting pays.", z.Daily)
			}
		}
	}
	return b.String()
}

// policyOf is the CarbonPolicy of an option.
func policyOf(x *option, o *adviseOptions, slot time.Duration) map[string]any {
	planner := map[string]any{"name": x.plan.Name}
	if len(x.plan.Parameters) > 0 {
		planner["parameters"] = x.plan.Parameters
	}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"lull.dev/may-wait": "true"}},
		"zone":     strings.ToLower(x.Zone), "planner": planner, "maxDelay": scenario.ShortDuration(x.Slack), "slot": scenario.ShortDuration(slot),
	}
	if least := o.minSaving / 100; least != scenario.DefaultMinSaving {
		spec["minSaving"] = least
	}
	if o.jobs == "" {
		if d, err := scenario.ParseDuration(o.length); err == nil {
			spec["defaultRuntime"] = scenario.ShortDuration(d)
		}
	}
	return map[string]any{"apiVersion": "lull.dev/v1alpha1", "kind": "CarbonPolicy", "metadata": map[string]any{"name": "advised"}, "spec": spec}
}

// policyText is the CarbonPolicy of the sweet spot as a file.
func (a *advice) policyText() ([]byte, error) {
	body, err := yaml.Marshal(a.policy)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n# It governs the Jobs of its namespace that have the label lull.dev/may-wait=true.\n", a.Text)
	if a.kind != workload.Rigid {
		out.WriteString("# Those that may be paused need the annotation lull.dev/interruptible: \"true\".\n")
	}
	if a.kind == workload.Elastic {
		out.WriteString("# Numbers of workers are not part of a policy: the saving above supposes that the job scales.\n")
	}
	out.Write(body)
	return out.Bytes(), nil
}

func (o *adviseOptions) write(a *advice, stdout io.Writer) error {
	if o.policyFile != "" {
		if a.policy == nil {
			return errors.New("--policy: nothing to write: no option saves anything")
		}
		best := &a.Options[slices.IndexFunc(a.Options, func(x option) bool { return x.SweetSpot })]
		if _, err := NewPlanner(best.plan.Name, best.plan.Parameters, nil); err != nil {
			return fmt.Errorf("--policy: planner %s is recommended, and a CarbonPolicy cannot state it: %w", best.Planner, err)
		}
		text, err := a.policyText()
		if err != nil {
			return err
		}
		if err := writeOut(o.policyFile, text, stdout); err != nil {
			return err
		}
	}
	if o.htmlFile != "" {
		var text bytes.Buffer
		if err := report.WriteDocument(&text, a.document(o)); err != nil {
			return err
		}
		if err := writeOut(o.htmlFile, text.Bytes(), stdout); err != nil {
			return err
		}
	}
	if o.jsonFile != "" {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetIndent("", " ")
		if err := enc.Encode(a); err != nil {
			return err
		}
		if o.jsonFile == "-" {
			_, err := stdout.Write(text.Bytes())
			return err
		}
		if err := writeOut(o.jsonFile, text.Bytes(), stdout); err != nil {
			return err
		}
	}
	if structured(o.output) {
		return writeStructured(stdout, o.output, a)
	}
	return o.print(a, stdout)
}

// head are the columns of the table of options.
func (o *adviseOptions) head() []string {
	each := " start"
	if o.jobs != "" {
		each = " job"
	}
	return []string{"", "zone", "planner", "slack", "workers", "saved of all", "5 %" + each, "median" + each, "95 %" + each, "mean delay", "95 % delay", "cost", "saved per cost", "late"}
}

func (x *option) cells(price bool) []string {
	mark := ""
	if x.Pareto {
		mark = "*"
	}
	if x.SweetSpot {
		mark = ">*"
	}
	per := "-"
	if x.PerCost != nil {
		per = units.Number("%.1f", *x.PerCost)
	}
	workers := "-"
	if x.MaxWorkers > 0 {
		workers = fmt.Sprint(x.MaxWorkers)
	}
	cost := units.Number("%+.1f %%", 100*(x.Cost-1))
	if price {
		cost += fmt.Sprintf(" (%.4g)", x.Money)
	}
	percent := func(v float64) string {
		if x.Withheld != "" {
			return "withheld"
		}
		return units.Number("%.1f %%", 100*v)
	}
	late := fmt.Sprint(x.Late)
	if x.Late > 0 {
		late += fmt.Sprintf(" (worst %.1f h, mean %.1f h)", x.WorstLateH, x.MeanLateH)
	}
	return []string{
		mark, x.Zone, x.Planner, scenario.ShortDuration(x.Slack), workers, percent(x.Saving), percent(x.SavingOf.P5), percent(x.SavingOf.Median), percent(x.SavingOf.P95),
		report.Delay(x.DelayH.Mean), report.Delay(x.DelayH.P95), cost, per, late,
	}
}

func (o *adviseOptions) print(a *advice, w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "zone\tmean gCO2eq/kWh\tCoV of a day\tCoV\tfrom\tto")
	for _, z := range a.Zones {
		fmt.Fprintf(tw, "%s\t%.0f\t%.3f\t%.3f\t%s\t%s\n", z.Zone, z.Mean, z.Daily, z.Whole, z.From, z.To)
	}
	fmt.Fprintln(tw)
	fmt.Fprintln(tw, strings.Join(o.head(), "\t"))
	for i := range a.Options {
		fmt.Fprintln(tw, strings.Join(a.Options[i].cells(o.price > 0), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "* no option of the zone saves more without more delay or cost; > the sweet spot\n")
	for _, note := range a.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "\n%s\n", a.Text)
	return a.printPolicy(w, o)
}

// printPolicy says how a CarbonPolicy states the sweet spot, if there is one, and in what it differs.
func (a *advice) printPolicy(w io.Writer, o *adviseOptions) error {
	best := slices.IndexFunc(a.Options, func(x option) bool { return x.SweetSpot })
	if best < 0 {
		return nil
	}
	spec := a.policy["spec"].(map[string]any)
	planner, refused := policyPlanner(a.Options[best].plan)
	if refused != nil {
		_, err := fmt.Fprintf(w, "A CarbonPolicy cannot state it: %v\n", refused)
		return err
	}
	_, err := fmt.Fprintf(w, "As spec of a CarbonPolicy (--policy FILE writes all of it):\n  %s\n  maxDelay: %s\n  slot: %s\n", planner, spec["maxDelay"], spec["slot"])
	if err == nil && o.jobs == "" {
		_, err = fmt.Fprintf(w, "A CarbonPolicy also keeps startMargin before deadlines, %s by default, which is not counted here.\n", scenario.ShortDuration(scenario.DefaultMargin))
	}
	return err
}

// document is the report page.
func (a *advice) document(o *adviseOptions) report.Document {
	d := report.Document{Title: "What carbon-aware scheduling would save", Intro: a.Text}
	var rows [][]string
	for _, z := range a.Zones {
		rows = append(rows, []string{z.Zone, fmt.Sprintf("%.0f", z.Mean), fmt.Sprintf("%.3f", z.Daily), fmt.Sprintf("%.3f", z.Whole), z.From, z.To})
	}
	d.Sections = append(d.Sections, report.Section{Title: "Zones", Head: []string{"zone", "mean gCO2eq/kWh", "CoV of a day", "CoV", "from", "to"}, Rows: rows})
	rows = nil
	delays := report.Chart{Title: "Saving against delay", XUnit: " h", YUnit: " %"}
	costs := report.Chart{Title: "Saving against cost", XUnit: " %", YUnit: " %"}
	spread := report.Chart{Title: "Share of starts that save no more", XUnit: " %"}
	bySeries := map[string]int{}
	for i := range a.Options {
		x := &a.Options[i]
		rows = append(rows, x.cells(o.price > 0))
		if x.Withheld != "" {
			continue
		}
		name := x.Zone + " " + x.Planner
		k, ok := bySeries[name]
		if !ok {
			k = len(delays.Series)
			bySeries[name] = k
			delays.Series = append(delays.Series, report.Series{Name: name, Points: true})
			costs.Series = append(costs.Series, report.Series{Name: name, Points: true})
		}
		label := scenario.ShortDuration(x.Slack)
		delays.Series[k].X, delays.Series[k].Y = append(delays.Series[k].X, x.DelayH.Mean), append(delays.Series[k].Y, 100*x.Saving)
		delays.Series[k].Labels = append(delays.Series[k].Labels, label)
		costs.Series[k].X, costs.Series[k].Y = append(costs.Series[k].X, 100*(x.Cost-1)), append(costs.Series[k].Y, 100*x.Saving)
		costs.Series[k].Labels = append(costs.Series[k].Labels, label)
		if x.Pareto {
			sx, sy := report.CDF(x.sorted, 200)
			for j := range sx {
				sx[j] *= 100
			}
			spread.Series = append(spread.Series, report.Series{Name: name + " " + label, X: sx, Y: sy})
		}
	}
	d.Sections = append(d.Sections,
		report.Section{Title: "Options", Head: o.head(), Rows: rows, Notes: append([]string{"* no option of the zone saves more without more delay or cost; > the sweet spot: most saving for each percent of added cost among those that reach half of the most."}, a.Notes...)},
		report.Section{Title: "Saving against mean delay", Picture: delays.SVG()},
		report.Section{Title: "Saving against added cost", Picture: costs.SVG()},
		report.Section{Title: "How savings are distributed over starts, of the options marked", Picture: spread.SVG()},
	)
	return d
}
