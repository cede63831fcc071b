package controller

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
)

// TestFailedPlannerSaysWhy: what runs as the planner failed is told its error, on one line of bounded length.
func TestFailedPlannerSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		want  string
	}{
		"one error":              {errors.New("spec.planner: no history"), "runs at once: the planner failed; spec.planner: no history"},
		"two errors":             {errors.Join(errors.New("a"), errors.New("b")), "runs at once: the planner failed; a; b"},
		"a long one":             {errors.New(strings.Repeat("ö", mostCause)), "runs at once: the planner failed; " + strings.Repeat("ö", mostCause/2) + "..."},
		"cut within a character": {errors.New("x" + strings.Repeat("ö", mostCause)), "runs at once: the planner failed; x" + strings.Repeat("ö", mostCause/2-1) + "..."},
	} {
		view := &kube.View{Snapshot: decide.Snapshot{Tasks: make([]decide.Task, 1)}, Progress: make([]kube.Progress, 1)}
		d := runAll(view, tc.cause)
		if got := view.Progress[0].Message(d.Actions[0].Reason); got != tc.want || !utf8.ValidString(got) || d.Actions[0].Verb == decide.Wait {
			t.Errorf("%s: %v: %q, want %q", name, d.Actions[0].Verb, got, tc.want)
		}
	}
}
