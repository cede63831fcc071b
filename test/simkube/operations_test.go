package simkube

import (
	"testing"

	"lull.dev/lull/test/simkube/operations"
)

// TestOperations: the model answers as the table says. TestOperations of test/integration runs the same table against a real
// API server.
func TestOperations(t *testing.T) {
	Test(t, 1, func(w *World) {
		user := &Process{Name: "user", Store: w.Store}
		operations.Run(w.T, user.Config())
	})
}
