// Command lull is the one binary of Lull: planner, controller and demo.
package main

import (
	"os"

	"lull.dev/lull/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
