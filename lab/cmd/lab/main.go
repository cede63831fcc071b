// Command lab runs real Kubernetes control planes on one machine, for Lull's
// demo and tests: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
// and KWOK nodes as processes on loopback, without containers.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lull.dev/lull/lab/internal/controlplane"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == controlplane.RoleCommand {
		os.Exit(runRole(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lab",
		Short: "Real Kubernetes control planes on one machine",
		Long: `Lab runs a real Kubernetes control plane as processes on loopback, with nodes
played by KWOK. Everything of a lab is in one folder; several may run side by
side in different folders. "lab kubectl" is kubectl of the same version.`,
		Example: `  lab up                      start, wait until ready, leave it running
  lab kubectl --kubeconfig .lab/kubeconfig get nodes
  lab status
  lab down`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newUp(), newDown(), newStatus())
	return root
}
