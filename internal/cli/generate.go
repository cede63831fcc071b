package cli

import (
	"bytes"

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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	f.Uint64Var(&o.Seed, "seed", 1, "seed")
	f.IntVar(&o.Jobs, "jobs", 200, "number of jobs")
	f.IntVar(&o.Clusters, "clusters", 3, "number of clusters")
	f.IntVar(&o.Slots, "slots", 40, "hours of the horizon")
	f.StringVar(&objective, "objective", string(plan.Carbon), "carbon or mosp")
	f.StringSliceVar(&kinds, "kinds", []string{string(workload.Rigid)}, "kinds of jobs, with equal chances: rigid, interruptible, elastic")
	f.Float64Var(&o.Capacity, "capacity", 32, "GPUs of each cluster")
	f.Float64Var(&o.Load, "load", 0, "share of all capacity that the jobs ask for; sets the capacity instead")
	f.IntVar(&o.MaxRequest, "max-request", 5, "most GPUs of a job")
	f.IntVar(&o.MaxLength, "max-length", 5, "longest run in hours")
	f.Float64Var(&o.SlackLow, "slack-low", 2, "least deadline in lengths after arrival")
	f.Float64Var(&o.SlackHigh, "slack-high", 4, "largest deadline in lengths after arrival")
	f.IntVar(&o.MaxScale, "max-scale", 8, "largest scale of elastic jobs")
	f.BoolVar(&o.Memory, "memory", false, "memory as a second resource")
	f.BoolVar(&o.Varying, "varying", false, "capacity that varies in time")
	f.BoolVar(&o.Measured, "measured", false, "curves of elastic jobs as measured: bumps, workers that add nothing, powers of two")
	f.BoolVar(&o.Unequal, "unequal", false, "capacities of clusters in the ratio 1 : 8 : 2 : 4")
	f.BoolVar(&o.Gaps, "gaps", false, "slots without capacity, and slots without emissions, a tenth each")
	return cmd
}
