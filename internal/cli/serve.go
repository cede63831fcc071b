package cli

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/web"
)

func newServeCommand() *cobra.Command {
	var o web.Options
	kubeconfig, database := "", ""
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a web page with workloads, plans, zones, capacities and savings",
		Long: `Serve shows which workloads wait and why, expected and past savings, and problems. It also shows plans
over the intensity, zones with their coming hours, capacity curves, savings by month, and the history
of each workload. It only reads.

On loopback, every user of this machine sees what the kubeconfig may read. On other addresses it
serves HTTPS, and only to bearer tokens that the API server accepts and that may list CarbonPlans in
all namespaces.`,
		Example: `  lull serve
  lull serve --ledger ledger.db
  lull serve --bind-address :8443 --tls-cert-file tls.crt --tls-private-key-file tls.key`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.Check(); err != nil {
				return err
			}
			cfg, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			scheme, err := controller.NewScheme()
			if err != nil {
				return err
			}
			if database != "" {
				l, err := ledger.Open(cmd.Context(), database)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, l.Close()) }()
				o.Ledger = l
			}
			setLogger(cmd.ErrOrStderr(), false)
			o.Ready = func(at net.Addr) {
				scheme := "http"
				if o.CertFile != "" {
					scheme = "https"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s://%s\n", scheme, at)
			}
			return web.Run(cmd.Context(), cfg, scheme, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
	f.StringVar(&o.Address, "bind-address", "127.0.0.1:8090", "address of the page")
	f.StringVar(&o.CertFile, "tls-cert-file", "", "certificate of the page")
	f.StringVar(&o.KeyFile, "tls-private-key-file", "", "private key of that certificate")
	f.StringVar(&o.System, "system-namespace", "lull-system", "namespace of the controller and its leases, which show whether it works")
	f.StringVar(&database, "ledger", "", "the ledger's database, as --ledger of lull controller (default: none)")
	return cmd
}
