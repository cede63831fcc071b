package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Exit statuses of the lull command.
const (
	exitOK         = 0
	exitError      = 1
	exitInfeasible = 3
)

// Exit statuses that shells use, as "lull run" does.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the number of the signal
)

// exitStatus is the error of a command that ends with the status of another one. What there is to say has been said.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitCode is the status with which a command ends.
func exitCode(err error) int {
	status := exitStatus(0)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errInfeasible):
		return exitInfeasible
	}
	return exitError
}

// exitRow is what an exit status means.
type exitRow struct{ status, command, meaning string }

// exitRows are all exit statuses there are. A wrong flag has no status of its own: much of what is wrong with flags is known only
// once files or the cluster are read, and "lull run" passes on any status of its command.
func exitRows() []exitRow {
	return []exitRow{
		{fmt.Sprint(exitOK), "every command", "the command succeeded"},
		{fmt.Sprint(exitError), "every command", "the command failed; standard error says why: a flag, an argument or a file is wrong, or a cluster or a provider does not answer"},
		{fmt.Sprint(exitError), "lull status", "the controller or the watchdog has not renewed its lease, or has given it up (the command still shows everything), or the namespace of -n does not exist"},
		{fmt.Sprint(exitError), "lull ledger verify", "the chain is broken, or there are no entries"},
		{fmt.Sprint(exitInfeasible), "lull plan", "lull plan could not plan some jobs (it names them, and writes the plan of the others)"},
		{fmt.Sprint(exitInfeasible), "lull check", "the plan is not feasible (lull check names every fault)"},
		{"any", "lull run", "the exit status of the command that it ran"},
		{fmt.Sprint(exitNotExecutable), "lull run", "the command cannot be executed"},
		{fmt.Sprint(exitNotFound), "lull run", "the command is not found"},
		{fmt.Sprintf("%d + N", exitSignal), "lull run", "signal N ended the command, or canceled the wait"},
	}
}

// newExitStatusTopic is a page of help.
func newExitStatusTopic() *cobra.Command {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "STATUS\tOF\tMEANING")
	for _, r := range exitRows() {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", r.status, r.command, r.meaning)
	}
	_ = tw.Flush()
	return &cobra.Command{Use: "exit-status", Short: "Exit statuses of all commands", Long: "Lull ends with these exit statuses:\n\n" + b.String()}
}
