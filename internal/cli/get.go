package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

func newGetCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "get",
		Short: "List policies, zones, workloads or planners",
		Long: `Get lists what Lull knows as kubectl get does, with what is only known from several objects: what the
plans of a policy emit and save, until when a workload waits, and why. "lull explain" tells more of one workload.`,
	}, newGetPoliciesCommand(), newGetZonesCommand(), newGetWorkloadsCommand(), newGetPlannersCommand())
}

// writeFound writes what lull get has found: all, or only what has a name. It is an error if nothing has it.
func writeFound[T any](cmd *cobra.Command, format string, columns []column[T], rows []T, args []string, name func(*T) string) error {
	kind := cmd.Name()
	if len(args) == 0 {
		if len(rows) == 0 && !structured(format) {
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "No %s found.\n", kind)
			return err
		}
		return writeRows(cmd.OutOrStdout(), format, columns, rows)
	}
	found := slices.DeleteFunc(slices.Clone(rows), func(r T) bool { return !named(name(&r), args[0]) })
	if len(found) == 0 {
		var names []string
		for i := range rows {
			names = append(names, name(&rows[i]))
		}
		const most = 20
		if len(names) > most {
			names = append(names[:most], "...")
		}
		return fmt.Errorf("NAME: %q; accepted: one of the %s: %s", args[0], kind, cmp.Or(strings.Join(names, ", "), "there are none"))
	}
	if structured(format) && len(found) == 1 {
		return writeStructured(cmd.OutOrStdout(), format, &found[0])
	}
	return writeRows(cmd.OutOrStdout(), format, columns, found)
}

// named reports whether something is called so: by its name, or, if that is KIND/NAME, by what follows the slash.
func named(name, called string) bool {
	return strings.EqualFold(name, called) || strings.HasSuffix(name, "/"+called)
}

