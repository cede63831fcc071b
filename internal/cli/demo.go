package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"lull.dev/lull/internal/studies/demo"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/zones"
)

// demos are the further demos.
var demos = []string{"elastic", "fidelity", "multicluster", "follow", "extender", "capacity", "slurm", "slurm-week"}

// demoFlags are the flags of all demos.
type demoFlags struct {
	demo.Options
	from      string
	omegas    []float64
	scenarios []int
	live      bool
	outage    time.Duration
	slurm     string
}

func newDemoCommand() *cobra.Command {
	var o demoFlags
	cmd := &cobra.Command{
		Use:   "demo [elastic|fidelity|multicluster|follow|extender|capacity|slurm|slurm-week]",
		Short: "Run Lull on a cluster on this machine, and show what it saves",
		Long: `Demo starts a real Kubernetes control plane on this machine (the lab), installs
Lull, replays two days of carbon intensity in fast motion, and submits Jobs. It compares
their emissions, by the timestamps of the API server, with those of the same Jobs run as
submitted. It exits with 0 only if every Job finished and met its deadline.

With elastic, three Jobs that scale and a background of others share the cluster; the
report shows their workers against the intensity.

With fidelity, elastic Jobs of 24 h with measured profiles run on recorded intensities
(folder $LULL_DATA) and in the simulator. Demo writes both to a table. It exits with 0
only if total emissions differ by at most 5 %.

With multicluster, Caspian's experiment runs on a hub with three spokes (make kueue builds
what they need), once for each weight of carbon, and in the simulator. Demo exits with 0 only
if every workload finished, none ran twice or beyond the quota, and savings differ by at most
5 %.

With follow, a Deployment follows the sun between three clusters for two days. Demo exits with
0 only if it was on all three, with a ready replica at every moment.

With extender, Pods wait inside kube-scheduler, and behind scheduling gates, in the scenarios of
Piontek et al. Demo exits with 0 only if every Pod ran exactly once.

With capacity, a week of elastic jobs (folder $LULL_DATA) runs four times at once, with the number of
nodes in use set by nothing, by a virtual capacity curve, by CarbonFlex, and by the plans of planner
joint. Demo exits with 0 only if every job finished and emissions differ from the simulator's by at
most 5 %.

With slurm, a day of jobs runs on a real Slurm on this machine instead (make bin/slurm/version
fetches it; needs root). Demo exits with 0 only if every job was completed and none started late.

With slurm-week, a week of jobs (folder $LULL_DATA) runs on a real Slurm, and in the simulator. With
--planner carbonflex, CarbonFlex also sets how many CPUs the jobs may use. Demo exits with 0 only if every
job was completed, none started late, and emissions differ from the simulator's by at most 5 %.`,
		Example: `  lull demo
  lull demo --trace de-2021.csv --zone DE --from 2021-05-10
  lull demo --planner window
  lull demo --live --outage 24h
  lull demo elastic
  lull demo fidelity --report docs/fidelity.md
  lull demo multicluster --omega1 0,0.5,1
  lull demo follow
  lull demo extender --scenario 2
  lull demo capacity
  lull demo slurm
  lull demo slurm-week --planner carbonflex`,
		ValidArgs: demos,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(demos, args[0]) {
				return fmt.Errorf("%q; accepted: nothing, or one of %s", strings.Join(args, " "), strings.Join(demos, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			which := strings.Join(args, "")
			if err := o.complete(which, cmd.Flags().Changed); err != nil {
				return err
			}
			return o.run(cmd, which)
		},
	}
	o.register(cmd.Flags())
	return cmd
}

// complete checks the flags of a demo and sets what they do not state.
func (o *demoFlags) complete(which string, given func(string) bool) error {
	if err := fits(which, given); err != nil {
		return err
	}
	o.Elastic = which == "elastic"
	own(&o.Options, which, given)
	if o.Trace != "" && !given("zone") {
		o.Zone = traceName(o.Trace)
	}
	if o.outage < 0 || o.outage > 36*time.Hour {
		return fmt.Errorf("--outage: %v; accepted: 0s to 36h", o.outage)
	}
	if o.live || o.outage > 0 {
		o.Live = &demo.Live{Outage: o.outage}
	}
	return errors.Join(checkDemo(&o.Options, o.from), checkOmegas(o.omegas), checkScenarios(o.scenarios))
}

// run shows a demo.
func (o *demoFlags) run(cmd *cobra.Command, which string) error {
	// The demo's own informers have nothing to say to a person.
	ctrl.SetLogger(klog.NewKlogr())
	o.Out = cmd.OutOrStdout()
	if f, ok := o.Out.(*os.File); ok {
		o.Terminal = term.IsTerminal(int(f.Fd()))
	}
	ctx := cmd.Context()
	switch which {
	case "fidelity":
		return demo.Fidelity(ctx, o.Options, NewPlanner)
	case "multicluster":
		return demo.Multicluster(ctx, o.Options, o.omegas, NewPlanner)
	case "follow":
		return demo.Follow(ctx, o.Options)
	case "extender":
		return demo.Extender(ctx, o.Options, o.scenarios, NewPlanner)
	case "capacity":
		return demo.Capacity(ctx, o.Options, NewReproduction(demo.EvaluationData()))
	case "slurm":
		return demo.Slurm(ctx, o.Options, o.slurm)
	case "slurm-week":
		return demo.SlurmWeek(ctx, o.Options, o.slurm, NewReproduction(demo.EvaluationData()), NewPlanner)
	}
	return demo.Run(ctx, o.Options)
}

func (o *demoFlags) register(f *pflag.FlagSet) {
	self, _ := os.Executable()
	f.StringVar(&o.Lab, "lab", filepath.Join(filepath.Dir(self), "lab"), "the lab's binary")
	f.StringVar(&o.slurm, "slurm", filepath.Join(filepath.Dir(self), "slurm"), "folder with the packages of Slurm, for demo slurm")
	f.StringVar(&o.Trace, "trace", os.Getenv("LULL_TRACE"), "CSV or JSON series to replay (default $LULL_TRACE; empty: the built-in climatology)")
	f.StringVar(&o.Zone, "zone", "DE", "grid zone of the climatology, or a cloud region (aws/eu-central-1) in it; with --trace, the name of the zone (default: folder and name of the file)")
	f.StringVar(&o.from, "from", os.Getenv("LULL_TRACE_FROM"), "first day of the replay, e.g. 2021-05-10 (default $LULL_TRACE_FROM; the middle of the trace)")
	number(f, &o.Factor, "time-factor", 900, between(1, 3600), "how many seconds of the replay pass in a second")
	number(f, &o.Jobs, "jobs", 64, between(1, 500), "number of Jobs")
	number(f, &o.Seed, "seed", 1, atLeast(0), "seed of the Jobs")
	f.StringVar(&o.Report, "report", "demo-report.html", "file for the report")
	f.BoolVar(&o.live, "live", false, "use a fake provider whose forecasts have errors, instead of the recorded series")
	duration(f, &o.outage, "outage", 0, "how long the provider of --live is down, from eight hours into the replay")
	f.StringVar(&o.Planner, "planner", DefaultPlanner, "planner")
	f.StringToStringVar(&o.Parameters, "param", nil, "parameter of the planner, NAME=VALUE; may be repeated")
	numberList(f, &o.omegas, "omega1", []float64{0, 1}, between(0, 1000), "weights of carbon in demo multicluster; the others are compared with the first")
	numberList(f, &o.scenarios, "scenario", []int{1, 2, 3, 4}, between(1, 4), "scenarios of demo extender (Piontek et al., Table 2)")
}

// fits refuses flags that a demo does not use.
func fits(which string, given func(string) bool) error {
	refused := map[string]string{
		"":             "omega1 scenario slurm",
		"elastic":      "omega1 scenario slurm",
		"fidelity":     "trace zone from jobs seed live outage param omega1 scenario slurm",
		"multicluster": "trace zone from live outage scenario slurm",
		"follow":       "trace zone from jobs seed live outage planner param omega1 scenario slurm",
		"extender":     "trace zone from jobs live outage planner param omega1 slurm",
		"slurm":        "lab report live outage omega1 scenario",
		"slurm-week":   "lab report trace zone from jobs seed live outage param omega1 scenario",
		"capacity":     "trace zone from jobs seed live outage planner param omega1 scenario slurm",
	}
	for _, name := range strings.Fields(refused[which]) {
		if given(name) {
			return fmt.Errorf("--%s: not for demo %s", name, which)
		}
	}
	return nil
}

func checkScenarios(scenarios []int) error {
	if len(scenarios) == 0 {
		return errors.New("--scenario: none; accepted: some of 1 to 4")
	}
	for _, n := range scenarios {
		if n < 1 || n > 4 {
			return fmt.Errorf("--scenario: %d; accepted: 1 to 4", n)
		}
	}
	return nil
}

func checkOmegas(omegas []float64) error {
	const most = 8
	if len(omegas) < 1 || len(omegas) > most {
		return fmt.Errorf("--omega1: %d values; accepted: 1 to %d", len(omegas), most)
	}
	for _, v := range omegas {
		if !(v >= 0 && v <= 1000) {
			return fmt.Errorf("--omega1: %v; accepted: 0 to 1000", v)
		}
	}
	return nil
}

// own sets what is not given to the defaults of one of the further demos.
func own(o *demo.Options, name string, given func(string) bool) {
	set := func(flag string, apply func()) {
		if !given(flag) {
			apply()
		}
	}
	switch name {
	case "elastic":
		set("planner", func() { o.Planner = "joint" })
		set("jobs", func() { o.Jobs = 32 })
		set("time-factor", func() { o.Factor = 600 })
	case "fidelity":
		set("planner", func() { o.Planner = "carbonscaler" })
		set("time-factor", func() { o.Factor = 240 })
		set("report", func() { o.Report = "fidelity.md" })
	case "multicluster":
		set("planner", func() { o.Planner = "caspian" })
		set("jobs", func() { o.Jobs = 200 })
		set("time-factor", func() { o.Factor = 200 })
	case "follow", "extender":
		set("time-factor", func() { o.Factor = 600 })
	case "capacity":
		set("time-factor", func() { o.Factor = 450 })
	case "slurm-week":
		set("time-factor", func() { o.Factor = 600 })
	case "slurm":
		set("jobs", func() { o.Jobs = 48 })
		set("time-factor", func() { o.Factor = 600 })
	}
}

// traceName stands for the zone of a trace that says nothing of it: its folder
// and file, e.g. "DE/2021" for .../DE/2021.csv.
func traceName(file string) string {
	const most = 64
	name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return name[max(0, len(name)-most):]
}

// checkDemoZone replaces the region of a cloud by its zone, and checks that the zone has a climatology. The zone of a trace is a
// name only.
func checkDemoZone(o *demo.Options) error {
	if o.Trace != "" {
		return nil
	}
	zone := o.Zone
	if strings.Contains(zone, "/") {
		var err error
		if zone, err = zones.OfRegion(zone); err != nil {
			return fmt.Errorf("--zone: %w", err)
		}
	}
	if known := climatology.Zones(); !slices.Contains(known, zone) {
		return fmt.Errorf("--zone: %q; accepted without --trace: %s%s", o.Zone, strings.Join(known, ", "), zones.Hint(zone))
	}
	o.Zone = zone
	return nil
}

func checkDemo(o *demo.Options, from string) error {
	if err := checkDemoZone(o); err != nil {
		return err
	}
	if from != "" {
		at, err := time.Parse("2006-01-02", from)
		if err != nil {
			return fmt.Errorf("--from: %q; accepted: a day, e.g. 2021-05-10", from)
		}
		o.From = at
	}
	if o.Jobs < 1 || o.Jobs > 500 {
		return fmt.Errorf("--jobs: %d; accepted: 1 to 500", o.Jobs)
	}
	if o.Factor < 1 || o.Factor > 3600 {
		return fmt.Errorf("--time-factor: %d; accepted: 1 to 3600 (faster than that, starting a pod takes hours of the replay)", o.Factor)
	}
	_, err := NewPlanner(o.Planner, o.Parameters, nil)
	return err
}
