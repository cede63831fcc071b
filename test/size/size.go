// Package size says how large a test is: small in the default run, large in make test-seeds. Only tests import it.
package size

import "os"

// Variable is the environment variable that makes tests large if it is set to any value.
const Variable = "LULL_LARGE"

// Large reports whether tests are large.
func Large() bool { return os.Getenv(Variable) != "" }

// Of returns small, or large if tests are large: a number of instances, a list of cases.
func Of[T any](small, large T) T {
	if Large() {
		return large
	}
	return small
}
