package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takes checks how many arguments a command has. Its error says what was given, what is accepted, and an example.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		given := "nothing"
		if len(args) > 0 {
			given = fmt.Sprintf("%q", strings.Join(args, " "))
		}
		example := strings.TrimSpace(strings.SplitN(strings.TrimSpace(cmd.Example), "\n", 2)[0])
		return fmt.Errorf("%s: %s; accepted: %s, e.g. %s", cmd.CommandPath(), given, what, example)
	}
}

// noArguments accepts flags alone.
var noArguments = takes(0, 0, "flags alone")

// group is a command that only has commands.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s: %q; accepted: %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
		}
		return cmd.Help()
	}
	return cmd
}

// checkGiven checks that no flag is given that would have no effect.
func (o *adviseOptions) checkGiven(f *pflag.FlagSet) error {
	if o.jsonFile == "-" && structured(o.output) {
		return errBothOutputs
	}
	if name := firstGiven(f, "length", "stride"); name != "" && o.jobs != "" {
		return fmt.Errorf("--%s: given with --jobs, whose jobs have their own; accepted: one of them", name)
	}
	if name := firstGiven(f, "format", "time-zone"); name != "" && o.jobs == "" {
		return fmt.Errorf("--%s: set without a trace; accepted: with --jobs FILE", name)
	}
	if f.Changed("max-workers") && o.profile == "" {
		return errors.New("--max-workers: set without --profile; accepted: with --profile FILE, the capacity curve")
	}
	for i, n := range o.maxWorkers {
		if n < o.minWorkers {
			return fmt.Errorf("--max-workers: %d; accepted: at least --min-workers, %d", n, o.minWorkers)
		}
		if slices.Contains(o.maxWorkers[:i], n) {
			return fmt.Errorf("--max-workers: %d stands twice; accepted: each once", n)
		}
	}
	return nil
}
