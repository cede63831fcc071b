package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

func newRetireCommand() *cobra.Command {
	var f clusterFlags
	var bound boundFlag
	within := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "retire",
		Short: "Release everything for good, before Lull is removed",
		Long: `Retire pauses every CarbonPolicy, releases everything that Lull holds, deletes every
CapacityCurve, and waits until the controller has restored what these curves had changed. It
deletes every Follow; their services run on, unchanged, on their present clusters.

The Helm chart runs it before it is uninstalled. You can run it again; if there is nothing to
do, it succeeds.`,
		Example: `  lull retire && lull manifests | kubectl delete --ignore-not-found -f -`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if within < 2*settle {
				return fmt.Errorf("--timeout: %v; accepted: at least %v", within, 2*settle)
			}
			c, err := bound.connect(cmd, &f)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return retire(ctx, cmd.OutOrStdout(), c, func() bool { return len(bound.left) == 0 })
		},
	}
	f.registerKubeconfig(cmd)
	bound.register(cmd)
	duration(cmd.Flags(), &within, "timeout", 2*time.Minute, "longest time that it may take")
	return cmd
}

// kindsRole aggregates what Lull may do with workloads. Deleted together with what it aggregates it
// comes back: the controller that keeps it writes it once more for each of those that go.
const kindsRole = "lull-kinds"

// settle is how long admission, which hears of policies by a watch, may go on holding what is created after
// they are paused.
const settle = 3 * time.Second

// retire goes on after an error, so that one object that refuses does not keep the others held. With any error it leaves
// the rights to workloads to the watchdog, and also if it did not see all namespaces.
func retire(ctx context.Context, out io.Writer, c client.Client, sawAll func() bool) error {
	unpaused := pausePolicies(ctx, out, c, "", true)
	settled := time.After(settle)
	_ = releaseAll(ctx, out, c, "") // what this cannot release, it tries once more at the end
	errs := []error{unpaused, retireFollows(ctx, out, c), retireCurves(ctx, out, c), gone(ctx, c)}
	select {
	case <-ctx.Done():
		return errors.Join(append(errs, fmt.Errorf("not done within --timeout: %w", ctx.Err()))...)
	case <-settled:
	}
	if err := errors.Join(append(errs, releaseAll(ctx, out, c, ""))...); err != nil {
		return err
	}
	if !sawAll() {
		fmt.Fprintf(out, "ClusterRole %s is kept: the watchdog may need it to release workloads in the namespaces that were left out\n", kindsRole)
		return nil
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: kindsRole}}
	if err := client.IgnoreNotFound(c.Delete(ctx, role)); err != nil {
		return fmt.Errorf("delete ClusterRole %s: %w", kindsRole, err)
	}
	return nil
}

// retireFollows deletes all Follows, and leaves their services where they are.
func retireFollows(ctx context.Context, out io.Writer, c client.Client) error {
	var follows v1alpha1.FollowList
	if err := c.List(ctx, &follows); err != nil {
		return fmt.Errorf("list Follows: %w", err)
	}
	var errs []error
	for i := range follows.Items {
		f := &follows.Items[i]
		keep := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationKeep))
		if err := client.IgnoreNotFound(c.Patch(ctx, f, keep)); err != nil {
			errs = append(errs, fmt.Errorf("mark Follow %s/%s: %w", f.Namespace, f.Name, err)) // deleted without the mark, its service would go
			continue
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, f)); err != nil {
			errs = append(errs, fmt.Errorf("delete Follow %s/%s: %w", f.Namespace, f.Name, err))
		}
	}
	fmt.Fprintf(out, "%d Follows deleted, their services left as they are\n", len(follows.Items)-len(errs))
	return errors.Join(errs...)
}

// retireCurves deletes all CapacityCurves; the controller restores what they set.
func retireCurves(ctx context.Context, out io.Writer, c client.Client) error {
	var curves v1alpha1.CapacityCurveList
	if err := c.List(ctx, &curves); err != nil {
		return fmt.Errorf("list CapacityCurves: %w", err)
	}
	var errs []error
	for i := range curves.Items {
		if err := client.IgnoreNotFound(c.Delete(ctx, &curves.Items[i])); err != nil {
			errs = append(errs, fmt.Errorf("delete CapacityCurve %s: %w", curves.Items[i].Name, err))
		}
	}
	fmt.Fprintf(out, "%d CapacityCurves deleted\n", len(curves.Items)-len(errs))
	return errors.Join(errs...)
}

// gone waits until the controller has removed its finalizers from what was deleted, and restored what CapacityCurves set.
func gone(ctx context.Context, c client.Client) error {
	for {
		var left []string
		var follows v1alpha1.FollowList
		var curves v1alpha1.CapacityCurveList
		if err := c.List(ctx, &follows); err != nil {
			return fmt.Errorf("list Follows: %w", err)
		}
		if err := c.List(ctx, &curves); err != nil {
			return fmt.Errorf("list CapacityCurves: %w", err)
		}
		for i := range follows.Items { // one that is not being deleted has an error already
			if f := &follows.Items[i]; !f.DeletionTimestamp.IsZero() {
				left = append(left, "Follow "+f.Namespace+"/"+f.Name)
			}
		}
		for i := range curves.Items {
			if !curves.Items[i].DeletionTimestamp.IsZero() {
				left = append(left, "CapacityCurve "+curves.Items[i].Name)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not released by the controller within --timeout: %s; is it running? If it is not, check what they have set, and remove their finalizers", strings.Join(left, ", "))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
