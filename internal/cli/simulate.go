package cli

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	jobtrace "lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

//go:embed scenario.yaml
var exampleScenario string

// What the flags of a job trace take.
const (
	jobsFormats = "format of the trace: csv (also CodeCarbon's emissions.csv), swf, gwf, sacct or kubernetes (default: by the file's name)"
	sacctClock  = "time zone of the times of sacct that have no offset, e.g. Europe/Berlin (default UTC)"
)

type simulateOptions struct {
	file, start, kind, forecast, estimate    string
	carbon, planners, maxDelay, profiles     []string
	zone                                     string
	capacity, watts, pue                     float64
	from, to, least, slot, margin, learn     time.Duration
	minRun, minPause                         time.Duration
	minSaving, savingConfidence              float64
	seed                                     uint64
	csvFile, parquetFile, jsonFile, htmlFile string
	example, uncertain                       bool
	minWorkers, maxWorkers                   int
	deny                                     float64
	jobsFile, jobsFormat, timeZone           string
	output                                   string
	jsonJobs                                 bool
}

func newSimulateCommand() *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate [-f SCENARIO] [flags]",
		Short: "Run jobs on a virtual clock: what would planners have saved?",
		Long:  simulateHelp,
		Example: `  lull simulate
  lull simulate --jobs azure.csv.gz --to 7d --carbon de-2022.csv --planner joint --planner window --html report.html
  kubectl get jobs -A -o json > jobs.json && lull simulate --jobs jobs.json --zone DE
  lull simulate --jobs emissions.csv --kind interruptible --planner joint
  lull simulate --example > scenario.yaml && lull simulate -f scenario.yaml --csv jobs.csv`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.example {
				_, err := io.WriteString(cmd.OutOrStdout(), exampleScenario)
				return err
			}
			if o.jsonFile == "-" && structured(o.output) {
				return errBothOutputs
			}
			if o.jsonJobs && o.jsonFile == "" && !structured(o.output) {
				return errors.New("--json-jobs: set without --json; accepted: with --json FILE, or --json - or -o json for standard output")
			}
			s, err := o.scenario(cmd)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "scenario file (YAML)")
	f.BoolVar(&o.example, "example", false, "print a scenario file that names every field")
	f.StringVar(&o.jobsFile, "jobs", "", "job trace (default: a generated week)")
	f.StringVar(&o.jobsFormat, "format", "", jobsFormats)
	f.StringVar(&o.timeZone, "time-zone", "", sacctClock)
	duration(f, &o.from, "from", 0, "leave out jobs before this time, counted from the start of the trace, e.g. 7d; the other jobs keep their times")
	duration(f, &o.to, "to", 0, "leave out jobs after this time, counted from the start of the trace, e.g. 14d")
	f.Lookup("to").DefValue = ""
	duration(f, &o.least, "least", 0, "leave out shorter jobs, e.g. 1h")
	duration(f, &o.learn, "learn", 0, "do not simulate the first part of the trace: it is the history that planner carbonflex learns from, e.g. 14d")
	f.StringVar(&o.kind, "kind", "", "kind of jobs: rigid, interruptible or elastic")
	f.StringSliceVar(&o.maxDelay, "max-delay", nil, "allowed delay: 24h, or by length: 2h:6h,12h:24h,48h (jobs of up to 2h may wait 6h, ...; the last, without a length, is for longer ones)")
	f.BoolVar(&o.uncertain, "uncertain", false, "planners know as much as in production: --estimate learned and, with --carbon, --forecast model:blend; without --start the trace begins 60 days after the carbon series")
	f.StringVar(&o.estimate, "estimate", "", "what planners know of run times: exact, requested, mean or learned")
	f.StringSliceVar(&o.profiles, "profile", nil, "capacity curve of elastic jobs (CSV: workers,throughput[,power_w], whose measured power is used); may be repeated")
	number(f, &o.minWorkers, "min-workers", 1, between(1, workload.MaxScale), "least scale of elastic jobs")
	number(f, &o.maxWorkers, "max-workers", 0, between(1, workload.MaxScale), "largest scale of elastic jobs (default: that of the profile)")
	f.StringSliceVar(&o.carbon, "carbon", nil, "files of the carbon intensity of one zone")
	f.StringVar(&o.zone, "zone", "", "grid zone; without --carbon its climatology is used (default: the zone in which the jobs used most energy, if the trace states zones, else DE)")
	f.StringVar(&o.forecast, "forecast", "", "forecast that planners get: perfect, noise:0.3, recorded:FILE, or model:NAME")
	number(f, &o.capacity, "capacity", 0, above0(), "CPUs of the cluster; memory and GPUs are unlimited (default: room for everything)")
	number(f, &o.watts, "watts", 0, above0To(power.MaxWattsPerUnit), "watts of a used CPU of jobs whose power the trace does not state (default 3.5)")
	number(f, &o.pue, "pue", 0, between(1, power.MaxPUE), "power usage effectiveness (default 1)")
	number(f, &o.deny, "deny", 0, between(0, 1).to(), "probability that the cluster denies a worker; it is asked for again one slot later")
	f.StringArrayVar(&o.planners, "planner", nil, "planner, with parameters: NAME[,PARAMETER=VALUE...]; may be repeated (default joint,reserve=learned,revise=changes, as a CarbonPolicy without spec.planner; cheapest; window)")
	f.StringVar(&o.start, "start", "", "time at which the whole trace begins, before --from applies, e.g. 2022-03-01T00:00:00Z (default: as the trace states, else the start of the carbon series)")
	duration(f, &o.slot, "slot", scenario.DefaultSlot, "resolution of planning; a CarbonPolicy has the same by default")
	duration(f, &o.margin, "margin", scenario.DefaultMargin, "time kept free before deadlines for unforeseen delays, e.g. 30m; a CarbonPolicy (startMargin) has the same default")
	duration(f, &o.minRun, "min-run", 0, "least time from a start or change of scale to the next change, e.g. 5m, which a CarbonPolicy (minRun) has by default")
	duration(f, &o.minPause, "min-pause", 0, "least time from a pause to the next start, e.g. 5m, which a CarbonPolicy (minPause) has by default")
	number(f, &o.minSaving, "min-saving", 100*scenario.DefaultMinSaving, between(0, 99).to(), "percent that a job must save by waiting, a pause or a move; else it runs at once where there is room. A CarbonPolicy (minSaving) has the same by default; 0 follows every plan")
	savingConfidenceFlag(f, &o.savingConfidence, "waits, pauses or moves")
	number(f, &o.seed, "seed", 0, atLeast(1), "seed of all random choices (default 1)")
	f.StringVar(&o.csvFile, "csv", "", "file with a row for each job and planner (CSV)")
	f.StringVar(&o.parquetFile, "parquet", "", "file for the rows of --csv as Parquet")
	f.StringVar(&o.jsonFile, "json", "", `file for summary and load over time (JSON), "-" for standard output instead of the table`)
	tableFlag(f, &o.output)
	f.BoolVar(&o.jsonJobs, "json-jobs", false, "add to --json a row for each job and planner, with its runs, deadline and emissions")
	f.StringVar(&o.htmlFile, "html", "", "file for the report with pictures (HTML)")
	return cmd
}

