package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

func newTopCommand() *cobra.Command {
	var f clusterFlags
	by, format := "", ""
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what workloads emit and save, the largest first",
		Example: `  lull top -A
  lull top -A --by namespace`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plans, err := f.plans(cmd.Context())
			if err != nil {
				return err
			}
			return top(cmd.OutOrStdout(), plans, by, format)
		},
	}
	f.registerAll(cmd)
	choice(cmd.Flags(), &by, "by", "", "what to show one line for", "workload", "namespace", "policy", "kind")
	tableFlag(cmd.Flags(), &format)
	return cmd
}

// topRow is a line of lull top.
type topRow struct {
	Name      string             `json:"name"`
	State     v1alpha1.PlanState `json:"state,omitempty"` // of a workload
	Workloads int                `json:"workloads"`
	Workers   int32              `json:"workers"`
	EmittedG  float64            `json:"emittedG"`
	ExpectedG float64            `json:"expectedG"`
	BaselineG float64            `json:"baselineG"`
	Saving    *float64           `json:"saving,omitempty"`
}

func top(out io.Writer, plans []v1alpha1.CarbonPlan, by, format string) error {
	rows := map[string]*topRow{}
	for i := range plans {
		p := &plans[i]
		var key string
		var state v1alpha1.PlanState
		switch by {
		case "namespace":
			key = p.Namespace
		case "policy":
			key = p.Namespace + "/" + p.Spec.Policy
		case "kind":
			key = p.Spec.Workload.Kind
		default:
			key = p.Namespace + "/" + strings.ToLower(p.Spec.Workload.Kind) + "/" + p.Spec.Workload.Name
			state = p.Status.State
		}
		r := rows[key]
		if r == nil {
			r = &topRow{Name: key, State: state}
			rows[key] = r
		}
		r.Workloads++
		r.Workers += p.Status.Workers
		r.EmittedG += p.Status.EmittedG
		if p.Status.ExpectedG != nil {
			r.ExpectedG += *p.Status.ExpectedG
			r.BaselineG += p.Status.BaselineG
		}
	}
	sorted := make([]topRow, 0, len(rows))
	for _, r := range rows {
		r.Saving = savingOf(r.ExpectedG, r.BaselineG)
		sorted = append(sorted, *r)
	}
	slices.SortFunc(sorted, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.ExpectedG, a.ExpectedG), cmp.Compare(a.Name, b.Name))
	})
	second := column[topRow]{head: "WORKLOADS", cell: func(r *topRow) string { return fmt.Sprint(r.Workloads) }}
	if by == "workload" {
		second = column[topRow]{head: "STATE", cell: func(r *topRow) string { return string(r.State) }}
	}
	return writeRows(out, format, []column[topRow]{
		{head: strings.ToUpper(by), cell: func(r *topRow) string { return r.Name }},
		second,
		{head: "WORKERS", cell: func(r *topRow) string { return fmt.Sprint(r.Workers) }},
		{head: "EMITTED", cell: func(r *topRow) string { return units.Emissions(r.EmittedG).String() }},
		{head: "EXPECTED", cell: func(r *topRow) string { return units.Emissions(r.ExpectedG).String() }},
		{head: "AT ONCE", cell: func(r *topRow) string { return units.Emissions(r.BaselineG).String() }},
		{head: "SAVES", cell: func(r *topRow) string { return share(r.Saving) }},
	}, sorted)
}
