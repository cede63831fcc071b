package simkube

import (
	"testing"

	"lull.dev/lull/test/simkube/operations"
)

// TestModelAnswersAsTheTableSays: the model answers as the table says. TestAPIServerAnswersAsTheTableSays of test/integration runs the same table against a real
// API server.
func TestModelAnswersAsTheTableSays(t *testing.T) {
	Test(t, 1, func(w *World) {
		user := &Process{Name: "user", Store: w.Store}
		operations.Run(w.T, user.Config())
	})
}
