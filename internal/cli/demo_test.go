package cli

import (
	"strings"
	"testing"
)

// TestDemoNames: a demo that does not exist is named as it was typed.
func TestDemoNames(t *testing.T) {
	if text := failure(t, "demo", "elastic", "follow"); !strings.Contains(text, `"elastic follow"; accepted: nothing, or one of elastic, `) {
		t.Error(text)
	}
}
