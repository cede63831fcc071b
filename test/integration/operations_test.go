//go:build integration

package integration

import (
	"testing"

	"lull.dev/lull/test/simkube/operations"
)

// TestAPIServerAnswersAsTheTableSays: a real API server answers as the table says that the simulated one is tested with.
func TestAPIServerAnswersAsTheTableSays(t *testing.T) { operations.Run(t, env.config) }
