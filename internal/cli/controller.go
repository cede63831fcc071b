package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/workload"
)

type controllerOptions struct {
	kubeconfig string
	verbose    bool
	events     string
	prometheus prometheusFlags
	controller.Options
}

// prometheusFlags say which Prometheus measures.
type prometheusFlags struct{ url, tokenFile string }

func (p *prometheusFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.url, "prometheus", "", "address of a Prometheus that measures power (Kepler, DCGM exporter) and, by their queries, the progress of workloads (default: none)")
	f.StringVar(&p.tokenFile, "prometheus-token-file", "", "file with the bearer token for that Prometheus")
}

func (p *prometheusFlags) check() error {
	if p.url == "" {
		return nil
	}
	u, err := url.Parse(p.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return errors.New("--prometheus: not an address; accepted: http:// or https://, a host, maybe a path; a token goes to --prometheus-token-file")
	}
	if p.tokenFile != "" && u.Scheme != "https" && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" {
		return fmt.Errorf("--prometheus: %s; accepted with --prometheus-token-file: https, or http on loopback", p.url)
	}
	return nil
}

func newControllerCommand() *cobra.Command {
	o := controllerOptions{Options: controller.Options{Planner: NewPlanner, Clock: clock.RealClock{}}}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller against a cluster",
		Long: `Controller releases the Jobs that a CarbonPolicy holds when the grid is clean,
and in any case before their deadline would be missed. It keeps no state of its
own: you may stop it at any time and start another one. Several replicas
elect a leader.

The custom resources and the admission policy must be installed first:
  lull manifests | kubectl apply -f -`,
		Example: `  lull controller
  lull controller --kubeconfig ~/.kube/config --leader-elect=false`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runController(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
	metricsFlags(f, &o.Metrics, ":8080")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", `address of /healthz and /readyz, "0" for none`)
	f.BoolVar(&o.LeaderElection, "leader-elect", true, "elect a leader among the replicas")
	f.StringVar(&o.Namespace, "namespace", "lull-system", "namespace of the controller, with its lease and the Secrets that GridZones name; it governs no workloads in it")
	namespacesFlag(f, &o.Namespaces, "namespaces in which it governs")
	f.StringVar(&o.KueueNamespace, "kueue-namespace", "kueue-system", "namespace of Kueue, with the kubeconfigs that MultiKueueClusters name")
	f.StringVar(&o.CacheDir, "cache-dir", "", "folder that keeps the answers of providers across restarts (default: in memory only)")
	f.StringVar(&o.Ledger, "ledger", "", "database of the ledger: a file, or postgres://USER@HOST/NAME with the password in $PGPASSWORD or a passfile (default: none)")
	f.StringVar(&o.ProvisionHooks, "provision-hooks", "", "folder of the programs that ComputeClusters may name in spec.provision.hook (default: none)")
	f.StringVar(&o.Web.Address, "web-bind-address", "", "address of the web page (default: none)")
	f.StringVar(&o.Web.CertFile, "web-tls-cert-file", "", "certificate of the web page; required unless the address is on loopback")
	f.StringVar(&o.Web.KeyFile, "web-tls-private-key-file", "", "private key of that certificate")
	o.prometheus.register(cmd)
	duration(f, &o.PrometheusInterval, "prometheus-interval", 30*time.Second, "how often the controller queries that Prometheus")
	f.StringSliceVar(&o.Limits.Planners, "planners", PolicyPlanners(), "planners that CarbonPolicies may name")
	duration(f, &o.Limits.MaxDelay, "max-delay", 0, "longest delay that policies and workloads may ask for; 0 for any. If a workload states a later deadline, Lull uses its creation plus this delay plus its run time")
	duration(f, &o.Limits.MaxRuntime, "max-runtime", 0, "longest run time that workloads, and policies for them, may state; 0 for any. Lull does not hold a workload with a longer one")
	number(f, &o.Limits.MaxWorkers, "max-workers", 0, between(0, workload.MaxScale), "most workers that elastic workloads may state; 0 for any. Lull does not hold a workload that states more")
	duration(f, &o.Limits.DecisionTime, "decision-time", 10*time.Second, "how long a decision may take; if it takes longer, planner cheapest plans for the next five minutes")
	f.StringVar(&o.events, "events", string(kube.AllEvents), "decisions to record as Events: All; Changes, which records nothing while a workload waits; Warnings")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log every reconciliation")
	return cmd
}

// PolicyPlanners lists the planners that CarbonPolicies may name by default: all but exact, which can take memory
// without bounds.
func PolicyPlanners() []string {
	return slices.DeleteFunc(plannerNames(), func(name string) bool { return name == "exact" })
}

func (o *controllerOptions) check() error {
	if err := o.Namespaces.Check(); err != nil {
		return err
	}
	if len(o.Limits.Planners) == 0 {
		return fmt.Errorf("--planners: none; accepted: at least one of %s", strings.Join(plannerNames(), ", "))
	}
	for _, name := range o.Limits.Planners {
		if !slices.Contains(plannerNames(), name) {
			return fmt.Errorf("--planners: %w %q; accepted: %s", ErrPlanner, name, strings.Join(plannerNames(), ", "))
		}
	}
	events, err := kube.ParseEvents(o.events)
	if err != nil {
		return fmt.Errorf("--events: %w", err)
	}
	o.Events = events
	if o.Limits.DecisionTime < 100*time.Millisecond || o.Limits.DecisionTime > 5*time.Minute {
		return fmt.Errorf("--decision-time: %v; accepted: 100ms to 5m", o.Limits.DecisionTime)
	}
	if err := o.prometheus.check(); err != nil {
		return err
	}
	if o.PrometheusInterval < time.Second || o.PrometheusInterval > 5*time.Minute {
		return fmt.Errorf("--prometheus-interval: %v; accepted: 1s to 5m", o.PrometheusInterval)
	}
	if o.Web.Address != "" {
		if err := o.Web.Check(); err != nil {
			return fmt.Errorf("--web-...: %w", err)
		}
	}
	o.PrometheusURL, o.PrometheusTokenFile = o.prometheus.url, o.prometheus.tokenFile
	return nil
}

func runController(ctx context.Context, o controllerOptions, stderr io.Writer) error {
	setLogger(stderr, o.verbose)
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	return controller.Run(ctx, cfg, o.Options)
}

// setLogger writes structured logs.
func setLogger(to io.Writer, verbose bool) {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// restConfig finds the cluster: the given file, else the usual places.
func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, fmt.Errorf("no cluster: no kubeconfig is in %s, and this is not a pod; accepted: --kubeconfig FILE, or $KUBECONFIG set to one that kubectl works with", strings.Join(rules.GetLoadingPrecedence(), ", "))
		}
		return nil, fmt.Errorf("--kubeconfig: %w; accepted: a kubeconfig that kubectl works with", err)
	}
	// Bursts of releases at the start of a clean hour must not queue in the client.
	cfg.QPS, cfg.Burst = 100, 200
	cfg.UserAgent = "lull"
	return cfg, nil
}

