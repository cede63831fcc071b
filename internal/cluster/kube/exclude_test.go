package kube

import (
	"strings"
	"testing"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/timegrid"
)

// TestExcludedWorkloadIsNoTaskAndIsReleased: what a policy may not govern is no task. It is released if Lull holds it, whoever held it,
// and left alone once it runs.
func TestExcludedWorkloadIsNoTaskAndIsReleased(t *testing.T) {
	hook := annotate("helm.sh/hook", "pre-upgrade")
	for name, tc := range map[string]struct {
		view           View
		tasks, release int
	}{
		"held hook":          {observe(t, policy, timegrid.Timeline{}, newJob("a", hook)), 0, 1},
		"running hook":       {observe(t, policy, timegrid.Timeline{}, newJob("a", hook, running)), 0, 0},
		"hook by name":       {observe(t, policy, timegrid.Timeline{}, newJob("a", hook, annotate(v1alpha1.AnnotationGovernBy, "p"))), 1, 0},
		"asks for another":   {observe(t, policy, timegrid.Timeline{}, newJob("a", annotate(v1alpha1.AnnotationGovernBy, "q"))), 0, 1},
		"beside an ordinary": {observe(t, policy, timegrid.Timeline{}, newJob("a", hook), newJob("b")), 1, 1},
	} {
		if len(tc.view.Snapshot.Tasks) != tc.tasks || len(tc.view.Excluded) != tc.release || len(tc.view.Invalid) != 0 {
			t.Errorf("%s: %d tasks, %d to be released, want %d, %d", name, len(tc.view.Snapshot.Tasks), len(tc.view.Excluded), tc.tasks, tc.release)
		}
	}
	job := newJob("a")
	job.Namespace = "lull-elsewhere"
	w := workloadOf(t, &job)
	if got := w.Excluded("lull-elsewhere"); !strings.Contains(got, "lull-elsewhere") || w.Excluded("lull-system") != "" {
		t.Errorf("in Lull's own namespace: %q", got)
	}
}
