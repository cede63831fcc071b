package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/units"
)

// noEvents is the recorder of a profiling run, which scales its own workload many times.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func newStatusCommand() *cobra.Command {
	var f clusterFlags
	system := ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether Lull works, its zones, policies and what waits",
		Long: `Status shows the controller and the watchdog (failsafe) by their leases, the zones, the policies and what waits.

Exit status: 1 if nobody has renewed a lease for longer than it lasts, if nobody holds one, or if the namespace
of -n is not there. Without a lease in --system-namespace it cannot tell whether anything works.`,
		Example: `  lull status
  lull status -n team-a`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			return status(cmd.Context(), cmd.OutOrStdout(), c, f.namespace, system, time.Now())
		},
	}
	f.register(cmd)
	cmd.Flags().Lookup("namespace").Usage = "namespace (default all)"
	cmd.Flags().StringVar(&system, "system-namespace", "lull-system", "namespace of the controller")
	return cmd
}

// status writes how Lull is. Its error says, after all has been written, that the controller or the watchdog does
// not work, or, before, that there is no such namespace.
func status(ctx context.Context, out io.Writer, c client.Client, namespace, system string, now time.Time) error {
	if err := checkNamespace(ctx, c, namespace); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	var dead error
	for _, name := range []string{"controller", "failsafe"} {
		says, works, err := leader(ctx, c, system, name, now)
		if err != nil {
			return err
		}
		if !works {
			dead = errors.Join(dead, fmt.Errorf("the %s does not work: %s; check: kubectl get deployments,pods -n %s", name, says, system))
		}
		fmt.Fprintf(tw, "%s\t%s\n", name, says)
	}
	if err := statusOf(ctx, tw, c, namespace); err != nil {
		return err
	}
	return errors.Join(tw.Flush(), dead)
}

// checkNamespace says that a namespace is not there; "" is all. A user who may not read namespaces learns nothing.
func checkNamespace(ctx context.Context, c client.Client, namespace string) error {
	if namespace == "" {
		return nil
	}
	err := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q is not there; kubectl get namespaces lists those there are", namespace)
	}
	return nil
}

// statusOf writes kinds, zones and policies.
func statusOf(ctx context.Context, tw *tabwriter.Writer, c client.Client, namespace string) error {
	known, err := served(ctx, c)
	if err != nil {
		return err
	}
	var names []string
	for _, k := range known {
		names = append(names, k.Name)
	}
	fmt.Fprintf(tw, "kinds\t%s\n", strings.Join(names, ", "))

	var zones v1alpha1.GridZoneList
	if err := c.List(ctx, &zones); err != nil {
		return fmt.Errorf("list GridZones: %w", err)
	}
	fmt.Fprint(tw, "\nZONE\tINTENSITY\tTREND\tBASIS\tREADY\t\n")
	for i := range zones.Items {
		z := &zones.Items[i]
		now := "unknown"
		if z.Status.Intensity != nil {
			now = units.CarbonIntensity(*z.Status.Intensity).String()
		}
		note := ""
		if z.Spec.Paused {
			note = "paused"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", z.Name, now, z.Status.Trend, z.Status.Basis, ready(z.Status.Conditions), note)
	}

	var policies v1alpha1.CarbonPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list CarbonPolicies: %w", err)
	}
	fmt.Fprintf(tw, "\nledger\t%s\n", ledgerState(policies.Items))
	var plans v1alpha1.CarbonPlanList
	if err := c.List(ctx, &plans, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list CarbonPlans: %w", err)
	}
	type sum struct{ expected, baseline float64 }
	sums := map[string]sum{}
	for i := range plans.Items {
		p := &plans.Items[i]
		key := p.Namespace + "/" + p.Spec.Policy
		s := sums[key]
		sums[key] = sum{s.expected + p.Status.ExpectedG, s.baseline + p.Status.BaselineG}
	}
	fmt.Fprint(tw, "\nPOLICY\tZONE\tPLANNER\tRESERVE\tWAITING\tRUNNING\tFINISHED\tEXPECTED\tSAVES\tREADY\t\n")
	for i := range policies.Items {
		p := &policies.Items[i]
		s := sums[p.Namespace+"/"+p.Name]
		saves, note, reserve := "", "", ""
		if p.Status.Reserve != nil {
			reserve = fmt.Sprintf("%.0f %%", 100*p.Status.Reserve.Share)
		}
		if s.baseline > 0 {
			saves = units.Number("%.0f %%", 100*(1-s.expected/s.baseline))
		}
		if p.Spec.Paused {
			note = "paused"
		} else if p.Spec.Mode == v1alpha1.ModeShadow {
			note = "shadow"
		}
		fmt.Fprintf(tw, "%s/%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", p.Namespace, p.Name, p.Spec.Zone, p.Spec.Planner.Name, reserve,
			p.Status.Waiting, p.Status.Running, p.Status.Finished, units.Emissions(s.expected), saves, ready(p.Status.Conditions), note)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		for _, kind := range []string{v1alpha1.ConditionMisspelt, v1alpha1.ConditionOverlaps} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
				fmt.Fprintf(tw, "\nwarning: policy %s/%s: %s\n", p.Namespace, p.Name, c.Message)
			}
		}
	}
	return nil
}

