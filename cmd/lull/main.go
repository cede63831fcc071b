// Command lull is the one binary of Lull: planner, controller and demo.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificate authorities

	"lull.dev/lull/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