func newAlertsCommand() *cobra.Command {
	operator, namespace := false, ""
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Print alerts for Prometheus",
		Long:  "Alerts prints a file of rules for Prometheus or, with --operator, a PrometheusRule.",
		Example: `  lull alerts > /etc/prometheus/rules/lull.yaml
  lull alerts --operator --namespace monitoring | kubectl apply -f -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := charts.Alerts
			if operator {
				if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
					return fmt.Errorf("--namespace: %q; accepted: %s", namespace, strings.Join(problems, "; "))
				}
				text = charts.PrometheusRule(namespace)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&operator, "operator", false, "print a PrometheusRule of the Prometheus operator")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "lull-system", "namespace of the PrometheusRule")
	return cmd
}

func newManifestsCommand() *cobra.Command {
	names := kinds.DefaultNames
	var files []string
	var o charts.Options
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the objects to install in a cluster",
		Long: `Manifests prints the custom resources, the access rules of the controller and, for
each kind of workload, the access rule and the admission policy that holds it.

Manifests leaves out bare Pods and kinds that run pods without an end (Deployment,
RayCluster) unless --kinds names them: the controller needs no rights to kinds that it does
not govern. To add a kind that Lull does not know, write a file with a WorkloadKind.

With --image it also prints Deployments of the controller, with a volume for the ledger, and
of the watchdog, each with its own account and its own lease. They are those of the Helm chart
(charts/lull) with its default values. The chart has more options.`,
		Example: `  lull manifests | kubectl apply -f -
  lull manifests --kinds Job,Pod | kubectl apply -f -
  lull manifests --kueue | kubectl apply -f -
  lull manifests --namespaces team-a,team-b | kubectl apply -f -
  lull manifests --image registry.example/lull:v1 | kubectl apply -f -
  lull manifests --kind-file sparkapplication.yaml | kubectl apply -f -
  lull retire && lull manifests | kubectl delete --ignore-not-found -f -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of, err := kinds.Named(names)
			if err != nil {
				return fmt.Errorf("--kinds: %w", err)
			}
			if err := manager.Namespaces(o.Namespaces).Check(); err != nil {
				return err
			}
			if strings.ContainsFunc(o.Image, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'{}#,", r) }) {
				return fmt.Errorf("--image: %q; accepted: the name of an image", o.Image)
			}
			further := ""
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					return fmt.Errorf("--kind-file: %w", err)
				}
				k, err := kinds.Parse(text)
				if err != nil {
					return fmt.Errorf("--kind-file %s: %w", name, err)
				}
				of = append(of, k)
				further += "---\n" + strings.TrimSpace(strings.TrimPrefix(string(text), "---\n")) + "\n"
			}
			text, err := charts.Manifests(of, o)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text+further)
			return err
		},
	}
	cmd.Flags().StringSliceVar(&names, "kinds", names, "built-in kinds of workloads to govern")
	cmd.Flags().BoolVar(&o.Kueue, "kueue", false, "add the rights and objects for Kueue and MultiKueue; install Kueue first")
	cmd.Flags().BoolVar(&o.Capacity, "capacity", false, "add the rights that CapacityCurves need: to queues of Kueue, to node pools of Karpenter, and to cordon nodes")
	cmd.Flags().BoolVar(&o.Autoscaling, "autoscaling", false, "add the rights to read what spec.autoscaling of CarbonPolicies names: NodePools of Karpenter, the status of cluster-autoscaler")
	cmd.Flags().BoolVar(&o.Extender, "extender", false, "add the account of lull extender, and with --image its Deployment")
	cmd.Flags().BoolVar(&o.Webhook, "webhook", false, "let the webhook lull admission hold work, instead of admission policies")
	cmd.Flags().BoolVar(&o.Web, "web", false, "add the rights and objects that the web page needs; with --image the controller serves it")
	namespacesFlag(cmd.Flags(), (*manager.Namespaces)(&o.Namespaces), "namespaces to govern: no rights to change anything in others")
	cmd.Flags().StringVar(&o.Image, "image", "", "image of Lull: adds the Deployments of controller and watchdog (default: none)")
	cmd.Flags().StringSliceVar(&files, "kind-file", nil, "file with a WorkloadKind; may be repeated")
	return cmd
}
