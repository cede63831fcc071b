package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/planio"
)

func newCheckCommand() *cobra.Command {
	file, format := "", ""
	cmd := &cobra.Command{
		Use:   "check -f INSTANCE PLAN",
		Short: "Check a plan of any program, and compute what it emits",
		Long: `Check reads a plan, which any program may have made, and says whether it keeps every constraint
of its instance (capacity, arrivals, deadlines, scales, work done) and what it emits.

Exit status: 0 when the plan is feasible, 3 when it is not (every fault is named),
1 for any other error.`,
		Example: "  lull check -f instance.json plan.json",
		Args:    takes(1, 1, "one plan file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errNoInstance
			}
			return runCheck(cmd.Context(), file, args[0], format, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", `instance file, "-" for standard input`)
	textFlag(cmd.Flags(), &format)
	return cmd
}

func runCheck(ctx context.Context, instance, file, format string, stdin io.Reader, stdout io.Writer) error {
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
	write := func() error { return summarize(stdout, p, file, res, baseline) }
	if structured(format) {
		write = func() error { return writeStructured(stdout, format, checkOf(p, file, res, baseline, faults)) }
	}
	if err := write(); err != nil {
		return err
	}
	if faults != nil {
		return errors.Join(errInfeasible, faults)
	}
	return nil
}

// checkReport is what lull check says of a plan, for programs.
type checkReport struct {
	Plan          string      `json:"plan"`
	Status        plan.Status `json:"status"`
	Planned       int         `json:"planned"`
	Unscheduled   int         `json:"unscheduled"`
	Late          int         `json:"late"`
	EmissionsG    float64     `json:"emissionsG"`
	EnergyKWh     float64     `json:"energyKWh"`
	AsapG         float64     `json:"asapEmissionsG"`
	Saving        *float64    `json:"saving,omitempty"` // against asap, if both plan the same jobs
	Z             *float64    `json:"z,omitempty"`
	MeanWaitSlots float64     `json:"meanWaitSlots"`
	MakespanSlots int         `json:"makespanSlots"`
	Faults        []string    `json:"faults"`
}

func checkOf(p *plan.Problem, file string, res, baseline plan.Result, faults error) *checkReport {
	e, b := plan.Evaluate(p, res.Plan), plan.Evaluate(p, baseline.Plan)
	r := &checkReport{
		Plan: file, Status: res.Status, Planned: e.Planned, Unscheduled: e.Unscheduled, Late: e.Late, EmissionsG: e.CarbonG, EnergyKWh: e.EnergyKWh, AsapG: b.CarbonG,
		MeanWaitSlots: e.MeanWait, MakespanSlots: e.Makespan, Faults: []string{},
	}
	if slices.Equal(plannedJobs(res.Plan), plannedJobs(baseline.Plan)) {
		r.Saving = savingOf(e.CarbonG, b.CarbonG)
	}
	if p.Objective.Kind == plan.MOSP && p.Objective.Theta != nil {
		r.Z = &e.ZTotal
	}
	if faults != nil {
		r.Faults = strings.Split(faults.Error(), "\n")
	}
	return r
}
