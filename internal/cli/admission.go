package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/admission"
	"lull.dev/lull/internal/engine/controller"
)

func newAdmissionCommand() *cobra.Command {
	o := admission.Options{Clock: clock.RealClock{}}
	kubeconfig, verbose := "", false
	cmd := &cobra.Command{
		Use:   "admission",
		Short: "Hold work at creation where the API server has no admission policies",
		Long: `Admission is a webhook of the API server for new objects in namespaces that have a
CarbonPolicy. It decides the same as the admission policies of Lull, from memory. A cluster
where those are in force does not need it.

It refuses nothing: if no replica answers within two seconds, the API server creates the work
as its user wrote it. With --nominations it also clears the nominations of Kueue's Workloads
that a cluster has taken; if it does not answer, Kueue tries again. All replicas answer; there
is no leader. It updates the MutatingWebhookConfiguration hold.lull.dev, and makes and rotates
its certificate in the Secret of --secret. Both must exist, and may be empty at first:
lull manifests --webhook prints them.`,
		Example: `  lull admission
  lull admission --kinds Job,JobSet,Pod
  lull admission --url https://10.0.0.7:9443
  lull admission --certificates secret --secret webhook-tls`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
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
			return admission.Run(cmd.Context(), cfg, scheme, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, the one of the cluster it runs in, or ~/.kube/config)")
	f.StringVar(&o.Address, "bind-address", ":9443", "address at which it answers the API server")
	f.StringVar(&o.URL, "url", "", "URL at which the API server reaches it, https://HOST:PORT (default: the Service lull-admission of --namespace)")
	f.StringSliceVar(&o.Kinds, "kinds", kinds.DefaultNames, "kinds of workloads to hold, by their names in policies; the controller must have rights to them")
	f.BoolVar(&o.Nominations, "nominations", false, "also clear the nominations of Workloads of Kueue that a cluster has taken: on a hub of MultiKueue")
	f.StringVar(&o.Secret, "secret", admission.SecretName, "Secret of --namespace with the certificate")
	f.StringVar(&o.Certificates, "certificates", admission.CertificatesSelf, "self: make and rotate the certificate; secret: serve with tls.crt and tls.key of the Secret, and publish its ca.crt")
	metricsFlags(f, &o.Metrics, ":8086")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8087", `address of /healthz and /readyz, "0" for none`)
	f.StringVar(&o.Namespace, "namespace", kinds.DefaultNamespace, "namespace of Lull, with the Secret and the Service; no work in it is held")
	namespacesFlag(f, &o.Namespaces, "namespaces in which it holds work, as --namespaces of the controller")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
