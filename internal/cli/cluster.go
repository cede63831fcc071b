package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/controller"
)

// clusterFlags say which cluster and namespace a command is about.
type clusterFlags struct {
	kubeconfig, namespace string
	all                   bool
	timeout               time.Duration // of each call; 0 for none
}

// registerKubeconfig adds the flag of commands that are about no namespace.
func (f *clusterFlags) registerKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	f.registerKubeconfig(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace (default that of the kubeconfig's context)")
}

func (f *clusterFlags) registerAll(cmd *cobra.Command) {
	f.register(cmd)
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces")
}

// scope is the namespace that is asked for: empty for all.
func (f *clusterFlags) scope() (string, error) {
	if f.all {
		return "", nil
	}
	if f.namespace != "" {
		return f.namespace, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	ns, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).Namespace()
	return ns, err
}

// connect returns a client that reads and writes at the API server.
func (f *clusterFlags) connect(ctx context.Context) (client.Client, error) {
	if c, given := ctx.Value(clusterKey{}).(client.Client); given {
		return c, nil
	}
	cfg, given := ctx.Value(clusterKey{}).(*rest.Config)
	if !given {
		var err error
		if cfg, err = restConfig(f.kubeconfig); err != nil {
			return nil, err
		}
	}
	if f.timeout > 0 {
		cfg.Timeout, cfg.WarningHandler = f.timeout, rest.NoWarnings{}
	}
	cfg.QPS = -1 // a command that releases thousands of workloads must not queue in the client
	scheme, err := controller.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// errNoWorkload marks a workload that is not there, or not called right.
var errNoWorkload = errors.New("no such workload")

// workload finds the object that a user calls KIND/NAME: a kind by its name or its
// resource, in any case.
func (f *clusterFlags) workload(ctx context.Context, c client.Client, text string) (*kube.Workload, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" {
		return nil, fmt.Errorf("%w: %q; accepted: KIND/NAME, e.g. job/train", errNoWorkload, text)
	}
	ns, err := f.scope()
	if err != nil {
		return nil, err
	}
	all, err := kube.Kinds(ctx, c)
	if err != nil && all == nil {
		return nil, err
	}
	var names []string
	for _, k := range all {
		names = append(names, strings.ToLower(k.Name))
		if !strings.EqualFold(kind, k.Name) && !strings.EqualFold(kind, k.Spec.Resource) && !strings.EqualFold(kind, k.Spec.Resource+"."+k.Spec.Group) {
			continue
		}
		w, err := kube.Fetch(ctx, c, k, client.ObjectKey{Namespace: ns, Name: name})
		if apierrors.IsNotFound(err) {
			if err := checkNamespace(ctx, c, ns); err != nil {
				return nil, fmt.Errorf("%w: %w", errNoWorkload, err)
			}
			return nil, fmt.Errorf("%w: %s %q in namespace %q", errNoWorkload, k.Name, name, ns)
		}
		return w, err
	}
	return nil, fmt.Errorf("%w: kind %q; accepted: %s", errNoWorkload, kind, strings.Join(names, ", "))
}

// served are the kinds whose objects the user may list.
func served(ctx context.Context, c client.Client) ([]*kinds.Kind, error) {
	all, err := kube.HeldKinds(ctx, c)
	if err != nil && all == nil {
		return nil, err
	}
	var out []*kinds.Kind
	for _, k := range all {
		service, err := kube.ServiceOf(ctx, c, k)
		if err != nil {
			return nil, err
		}
		if service == kube.Served {
			out = append(out, k)
		}
	}
	return out, nil
}

// serviceAccountNamespace is where a pod finds its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace is the namespace of the pod this runs in; "" outside of one.
func podNamespace() string {
	text, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
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
