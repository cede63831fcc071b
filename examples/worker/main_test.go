package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestInterruptedWorkGoesOn: the result is the same however often the work is interrupted,
// and nothing saved is done twice.
func TestInterruptedWorkGoesOn(t *testing.T) {
	var whole bytes.Buffer
	w := worker{part: 3, steps: 4 * batch, every: time.Hour, out: &whole}
	if err := w.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	result := func(b *bytes.Buffer) string {
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		_, digest, _ := strings.Cut(lines[len(lines)-1], `"digest":`)
		return digest
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	w.dir = t.TempDir()
	var parts bytes.Buffer
	w.out = &parts
	for range 3 { // each does one batch
		if err := w.run(cancelled); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := w.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if result(&parts) != result(&whole) || strings.Count(parts.String(), `"progress":0.7500`) != 2 {
		t.Errorf("in parts:\n%s\nas a whole:\n%s", parts.String(), whole.String())
	}
	if err := os.WriteFile(w.file(), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	parts.Reset()
	if err := w.run(context.Background()); err != nil || result(&parts) != result(&whole) {
		t.Errorf("after a broken checkpoint: %v\n%s", err, parts.String())
	}
}
