package plantest

import (
	"fmt"
	"os"
	"strconv"
)

// sizeVariable is the environment variable that sets how many random instances tests
// run: a day's worth, or as few as a commit allows.
const sizeVariable = "LULL_RANDOM"

// Instances returns how many random instances a test runs: the value of the environment
// variable LULL_RANDOM, or the default where it is not set. It panics if the value is
// not a positive number.
func Instances(otherwise int) int {
	text := os.Getenv(sizeVariable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s: %q; accepted: a number of at least 1", sizeVariable, text))
	}
	return n
}
