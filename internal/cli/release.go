package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

func newReleaseCommand() *cobra.Command {
	var f clusterFlags
	var bound boundFlag
	everything, undo, queues := false, false, false
	var names []string
	cmd := &cobra.Command{
		Use:   "release [KIND/NAME | --all | --kinds KIND,... | --queues]",
		Short: "Release held workloads at once",
		Long: `Release lets one workload run, and Lull no longer governs it. With --all, it pauses every CarbonPolicy
and releases everything that carries a mark of Lull. Use it before an upgrade, before you remove Lull,
or whenever Lull must not interfere. --all --undo lets the policies that Release has paused work again.
Lull then plans workloads that already run again.

--kinds is for kinds of workloads to which Lull is about to lose its rights. It deletes the bindings of
their admission policies, so that nothing holds new workloads, and releases the existing workloads.
Lull no longer governs them. --queues does the same for workloads that wait in queues of Kueue. The Helm
chart runs both before an upgrade that removes kinds or Kueue.`,
		Example: `  lull release job/train -n team-a
  lull release --all
  lull release --all -n team-a
  lull release --all --undo
  lull release --kinds JobSet,RayJob`,
		Args: takes(0, 1, "KIND/NAME of a workload, or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			switch {
			case undo && !everything:
				return errors.New("--undo: set without --all; accepted: lull release --all --undo")
			case len(names) > 0 || queues:
				if everything || len(args) > 0 || f.namespace != "" {
					return errors.New("--kinds, --queues: set with KIND/NAME, --all or --namespace; accepted: without them")
				}
			case everything && len(args) == 1:
				return fmt.Errorf("--all: given with %q; accepted: either KIND/NAME or --all", args[0])
			case !everything && len(args) == 0:
				return errors.New("release: nothing is named; accepted: KIND/NAME, e.g. job/train, or --all")
			}
			c, err := bound.connect(cmd, &f)
			if err != nil {
				return err
			}
			if len(names) > 0 || queues {
				return releaseKinds(ctx, out, c, names, queues)
			}
			if !everything {
				w, err := f.workload(ctx, c, args[0])
				if err != nil {
					return err
				}
				return releaseOne(ctx, out, c, w)
			}
			err = pausePolicies(ctx, out, c, f.namespace, !undo)
			if !undo {
				err = errors.Join(err, releaseAll(ctx, out, c, f.namespace))
			}
			return err
		},
	}
	f.register(cmd)
	bound.register(cmd)
	cmd.Flags().BoolVar(&everything, "all", false, "release everything, in all namespaces or that of -n")
	cmd.Flags().StringSliceVar(&names, "kinds", nil, "release the workloads of these kinds for good, in all namespaces")
	cmd.Flags().BoolVar(&queues, "queues", false, "release the workloads that wait in queues of Kueue for good, in all namespaces")
	cmd.Flags().BoolVar(&undo, "undo", false, "with --all: let the policies work again")
	return cmd
}

// pausePolicies sets spec.paused of all policies, and takes it back of those that it set it of: what
// somebody else has paused stays so. A policy that refuses the change does not keep the others from it.
func pausePolicies(ctx context.Context, out io.Writer, c client.Client, namespace string, paused bool) error {
	var policies v1alpha1.CarbonPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list CarbonPolicies: %w", err)
	}
	n := 0
	var errs []error
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
			errs = append(errs, fmt.Errorf("CarbonPolicy %s/%s: %w", p.Namespace, p.Name, err))
			continue
		}
		n++
	}
	what := "paused"
	if !paused {
		what = "at work again"
	}
	_, err := fmt.Fprintf(out, "%d of %d policies %s\n", n, len(policies.Items), what)
	return errors.Join(append(errs, err)...)
}

// releasesAtOnce is how many workloads are released at a time.
const releasesAtOnce = 32

// releaseAll releases everything that carries a mark of Lull. What cannot be released or listed keeps no other from its
// release. The error names the kinds that could not be listed; each workload that could not be released has a line in out.
func releaseAll(ctx context.Context, out io.Writer, c client.Client, namespace string) error {
	all, complete, errs := listable(ctx, out, c, namespace)
	marks := &kube.Marks{Reader: c, Page: 500}
	queues, err := kube.QueuesServed(ctx, c, client.InNamespace(namespace))
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("look for Kueue: %w", err))
	case queues == kube.Forbidden:
		fmt.Fprintln(out, "Workloads of Kueue may not be listed: those that Lull has set inactive are not released")
	case queues == kube.Served:
		errs = append(errs, marks.ReadQueues(ctx, namespace))
	}
	r := &releases{out: out, client: c, applier: &kube.Applier{Client: c, Recorder: &eventRecorder{ctx: ctx, client: c}}}
	for _, k := range all {
		marked, err := marks.Of(ctx, k, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.each(k, marked, func(w *kube.Workload) (bool, error) { return r.marked(ctx, w) })
	}
	if errors.Join(errs...) == nil && complete { // without all governed objects nobody can say what is an orphan
		r.orphans(ctx, marks)
	}
	return errors.Join(append(errs, r.end())...)
}

