// Package data finds the recorded data that some tests read. Only tests import it.
package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Variable is the environment variable that names the folder of recorded data: carbon/, jobs/, profiles/ and others.
// By default it is ../shared/data, beside the root of the repository.
const Variable = "LULL_DATA"

// SharedVariable is the environment variable that names the folder with the independent scorer of plans
// (tools/score.py). By default it is ../shared.
const SharedVariable = "LULL_SHARED"

// Folder returns the folder of recorded data. It skips the test if the folder lacks one of the parts.
func Folder(tb testing.TB, parts ...string) string {
	tb.Helper()
	dir, err := Find(parts...)
	if err != nil {
		tb.Skip(err)
	}
	return dir
}

// Find returns the folder of recorded data. It returns an error if the folder lacks one of the parts.
func Find(parts ...string) (string, error) {
	return find(Variable, "recorded data", filepath.Join("shared", "data"), parts)
}

// Shared returns the folder with the independent scorer. It skips the test if there is none.
func Shared(tb testing.TB) string {
	tb.Helper()
	dir, err := find(SharedVariable, "independent scorer", "shared", []string{filepath.Join("tools", "score.py")})
	if err != nil {
		tb.Skip(err)
	}
	return dir
}

// find returns the folder that a variable names, else the one beside the root of the repository.
func find(variable, what, byDefault string, parts []string) (string, error) {
	dir := os.Getenv(variable)
	if dir == "" {
		root, err := root()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(root), byDefault)
	}
	for _, part := range append([]string{"."}, parts...) {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return "", fmt.Errorf("the %s is missing: %w; set %s to its folder", what, err, variable)
		}
	}
	return dir, nil
}

// root returns the root of the repository: the nearest folder with a go.mod, from that of the test upwards.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no folder above has a go.mod")
		}
		dir = parent
	}
}
