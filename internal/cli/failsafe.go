package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

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
whether the controller runs or not. It needs no provider and makes no plans. It has its own
credentials and its own lease. Run it in its own Deployment.`,
		Example: `  lull failsafe
  lull failsafe --grace 1m`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Namespaces.Check(); err != nil {
				return err
			}
			if o.Every < 100*time.Millisecond {
				return fmt.Errorf("--interval: %v; accepted: at least 100ms", o.Every)
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
	f.StringVar(&o.Namespace, "namespace", "lull-system", "namespace of Lull, with the lease; no workload in it is held")
	namespacesFlag(f, &o.Namespaces, "namespaces in which it releases, as --namespaces of the controller")
	duration(f, &o.MaxDelay, "max-delay", 0, "longest delay that policies and workloads may ask for, as --max-delay of the controller; 0 for any")
	duration(f, &o.Grace, "grace", 30*time.Second, "how long after the latest safe start the watchdog leaves a hold to a controller that renews its lease")
	duration(f, &o.Every, "interval", 5*time.Second, "how often the watchdog checks the holds")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