// scenario is that of the file, with what flags say over it.
func (o *simulateOptions) scenario(cmd *cobra.Command) (*scenario.Scenario, error) {
	s := &scenario.Scenario{}
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if s, err = scenario.Read(f); err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
	}
	if len(s.Clusters) == 0 {
		s.Clusters = []scenario.Cluster{{AnyZone: true}}
	}
	one := &s.Clusters[0]
	for name, to := range map[string]struct {
		value time.Duration
		to    *scenario.Duration
	}{
		"from": {o.from, &s.Jobs.From}, "to": {o.to, &s.Jobs.To}, "least": {o.least, &s.Jobs.Least}, "slot": {o.slot, &s.Slot}, "learn": {o.learn, &s.Jobs.Learn},
		"min-run": {o.minRun, &s.MinRun}, "min-pause": {o.minPause, &s.MinPause},
	} {
		if cmd.Flags().Changed(name) {
			to.to.Duration = to.value
		}
	}
	if cmd.Flags().Changed("min-saving") {
		s.MinSaving = new(o.minSaving / 100)
	}
	if cmd.Flags().Changed("saving-confidence") {
		s.SavingConfidence = o.savingConfidence / 100
	}
	if cmd.Flags().Changed("margin") {
		s.Margin = &scenario.Duration{Duration: o.margin}
	}
	if err := o.checkGiven(cmd.Flags()); err != nil {
		return nil, err
	}
	set := func(name string, apply func() error) error {
		if !cmd.Flags().Changed(name) {
			return nil
		}
		return apply()
	}
	single := func(name string, apply func()) func() error {
		return func() error {
			if len(s.Clusters) > 1 {
				return fmt.Errorf("--%s: describes a single cluster, and %s has %d; accepted: clusters[].%s of the scenario", name, o.file, len(s.Clusters), name)
			}
			apply()
			return nil
		}
	}
	return s, errors.Join(
		set("jobs", func() error { s.Jobs.File, s.Jobs.Generate = o.jobsFile, nil; return nil }),
		set("format", func() error { s.Jobs.Format = o.jobsFormat; return nil }),
		set("time-zone", func() error { s.Jobs.TimeZone = o.timeZone; return nil }),
		set("kind", func() error { s.Jobs.Kind = o.kind; return nil }),
		set("max-delay", func() (err error) { s.Jobs.MaxDelay, err = parseDelays(o.maxDelay); return err }),
		set("uncertain", func() error { s.Uncertain = o.uncertain; return nil }),
		set("estimate", func() error { s.Jobs.Estimate.Kind = o.estimate; return nil }),
		set("profile", func() error {
			s.Jobs.Elastic = &scenario.Elastic{Min: o.minWorkers, Max: o.maxWorkers, Profiles: o.profiles, Watts: true}
			return nil
		}),
		set("zone", single("zone", func() { one.Zone = o.zone })),
		set("carbon", single("carbon", func() { one.Carbon = o.carbon })),
		set("capacity", single("capacity", func() { one.Capacity = map[string]float64{"cpu": o.capacity} })),
		set("watts", single("watts", func() { one.Watts = map[string]float64{"cpu": o.watts} })),
		set("pue", single("pue", func() { one.PUE = o.pue })),
		set("forecast", func() error {
			f, err := parseForecast(o.forecast)
			return errors.Join(err, single("forecast", func() { one.Forecast = f })())
		}),
		set("deny", func() error { s.Faults.Deny = o.deny; return nil }),
		set("seed", func() error { s.Seed = o.seed; return nil }),
		set("start", func() (err error) {
			if s.Start, err = time.Parse(time.RFC3339, o.start); err != nil {
				err = fmt.Errorf("--start: %q; accepted: a time in RFC 3339, e.g. 2022-03-01T00:00:00Z", o.start)
			}
			return err
		}),
		set("planner", func() (err error) { s.Planners, err = parsePlanners(o.planners); return err }),
	)
}

