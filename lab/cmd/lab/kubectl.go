package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// kubectl runs kubectl, whose first argument is its own name, and returns its exit status.
func kubectl(args []string) int {
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes), Arguments: args,
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	command.SetArgs(args[1:])
	if err := cli.RunNoErrOutput(command); err != nil {
		cmdutil.CheckErr(err) // says it, and exits with the status that belongs to it
		return 1
	}
	return 0
}
