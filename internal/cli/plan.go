package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/units"
)

// errInfeasible ends a command with a status of its own when jobs found no place
// (the plan of the others is written all the same) or a plan breaks constraints.
var errInfeasible = errors.New("infeasible")

var errNoInstance = errors.New(`--filename: not given; accepted: an instance file, or "-" for standard input`)

type planOptions struct {
	file, out, planner string
	start              string
	params             map[string]string
	timeLimit          time.Duration
	safe               float64
	explain            []string
}

func newPlanCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan -f INSTANCE [-o PLAN]",
		Short: "Plan the jobs of an instance file",
		Long: `Plan reads a planning instance (JSON), plans it and writes the plan (JSON) to
standard output or to a file. A summary goes to standard error: emissions, the saving
against planner asap, which runs everything as soon as possible, late and unscheduled
jobs, and, if the planner proves one, a bound of the distance from the optimum. Planner
joint, the default, uses the whole --time-limit and always ends with a plan. The others
end without one if the time is up.

Exit status: 0 if every job is planned, 3 if some could not be planned (Plan names them,
and writes the plan of the others), 1 for any other error.`,
		Example: `  lull plan -f instance.json
  lull plan -f instance.json -o plan.json --planner window --param window-frame=4h
  lull plan -f instance.json --time-limit 5s --explain w17
  lull plan --planner list
  generate-instance | lull plan -f - > plan.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.planner == "list" {
				return listPlanners(cmd.OutOrStdout())
			}
			return runPlan(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.AddCommand(newGenerateCommand())
	f := cmd.Flags()
	f.StringVarP(&o.file, "filename", "f", "", `instance file, "-" for standard input`)
	f.StringVarP(&o.out, "output", "o", "", "file for the plan (default standard output)")
	f.StringVar(&o.planner, "planner", DefaultPlan, `planner, or "list" to list all planners`)
	f.StringVar(&o.start, "start", "", "plan file of this or the previous period, from which planner joint starts its search")
	duration(f, &o.timeLimit, "time-limit", 0, "longest time to plan (default: until done). If the instance has no theta, the time to normalize Z is not counted")
	number(f, &o.safe, "safe", plan.SafeProbability, between(0, 1).from().to(), "quantile of the run time for which deadlines of jobs of uncertain length are kept")
	f.StringArrayVar(&o.explain, "explain", nil, "job to explain: its place in the plan, and what other places would cost; may be repeated")
	f.StringToStringVar(&o.params, "param", nil, "parameter of the planner, NAME=VALUE; may be repeated")
	return cmd
}

func listPlanners(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "PLANNER\tSOURCE")
	for _, m := range methods {
		fmt.Fprintf(tw, "%s\t%s\n", m.name, m.source)
		for _, p := range m.parameters {
			fmt.Fprintf(tw, "\t  --param %s=...  %s\n", p.name, p.help)
		}
	}
	return tw.Flush()
}

func runPlan(ctx context.Context, o planOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	if o.file == "" {
		return errNoInstance
	}
	planner, err := newPlannerOfInstance(o.planner, o.params)
	if err != nil {
		return err
	}
	p, err := readInstance(o.file, stdin)
	if err != nil {
		return err
	}
	jobs, err := explained(p, o.explain)
	if err != nil {
		return err
	}
	res, p, err := solve(ctx, planner, p, o, stderr)
	if err != nil {
		return err
	}
	if res.Status != plan.Infeasible {
		// A planner that breaks a constraint has a fault; its plan is not handed out.
		if err := plan.Check(p, res.Plan); err != nil {
			return fmt.Errorf("planner %s: %w", o.planner, err)
		}
	}
	baseline, err := asap.Planner{}.Plan(ctx, p)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := planio.WritePlan(&text, p, o.planner, res); err != nil {
		return err
	}
	if err := writeOut(o.out, text.Bytes(), stdout); err != nil {
		return err
	}
	if err := summarize(stderr, p, o.planner, res, baseline); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := explain(stderr, p, res, j, o.safe); err != nil {
			return err
		}
	}
	if res.Status == plan.Infeasible {
		return fmt.Errorf("%w: not every job could be planned: %s", errInfeasible, unplacedText(p, res.Unplaced))
	}
	return nil
}

// newPlannerOfInstance builds the planner of an instance, in which there is no past to learn a reserve from:
// a reserve is a number.
func newPlannerOfInstance(name string, values map[string]string) (plan.Planner, error) {
	if text, stated := values["reserve"]; stated && hasParameter(name, "reserve") {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("--param reserve of planner %s: %q; accepted: a number of 0 to below 1 (an instance has no past to learn from; lull simulate learns)", name, text)
		}
	}
	return newPlanner(name, values, nil, true)
}

// hasParameter reports whether a planner has a parameter.
func hasParameter(planner, name string) bool {
	return slices.ContainsFunc(methods, func(m method) bool { return m.name == planner && m.has(name, true) })
}

// solve normalises Z where the instance does not and plans within the time limit. It
// returns the problem whose objective the plan is judged by.
func solve(ctx context.Context, planner plan.Planner, p *plan.Problem, o planOptions, stderr io.Writer) (plan.Result, *plan.Problem, error) {
	p, err := relax.Normalised(ctx, p)
	if err != nil {
		return plan.Result{}, nil, err
	}
	if o.timeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeLimit)
		defer cancel()
	}
	bar := newBar(stderr, "planning")
	defer bar.close()
	if j, ok := planner.(joint.Planner); ok {
		j.Progress = bar.set
		if planner, err = started(j, p, o.start); err != nil {
			return plan.Result{}, nil, err
		}
	} else if o.start != "" {
		return plan.Result{}, nil, fmt.Errorf("--start: planner %s cannot start from a plan; accepted: with planner joint", o.planner)
	}
	res, err := plan.Guarded{Planner: planner, Probability: o.safe}.Plan(ctx, p)
	return res, p, limitError(err, o)
}

// warm is planner joint with the memory of a plan.
type warm struct {
	joint.Planner
	memory *joint.Memory
}

// Plan begins at the plan remembered.
func (w warm) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	res, _, err := w.Replan(ctx, p, w.memory)
	return res, err
}

// started gives j the plan in a file to begin with, if there is one.
func started(j joint.Planner, p *plan.Problem, file string) (plan.Planner, error) {
	if file == "" {
		return j, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--start: %w", err)
	}
	defer f.Close()
	pl, err := planio.ReadPlan(f, p)
	if err != nil {
		return nil, fmt.Errorf("--start: %s: %w", file, err)
	}
	return warm{j, joint.Remember(p, pl)}, nil
}

func limitError(err error, o planOptions) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("planner %s has no plan within --time-limit %s: %w", o.planner, o.timeLimit, err)
	}
	return err
}

func readInstance(file string, stdin io.Reader) (*plan.Problem, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	p, err := planio.ReadInstance(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// writeOut writes text to a file, as outfile.Write does, or to stdout if file is "".
func writeOut(file string, text []byte, stdout io.Writer) error {
	return streamOut(file, stdout, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// streamOut calls write with a writer to a file, as outfile.Write does, or with stdout if file is "".
func streamOut(file string, stdout io.Writer, write func(io.Writer) error) error {
	if file == "" {
		return write(stdout)
	}
	return outfile.Write(file, write)
}

func summarize(w io.Writer, p *plan.Problem, name string, res, baseline plan.Result) error {
	e, b := plan.Evaluate(p, res.Plan), plan.Evaluate(p, baseline.Plan)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "plan\t%s (%s)\n", name, res.Status)
	fmt.Fprintf(tw, "jobs\t%d planned, %d unscheduled, %d late\n", e.Planned, e.Unscheduled, e.Late)
	fmt.Fprintf(tw, "emissions\t%s (%s)\n", units.Emissions(e.CarbonG), units.Energy(e.EnergyKWh))
	saved := saving(e, b)
	if e.Planned == b.Planned && !slices.Equal(plannedJobs(res.Plan), plannedJobs(baseline.Plan)) {
		saved = "not comparable: asap plans other jobs"
	}
	fmt.Fprintf(tw, "saved against asap\t%s\n", saved)
	if p.Objective.Kind == plan.MOSP && p.Objective.Theta != nil {
		fmt.Fprintf(tw, "Z\t%.6g (asap %.6g)\n", e.ZTotal, b.ZTotal)
	}
	if gap, ok := planio.Gap(p, res, e); ok {
		fmt.Fprintf(tw, "proven gap to optimum\tat most %.2f %%\n", 100*gap)
	}
	if p.Objective.PriceWeight > 0 {
		fmt.Fprintf(tw, "price\t%.6g (asap %.6g)\n", e.Money, b.Money)
	}
	fmt.Fprintf(tw, "mean wait\t%.1f slots of %s\n", e.MeanWait, p.Grid.Slot)
	fmt.Fprintf(tw, "makespan\t%d slots\n", e.Makespan)
	return tw.Flush()
}

// plannedJobs lists the jobs that a plan runs, in ascending order.
func plannedJobs(p plan.Plan) (out []int) {
	for _, j := range p.Jobs {
		if len(j.Segments) > 0 {
			out = append(out, j.Job)
		}
	}
	slices.Sort(out)
	return out
}

// saving compares two plans of the same problem; it is stated only when both
// run the same jobs.
func saving(e, baseline plan.Evaluation) string {
	switch {
	case e.Planned != baseline.Planned:
		return fmt.Sprintf("not comparable: %d jobs planned, asap plans %d", e.Planned, baseline.Planned)
	case baseline.CarbonG == 0:
		return "asap emits nothing"
	}
	return fmt.Sprintf("%s of %s", units.Number("%.1f %%", 100*(1-e.CarbonG/baseline.CarbonG)), units.Emissions(baseline.CarbonG))
}

func unplacedText(p *plan.Problem, unplaced []plan.Unplaced) string {
	const most = 5
	var parts []string
	for i, u := range unplaced {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(unplaced)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s: %s", p.Jobs[u.Job].ID, u.Why))
	}
	return strings.Join(parts, "; ")
}