// checkGiven checks that no flag is given that would have no effect, or the effect of none.
func (o *simulateOptions) checkGiven(f *pflag.FlagSet) error {
	if name := firstGiven(f, "min-workers", "max-workers"); name != "" && !f.Changed("profile") {
		return fmt.Errorf("--%s: set without --profile; accepted: with --profile FILE, the capacity curve", name)
	}
	if f.Changed("max-workers") && o.maxWorkers < o.minWorkers {
		return fmt.Errorf("--max-workers: %d; accepted: at least --min-workers, %d", o.maxWorkers, o.minWorkers)
	}
	if name := firstGiven(f, "from", "to", "least", "format", "time-zone"); name != "" && !f.Changed("jobs") && o.file == "" {
		return fmt.Errorf("--%s: set without a trace; accepted: with --jobs FILE", name)
	}
	if f.Changed("to") && o.to <= o.from {
		return fmt.Errorf("--to: %s; accepted: a time after --from, %s", scenario.ShortDuration(o.to), scenario.ShortDuration(o.from))
	}
	if f.Changed("slot") && (o.slot < time.Minute || o.slot > 24*time.Hour) {
		return fmt.Errorf("--slot: %s; accepted: 1m to 24h", scenario.ShortDuration(o.slot))
	}
	return nil
}

