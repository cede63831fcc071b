package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/planio"
)

func newCheckCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "check -f INSTANCE PLAN",
		Short: "Check and price a plan made by anyone",
		Long: `Check reads a plan, whoever made it, and says whether it keeps every constraint of
its instance (capacity, arrivals, deadlines, scales, work done) and what it emits.

Exit status: 0 when the plan is feasible, 3 when it is not (every fault is named),
1 for any other error.`,
		Example: "  lull check -f instance.json plan.json",
		Args:    takes(1, 1, "one plan file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errNoInstance
			}
			return runCheck(cmd.Context(), file, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `instance file, "-" for standard input`)
	return cmd
}

func runCheck(ctx context.Context, instance, file string, stdin io.Reader, stdout io.Writer) error {
	p, err := readInstance(instance, stdin)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	pl, err := planio.ReadPlan(f, p)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	baseline, err := asap.Planner{}.Plan(ctx, p)
	if err != nil {
		return err
	}
	faults := plan.Check(p, pl)
	res := plan.Result{Plan: pl, Status: plan.Feasible}
	if faults != nil {
		res.Status = plan.Infeasible
	}
	if err := summarize(stdout, p, file, res, baseline); err != nil {
		return err
	}
	if faults != nil {
		return errors.Join(errInfeasible, faults)
	}
	return nil
}