// readiness is the condition Ready.
type readiness struct {
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

func readinessOf(conditions []metav1.Condition) readiness {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c == nil {
		return readiness{Ready: metav1.ConditionUnknown}
	}
	return readiness{c.Status, c.Reason, c.Message}
}

// text is the readiness in a table.
func (r readiness) text() string {
	switch {
	case r.Ready == metav1.ConditionTrue:
		return "yes"
	case r.Reason == "" && r.Message == "":
		return "unknown"
	}
	const most = 60
	text := r.Message
	if len(text) > most {
		text = text[:most] + "..."
	}
	return "no: " + text
}

// zoneRow is what lull says of a GridZone.
type zoneRow struct {
	Name       string         `json:"name"`
	Zone       string         `json:"zone,omitempty"`
	Intensity  *float64       `json:"intensity,omitempty"`
	Trend      v1alpha1.Trend `json:"trend,omitempty"`
	Basis      string         `json:"basis,omitempty"`
	Source     string         `json:"source,omitempty"`
	Age        string         `json:"age,omitempty"`
	ValidUntil *metav1.Time   `json:"validUntil,omitempty"`
	Paused     bool           `json:"paused"`
	readiness
}

var zoneColumns = []column[zoneRow]{
	{head: "INTENSITY", cell: func(r *zoneRow) string {
		if r.Intensity == nil {
			return "unknown"
		}
		return units.CarbonIntensity(*r.Intensity).String()
	}},
	{head: "TREND", cell: func(r *zoneRow) string { return string(r.Trend) }},
	{head: "BASIS", cell: func(r *zoneRow) string { return r.Basis }},
	{head: "READY", cell: func(r *zoneRow) string { return r.text() }},
	{head: "PAUSED", cell: func(r *zoneRow) string { return yes(r.Paused) }},
	{head: "GRID ZONE", cell: func(r *zoneRow) string { return r.Zone }, wide: true},
	{head: "SOURCE", cell: func(r *zoneRow) string { return r.Source }, wide: true},
	{head: "AGE", cell: func(r *zoneRow) string { return r.Age }, wide: true},
	{head: "VALID UNTIL", cell: func(r *zoneRow) string { return timeCell(r.ValidUntil) }, wide: true},
}

// timeCell is a time in a table, as kubectl writes it.
func timeCell(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func zoneRows(ctx context.Context, c client.Client) ([]zoneRow, error) {
	var zones v1alpha1.GridZoneList
	if err := c.List(ctx, &zones); err != nil {
		return nil, fmt.Errorf("list GridZones: %w", err)
	}
	rows := make([]zoneRow, len(zones.Items))
	for i := range zones.Items {
		z := &zones.Items[i]
		rows[i] = zoneRow{z.Name, z.Status.Zone, z.Status.Intensity, z.Status.Trend, z.Status.Basis, z.Status.Source, z.Status.Age, z.Status.ValidUntil, z.Spec.Paused, readinessOf(z.Status.Conditions)}
	}
	slices.SortFunc(rows, func(a, b zoneRow) int { return cmp.Compare(a.Name, b.Name) })
	return rows, nil
}

func newGetZonesCommand() *cobra.Command {
	var f clusterFlags
	format := ""
	cmd := &cobra.Command{
		Use:     "zones [NAME]",
		Aliases: []string{"zone", "gridzones", "gridzone"},
		Short:   "List the GridZones with their intensity and what it rests on",
		Example: `  lull get zones
  lull get zones de -o yaml`,
		Args: takes(0, 1, "at most the name of one GridZone"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			rows, err := zoneRows(cmd.Context(), c)
			if err != nil {
				return err
			}
			columns := append([]column[zoneRow]{{head: "NAME", cell: zoneName}}, zoneColumns...)
			return writeFound(cmd, format, columns, rows, args, zoneName)
		},
	}
	f.registerKubeconfig(cmd)
	tableFlag(cmd.Flags(), &format)
	return cmd
}

func zoneName(r *zoneRow) string { return r.Name }

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
		key := client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.Policy}
		s := sums[key]
		sums[key] = sum{s.expected + p.Status.ExpectedG, s.baseline + p.Status.BaselineG}
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
		Short:   "List the CarbonPolicies with what waits and what their plans save",
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
	ExpectedG   float64            `json:"expectedG"`
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
	{head: "EXPECTED", cell: func(r *workloadRow) string { return units.Emissions(r.ExpectedG).String() }, wide: true},
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
			s.EmittedG, s.ExpectedG, s.BaselineG, savingOf(s.ExpectedG, s.BaselineG), s.Reason, s.Message,
		}
	}
	slices.SortFunc(rows, func(a, b workloadRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return rows
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
		Short:   "List the governed workloads: what waits, until when, why, and what that saves",
		Long: `Workloads lists the governed workloads. UNTIL is when the state changes by the plan: when a workload that waits
starts, or the present run of one that runs ends. Times are those of the zone's series, in UTC.`,
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

// reach connects, and checks the namespace that is asked for.
func (f *clusterFlags) reach(ctx context.Context) (client.Client, string, error) {
	c, err := f.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	ns, err := f.scope()
	return c, ns, errors.Join(err, checkNamespace(ctx, c, ns))
}

// plans reads the plans of the namespaces that are asked for.
func (f *clusterFlags) plans(ctx context.Context) ([]v1alpha1.CarbonPlan, error) {
	c, ns, err := f.reach(ctx)
	if err != nil {
		return nil, err
	}
	return plansIn(ctx, c, ns)
}

func plansIn(ctx context.Context, c client.Client, namespace string) ([]v1alpha1.CarbonPlan, error) {
	var plans v1alpha1.CarbonPlanList
	if err := c.List(ctx, &plans, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list CarbonPlans: %w", err)
	}
	return plans.Items, nil
}

// plannerRow is a planner.
type plannerRow struct {
	Name       string         `json:"name"`
	Policies   bool           `json:"policies"` // whether a CarbonPolicy may name it
	Source     string         `json:"source"`
	Parameters []parameterRow `json:"parameters"`
}

type parameterRow struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

func plannerRows() (rows []plannerRow) {
	policies := PolicyPlanners()
	for _, m := range methods {
		r := plannerRow{Name: m.name, Policies: slices.Contains(policies, m.name), Source: m.source, Parameters: []parameterRow{}}
		for _, p := range m.parameters {
			r.Parameters = append(r.Parameters, parameterRow{p.name, p.help})
		}
		rows = append(rows, r)
	}
	return rows
}

func newGetPlannersCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:     "planners [NAME]",
		Aliases: []string{"planner"},
		Short:   "List the planners with their parameters and where they come from",
		Example: `  lull get planners
  lull get planners joint -o yaml`,
		Args: takes(0, 1, "at most the name of one planner"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := func(r *plannerRow) string { return r.Name }
			return writeFound(cmd, format, []column[plannerRow]{
				{head: "NAME", cell: name},
				{head: "IN POLICIES", cell: func(r *plannerRow) string { return yes(r.Policies) }},
				{head: "PARAMETERS", cell: func(r *plannerRow) string {
					var names []string
					for _, p := range r.Parameters {
						names = append(names, p.Name)
					}
					return strings.Join(names, ",")
				}},
				{head: "SOURCE", cell: func(r *plannerRow) string { return r.Source }, wide: true},
			}, plannerRows(), args, name)
		},
	}
	tableFlag(cmd.Flags(), &format)
	return cmd
}
