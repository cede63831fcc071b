package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"lull.dev/lull/internal/accounting/keeper"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/base/version"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	engine "lull.dev/lull/internal/engine/slurm"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/power"
)

func newSlurmCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm",
		Short: "Run the jobs of a Slurm cluster when power is clean",
		Long: `Slurm delays jobs of a Slurm cluster that may wait until power is clean, by their begin
times, so that Slurm itself starts each in time, with or without Lull. A job may wait if
its comment says so, or if the administrator says so for its partition, QOS or account:

  sbatch --comment=lull:max-delay=8h job.sh
  sbatch --comment=lull:max-delay=1d,runtime=3h,interruptible,checkpoint=30m job.sh
  sbatch --comment=lull: --deadline=2026-06-02T08:00 --time=4:00:00 job.sh`,
	}
	cmd.AddCommand(newSlurmInstallCommand(), newSlurmControllerCommand(), newSlurmExplainCommand())
	return cmd
}

// slurmOptions say which Slurm cluster is meant, and which of its jobs may wait.
type slurmOptions struct{ config, bin string }

func (o *slurmOptions) register(f *pflag.FlagSet) {
	o.registerConfig(f)
	f.StringVar(&o.bin, "slurm-bin", "", "folder of squeue, sinfo and scontrol (default: those in PATH)")
}

func (o *slurmOptions) registerConfig(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "file that says which partitions, QOS and accounts let jobs wait (default: only jobs whose comment says so)")
}

func (o *slurmOptions) read() (*slurm.Config, error) {
	if o.config == "" {
		return &slurm.Config{}, nil
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	c, err := slurm.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", o.config, err)
	}
	return &c, nil
}

