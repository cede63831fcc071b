package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/engine/failsafe"
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Every < 100*time.Millisecond {
				return fmt.Errorf("--every: %v; accepted: at least 100ms", o.Every)
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
	metricsFlags(f, &o.Metrics, ":8082")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8083", `address of /healthz and /readyz, "0" for none`)
	f.BoolVar(&o.LeaderElection, "leader-elect", true, "elect a leader among the replicas")
	f.StringVar(&o.Namespace, "namespace", "lull-system", "namespace of Lull: of the lease, and in which it holds nothing")
	duration(f, &o.MaxDelay, "max-delay", 0, "longest delay that policies and workloads may ask for, as --max-delay of the controller; 0 for any")
	duration(f, &o.Grace, "grace", 30*time.Second, "how long after its latest start a hold is left to the controller")
	duration(f, &o.Every, "every", 5*time.Second, "how often holds are looked at")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}

func newReleaseCommand() *cobra.Command {
	var f clusterFlags
	everything, undo := false, false
	cmd := &cobra.Command{
		Use:   "release [KIND/NAME | --all]",
		Short: "Release held workloads at once",
		Long: `Release lets one workload run and no longer be governed, or, with --all, pauses every
CarbonPolicy and releases everything that carries a mark of Lull: before an upgrade, before Lull is
removed, or whenever it must get out of the way. --all --undo lets the policies that it has
paused work again; what runs by then is planned anew.`,
		Example: `  lull release job/train -n team-a
  lull release --all
  lull release --all -n team-a
  lull release --all --undo`,
		Args: takes(0, 1, "KIND/NAME of a workload, or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			switch {
			case undo && !everything:
				return errors.New("--undo: set without --all; accepted: lull release --all --undo")
			case everything && len(args) == 1:
				return fmt.Errorf("--all: given with %q; accepted: either KIND/NAME or --all", args[0])
			case !everything && len(args) == 0:
				return errors.New("release: nothing is named; accepted: KIND/NAME, e.g. job/train, or --all")
			}
			c, err := f.connect(cmd.Context())
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

// releasesAtOnce is how many workloads are released at a time.
const releasesAtOnce = 32

// releaseAll releases everything that carries a mark of Lull. It reports what it cannot release or list, which
// keeps no other from its release.
func releaseAll(ctx context.Context, out io.Writer, c client.Client, namespace string) error {
	all, err := served(ctx, c)
	if err != nil {
		return err
	}
	queues, err := kube.QueuesServed(ctx, c)
	if err != nil {
		return fmt.Errorf("look for Kueue: %w", err)
	}
	marks := &kube.Marks{Reader: c, Page: 500}
	if queues {
		if err := marks.ReadQueues(ctx, namespace); err != nil {
			return err
		}
	}
	ap := &kube.Applier{Client: c, Recorder: noEvents{}}
	var mu sync.Mutex
	released, failed := 0, 0
	tell := func(what string, wrote bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if wrote {
			released++
		}
		if err != nil {
			failed++
			fmt.Fprintf(out, "%s: %v\n", what, err)
		}
	}
	complete := true
	for _, k := range all {
		marked, err := marks.Of(ctx, k, namespace)
		if err != nil {
			complete = false
			tell(k.Name, false, err)
			continue
		}
		var group errgroup.Group
		group.SetLimit(releasesAtOnce)
		for _, w := range marked {
			group.Go(func() error {
				wrote, err := releaseMarked(ctx, c, ap, w)
				tell(fmt.Sprintf("%s %s/%s", k.Name, w.Namespace(), w.Name()), wrote, err)
				return nil
			})
		}
		_ = group.Wait() // each error has been reported
	}
	if complete {
		for _, q := range marks.Orphans() {
			err := client.IgnoreNotFound(ap.UnparkQueued(ctx, q, false))
			tell(fmt.Sprintf("Workload %s/%s", q.Namespace, q.Name), err == nil, err)
		}
	}
	fmt.Fprintf(out, "%d workloads released\n", released)
	if failed > 0 {
		return fmt.Errorf("%d workloads could not be released", failed)
	}
	return nil
}

// attempts is how often a release is tried when others change the object meanwhile.
const attempts = 5

// releaseMarked releases a workload, or takes the marks off one that is not held; wrote says that it was held.
func releaseMarked(ctx context.Context, c client.Client, ap *kube.Applier, w *kube.Workload) (wrote bool, err error) {
	for range attempts {
		wrote, err = ap.ReleaseHeld(ctx, w, kube.CodeReleasedAll, "everything was asked to be released", time.Now())
		if !apierrors.IsConflict(err) {
			return wrote, client.IgnoreNotFound(err)
		}
		live := make([]*kube.Workload, 0, len(w.Objects))
		for _, o := range w.Objects {
			one, err := kube.Fetch(ctx, c, w.Kind, client.ObjectKeyFromObject(o))
			switch {
			case err == nil:
				live = append(live, one)
			case !apierrors.IsNotFound(err):
				return false, err
			}
		}
		if len(live) == 0 {
			return false, nil
		}
		w = kube.Group(live)[0]
	}
	return wrote, err
}

// releaseOne releases a workload and takes it out of its policy.
func releaseOne(ctx context.Context, out io.Writer, c client.Client, w *kube.Workload) error {
	ap := &kube.Applier{Client: c, Recorder: noEvents{}}
	wrote, err := ap.Ungovern(ctx, w, time.Now())
	for n := 1; apierrors.IsConflict(err) && n < attempts; n++ {
		if w, err = kube.Fetch(ctx, c, w.Kind, client.ObjectKeyFromObject(w.Objects[0])); err != nil {
			return err
		}
		wrote, err = ap.Ungovern(ctx, w, time.Now())
	}
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
