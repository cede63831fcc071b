package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	jobtrace "lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

type adviseOptions struct {
	length, kind, profile    string
	slack                    []string
	minWorkers               int
	maxWorkers               []int
	zones, planners, carbon  []string
	watts, pue, price, error float64
	minSaving                float64 // percent
	slot, stride             string
	seed                     uint64
	jobs, format, timeZone   string
	jsonFile, htmlFile       string
	output                   string
	policyFile               string
	zoneNote                 string // why the zone is tried, if the history says where it ran
}

func newAdviseCommand() *cobra.Command {
	var o adviseOptions
	cmd := &cobra.Command{
		Use:   "advise [flags]",
		Short: "What would planners save on a job or a history of jobs, at what delay and cost?",
		Long: `Advise plans one job from every start of a year, or a whole history of jobs, with
each planner, slack, largest scale and zone that you name. It prints the
distribution of savings, delay and cost (worker-hours, CPU-hours of a history), marks
options that no other option beats (*), names the sweet spot, and writes its
CarbonPolicy.

Planners have the parameters that they have in a CarbonPolicy. Planner joint, the default,
has a learned reserve. Advise assumes room for all jobs, so the learned reserve is 0. If
options are equal, Advise recommends the default of a policy.

Savings are against the same job run at once at its least scale. Forecasts are
perfect unless --error says otherwise. Advise fills hours without a known intensity as
lull simulate does, and the report says so. Without --carbon it uses the climatology of the
zone: a mean day, whose savings are lower than those of real days.`,
		Example: `  lull advise --length 6h --slack 6h,12h,24h --zone DE
  lull advise --length 24h --slack 12h --profile resnet18.csv --carbon NL=nl-2022.csv --carbon CA-ON=on-2022.csv
  lull advise --jobs emissions.csv --slack 6h,24h
  lull advise --jobs last-year.sacct --time-zone Europe/Berlin --slack 6h,24h
  lull advise --jobs azure.csv.gz --carbon DE=de-2022.csv --slack 6h,24h --html advice.html --policy policy.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkGiven(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.length, "length", "6h", "run time of the job at its smallest scale")
	f.StringVar(&o.jobs, "jobs", "", "job trace: advise on a history instead of one job (formats as for simulate)")
	f.StringVar(&o.format, "format", "", jobsFormats)
	f.StringVar(&o.timeZone, "time-zone", "", sacctClock)
	f.StringVar(&o.kind, "kind", "", "rigid, interruptible or elastic (default: elastic with --profile, else interruptible)")
	f.StringVar(&o.profile, "profile", "", "capacity curve of an elastic job (CSV: workers,throughput[,power_w])")
	number(f, &o.minWorkers, "min-workers", 1, between(1, workload.MaxScale), "least scale")
	numberList(f, &o.maxWorkers, "max-workers", nil, between(1, workload.MaxScale), "largest scales to try (default: that of the profile)")
	f.StringSliceVar(&o.slack, "slack", []string{"6h", "12h", "24h"}, "delays to try")
	f.StringSliceVar(&o.zones, "zone", nil, "zones to try with their climatology (default: the zone in which the jobs of --jobs used most energy, if the trace states zones, else DE)")
	f.StringArrayVar(&o.carbon, "carbon", nil, "ZONE=FILE[,FILE...], a zone with its intensity; may be repeated")
	f.StringArrayVar(&o.planners, "planner", nil, "planner, with parameters: NAME[,PARAMETER=VALUE...]; may be repeated (default: planners that suit the kind)")
	number(f, &o.watts, "watts", power.DefaultWattsPerCPU, above0To(power.MaxWattsPerUnit), "watts of a worker without a measured power (of a CPU of jobs whose power --jobs does not state)")
	number(f, &o.pue, "pue", 1, between(1, power.MaxPUE), "power usage effectiveness")
	number(f, &o.price, "price", 0, atLeast(0), "price of a worker-hour (of a CPU-hour with --jobs), in any currency")
	number(f, &o.error, "error", 0, between(0, 1), "error of forecasts, uniform up to this share")
	number(f, &o.minSaving, "min-saving", 100*scenario.DefaultMinSaving, between(0, 90), "percent that a job must save by waiting or a pause; else it runs at once. A CarbonPolicy (minSaving) has the same by default; 0 follows every plan")
	f.StringVar(&o.slot, "slot", "1h", "resolution of planning")
	f.StringVar(&o.stride, "stride", "", "time between starts (default: a slot)")
	number(f, &o.seed, "seed", 1, atLeast(1), "seed of forecast errors")
	f.StringVar(&o.jsonFile, "json", "", `file for all options (JSON), "-" for standard output instead of the table`)
	tableFlag(f, &o.output)
	f.StringVar(&o.htmlFile, "html", "", "file for the report with pictures (HTML)")
	f.StringVar(&o.policyFile, "policy", "", "file for the CarbonPolicy of the sweet spot")
	return cmd
}

// option is a combination that was tried, and what came of it.
type option struct {
	Zone       string        `json:"zone"`
	Planner    string        `json:"planner"`
	Slack      time.Duration `json:"slackNs"`
	MaxWorkers int           `json:"maxWorkers"`
	Starts     int           `json:"starts"`
	// Saving of all starts together, and its distribution over them.
	Saving   float64       `json:"saving"`
	SavingOf advise.Spread `json:"savingDistribution"`
	DelayH   advise.Spread `json:"delayHours"`
	Cost     float64       `json:"cost"`
	Money    float64       `json:"money,omitempty"`
	PerCost  *float64      `json:"savingPerAddedCost"` // nil where nothing is added
	// Late counts starts or jobs that end after the deadline.
	Late       int     `json:"late"`
	WorstLateH float64 `json:"worstLateHours"`
	MeanLateH  float64 `json:"meanLateHours"`
	// FilledH are hours of run time priced by carbon.FillRule, planned and as submitted (of
	// a history). Withheld is why no saving is stated.
	FilledH   float64 `json:"filledHours,omitempty"`
	Withheld  string  `json:"withheld,omitempty"`
	Pareto    bool    `json:"pareto"`
	SweetSpot bool    `json:"sweetSpot"`

	sorted []float64 // savings
	plan   scenario.Planner
}

// advice is all that was found.
type advice struct {
	Options []option    `json:"options"`
	Zones   []zoneFacts `json:"zones"`
	Text    string      `json:"recommendation"`
	// Notes say what the columns are relative to and what figures rest on.
	Notes   []string         `json:"notes"`
	Skipped jobtrace.Skipped `json:"skipped,omitempty"`
	reading jobtrace.Reading
	policy  map[string]any
	kind    workload.Kind
}

type zoneFacts struct {
	Zone  string  `json:"zone"`
	Mean  float64 `json:"meanIntensity"`
	Daily float64 `json:"dailyCoV"`
	Whole float64 `json:"CoV"`
	From  string  `json:"from"`
	To    string  `json:"to"`
	// FilledH of Hours have no known intensity and are filled by carbon.FillRule; UnknownH
	// cannot be.
	Hours    float64 `json:"hours"`
	FilledH  float64 `json:"filledHours"`
	UnknownH float64 `json:"unknownHours"`
}

// adviceZone is a zone with its series.
type adviceZone struct {
	name         string
	files        []string
	series, told *carbon.Series
}

func (o *adviseOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	slot, err := scenario.ParseDuration(o.slot)
	if err != nil || slot < time.Minute || slot > 24*time.Hour {
		return fmt.Errorf("--slot: %q; accepted: a duration of 1m to 24h", o.slot)
	}
	var slacks []time.Duration
	for _, text := range o.slack {
		d, err := scenario.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--slack: %w", err)
		}
		if o.jobs == "" && d%slot != 0 {
			return fmt.Errorf("--slack: %q; accepted: whole slots of %s (--slot)", text, scenario.ShortDuration(slot))
		}
		if slices.Contains(slacks, d) {
			return fmt.Errorf("--slack: %q stands twice; accepted: each once", text)
		}
		slacks = append(slacks, d)
	}
	if len(slacks) == 0 {
		return errors.New("--slack: none; accepted: at least one duration")
	}
	list, err := o.series(slot)
	if err != nil {
		return err
	}
	kind, err := o.jobKind()
	if err != nil {
		return err
	}
	planners, err := parsePlanners(o.planners)
	if err != nil {
		return err
	}
	if len(planners) == 0 {
		for _, name := range suited[kind] {
			planners = append(planners, scenario.Planner{Name: name, Label: name})
		}
	}
	for i, p := range planners {
		if slices.ContainsFunc(planners[:i], func(q scenario.Planner) bool { return q.Label == p.Label }) {
			return fmt.Errorf("--planner: %q stands twice; accepted: each once", p.Label)
		}
		if p.Revise != "" && p.Revise != standing {
			return fmt.Errorf("--planner %s: revise=%s; accepted: none: the plans of a CarbonPolicy stand until something changes", p.Label, p.Revise)
		}
		planners[i] = asPolicy(p)
	}
	b := newBar(stderr, "advising")
	defer b.close()
	a := advice{kind: kind}
	for _, z := range list {
		a.Zones = append(a.Zones, z.facts(slot))
	}
	if o.jobs != "" {
		err = o.history(ctx, &a, list, slacks, planners, kind, slot, b)
	} else {
		err = o.single(ctx, &a, list, slacks, planners, kind, slot, b)
	}
	b.close()
	if err != nil {
		return err
	}
	a.explain(o)
	a.judge(o, slot)
	return o.write(&a, stdout)
}

// suited are the planners that are tried by default.
var suited = map[workload.Kind][]string{
	workload.Rigid:         {"asap", "window", "gaia-lowest-slot", "gaia-lowest-window", "gaia-saving", "cheapest", "joint"},
	workload.Interruptible: {"asap", "waitawhile-threshold", "waitawhile-deadline", "gaia-lowest-window", "joint"},
	workload.Elastic:       {"asap", "waitawhile-threshold", "waitawhile-deadline", "staticscale", "carbonscaler", "joint"},
}

func (o *adviseOptions) jobKind() (workload.Kind, error) {
	switch k := workload.Kind(o.kind); {
	case o.kind == "" && o.profile != "":
		return workload.Elastic, nil
	case o.kind == "":
		return workload.Interruptible, nil
	case k == workload.Elastic && o.profile == "":
		return k, errors.New("--kind elastic: accepted: with --profile, the capacity curve")
	case suited[k] != nil:
		return k, nil
	}
	return "", fmt.Errorf("--kind: %q; accepted: rigid, interruptible or elastic", o.kind)
}

// series reads the zones that are tried.
func (o *adviseOptions) series(slot time.Duration) ([]adviceZone, error) {
	var out []adviceZone
	for _, text := range o.carbon {
		zone, files, ok := strings.Cut(text, "=")
		if !ok || zone == "" || files == "" {
			return nil, fmt.Errorf("--carbon: %q; accepted: ZONE=FILE[,FILE...]", text)
		}
		z := adviceZone{name: zone, files: strings.Split(files, ",")}
		var err error
		if z.series, err = source.ReadFiles(z.files...); err != nil {
			return nil, err
		}
		out = append(out, z)
	}
	zones := o.zones
	if len(zones) == 0 && len(out) == 0 {
		zone, err := o.defaultZone()
		if err != nil {
			return nil, err
		}
		zones = []string{zone}
	}
	for _, zone := range zones {
		from := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
		s, err := climatology.Series(zone, from, from.AddDate(1, 0, 0))
		if err != nil {
			if o.zoneNote != "" {
				return nil, fmt.Errorf("--zone: %w. Most energy of --jobs was used in %s: state another zone, or --carbon", err, zone)
			}
			return nil, fmt.Errorf("--zone: %w. --carbon takes a file of another zone", err)
		}
		out = append(out, adviceZone{name: zone, series: s})
	}
	names := map[string]bool{}
	for i := range out {
		z := &out[i]
		if names[z.name] {
			return nil, fmt.Errorf("--zone, --carbon: zone %s stands twice; accepted: each once", z.name)
		}
		names[z.name] = true
		if z.series.Len() == 0 || z.series.End().Sub(z.series.Start()) < 2*slot {
			return nil, fmt.Errorf("zone %s: %d values; accepted: at least two slots of %s", z.name, z.series.Len(), slot)
		}
		z.told = z.series
		if o.error > 0 {
			var err error
			if z.told, err = sim.Noisy(z.series, o.error, o.seed+uint64(i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// single tries one job from every start.
func (o *adviseOptions) single(ctx context.Context, a *advice, list []adviceZone, slacks []time.Duration, planners []scenario.Planner, kind workload.Kind, slot time.Duration, b *bar) error {
	length, err := scenario.ParseDuration(o.length)
	if err != nil || length <= 0 {
		return fmt.Errorf("--length: %q; accepted: a duration above 0", o.length)
	}
	stride := 1
	if o.stride != "" {
		d, err := scenario.ParseDuration(o.stride)
		if err != nil || d < slot || d%slot != 0 {
			return fmt.Errorf("--stride: %q; accepted: whole slots of %s", o.stride, slot)
		}
		stride = int(d / slot)
	}
	jobs, err := o.scaled(kind, length.Hours()/slot.Hours())
	if err != nil {
		return err
	}
	all, done := len(list)*len(jobs)*len(slacks)*len(planners), 0
	for _, z := range list {
		actual, unknown, _ := priced(z.series, slot)
		seen := told(z.told, slot)
		for _, job := range jobs {
			for _, slack := range slacks {
				for _, p := range planners {
					if knowsNothing(p) {
						return fmt.Errorf("--planner %s: no history: it would start the job at once; accepted: %s,history=FILE (an instance of lull plan), or lull simulate --learn", p.Label, p.Name)
					}
					planner, err := newPlanner(p.Name, p.Parameters, nil, true)
					if err != nil {
						return err
					}
					outcomes, err := advise.Run(ctx, advise.Study{
						Job: job, Slot: slot, Slack: int(slack / slot), Stride: stride,
						Place:  advise.Place{Zone: z.name, Start: z.series.Start(), Intensity: actual, Told: seen, Unknown: unknown, Watts: map[string]float64{"worker": o.watts}, PUE: o.pue},
						Method: advise.Method{Name: p.Label, Planner: planner}, MinSaving: o.minSaving / 100,
					})
					if err != nil {
						return fmt.Errorf("zone %s, slack %s: %w", z.name, slack, err)
					}
					a.add(option{Zone: z.name, Planner: p.Label, Slack: slack, MaxWorkers: job.MaxWorkers, plan: p}, outcomes, slot, o.price)
					done++
					b.set(float64(done) / float64(all))
				}
			}
		}
	}
	return nil
}

// scaled are the job at each largest scale.
func (o *adviseOptions) scaled(kind workload.Kind, length float64) ([]advise.Job, error) {
	base := advise.Job{Length: length, Kind: kind, Request: map[string]float64{"worker": 1}, MinWorkers: o.minWorkers, MaxWorkers: o.minWorkers, Curve: []float64{1}}
	if kind != workload.Elastic {
		return []advise.Job{base}, nil
	}
	var profile *jobtrace.Profile
	err := source.WithFile(o.profile, func(r io.Reader) (err error) {
		profile, err = jobtrace.ReadProfile(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	scales := o.maxWorkers
	if len(scales) == 0 {
		scales = []int{profile.MaxWorkers()}
	}
	var out []advise.Job
	for _, most := range scales {
		m, err := profile.Scale(o.minWorkers, most)
		if err != nil {
			return nil, fmt.Errorf("--max-workers: %w", err)
		}
		job := base
		job.MaxWorkers, job.Curve, job.Watts = most, m.Curve, m.Watts
		out = append(out, job)
	}
	return out, nil
}

// add sums outcomes up into an option.
func (a *advice) add(x option, outcomes []advise.Outcome, slot time.Duration, price float64) *option {
	s := advise.Summarize(outcomes)
	h := slot.Hours()
	hours := func(v advise.Spread) advise.Spread {
		return advise.Spread{Mean: v.Mean * h, P5: v.P5 * h, P25: v.P25 * h, Median: v.Median * h, P75: v.P75 * h, P95: v.P95 * h}
	}
	x.Starts, x.Saving, x.SavingOf, x.DelayH, x.Cost = s.Starts, s.Total, s.Saving, hours(s.Delay), s.Cost.Mean
	x.Late, x.WorstLateH, x.MeanLateH = s.Late, s.WorstLate*h, s.MeanLate*h
	switch {
	case s.Starts == 0:
		x.Withheld = fmt.Sprintf("each of the %d starts may use hours more than 7 days from any known intensity at their time of day", s.Withheld)
	case s.Withheld > 0:
		a.note(fmt.Sprintf("zone %s, slack %s: %d of %d starts are left out: they may use hours more than 7 days from any known intensity at their time of day",
			x.Zone, scenario.ShortDuration(x.Slack), s.Withheld, len(outcomes)))
	}
	if i := slices.IndexFunc(outcomes, func(o advise.Outcome) bool { return !o.Withheld }); i >= 0 {
		x.Money = price * s.Cost.Mean * outcomes[i].WorkersAtOnce * h
	}
	if !math.IsInf(s.PerCost, 1) {
		x.PerCost = &s.PerCost
	}
	for _, one := range outcomes {
		if !one.Withheld {
			x.sorted = append(x.sorted, one.Saving())
		}
	}
	slices.Sort(x.sorted)
	a.Options = append(a.Options, x)
	return &a.Options[len(a.Options)-1]
}
