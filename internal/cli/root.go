// Package cli is the command line of Lull: flags, construction and run. It is
// the only package that knows planners by name.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"lull.dev/lull/internal/base/version"
)

// plugin is the name by which kubectl finds the binary: kubectl lull.
const plugin = "kubectl-lull"

// Main runs the lull command and returns its exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	if completes(args) {
		addCompletion(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.As(err, new(exitStatus)) {
		fmt.Fprintln(stderr, "lull:", err)
	}
	return exitCode(err)
}

// clusterKey is the key of a cluster in the context of a command: its configuration, or a client.
type clusterKey struct{}

// RunOn runs a command that reads or changes a cluster once (release, status, explain and so on) on the cluster of config,
// whatever kubeconfig the process has. It returns the error that Main prints.
func RunOn(ctx context.Context, config *rest.Config, args []string, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(context.WithValue(ctx, clusterKey{}, rest.CopyConfig(config)))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lull",
		Short: "Carbon-aware scheduling for batch work on Kubernetes",
		Long: `Lull runs batch work on Kubernetes when the electricity grid is clean, never at
the cost of a deadline, and proves what it saved.`,
		Example: `  lull run --length 3h --zone DE -- make train   wait for the best time here, then run
  lull plan -f instance.json          plan jobs from a file
  lull simulate --jobs jobs.csv       what planners would have saved
  lull advise --length 6h --zone DE   what they would save on a job, at what delay
  lull controller                     run the controller against a cluster
  lull demo                           see it work on a cluster of its own`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if filepath.Base(os.Args[0]) == plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lull"}
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newPlanCommand(), newCheckCommand(), newSimulateCommand(), newAdviseCommand(), newReproduceCommand(), newForecastCommand(), newWhenCommand(), newRunCommand(), newFakegridCommand(), newControllerCommand(), newFailsafeCommand(), newAdmissionCommand(), newExtenderCommand(), newManifestsCommand(), newAlertsCommand(), newKindsCommand(), newGetCommand(), newStatusCommand(), newTopCommand(), newPlansCommand(), newExplainCommand(), newServeCommand(), newCapacityCommand(), newLedgerCommand(), newReportCommand(), newReleaseCommand(), newRetireCommand(), newSlurmCommand(), newProgressCommand(), newProfileCommand(), newDemoCommand(), newVersionCommand(), newExitStatusTopic())
	root.SetGlobalNormalizationFunc(oneName)
	return root
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  lull version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}
