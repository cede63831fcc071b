package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/manager"
)

// noEvents is the recorder of a profiling run, which scales its own workload many times.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func newStatusCommand() *cobra.Command {
	var f clusterFlags
	system, format := "", ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether Lull works, its zones, its policies and the waiting workloads",
		Long: `Status shows whether the controller and the watchdog (failsafe) renew their leases, the zones, the policies and
the waiting workloads.

Exit status: 1 if a lease has expired or has no holder, or if the namespace of -n does not exist. Without a lease
in --system-namespace, Status does not know whether the controller works.`,
		Example: `  lull status
  lull status -n team-a`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			namespace := f.namespace
			if f.all {
				namespace = ""
			}
			return status(cmd.Context(), cmd.OutOrStdout(), c, namespace, system, format, time.Now())
		},
	}
	f.registerAll(cmd)
	cmd.Flags().Lookup("namespace").Usage = "namespace (default all)"
	cmd.Flags().Lookup("all-namespaces").Usage = "all namespaces, as without -n"
	tableFlag(cmd.Flags(), &format)
	cmd.Flags().StringVar(&system, "system-namespace", "lull-system", "namespace of the controller")
	return cmd
}

// programState is how the controller or the watchdog is.
type programState struct {
	Works   bool   `json:"works"`
	Message string `json:"message"`
}

// statusReport is what lull status prints.
type statusReport struct {
	Controller programState `json:"controller"`
	Failsafe   programState `json:"failsafe"`
	Kinds      []string     `json:"kinds"`
	Ledger     string       `json:"ledger"`
	Admission  string       `json:"admission"`
	Zones      []zoneRow    `json:"zones"`
	Policies   []policyRow  `json:"policies"`
	Warnings   []string     `json:"warnings"`
}

// status writes how Lull is. Its error says, after all has been written, that the controller or the watchdog does
// not work, or, before, that there is no such namespace.
func status(ctx context.Context, out io.Writer, c client.Client, namespace, system, format string, now time.Time) error {
	if err := checkNamespace(ctx, c, namespace); err != nil {
		return err
	}
	r := statusReport{Warnings: []string{}}
	var dead error
	for _, name := range []string{manager.Controller, manager.Failsafe} {
		says, works, err := manager.ReadLease(ctx, c, system, name, now)
		if err != nil {
			return err
		}
		state := programState{works, says}
		if name == manager.Controller {
			r.Controller = state
		} else {
			r.Failsafe = state
		}
		if !works {
			dead = errors.Join(dead, fmt.Errorf("the %s does not work: %s; check: kubectl get deployments,pods -n %s", name, says, system))
		}
	}
	if err := r.read(ctx, c, namespace); err != nil {
		return err
	}
	if structured(format) {
		return errors.Join(writeStructured(out, format, &r), dead)
	}
	return errors.Join(r.write(out, format), dead)
}

// read reads kinds, zones and policies.
func (r *statusReport) read(ctx context.Context, c client.Client, namespace string) error {
	known, err := served(ctx, c)
	if err != nil {
		return err
	}
	r.Kinds = append([]string{}, kindNames(known)...)
	if r.Zones, err = zoneRows(ctx, c); err != nil {
		return err
	}
	policies, plans, err := policiesAndPlans(ctx, c, namespace)
	if err != nil {
		return err
	}
	r.Ledger, r.Admission, r.Policies = ledgerState(policies), admissionState(policies), policyRows(policies, plans)
	unbound, err := notBound(ctx, c, known, policies)
	if err != nil {
		return err
	}
	r.Warnings = append(r.Warnings, unbound...)
	for i := range policies {
		p := &policies[i]
		for _, kind := range []string{v1alpha1.ConditionMisspelt, v1alpha1.ConditionOverlaps} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
				r.Warnings = append(r.Warnings, fmt.Sprintf("policy %s/%s: %s", p.Namespace, p.Name, c.Message))
			}
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHeldAtCreation); c != nil && c.Status != metav1.ConditionTrue {
			r.Warnings = append(r.Warnings, fmt.Sprintf("policy %s/%s: %s", p.Namespace, p.Name, c.Message))
		}
	}
	return nil
}

// write writes the report for people.
func (r *statusReport) write(out io.Writer, format string) error {
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "controller\t%s\nfailsafe\t%s\nkinds\t%s\nledger\t%s\nadmission\t%s\n", r.Controller.Message, r.Failsafe.Message, strings.Join(r.Kinds, ", "), r.Ledger, r.Admission)
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := writeRows(out, format, append([]column[zoneRow]{{head: "ZONE", cell: zoneName}}, zoneColumns...), r.Zones); err != nil {
		return err
	}
	fmt.Fprintln(out)
	name := func(p *policyRow) string { return p.Namespace + "/" + p.Name }
	if err := writeRows(out, format, append([]column[policyRow]{{head: "POLICY", cell: name}}, policyColumns...), r.Policies); err != nil {
		return err
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(out, "\nwarning: %s\n", text)
	}
	return nil
}

// checkNamespace says that a namespace is not there; "" is all. A user who may not read namespaces learns nothing.
func checkNamespace(ctx context.Context, c client.Client, namespace string) error {
	if namespace == "" {
		return nil
	}
	err := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q is not there; kubectl get namespaces lists the existing ones", namespace)
	}
	return nil
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
