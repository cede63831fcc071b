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
		Long: `Admission answers the API server, which asks it how objects are to be created in namespaces
that have a CarbonPolicy. It decides what the admission policies of Lull decide, from memory.
Where those are in force it is not needed.

It refuses nothing: if no replica answers within two seconds, work is created as its user wrote
it. With --nominations it also clears the nominations of Kueue's Workloads that a cluster has
taken; without an answer Kueue tries again. All replicas answer, without a leader. It keeps the MutatingWebhookConfiguration
hold.lull.dev, and makes and rotates its certificate in the Secret of --secret. Both must exist,
without content at first: lull manifests --webhook prints them.`,
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
	f.StringVar(&o.Address, "bind-address", ":9443", "address at which the API server asks")
	f.StringVar(&o.URL, "url", "", "URL at which the API server asks, https://HOST:PORT (default: the Service lull-admission of --namespace)")
	f.StringSliceVar(&o.Kinds, "kinds", kinds.DefaultNames, "kinds to hold, as policies call them: those that the controller has rights to")
	f.BoolVar(&o.Nominations, "nominations", false, "also clear the nominations of Workloads of Kueue that a cluster has taken: on a hub of MultiKueue")
	f.StringVar(&o.Secret, "secret", admission.SecretName, "Secret of --namespace with the certificate")
	f.StringVar(&o.Certificates, "certificates", admission.CertificatesSelf, "self: make and rotate the certificate; secret: serve with tls.crt and tls.key of the Secret, and publish its ca.crt")
	metricsFlags(f, &o.Metrics, ":8086")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8087", `address of /healthz and /readyz, "0" for none`)
	f.StringVar(&o.Namespace, "namespace", kinds.DefaultNamespace, "namespace of Lull: of the Secret and the Service, and in which nothing is held")
	namespacesFlag(f, &o.Namespaces, "namespaces in which it holds, as --namespaces of the controller")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
