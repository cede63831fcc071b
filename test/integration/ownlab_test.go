//go:build integration

package integration

import (
	"path/filepath"
	"slices"
	"testing"
)

// ownLab gives the test a lab of its own.
func ownLab(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	dir = bareLab(t, flags...)
	end, err := connect(slices.Contains(flags, "--kueue"))
	must(t, err)
	t.Cleanup(end)
	return dir
}

// bareLab is ownLab without Lull.
func bareLab(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	before := env
	dir = filepath.Join(t.TempDir(), "lab")
	env.dir = t.TempDir()
	down, err := bootLab(dir, flags...)
	must(t, err)
	t.Cleanup(func() {
		down()
		env = before
	})
	must(t, dial())
	return dir
}
