package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/controller"
	"lull.dev/lull/internal/failsafe"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/internal/kube"
)

func newFailsafeCommand() *cobra.Command {
	o := failsafe.Options{Clock: clock.RealClock{}}
	kubeconfig, verbose := "", false
	cmd := &cobra.Command{
		Use:   "failsafe",
		Short: "Run the watchdog that releases every hold in time",
		Long: `Failsafe releases every workload that Lull holds when its latest safe start has come,
whether or not the controller is there. It asks no provider and makes no plans; it has
its own credentials and its own lease, and belongs into a Deployment of its own.`,
		Example: `  lull failsafe
  lull failsafe --grace 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Grace < 0 || o.Every < 100*time.Millisecond {
				return fmt.Errorf("--grace, --every: %v, %v; accepted: at least 0s, at least 100ms", o.Grace, o.Every)
			}
			setLogger(cmd.ErrOrStderr(), verbose)
			cfg, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			scheme, err := controller.NewScheme()
			if err != nil {
				return err
			}
			return failsafe.Run(cmd.Context(), cfg, scheme, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8082", `address of /metrics, "0" for none`)
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8083", `address of /healthz and /readyz, "0" for none`)
	f.BoolVar(&o.LeaderElection, "leader-elect", true, "elect a leader among the replicas")
	f.StringVar(&o.Namespace, "namespace", "lull-system", "namespace of the lease")
	f.DurationVar(&o.Grace, "grace", 30*time.Second, "how long after its latest start a hold is left to the controller")
	f.DurationVar(&o.Every, "every", 5*time.Second, "how often holds are looked at")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}

func newReleaseCommand() *cobra.Command {
	var f clusterFlags
	everything, undo := false, false
	cmd := &cobra.Command{
		Use:   "release [KIND/NAME | --all]",
		Short: "Let held workloads go at once",
		Long: `Release lets one workload run and no longer be governed, or, with --all, pauses every
CarbonPolicy and lets go everything that Lull holds: before an upgrade, before Lull is
removed, or whenever it must get out of the way. --all --undo lets the policies that it has
paused work again; what runs by then is planned anew.`,
		Example: `  lull release job/train -n team-a
  lull release --all
  lull release --all -n team-a
  lull release --all --undo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if everything == (len(args) == 1) || undo && !everything {
				return fmt.Errorf("release: accepted: either KIND/NAME or --all; --undo with --all only")
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			if !everything {
				w, err := f.workload(ctx, c, args[0])
				if err != nil {
					return err
				}
				return releaseOne(ctx, out, c, w)
			}
			if err := pausePolicies(ctx, out, c, f.namespace, !undo); err != nil || undo {
				return err
			}
			return releaseAll(ctx, out, c, f.namespace)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&everything, "all", false, "everything, in all namespaces or that of -n")
	cmd.Flags().BoolVar(&undo, "undo", false, "with --all: let the policies work again")
	return cmd
}

// pausePolicies sets spec.paused of all policies, and takes it back of those that it set it of: what
// somebody else has paused stays so.
func pausePolicies(ctx context.Context, out io.Writer, c client.Client, namespace string, paused bool) error {
	var policies v1alpha1.CarbonPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list CarbonPolicies: %w", err)
	}
	n := 0
	for i := range policies.Items {
		p := &policies.Items[i]
		mark := `"true"`
		if !paused {
			mark = "null"
		}
		if p.Spec.Paused == paused || !paused && p.Annotations[v1alpha1.AnnotationPausedByRelease] != "true" {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}},"spec":{"paused":%v}}`, v1alpha1.AnnotationPausedByRelease, mark, paused))
		if err := c.Patch(ctx, p, patch); err != nil {
			return fmt.Errorf("CarbonPolicy %s/%s: %w", p.Namespace, p.Name, err)
		}
		n++
	}
	what := "paused"
	if !paused {
		what = "at work again"
	}
	_, err := fmt.Fprintf(out, "%d of %d policies %s\n", n, len(policies.Items), what)
	return err
}

// releaseAll lets go what is held. One that cannot be is told, and does not keep the others
// from it.
func releaseAll(ctx context.Context, out io.Writer, c client.Client, namespace string) error {
	all, err := served(ctx, c)
	if err != nil {
		return err
	}
	ap := &kube.Applier{Client: c, Recorder: noEvents{}}
	released, failed := 0, 0
	for _, k := range all {
		held, err := holds(ctx, c, k, namespace)
		if err != nil {
			return err
		}
		for _, key := range held {
			if err := letGo(ctx, c, ap, k, key); err != nil {
				failed++
				fmt.Fprintf(out, "%s %s: %v\n", k.Name, key, err)
				continue
			}
			released++
		}
	}
	fmt.Fprintf(out, "%d workloads released\n", released)
	if failed > 0 {
		return fmt.Errorf("%d workloads could not be released", failed)
	}
	return nil
}

// holds lists the objects of a kind that carry a hold.
func holds(ctx context.Context, c client.Client, k *kinds.Kind, namespace string) ([]client.ObjectKey, error) {
	var out []client.ObjectKey
	list := kube.MetadataList(k)
	for {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(500), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Name, err)
		}
		for i := range list.Items {
			if list.Items[i].Annotations[v1alpha1.AnnotationHold] != "" {
				out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
		if list.Continue == "" {
			return out, nil
		}
	}
}

// attempts is how often a release is tried when others change the object meanwhile.
const attempts = 5

func letGo(ctx context.Context, c client.Client, ap *kube.Applier, k *kinds.Kind, key client.ObjectKey) error {
	var err error
	for range attempts {
		var w *kube.Workload
		if w, err = kube.Fetch(ctx, c, k, key); err != nil {
			return client.IgnoreNotFound(err)
		}
		if _, err = ap.ReleaseHeld(ctx, w, kube.CodeReleasedAll, "everything was asked to be released", time.Now()); err == nil {
			return nil
		}
	}
	return err
}

// releaseOne lets a workload run and takes it out of its policy.
func releaseOne(ctx context.Context, out io.Writer, c client.Client, w *kube.Workload) error {
	ap := &kube.Applier{Client: c, Recorder: noEvents{}}
	wrote, err := ap.Ungovern(ctx, w, time.Now())
	if err != nil {
		return err
	}
	if !wrote {
		_, err = fmt.Fprintf(out, "%s %s/%s is not governed\n", w.Kind.Name, w.Namespace(), w.Name())
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s/%s runs and is no longer governed\n", w.Kind.Name, w.Namespace(), w.Name())
	return err
}
