// Package child helps tests that run a script or a tool as a child process. Only tests import it.
package child

import (
	"os"
	"testing"
)

// Reads opens the files that a child process is about to read, and returns the first. The cache of go test sees what the
// test itself opens in this module, and so runs the test again after a change of these files.
func Reads(tb testing.TB, files ...string) string {
	tb.Helper()
	for _, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
	}
	return files[0]
}
