package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/cluster/manager"
)

// namespacesFlag registers --namespaces.
func namespacesFlag(f *pflag.FlagSet, n *manager.Namespaces, usage string) {
	f.StringSliceVar((*[]string)(n), "namespaces", nil, usage+" (default: all)")
}

// boundFlag says which namespaces are all of them, for who may list nothing in others.
type boundFlag struct {
	namespaces manager.Namespaces
	// left are those in which something could not be listed.
	left []string
}

func (b *boundFlag) register(cmd *cobra.Command) {
	namespacesFlag(cmd.Flags(), &b.namespaces, "namespaces that Lull governs, if it is installed for some namespaces only")
}

// connect returns a client for which all namespaces are these. It prints which of them were left out, as they may not be listed.
func (b *boundFlag) connect(cmd *cobra.Command, f *clusterFlags) (client.Client, error) {
	if err := b.namespaces.Check(); err != nil {
		return nil, err
	}
	if f.namespace != "" && !b.namespaces.Has(f.namespace) {
		return nil, fmt.Errorf("--namespace: %q; accepted: one of --namespaces", f.namespace)
	}
	c, err := f.connect(cmd.Context())
	if err != nil {
		return nil, err
	}
	return b.namespaces.Client(c, func(namespace string, err error) {
		if !slices.Contains(b.left, namespace) {
			b.left = append(b.left, namespace)
			fmt.Fprintf(cmd.OutOrStdout(), "Namespace %s is left out: %v\n", namespace, err)
		}
	}), nil
}
