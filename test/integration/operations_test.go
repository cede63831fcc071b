//go:build integration

package integration

import (
	"testing"

	"lull.dev/lull/test/simkube/operations"
)

// TestOperations: a real API server answers as the table says that the simulated one is tested with.
func TestOperations(t *testing.T) { operations.Run(t, env.config) }
