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
		Short: "Serve a web page of what waits, plans, zones, capacities and savings",
		Long: `Serve shows what waits and why, what it will save and what was saved, and whether anything is wrong;
then plans over the intensity, zones and their hours to come, capacity curves, savings over months, and the
story of each workload. It only reads.

On loopback it shows what the kubeconfig may read to whoever is on this machine. Elsewhere it
serves HTTPS, to bearer tokens that the API server knows and that may list CarbonPlans in all
namespaces.`,
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
	f.StringVar(&o.KeyFile, "tls-private-key-file", "", "its private key")
	f.StringVar(&o.System, "system-namespace", "lull-system", "namespace of the controller, whose leases say whether it works")
	f.StringVar(&database, "ledger", "", "the ledger's database, as of lull controller (default: none)")
	return cmd
}