// listable are the kinds whose objects may be listed. The errors name the others, except kinds that are not there, or that
// nothing holds at admission. In a single namespace, kinds that may not be listed are printed instead; complete says that there are none.
func listable(ctx context.Context, out io.Writer, c client.Client, namespace string) (all []*kinds.Kind, complete bool, errs []error) {
	known, err := kube.HeldKinds(ctx, c)
	if known == nil {
		errs = append(errs, fmt.Errorf("only the built-in kinds are known: %w", err))
		known = kinds.Builtin()
	}
	var unheld, unread []string
	for _, k := range known {
		service, err := kube.ServiceOf(ctx, c, k, client.InNamespace(namespace))
		if err == nil && service == kube.Forbidden {
			if service, err = kube.HeldAtAdmission(ctx, c, k); service == kube.NotServed {
				unheld = append(unheld, k.Name)
			}
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case service == kube.Forbidden && namespace != "": // who may release in a namespace need not be allowed to read all kinds
			unread = append(unread, k.Name)
		case service == kube.Forbidden:
			errs = append(errs, fmt.Errorf("%s may not be listed: Lull's holds of this kind are not released", k.Name))
		case service == kube.Served:
			all = append(all, k)
		}
	}
	if slices.Sort(unheld); len(unheld) > 0 {
		fmt.Fprintf(out, "Not listed, because it is forbidden and nothing holds these kinds at admission: %s\n", strings.Join(unheld, ", "))
	}
	if slices.Sort(unread); len(unread) > 0 {
		fmt.Fprintf(out, "Not listed, because it is forbidden; Lull's holds of these kinds are not released: %s\n", strings.Join(unread, ", "))
	}
	return all, len(unread) == 0, errs
}

// releases counts what is released, and writes a line for each workload that cannot be.
type releases struct {
	out     io.Writer
	client  client.Client
	applier *kube.Applier

	mu               sync.Mutex
	released, failed int
}

func (r *releases) record(what string, wrote bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrote {
		r.released++
	}
	if err != nil {
		r.failed++
		fmt.Fprintf(r.out, "%s: %v\n", what, err)
	}
}

// each releases workloads of a kind, so many at a time.
func (r *releases) each(k *kinds.Kind, of []*kube.Workload, release func(*kube.Workload) (bool, error)) {
	var group errgroup.Group
	group.SetLimit(releasesAtOnce)
	for _, w := range of {
		group.Go(func() error {
			wrote, err := release(w)
			r.record(fmt.Sprintf("%s %s/%s", k.Name, w.Namespace(), w.Name()), wrote, err)
			return nil
		})
	}
	_ = group.Wait() // each error has been recorded
}

// orphans takes the marks off the Workloads in queues whose governed object is gone.
func (r *releases) orphans(ctx context.Context, marks *kube.Marks) {
	for _, q := range marks.Orphans() {
		err := client.IgnoreNotFound(r.applier.UnparkOrphan(ctx, q))
		r.record(fmt.Sprintf("Workload %s/%s", q.Namespace, q.Name), err == nil, err)
	}
}

func (r *releases) end() error {
	fmt.Fprintf(r.out, "%d workloads released\n", r.released)
	if r.failed > 0 {
		return fmt.Errorf("%d workloads could not be released", r.failed)
	}
	return nil
}

// attempts is how often a release is tried when others change the object meanwhile.
const attempts = 5

// marked releases a workload, or takes the marks off one that is not held; wrote says that it was held.
func (r *releases) marked(ctx context.Context, w *kube.Workload) (wrote bool, err error) {
	for range attempts {
		wrote, err = r.applier.ReleaseHeld(ctx, w, kube.CodeReleasedAll, "an operator released everything (lull release --all)", time.Now())
		if !apierrors.IsConflict(err) {
			return wrote, client.IgnoreNotFound(err)
		}
		live := make([]*kube.Workload, 0, len(w.Objects))
		for _, o := range w.Objects {
			one, err := kube.Fetch(ctx, r.client, w.Kind, client.ObjectKeyFromObject(o))
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
	wrote, err := ungovern(ctx, c, &kube.Applier{Client: c, Recorder: &eventRecorder{ctx: ctx, client: c}}, w)
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

// ungovern releases a workload and takes it out of its policy; wrote says that one governed it.
func ungovern(ctx context.Context, c client.Client, ap *kube.Applier, w *kube.Workload) (wrote bool, err error) {
	wrote, err = ap.Ungovern(ctx, w, time.Now())
	for n := 1; apierrors.IsConflict(err) && n < attempts; n++ {
		if w, err = kube.Fetch(ctx, c, w.Kind, client.ObjectKeyFromObject(w.Objects[0])); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		wrote, err = ap.Ungovern(ctx, w, time.Now())
	}
	return wrote, err
}
