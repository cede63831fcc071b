package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

// policyRow is what lull says of a CarbonPolicy, with the sums of its plans.
type policyRow struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Zone      string        `json:"zone"`
	Planner   string        `json:"planner"`
	Mode      v1alpha1.Mode `json:"mode"`
	Paused    bool          `json:"paused"`
	Reserve   *float64      `json:"reserve,omitempty"`
	Waiting   int32         `json:"waiting"`
	Running   int32         `json:"running"`
	Finished  int32         `json:"finished"`
	ExpectedG float64       `json:"expectedG"`
	BaselineG float64       `json:"baselineG"`
	Saving    *float64      `json:"saving,omitempty"` // a share of baselineG
	Next      *metav1.Time  `json:"nextDecision,omitempty"`
	readiness
}

var policyColumns = []column[policyRow]{
	{head: "ZONE", cell: func(r *policyRow) string { return r.Zone }},
	{head: "PLANNER", cell: func(r *policyRow) string { return r.Planner }},
	{head: "RESERVE", cell: func(r *policyRow) string { return share(r.Reserve) }},
	{head: "WAITING", cell: func(r *policyRow) string { return fmt.Sprint(r.Waiting) }},
	{head: "RUNNING", cell: func(r *policyRow) string { return fmt.Sprint(r.Running) }},
	{head: "FINISHED", cell: func(r *policyRow) string { return fmt.Sprint(r.Finished) }},
	{head: "EXPECTED", cell: func(r *policyRow) string { return units.Emissions(r.ExpectedG).String() }},
	{head: "SAVES", cell: func(r *policyRow) string { return share(r.Saving) }},
	{head: "READY", cell: func(r *policyRow) string { return r.text() }},
	{head: "MODE", cell: func(r *policyRow) string {
		if r.Paused {
			return "paused"
		}
		return strings.ToLower(string(r.Mode))
	}},
	{head: "AT ONCE", cell: func(r *policyRow) string { return units.Emissions(r.BaselineG).String() }, wide: true},
	{head: "NEXT DECISION", cell: func(r *policyRow) string { return timeCell(r.Next) }, wide: true},
}

// share is a share as percent, "" if there is none.
func share(v *float64) string {
	if v == nil {
		return ""
	}
	return units.Number("%.0f %%", 100**v)
}

// savingOf is the share that is saved of a baseline, nil if that emits nothing.
func savingOf(expected, baseline float64) *float64 {
	if baseline <= 0 {
		return nil
	}
	v := 1 - expected/baseline
	return &v
}

func policyRows(policies []v1alpha1.CarbonPolicy, plans []v1alpha1.CarbonPlan) []policyRow {
	type sum struct{ expected, baseline float64 }
	sums := map[client.ObjectKey]sum{}
	for i := range plans {
		p := &plans[i]
		if p.Status.ExpectedG == nil {
			continue
		}
		key := client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.Policy}
		s := sums[key]
		sums[key] = sum{s.expected + *p.Status.ExpectedG, s.baseline + p.Status.BaselineG}
	}
	rows := make([]policyRow, len(policies))
	for i := range policies {
		p := &policies[i]
		s := sums[client.ObjectKeyFromObject(p)]
		var reserve *float64
		if p.Status.Reserve != nil {
			reserve = &p.Status.Reserve.Share
		}
		rows[i] = policyRow{
			p.Namespace, p.Name, p.Spec.Zone, p.Spec.Planner.Name, cmp.Or(p.Spec.Mode, v1alpha1.ModeEnforce), p.Spec.Paused, reserve, p.Status.Waiting, p.Status.Running, p.Status.Finished,
			s.expected, s.baseline, savingOf(s.expected, s.baseline), p.Status.NextDecision, readinessOf(p.Status.Conditions),
		}
	}
	slices.SortFunc(rows, func(a, b policyRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func newGetPoliciesCommand() *cobra.Command {
	var f clusterFlags
	format := ""
	cmd := &cobra.Command{
		Use:     "policies [NAME]",
		Aliases: []string{"policy", "carbonpolicies", "carbonpolicy"},
		Short:   "List the CarbonPolicies with their waiting workloads and what their plans save",
		Example: `  lull get policies -A
  lull get policies clean -n team-a -o yaml`,
		Args: takes(0, 1, "at most the name of one CarbonPolicy"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, ns, err := f.reach(ctx)
			if err != nil {
				return err
			}
			policies, plans, err := policiesAndPlans(ctx, c, ns)
			if err != nil {
				return err
			}
			name := func(r *policyRow) string { return r.Name }
			columns := append(nameColumns(f.all, func(r *policyRow) string { return r.Namespace }, name), policyColumns...)
			return writeFound(cmd, format, columns, policyRows(policies, plans), args, name)
		},
	}
	f.registerAll(cmd)
	tableFlag(cmd.Flags(), &format)
	return cmd
}

// nameColumns begin a table as kubectl does.
func nameColumns[T any](all bool, namespace, name func(*T) string) []column[T] {
	columns := []column[T]{{head: "NAME", cell: name}}
	if all {
		columns = slices.Insert(columns, 0, column[T]{head: "NAMESPACE", cell: namespace})
	}
	return columns
}

func policiesAndPlans(ctx context.Context, c client.Client, namespace string) ([]v1alpha1.CarbonPolicy, []v1alpha1.CarbonPlan, error) {
	var policies v1alpha1.CarbonPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
		return nil, nil, fmt.Errorf("list CarbonPolicies: %w", err)
	}
	plans, err := plansIn(ctx, c, namespace)
	return policies.Items, plans, err
}
