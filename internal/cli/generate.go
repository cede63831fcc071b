package cli

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/workload"
)

func newGenerateCommand() *cobra.Command {
	o := generate.Options{}
	var out, objective string
	var kinds []string
	cmd := &cobra.Command{
		Use:   "generate [-o INSTANCE]",
		Short: "Make a planning instance by seed",
		Long: `Generate draws a planning instance. The defaults are the distributions of
Caspian's experiment (Section V): 200 workloads that ask for 1 to 5 GPUs for 1 to 5
hours, with deadlines of 2 to 4 times that, on 3 clusters of 32 GPUs over 40 hours.
Equal flags give equal instances.`,
		Example: `  lull plan generate --objective mosp -o caspian.json
  lull plan generate --jobs 2000 --clusters 1 --slots 336 --kinds elastic --max-scale 16 --load 0.5 | lull plan -f - > plan.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("load") && cmd.Flags().Changed("capacity") {
				return errors.New("--capacity, --load: both are given; accepted: one of them, as the load sets the capacity")
			}
			if o.SlackHigh < o.SlackLow {
				return fmt.Errorf("--slack-high: %v; accepted: at least --slack-low, %v", o.SlackHigh, o.SlackLow)
			}
			o.Objective = plan.ObjectiveKind(objective)
			for _, k := range kinds {
				o.Kinds = append(o.Kinds, workload.Kind(k))
			}
			p, err := generate.Instance(o)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := planio.WriteInstance(&text, p); err != nil {
				return err
			}
			return writeOut(out, text.Bytes(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "file for the instance (default standard output)")
	number(f, &o.Seed, "seed", 1, atLeast(0), "seed")
	number(f, &o.Jobs, "jobs", 200, between(1, 1e6), "number of jobs")
	number(f, &o.Clusters, "clusters", 3, between(1, 1e6), "number of clusters")
	number(f, &o.Slots, "slots", 40, between(1, 1e6), "hours of the horizon")
	f.StringVar(&objective, "objective", string(plan.Carbon), "carbon or mosp")
	f.StringSliceVar(&kinds, "kinds", []string{string(workload.Rigid)}, "kinds of jobs, with equal chances: rigid, interruptible, elastic")
	number(f, &o.Capacity, "capacity", 32, above0(), "GPUs of each cluster")
	number(f, &o.Load, "load", 0, above0(), "share of the whole capacity that the jobs request; sets the capacity in place of --capacity")
	number(f, &o.MaxRequest, "max-request", 5, between(1, workload.MaxScale), "most GPUs of a job")
	number(f, &o.MaxLength, "max-length", 5, between(1, workload.MaxScale), "longest run in hours")
	number(f, &o.SlackLow, "slack-low", 2, atLeast(1), "smallest deadline after arrival, in lengths of the job")
	number(f, &o.SlackHigh, "slack-high", 4, atLeast(1), "largest deadline after arrival, in lengths of the job")
	number(f, &o.MaxScale, "max-scale", 8, between(1, workload.MaxScale), "largest scale of elastic jobs")
	f.BoolVar(&o.Memory, "memory", false, "memory as a second resource")
	f.BoolVar(&o.Varying, "varying", false, "capacity that varies in time")
	f.BoolVar(&o.Measured, "measured", false, "curves of elastic jobs as measured: bumps, workers that add nothing, powers of two")
	f.BoolVar(&o.Unequal, "unequal", false, "capacities of clusters in the ratio 1 : 8 : 2 : 4")
	f.BoolVar(&o.Gaps, "gaps", false, "a tenth of the slots without capacity, and a tenth without emissions")
	return cmd
}