// parseDelays reads 24h, or a list of LENGTH:DELAY that ends in a delay for the rest.
func parseDelays(list []string) ([]scenario.Delay, error) {
	var out []scenario.Delay
	for i, text := range list {
		length, delay, pair := strings.Cut(text, ":")
		if !pair {
			length, delay = "", text
		}
		var d scenario.Delay
		var err error
		if length != "" {
			if d.UpTo.Duration, err = scenario.ParseDuration(length); err != nil {
				return nil, fmt.Errorf("--max-delay: %w", err)
			}
			if d.UpTo.Duration == 0 {
				return nil, fmt.Errorf("--max-delay: %q; accepted: LENGTH:DELAY with a length above 0", text)
			}
		} else if i+1 < len(list) {
			return nil, fmt.Errorf("--max-delay: %q; accepted: LENGTH:DELAY for all but the last", text)
		}
		if d.Delay.Duration, err = scenario.ParseDuration(delay); err != nil {
			return nil, fmt.Errorf("--max-delay: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
}

func parseForecast(text string) (scenario.Forecast, error) {
	kind, value, _ := strings.Cut(text, ":")
	f := scenario.Forecast{Kind: kind}
	switch kind {
	case "perfect":
	case "noise":
		v, err := parseNumber[float64](value, between(0, 1))
		if err != nil {
			return f, fmt.Errorf("--forecast: %q; accepted: noise:SHARE with %w, e.g. noise:0.3", text, err)
		}
		f.Error = v
	case "recorded", "model":
		if value == "" {
			return f, fmt.Errorf("--forecast: %q; accepted: recorded:FILE or model:NAME, e.g. model:blend", text)
		}
		if f.File = value; kind == "model" {
			f.File, f.Model = "", value
		}
	default:
		return f, fmt.Errorf("--forecast: %q; accepted: perfect, noise:SHARE, recorded:FILE or model:NAME", text)
	}
	return f, nil
}

// parsePlanners reads NAME[,PARAMETER=VALUE...].
func parsePlanners(list []string) ([]scenario.Planner, error) {
	var out []scenario.Planner
	for _, text := range list {
		parts, err := csv.NewReader(strings.NewReader(text)).Read()
		if err != nil || parts[0] == "" {
			return nil, fmt.Errorf("--planner: %q; accepted: NAME[,PARAMETER=VALUE...]", text)
		}
		p := scenario.Planner{Name: parts[0], Label: text, Parameters: map[string]string{}}
		for _, part := range parts[1:] {
			name, value, ok := strings.Cut(part, "=")
			if !ok {
				return nil, fmt.Errorf("--planner: %q; accepted: NAME[,PARAMETER=VALUE...]", text)
			}
			if name == "revise" {
				p.Revise = value
				continue
			}
			p.Parameters[name] = value
		}
		out = append(out, p)
	}
	return out, nil
}

// lone are the planners that treat each job by itself: where there is room for
// everything, a plan of theirs stands until something changes.
var lone = map[string]bool{
	"asap": true, "cheapest": true, "window": true, "waitawhile-threshold": true, "waitawhile-deadline": true,
	"gaia-lowest-slot": true, "gaia-lowest-window": true, "gaia-saving": true, "staticscale": true, "carbonscaler": true,
}

// plannersOf are the planners of a scenario, or the default ones.
func plannersOf(s *scenario.Scenario) []scenario.Planner {
	if len(s.Planners) > 0 {
		return s.Planners
	}
	return []scenario.Planner{policyDefault(), {Name: "cheapest", Label: "cheapest"}, {Name: "window", Label: "window"}}
}

// policyLines say how a CarbonPolicy states the planners of a simulation, and in what it differs.
func policyLines(s *scenario.Scenario, cfg sim.Config, list []scenario.Entry) []string {
	saving := fmt.Sprintf(" and minSaving: %.4g", cfg.MinSaving)
	if cfg.SavingConfidence > 0 {
		saving = fmt.Sprintf(", minSaving: %.4g and savingConfidence: %.4g", cfg.MinSaving, cfg.SavingConfidence)
	}
	lines := []string{fmt.Sprintf("As spec of a CarbonPolicy, with slot: %s, startMargin: %s, minRun: %s, minPause: %s%s:",
		scenario.ShortDuration(cfg.Slot), scenario.ShortDuration(cfg.Margin), scenario.ShortDuration(cfg.MinRun), scenario.ShortDuration(cfg.MinPause), saving)}
	for i, p := range plannersOf(s) {
		text, err := policyPlanner(p)
		if err != nil {
			lines = append(lines, fmt.Sprintf("  # %s: a policy cannot state it: %v", p.Label, err))
			continue
		}
		text = fmt.Sprintf("  %s  # %s", text, p.Label)
		if isPolicyDefault(p) {
			text += ", the default"
		}
		if list[i].Revise == sim.EverySlot {
			text += "; plans again in each slot here; the plans of a policy stand until something changes (revise=changes)"
		}
		lines = append(lines, text)
	}
	return lines
}

// entries builds the planners of a scenario.
func entries(s *scenario.Scenario, cfg sim.Config) ([]scenario.Entry, error) {
	planners := plannersOf(s)
	endless := roomForAll(cfg)
	var out []scenario.Entry
	labels := map[string]bool{scenario.Submitted: true}
	for _, p := range planners {
		if labels[p.Label] {
			return nil, fmt.Errorf("planners: label %q stands twice; accepted: labels that differ", p.Label)
		}
		labels[p.Label] = true
		planner, err := newPlanner(p.Name, p.Parameters, nil, true)
		if err != nil {
			return nil, err
		}
		if past, err := s.History(cfg); err != nil {
			return nil, err
		} else if p.Name == "carbonflex" && past != nil {
			if planner, err = newCarbonFlex(p.Parameters, past); err != nil {
				return nil, err
			}
		} else if knowsNothing(p) {
			return nil, fmt.Errorf("planner %s: no history: it would start every job at once; accepted: --learn 14d (the first days of the trace are history, the others are simulated), or %s,history=FILE (an instance of lull plan)", p.Label, p.Name)
		}
		e := scenario.Entry{Label: p.Label, Planner: plan.Guarded{Planner: planner, Probability: plan.SafeProbability}}
		switch {
		case p.Revise == standing || p.Revise == "" && lone[p.Name] && endless:
			e.Revise = sim.OnChange
		case p.Revise == "slots" || p.Revise == "":
			e.Revise = sim.EverySlot
		default:
			return nil, fmt.Errorf("planner %s: revise: %q; accepted: slots or changes", p.Label, p.Revise)
		}
		out = append(out, e)
	}
	if scenario.Unsure(cfg) && !labels[scenario.KnowsAll] {
		planner, err := newPlanner("joint", nil, nil, true)
		if err != nil {
			return nil, err
		}
		e := scenario.Entry{Label: scenario.KnowsAll, Planner: planner, Revise: sim.EverySlot, Knowing: true}
		if endless {
			e.Revise = sim.OnChange
		}
		out = append(out, e)
	}
	return out, nil
}

func (o *simulateOptions) run(ctx context.Context, s *scenario.Scenario, stdout, stderr io.Writer) error {
	cfg, err := s.Build()
	if err != nil {
		return err
	}
	if o.capacity > 0 {
		enoughOfOthers(&cfg)
	}
	list, err := entries(s, cfg)
	if err != nil {
		return err
	}
	// Jobs and outcomes of a year are most of the memory: half as much again is enough.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	runtime.GC() // the trace as it was read is done with
	b := newBar(stderr, "simulating")
	b.unit, b.all = "jobs", len(cfg.Jobs)*(len(list)+1)
	trials, err := scenario.Run(ctx, cfg, list, b.set)
	b.close()
	if err != nil {
		return err
	}
	for file, write := range map[string]func(io.Writer) error{
		o.csvFile:     func(w io.Writer) error { return scenario.WriteCSV(w, cfg, trials) },
		o.parquetFile: func(w io.Writer) error { return scenario.WriteParquet(w, cfg, trials) },
		o.htmlFile:    func(w io.Writer) error { return scenario.WritePage(w, "Simulation", cfg, trials, s.Reading()) },
		o.jsonFile:    func(w io.Writer) error { return scenario.WriteJSON(w, cfg, trials, s.Reading(), o.jsonJobs) },
	} {
		if file == "" {
			continue
		}
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return err
		}
		name := file
		if file == "-" {
			name = ""
		}
		if err := writeOut(name, text.Bytes(), stdout); err != nil {
			return err
		}
	}
	if o.jsonFile == "-" {
		return nil
	}
	if structured(o.output) {
		var text bytes.Buffer
		if err := scenario.WriteJSON(&text, cfg, trials, s.Reading(), o.jsonJobs); err != nil {
			return err
		}
		return writeStructured(stdout, o.output, json.RawMessage(text.Bytes()))
	}
	if err := printTrials(stdout, cfg, scenario.Summarize(cfg, trials), s.Reading()); err != nil {
		return err
	}
	for _, line := range policyLines(s, cfg, list) {
		fmt.Fprintln(stdout, line)
	}
	return nil
}

// printTrials writes the summary table and what it rests on.
func printTrials(w io.Writer, cfg sim.Config, sums []scenario.Summary, reading jobtrace.Reading) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	head, rows := scenario.Table(cfg, sums)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, note := range scenario.Notes(cfg, sums, reading) {
		fmt.Fprintln(w, note)
	}
	return nil
}