func newSlurmInstallCommand() *cobra.Command {
	var o slurmOptions
	to := ""
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write the script that holds jobs at submission",
		Long: `Install writes job_submit.lua, which holds a job that may wait until Lull has planned it,
for the grace period at most, and prints the line that slurm.conf needs. It changes nothing
else. Write it anew after each change of --config. slurmctld reads a changed script at the
next submission.`,
		Example: `  lull slurm install --output /etc/slurm/job_submit.lua
  lull slurm install --config lull-slurm.yaml --output /etc/slurm/job_submit.lua`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.read()
			if err != nil {
				return err
			}
			script := slurm.JobSubmit(c, version.String())
			if to == "-" {
				_, err := io.WriteString(cmd.OutOrStdout(), script)
				return err
			}
			if there, err := os.Stat(to); err == nil && there.Mode().IsRegular() {
				old, err := os.ReadFile(to)
				if err != nil {
					return fmt.Errorf("--output: %w", err)
				}
				if !strings.HasPrefix(string(old), slurm.JobSubmitBegins) {
					return fmt.Errorf("--output: %s is there, and not made by lull; accepted: another file. Load that in yours with pcall(dofile, FILE), call lull_job_submit(job_desc, part_list) from slurm_job_submit, and touch yours after each install", to)
				}
			}
			if err := outfile.WriteFile(to, []byte(script)); err != nil { // at once: slurmctld may read it at any time
				return fmt.Errorf("--output: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), `Wrote %s. It must be in the folder of slurm.conf.
If it is new, add this line to slurm.conf, and run scontrol reconfigure or restart slurmctld:

JobSubmitPlugins=lua

Then run lull slurm controller as SlurmUser, root or an administrator.
`, to)
			return err
		},
	}
	o.registerConfig(cmd.Flags())
	cmd.Flags().StringVarP(&to, "output", "o", "job_submit.lua", "file to write, - for standard output")
	return cmd
}

// slurmController are the flags of lull slurm controller.
type slurmController struct {
	slurmOptions
	forecastOptions
	api                   slurmAPI
	planner               string
	params                map[string]string
	interval, slot        time.Duration
	minRun, minPause      time.Duration
	minSaving, watts, pue float64
	savingConfidence      float64
	wattsPerGPU           float64
	decisionTime          time.Duration
	ledger, metrics       string
	completions, energy   string
	dryRun                bool
}

func newSlurmControllerCommand() *cobra.Command {
	var o slurmController
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Delay and release the jobs of a Slurm cluster",
		Long: `Controller observes the queue of Slurm, plans the jobs that may wait, and sets their begin
times. It keeps what it must know in the AdminComment of each job: it may be stopped at any
time and started again, on another machine too. While it does not run, each job starts by
its begin time.

With --ledger it records what the jobs that may wait did and emitted. lull report sums it
up, and lull ledger verify checks it.

It leaves alone what users and operators decide: jobs that they hold, requeue or give a
begin time. It runs squeue, sinfo and scontrol as SlurmUser, root or an administrator, and
asks slurmrestd for what that can do, if --slurm-rest says where it is.

Sources: ` + strings.Join(sourceNames(), ", ") + `,
or a CSV or JSON file; see "lull forecast --help".`,
		Example: `  lull slurm controller --zone DE --dry-run
  lull slurm controller --zone DE --config /etc/slurm/lull.yaml
  lull slurm controller --zone DE --source electricityMaps --credential-file token --cache-dir /var/cache/lull`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	f := cmd.Flags()
	o.register(f)
	o.api.register(f)
	o.sourceFlags(f)
	f.Lookup("zone").Usage += " (default $" + zoneVariable + ")"
	f.StringVar(&o.planner, "planner", DefaultPlanner, "planner; lull plan --help lists them")
	f.StringToStringVar(&o.params, "param", nil, "parameter of the planner, NAME=VALUE; may be repeated")
	duration(f, &o.interval, "interval", 10*time.Second, "how often the queue is read at least")
	duration(f, &o.slot, "slot", 15*time.Minute, "resolution of planning")
	duration(f, &o.minRun, "min-run", 5*time.Minute, "least time from a start to a pause")
	duration(f, &o.minPause, "min-pause", 5*time.Minute, "least time from a pause to the next start")
	number(f, &o.minSaving, "min-saving", 100*scenario.DefaultMinSaving, between(0, 100).to(), "least saving in percent, against a start now, for which a job waits")
	savingConfidenceFlag(f, &o.savingConfidence, "waits or pauses")
	number(f, &o.watts, "watts-per-cpu", power.DefaultWattsPerCPU, between(0, power.MaxWatts), "power of a CPU that is in use")
	number(f, &o.wattsPerGPU, "watts-per-gpu", 0, between(0, power.MaxWatts), "power of a GPU that is in use")
	number(f, &o.pue, "pue", 1.0, between(1, 10), "power usage effectiveness of the site")
	duration(f, &o.decisionTime, "decision-time", 10*time.Second, "how long a decision may take; after that planner cheapest plans")
	f.StringVar(&o.ledger, "ledger", "", "database of the ledger, which says what was saved, with a --source of published intensities: a file, or postgres://USER@HOST/NAME with the password in $PGPASSWORD or a passfile (default: none)")
	f.StringVar(&o.completions, "completions", "", "file of JobCompType=jobcomp/filetxt, which says how jobs ended that Slurm forgot while no controller ran (default: sacct, if Slurm has slurmdbd)")
	f.StringVar(&o.energy, "energy", energyModel, "where the energy of jobs in the ledger is from: model, which is --watts-per-cpu and --watts-per-gpu; slurm, which is what Slurm measured (acct_gather_energy) of jobs that had their nodes to themselves, and the model for others")
	f.StringVar(&o.metrics, "metrics-bind-address", "0", `address of /metrics, "0" for none`)
	f.BoolVar(&o.dryRun, "dry-run", false, "say once what would be changed, and change nothing")
	return cmd
}

// slurmSubstitute plans where the planner takes too long.
const slurmSubstitute = "cheapest"

// check checks the flags.
func (o *slurmController) check() error {
	switch {
	case o.interval < time.Second || o.interval > 10*time.Minute:
		return fmt.Errorf("--interval: %v; accepted: 1s to 10m", o.interval)
	case o.slot < time.Second || o.slot > 24*time.Hour:
		return fmt.Errorf("--slot: %v; accepted: 1s to 24h", o.slot)
	case o.decisionTime < 100*time.Millisecond || o.decisionTime > 5*time.Minute:
		return fmt.Errorf("--decision-time: %v; accepted: 100ms to 5m", o.decisionTime)
	}
	if err := o.checkEnergy(); err != nil {
		return err
	}
	if o.completions != "" {
		file, err := os.Open(o.completions)
		if err != nil {
			return fmt.Errorf("--completions: %w; accepted: the file of JobCompLoc in slurm.conf", err)
		}
		_ = file.Close()
	}
	if o.zone = cmp.Or(o.zone, os.Getenv(zoneVariable)); o.zone == "" {
		return fmt.Errorf("--zone: missing, and %s is not set; accepted: a grid zone, e.g. DE, or the region of a cloud, e.g. aws/eu-central-1", zoneVariable)
	}
	return nil
}

func (o *slurmController) run(ctx context.Context, log *slog.Logger) error {
	if err := o.check(); err != nil {
		return err
	}
	config, err := o.read()
	if err != nil {
		return err
	}
	o.horizon = source.DefaultHorizon
	zone, err := o.open()
	if err != nil {
		return err
	}
	planner, err := NewPlanner(o.planner, o.params, nil)
	if err != nil {
		return fmt.Errorf("--planner: %w", err)
	}
	substitute, err := NewPlanner(slurmSubstitute, nil, nil)
	if err != nil {
		return err
	}
	model, err := power.NewPerUnit(map[string]float64{"cpu": o.watts, "gpu": o.wattsPerGPU}, o.pue)
	if err != nil {
		return fmt.Errorf("--watts-per-cpu, --watts-per-gpu, --pue: %w", err)
	}
	client, about, err := o.api.open(ctx, slurm.Commands{Dir: o.bin, Ended: o.ledger != "", Completions: o.completions}, log)
	if err != nil {
		return err
	}
	log.Info("Slurm answers", "commands", about.Version, "slurmrestd", cmp.Or(about.REST, "not used"), "version", version.String(), "zone", zone.cfg.Zone)
	if !about.Tested {
		log.Warn("This version of Slurm is not among those that Lull is tested on", "commands", about.Version, "slurmrestd", cmp.Or(about.REST, "not used"), "tested", "22.05")
	}
	if about.Hidden != "" {
		log.Warn("slurm.conf has PrivateData=jobs, and Slurm may hide the jobs of others from this account: Lull then leaves them to Slurm, however empty the queue looks. Accepted: SlurmUser, root, or, with slurmdbd, an account with AdminLevel=Administrator", "reason", about.Hidden)
	}
	if !about.Lua {
		log.Warn("slurm.conf has no JobSubmitPlugins=lua: a job that finds room at once starts before Lull sees it. Run lull slurm install")
	}
	measure, err := o.measure(&about)
	if err != nil {
		return err
	}
	bound, err := o.capacity(ctx, config.Capacity, client, log)
	if err != nil {
		return err
	}
	if err := zone.refreshFirst(ctx); err != nil {
		log.Warn("The carbon intensity cannot be read", "error", oneLine(err))
	}
	entries, done, err := o.keep(ctx, &about, log)
	if err != nil {
		return err
	}
	defer done()
	c, err := engine.New(engine.Options{
		Capacity: bound, Ledger: entries, Measure: measure, Cluster: about.Cluster, Client: client, Planner: planner, Substitute: substitute, Interval: o.interval, DecisionTime: o.decisionTime, Clock: clock.RealClock{}, Log: log, DryRun: o.dryRun,
		Outlook: func(now time.Time) source.Outlook { return zone.feed.Outlook(now, zone.cfg) },
		Input: slurm.Input{
			Config: config, Zone: zone.cfg.Zone, Slot: o.slot, Margin: 2 * o.interval, MinRun: o.minRun, MinPause: o.minPause, MinSaving: o.minSaving / 100, SavingConfidence: o.savingConfidence / 100, Power: model, Memory: about.Memory, Boot: about.ResumeTimeout,
		},
	})
	if err != nil {
		return err
	}
	if o.dryRun {
		_, err := c.Reconcile(ctx)
		return err
	}
	if err := serveMetrics(ctx, o.metrics, log); err != nil {
		return err
	}
	go zone.keepFresh(ctx, log)
	return c.Run(ctx)
}

// keep opens the ledger, if there is to be one, and writes it until done is called, after the last decision.
func (o *slurmController) keep(ctx context.Context, about *slurm.About, log *slog.Logger) (entries *keeper.Keeper, done func(), err error) {
	if o.ledger == "" || o.dryRun {
		return nil, func() {}, nil
	}
	if o.source == "climatology" {
		log.Warn("The ledger will have no emissions and no savings: --source climatology has no published intensities. Accepted: --source with a provider or a file", "source", o.source)
	}
	if least := 4 * o.interval; about.MinJobAge > 0 && about.MinJobAge < least {
		log.Warn("Slurm forgets jobs soon after their end: the ledger may miss ends, which it then infers. Set MinJobAge in slurm.conf", "MinJobAge", about.MinJobAge.String(), "least", least.String())
	}
	l, err := ledger.Later(o.ledger)
	if err != nil {
		return nil, nil, fmt.Errorf("--ledger: %w", err)
	}
	entries = keeper.New(l, func(string) time.Time { return time.Now() }, func(_ context.Context, err error, message string, args ...any) {
		log.Error("Ledger: "+message, append(args, "error", err.Error())...)
	})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = entries.Start(ctx) }() // returns no error
	for entries.Loading() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return entries, func() {
		stop()
		<-ended
		entries.Flush(context.WithoutCancel(ctx))
		if err := l.Close(); err != nil {
			log.Error("Ledger: Close", "error", err.Error())
		}
	}, nil
}

// refreshFirst reads what is known before the first decision, within a bound: a controller starts without it too.
func (z *zoneFeed) refreshFirst(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return z.refresh(limited, time.Now().Round(0))
}

// keepFresh refreshes the feed when it is due, until the context ends.
func (z *zoneFeed) keepFresh(ctx context.Context, log *slog.Logger) {
	for {
		timer := time.NewTimer(min(rereadEvery, max(time.Minute, z.feed.Due(time.Now().Round(0)))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := z.refreshFirst(ctx); err != nil && ctx.Err() == nil {
			log.Warn("The carbon intensity cannot be read", "error", oneLine(err))
		}
	}
}

func newSlurmExplainCommand() *cobra.Command {
	var o slurmOptions
	format := ""
	cmd := &cobra.Command{
		Use:   "explain JOBID",
		Short: "Say why a job of Slurm waits, and until when at the latest",
		Long: `Explain says what a job does, why, and until when it waits at the latest, by the queue, the
comment of the job and what the controller has written into its AdminComment. State the
configuration file of the controller with --config. Without it, the answer leaves out the
defaults of that file, and says so if they may matter.`,
		Example: `  lull slurm explain 4711
  lull slurm explain 4711_3 --config /etc/slurm/lull.yaml -o json`,
		Args: takes(1, 1, "the number of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := o.read()
			if err != nil {
				return err
			}
			client := slurm.Commands{Dir: o.bin}
			about, err := client.Check(cmd.Context())
			if err != nil {
				return err
			}
			q, err := client.Observe(cmd.Context())
			if err != nil {
				return err
			}
			view := slurm.Observe(slurm.Input{Now: time.Now(), Queue: q, Config: config, NoConfig: o.config == "", Slot: time.Hour, Memory: about.Memory, Boot: about.ResumeTimeout})
			found := view.Explain(args[0], time.Now())
			if len(found) == 0 && about.Hidden != "" {
				return errors.New("JOBID: " + quoted(args[0]) + "; accepted: a job of yours, as 12, 12_3 or, for all of an array, its number. Slurm hides those of others (PrivateData): " + about.Hidden)
			}
			if len(found) == 0 {
				return errors.New("JOBID: " + quoted(args[0]) + "; accepted: a job that squeue lists, as 12, 12_3 or, for all of an array, its number")
			}
			if structured(format) {
				return writeStructured(cmd.OutOrStdout(), format, list[slurm.Explanation]{found})
			}
			for i := range found {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), found[i].Message); err != nil {
					return err
				}
			}
			return nil
		},
	}
	textFlag(cmd.Flags(), &format)
	o.register(cmd.Flags())
	return cmd
}