// leader says who holds a lease, and since when nobody has renewed it. Works is false where nobody does, of those
// who have a lease.
func leader(ctx context.Context, c client.Client, system, name string, now time.Time) (says string, works bool, err error) {
	var lease coordinationv1.Lease
	err = c.Get(ctx, client.ObjectKey{Namespace: system, Name: name + ".lull.dev"}, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("no lease in namespace %s: not installed, or without --leader-elect, or elsewhere (--system-namespace)", system), true, nil
	case err != nil:
		return "", false, fmt.Errorf("read the lease of the %s: %w", name, err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil:
		return "nobody holds the lease", false, nil
	}
	age := now.Sub(lease.Spec.RenewTime.Time).Round(time.Second)
	if d := lease.Spec.LeaseDurationSeconds; d != nil && age > time.Duration(*d)*time.Second {
		return fmt.Sprintf("silent for %v (%s)", age, *lease.Spec.HolderIdentity), false, nil
	}
	return fmt.Sprintf("at work (%s)", *lease.Spec.HolderIdentity), true, nil
}

// ledgerState says how the ledger is, as the policies tell: each tells of the whole.
func ledgerState(policies []v1alpha1.CarbonPolicy) string {
	state := "none, or no policy has been decided for"
	for i := range policies {
		c := meta.FindStatusCondition(policies[i].Status.Conditions, v1alpha1.ConditionRecorded)
		switch {
		case c == nil:
		case c.Status == metav1.ConditionTrue:
			state = "all is recorded"
		default:
			return c.Reason + ": " + c.Message
		}
	}
	return state
}

func ready(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "unknown"
	}
	if c.Status == "True" {
		return "yes"
	}
	const most = 60
	text := c.Message
	if len(text) > most {
		text = text[:most] + "..."
	}
	return "no: " + text
}

// plans reads the plans of the namespaces that are asked for.
func (f *clusterFlags) plans(ctx context.Context) ([]v1alpha1.CarbonPlan, error) {
	c, err := f.connect(ctx)
	if err != nil {
		return nil, err
	}
	ns, err := f.scope()
	if err == nil {
		err = checkNamespace(ctx, c, ns)
	}
	if err != nil {
		return nil, err
	}
	var list v1alpha1.CarbonPlanList
	if err := c.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return nil, fmt.Errorf("list CarbonPlans: %w", err)
	}
	return list.Items, nil
}

func newTopCommand() *cobra.Command {
	var f clusterFlags
	by := ""
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
			return top(cmd.OutOrStdout(), plans, by)
		},
	}
	f.registerAll(cmd)
	cmd.Flags().StringVar(&by, "by", "workload", "workload, namespace, policy or kind")
	return cmd
}

