package cli

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// mostPlanHours is how many hours fit a line.
const mostPlanHours = 168

func newPlansCommand() *cobra.Command {
	var f clusterFlags
	hours, format := 24, ""
	cmd := &cobra.Command{
		Use:   "plans",
		Short: "Show when workloads are planned to run, hour by hour",
		Long: `Plans draws a line for each workload that is not finished, with one character for each hour: its
number of workers (+ for ten and more), "." if it does not run, "!" in the hour of its deadline if it
does not run then.`,
		Example: `  lull plans -A
  lull plans -n batch --hours 48`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plans, err := f.plans(cmd.Context())
			if err != nil {
				return err
			}
			return showPlans(cmd.OutOrStdout(), plans, hours, format)
		},
	}
	f.registerAll(cmd)
	tableFlag(cmd.Flags(), &format)
	number(cmd.Flags(), &hours, "hours", hours, between(1, mostPlanHours), "how many hours to draw")
	return cmd
}

// planRow is the plan of a workload that is not finished.
type planRow struct {
	Namespace string               `json:"namespace"`
	Kind      string               `json:"kind"`
	Name      string               `json:"name"`
	State     v1alpha1.PlanState   `json:"state"`
	Deadline  *metav1.Time         `json:"deadline,omitempty"`
	Phases    []v1alpha1.PlanPhase `json:"phases"`
}

// showPlans writes plans in a format. The table draws them from the hour of the first phase on.
func showPlans(out io.Writer, plans []v1alpha1.CarbonPlan, hours int, format string) error {
	rows := []planRow{}
	var start time.Time
	for i := range plans {
		p := &plans[i]
		if p.Status.State == v1alpha1.PlanFinished || p.Status.State == "" {
			continue
		}
		rows = append(rows, planRow{p.Namespace, p.Spec.Workload.Kind, p.Spec.Workload.Name, p.Status.State, p.Status.Deadline, append([]v1alpha1.PlanPhase{}, p.Status.Phases...)})
		for _, ph := range p.Status.Phases {
			if start.IsZero() || ph.From.Time.Before(start) {
				start = ph.From.Time
			}
		}
	}
	if len(rows) == 0 && !structured(format) {
		_, err := fmt.Fprintln(out, "No workload waits or runs.")
		return err
	}
	from := "UTC, from " + start.UTC().Truncate(time.Hour).Format("2006-01-02 15:04")
	if start.IsZero() {
		hours, from = 0, "no hours are planned yet"
	}
	start = start.UTC().Truncate(time.Hour)
	sort.SliceStable(rows, func(a, b int) bool {
		x, y := rows[a].Deadline, rows[b].Deadline
		if x == nil || y == nil {
			return x == nil && y != nil // what may not wait first
		}
		return x.Before(y)
	})
	axis := &strings.Builder{}
	for h := 0; h < hours; h++ {
		if at := start.Add(time.Duration(h) * time.Hour); at.Hour()%6 == 0 && h+2 <= hours {
			fmt.Fprintf(axis, "%02d", at.Hour())
			h++
			continue
		}
		axis.WriteByte(' ')
	}
	return writeRows(out, format, []column[planRow]{
		{head: "WORKLOAD", cell: func(r *planRow) string { return r.Namespace + "/" + strings.ToLower(r.Kind) + "/" + r.Name }},
		{head: "STATE", cell: func(r *planRow) string { return string(r.State) }},
		{head: "DEADLINE", cell: func(r *planRow) string {
			if r.Deadline == nil {
				return "may not wait"
			}
			return r.Deadline.UTC().Format("01-02 15:04")
		}},
		{head: fmt.Sprintf("%s (%s)", axis, from), cell: func(r *planRow) string { return r.line(start, hours) }},
	}, rows)
}

// line is the drawing of a plan.
func (r *planRow) line(start time.Time, hours int) string {
	line := []byte(strings.Repeat(".", hours))
	if d := r.Deadline; d != nil {
		if h := int(d.Sub(start) / time.Hour); h >= 0 && h < hours {
			line[h] = '!'
		}
	}
	for _, ph := range r.Phases {
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
