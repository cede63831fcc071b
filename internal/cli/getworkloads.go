package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

// workloadRow is what lull says of a governed workload, from its CarbonPlan.
type workloadRow struct {
	Namespace   string             `json:"namespace"`
	Kind        string             `json:"kind"`
	Name        string             `json:"name"`
	Policy      string             `json:"policy"`
	State       v1alpha1.PlanState `json:"state,omitempty"`
	Until       *metav1.Time       `json:"until,omitempty"` // when the plan changes the state next
	Deadline    *metav1.Time       `json:"deadline,omitempty"`
	LatestStart *metav1.Time       `json:"latestStart,omitempty"`
	Progress    float64            `json:"progress"`
	Workers     int32              `json:"workers"`
	Cluster     string             `json:"cluster,omitempty"`
	EmittedG    float64            `json:"emittedG"`
	ExpectedG   *float64           `json:"expectedG,omitempty"` // nil while it is not known
	BaselineG   float64            `json:"baselineG"`
	Saving      *float64           `json:"saving,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	Message     string             `json:"message,omitempty"`
}

// called is the workload as commands take it: KIND/NAME.
func (r *workloadRow) called() string { return strings.ToLower(r.Kind) + "/" + r.Name }

var workloadColumns = []column[workloadRow]{
	{head: "POLICY", cell: func(r *workloadRow) string { return r.Policy }},
	{head: "STATE", cell: func(r *workloadRow) string { return string(r.State) }},
	{head: "UNTIL", cell: func(r *workloadRow) string { return timeCell(r.Until) }},
	{head: "DEADLINE", cell: func(r *workloadRow) string { return timeCell(r.Deadline) }},
	{head: "PROGRESS", cell: func(r *workloadRow) string { return share(&r.Progress) }},
	{head: "SAVES", cell: func(r *workloadRow) string { return share(r.Saving) }},
	{head: "REASON", cell: func(r *workloadRow) string { return r.Reason }},
	{head: "LATEST START", cell: func(r *workloadRow) string { return timeCell(r.LatestStart) }, wide: true},
	{head: "WORKERS", cell: func(r *workloadRow) string { return fmt.Sprint(r.Workers) }, wide: true},
	{head: "CLUSTER", cell: func(r *workloadRow) string { return r.Cluster }, wide: true},
	{head: "EXPECTED", cell: func(r *workloadRow) string { return emissionsCell(r.ExpectedG) }, wide: true},
	{head: "AT ONCE", cell: func(r *workloadRow) string { return units.Emissions(r.BaselineG).String() }, wide: true},
	{head: "MESSAGE", cell: func(r *workloadRow) string { return r.Message }, wide: true},
}

func workloadRows(plans []v1alpha1.CarbonPlan) []workloadRow {
	rows := make([]workloadRow, len(plans))
	for i := range plans {
		p := &plans[i]
		s := &p.Status
		rows[i] = workloadRow{
			p.Namespace, p.Spec.Workload.Kind, p.Spec.Workload.Name, p.Spec.Policy, s.State, stateUntil(s), s.Deadline, s.LatestStart, s.Progress, s.Workers, s.Cluster,
			s.EmittedG, s.ExpectedG, s.BaselineG, planSaving(s), s.Reason, s.Message,
		}
	}
	slices.SortFunc(rows, func(a, b workloadRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// planSaving is the share of its baseline that a plan saves, nil if that is not known.
func planSaving(s *v1alpha1.CarbonPlanStatus) *float64 {
	if s.ExpectedG == nil {
		return nil
	}
	return savingOf(*s.ExpectedG, s.BaselineG)
}

// emissionsCell is an amount in gCO2eq, "" if it is not known.
func emissionsCell(grams *float64) string {
	if grams == nil {
		return ""
	}
	return units.Emissions(*grams).String()
}

// stateUntil is when the state of a workload changes by its plan: the start of what waits, the end of the present run of what
// runs. It is nil if that is not planned.
func stateUntil(s *v1alpha1.CarbonPlanStatus) *metav1.Time {
	if len(s.Phases) == 0 || s.State == v1alpha1.PlanFinished {
		return nil
	}
	if s.State != v1alpha1.PlanRunning {
		return &s.Phases[0].From
	}
	end := &s.Phases[0].To
	for i := range s.Phases[1:] {
		if next := &s.Phases[1+i]; next.From.Equal(end) {
			end = &next.To
		}
	}
	return end
}

func newGetWorkloadsCommand() *cobra.Command {
	var f clusterFlags
	format := ""
	cmd := &cobra.Command{
		Use:     "workloads [KIND/NAME]",
		Aliases: []string{"workload", "carbonplans", "carbonplan", "cplan"},
		Short:   "List the governed workloads: which of them wait, until when, why, and what the wait saves",
		Long: `Workloads lists the governed workloads. UNTIL is when the state changes by the plan: when a waiting workload
starts, or when the present run of a running workload ends. Times are in time of the zone's series, in UTC.`,
		Example: `  lull get workloads -A
  lull get workloads job/train -n team-a -o wide`,
		Args: takes(0, 1, "at most one workload, KIND/NAME or NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			plans, err := f.plans(cmd.Context())
			if err != nil {
				return err
			}
			columns := append(nameColumns(f.all, func(r *workloadRow) string { return r.Namespace }, (*workloadRow).called), workloadColumns...)
			return writeFound(cmd, format, columns, workloadRows(plans), args, (*workloadRow).called)
		},
	}
	f.registerAll(cmd)
	tableFlag(cmd.Flags(), &format)
	return cmd
}
