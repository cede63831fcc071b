package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/engine/extender"
)

func newExtenderCommand() *cobra.Command {
	var o extender.Options
	kubeconfig, file, namespace, verbose := "", "", "", false
	var maxDelay time.Duration
	cmd := &cobra.Command{
		Use:   "extender",
		Short: "Answer kube-scheduler as its extender",
		Long: `Extender lets kube-scheduler ask when a Pod may start, and where it emits least: a Pod
passes if its priority class is critical, if it has waited long enough, or if now is in the
cleanest window of its day and the cluster is not at its limit (Piontek et al., Algorithm 1).
CarbonPolicies with via: Extender say which Pods wait, and how long. For namespaces without
such a policy, the file of --config says it. The file also describes the nodes.

Extender holds nothing and only reads. If it is down, kube-scheduler continues without it,
because its configuration has ignorable: true. Extender serves HTTPS to callers with a
certificate, and HTTP on loopback.`,
		Example: `  lull extender
  lull extender --config extender.yaml --bind-address 127.0.0.1:8888
  lull extender --bind-address :8888 --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca-file ca.crt`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Namespaces.Check(); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			var c extender.Configuration
			if file != "" {
				f, err := os.Open(file)
				if err != nil {
					return fmt.Errorf("--config: %w", err)
				}
				c, err = extender.ReadConfiguration(f)
				f.Close()
				if err != nil {
					return fmt.Errorf("--config %s: %w", file, err)
				}
			}
			state, err := extender.NewState(c, clock.RealClock{})
			if err != nil {
				return err
			}
			state.System, state.MaxDelay = namespace, maxDelay
			setLogger(cmd.ErrOrStderr(), verbose)
			cfg, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			scheme, err := controller.NewScheme()
			if err != nil {
				return err
			}
			return extender.Run(cmd.Context(), cfg, scheme, state, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
	f.StringVar(&namespace, "namespace", kinds.DefaultNamespace, "namespace of Lull; no Pod in it waits unless the file of --config names it")
	namespacesFlag(f, &o.Namespaces, "namespaces whose CarbonPolicies count, as --namespaces of the controller")
	f.StringVar(&file, "config", "", "file with an ExtenderConfiguration (default: none)")
	f.StringVar(&o.Address, "bind-address", "127.0.0.1:8888", "address at which it answers kube-scheduler")
	f.StringVar(&o.CertFile, "tls-cert-file", "", "certificate of the extender; read again when it changes")
	f.StringVar(&o.KeyFile, "tls-private-key-file", "", "private key of that certificate")
	f.StringVar(&o.ClientCAFile, "client-ca-file", "", "certificate authority of the client certificates")
	duration(f, &maxDelay, "max-delay", 0, "longest time for which policies may let a Pod wait; 0 for any")
	metricsFlags(f, &o.Metrics, ":8084")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8085", `address of /healthz and /readyz, "0" for none`)
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
