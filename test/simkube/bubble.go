package simkube

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Bubble runs f in a bubble of testing/synctest. If goroutines of the bubble are left when f has ended, or all of them wait for
// each other, the test fails and says where they are; synctest.Test alone would end all tests of the package.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	before := goroutines()
	defer func() {
		t.Helper()
		reason := recover()
		if reason == nil {
			return
		}
		if err, is := reason.(error); !is || !strings.HasPrefix(err.Error(), "deadlock:") {
			panic(reason)
		}
		var left []string
		for id, stack := range goroutines() {
			if before[id] == "" {
				left = append(left, stack)
			}
		}
		slices.Sort(left)
		t.Errorf("%v:\n\n%s", reason, strings.Join(left, "\n\n"))
	}()
	synctest.Test(t, f)
}

// bubbled matches the first line of a goroutine of a bubble.
var bubbled = regexp.MustCompile(`^goroutine (\d+) .*synctest bubble`)

// goroutines are the stacks of all goroutines in bubbles, by their number.
func goroutines() map[string]string {
	out := map[string]string{}
	for text := make([]byte, 1<<16); ; text = make([]byte, 2*len(text)) {
		n := runtime.Stack(text, true)
		if n == len(text) {
			continue
		}
		for stack := range strings.SplitSeq(string(text[:n]), "\n\n") {
			if m := bubbled.FindStringSubmatch(stack); m != nil {
				out[m[1]] = strings.TrimSpace(stack)
			}
		}
		return out
	}
}
