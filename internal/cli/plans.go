package cli

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/api/v1alpha1"
)

// mostPlanHours is how many hours fit a line.
const mostPlanHours = 168

func newPlansCommand() *cobra.Command {
	var f clusterFlags
	hours := 24
	cmd := &cobra.Command{
		Use:   "plans",
		Short: "Show when workloads are planned to run, hour by hour",
		Long: `Plans draws a line for each workload that is not finished, a character an hour: its number of
workers (+ for ten and more), "." where it does not run, "!" for the hour of its deadline if it does not
run then.`,
		Example: `  lull plans -A
  lull plans -n batch --hours 48`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plans, err := f.plans(cmd.Context())
			if err != nil {
				return err
			}
			return drawPlans(cmd.OutOrStdout(), plans, hours)
		},
	}
	f.registerAll(cmd)
	number(cmd.Flags(), &hours, "hours", hours, between(1, mostPlanHours), "how many hours are drawn")
	return cmd
}

// drawPlans draws plans from the hour of the first phase on.
func drawPlans(out io.Writer, plans []v1alpha1.CarbonPlan, hours int) error {
	var open []*v1alpha1.CarbonPlan
	var start time.Time
	for i := range plans {
		p := &plans[i]
		if p.Status.State == v1alpha1.PlanFinished || p.Status.State == "" {
			continue
		}
		open = append(open, p)
		for _, ph := range p.Status.Phases {
			if start.IsZero() || ph.From.Time.Before(start) {
				start = ph.From.Time
			}
		}
	}
	if len(open) == 0 {
		_, err := fmt.Fprintln(out, "No workload waits or runs.")
		return err
	}
	from := "UTC, from " + start.UTC().Truncate(time.Hour).Format("2006-01-02 15:04")
	if start.IsZero() {
		hours, from = 0, "no hours are planned yet"
	}
	start = start.UTC().Truncate(time.Hour)
	sort.SliceStable(open, func(a, b int) bool {
		x, y := open[a].Status.Deadline, open[b].Status.Deadline
		if x == nil || y == nil {
			return x == nil && y != nil // what may not wait first
		}
		return x.Before(y)
	})
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	axis := &strings.Builder{}
	for h := 0; h < hours; h++ {
		if at := start.Add(time.Duration(h) * time.Hour); at.Hour()%6 == 0 && h+2 <= hours {
			fmt.Fprintf(axis, "%02d", at.Hour())
			h++
			continue
		}
		axis.WriteByte(' ')
	}
	fmt.Fprintf(tw, "WORKLOAD\tSTATE\tDEADLINE\t%s (%s)\n", axis, from)
	for _, p := range open {
		deadline := "may not wait"
		if d := p.Status.Deadline; d != nil {
			deadline = d.UTC().Format("01-02 15:04")
		}
		fmt.Fprintf(tw, "%s/%s/%s\t%s\t%s\t%s\n", p.Namespace, strings.ToLower(p.Spec.Workload.Kind), p.Spec.Workload.Name, p.Status.State, deadline, planLine(p, start, hours))
	}
	return tw.Flush()
}

// planLine is the line of a plan.
func planLine(p *v1alpha1.CarbonPlan, start time.Time, hours int) string {
	line := []byte(strings.Repeat(".", hours))
	if d := p.Status.Deadline; d != nil {
		if h := int(d.Sub(start) / time.Hour); h >= 0 && h < hours {
			line[h] = '!'
		}
	}
	for _, ph := range p.Status.Phases {
		for h := max(0, int(ph.From.Sub(start)/time.Hour)); h < hours && start.Add(time.Duration(h)*time.Hour).Before(ph.To.Time); h++ {
			if n := ph.Workers; n > 9 {
				line[h] = '+'
			} else {
				line[h] = byte('0' + max(1, n))
			}
		}
	}
	return string(line)
}