// topRow is a line of lull top.
type topRow struct {
	name, state                  string
	count                        int
	workers                      int32
	emitted, expected, baselineG float64
}

func top(out io.Writer, plans []v1alpha1.CarbonPlan, by string) error {
	rows := map[string]*topRow{}
	for i := range plans {
		p := &plans[i]
		var key string
		switch by {
		case "workload":
			key = p.Namespace + "/" + strings.ToLower(p.Spec.Workload.Kind) + "/" + p.Spec.Workload.Name
		case "namespace":
			key = p.Namespace
		case "policy":
			key = p.Namespace + "/" + p.Spec.Policy
		case "kind":
			key = p.Spec.Workload.Kind
		default:
			return fmt.Errorf("--by: %q; accepted: workload, namespace, policy or kind", by)
		}
		r := rows[key]
		if r == nil {
			r = &topRow{name: key, state: string(p.Status.State)}
			rows[key] = r
		}
		r.count++
		r.workers += p.Status.Workers
		r.emitted += p.Status.EmittedG
		r.expected += p.Status.ExpectedG
		r.baselineG += p.Status.BaselineG
	}
	sorted := make([]*topRow, 0, len(rows))
	for _, r := range rows {
		sorted = append(sorted, r)
	}
	sort.Slice(sorted, func(a, b int) bool {
		if sorted[a].expected != sorted[b].expected {
			return sorted[a].expected > sorted[b].expected
		}
		return sorted[a].name < sorted[b].name
	})
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	second := "STATE"
	if by != "workload" {
		second = "WORKLOADS"
	}
	fmt.Fprintf(tw, "%s\t%s\tWORKERS\tEMITTED\tEXPECTED\tAT ONCE\tSAVES\n", strings.ToUpper(by), second)
	for _, r := range sorted {
		what := r.state
		if by != "workload" {
			what = fmt.Sprint(r.count)
		}
		saves := ""
		if r.baselineG > 0 {
			saves = units.Number("%.0f %%", 100*(1-r.expected/r.baselineG))
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", r.name, what, r.workers, units.Emissions(r.emitted), units.Emissions(r.expected), units.Emissions(r.baselineG), saves)
	}
	return tw.Flush()
}

func newKindsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the kinds of workloads that Lull knows, or show what it knows of one",
		Long: `Kinds lists the built-in kinds of workloads. With a name it prints the facts as a
WorkloadKind: the form in which further kinds are added.`,
		Example: `  lull kinds
  lull kinds MPIJob`,
		Args: takes(0, 1, "at most one kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(args) == 1 {
				k, err := kinds.Named(args)
				if err != nil {
					return err
				}
				w := v1alpha1.WorkloadKind{Spec: k[0].Spec}
				w.APIVersion, w.Kind, w.Name = v1alpha1.GroupVersion.String(), "WorkloadKind", strings.TrimSuffix(k[0].Spec.Resource+"."+k[0].Spec.Group, ".")
				text, err := yaml.Marshal(w)
				if err != nil {
					return err
				}
				_, err = out.Write(text)
				return err
			}
			tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
			fmt.Fprint(tw, "KIND\tAPI\tHELD BY\tSCALES\tPAUSES\tENDS\tBY DEFAULT\n")
			byDefault := strings.Join(kinds.DefaultNames, " ")
			for _, k := range kinds.Builtin() {
				api := k.Spec.Version
				if k.Spec.Group != "" {
					api = k.Spec.Group + "/" + k.Spec.Version
				}
				held := string(k.Spec.Hold.Suspend)
				switch {
				case k.Spec.Hold.Gate:
					held = "scheduling gate"
				case k.Spec.Hold.Zero:
					held = "no workers"
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, api, held, yes(k.Elastic()), yes(k.Pausable()), yes(k.Ends()),
					yes(strings.Contains(" "+byDefault+" ", " "+k.Name+" ")))
			}
			return tw.Flush()
		},
	}
	return cmd
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
