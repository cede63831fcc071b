package plantest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// Latest is the planner that CONTRIBUTING.md adds as an example.
type Latest struct{}

// Plan places the jobs in order of arrival, each in one run that starts as late as it fits, at MinWorkers.
//
// Ties: the cluster that Free.Earliest prefers. Complexity: O(jobs x clusters x slots²).
func (Latest) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	return plan.PlaceEach(ctx, p, free, func(j, last int) (segments []plan.Segment, considered int64, ok bool) {
		for from := last - p.Jobs[j].Slots(); from >= p.Jobs[j].Arrival; from-- {
			considered++
			if segments, ok = free.Earliest(p, j, from, last, 0, false); ok {
				return segments, considered, true
			}
		}
		return nil, considered, false
	})
}

func TestLatestKeepsTheLaws(t *testing.T) { plantest.Laws(t, Latest{}, 200, plantest.Options{}) }

// TestLatestEndsAtTheDeadline: a job of two slots with a deadline of six starts in slot 4.
func TestLatestEndsAtTheDeadline(t *testing.T) {
	p := plantest.OneCluster(100, []float64{1, 2, 3, 4, 5, 6}, plantest.Job("j", workload.Rigid, 0, 6, 2, 1))
	res, err := Latest{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Plan.Jobs[0].Segments[0].Slot; got != 4 {
		t.Errorf("starts in slot %d, want 4", got)
	}
}

// TestContributingShowsAPlanner: the example of CONTRIBUTING.md is the planner above.
func TestContributingShowsAPlanner(t *testing.T) {
	page, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("contributing_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "\nfunc (Latest) Plan")
	text, _, _ = strings.Cut(text, "\n}\n")
	if !strings.Contains(string(page), "func (Latest) Plan"+text+"\n}\n") {
		t.Error("the example of CONTRIBUTING.md is not Latest.Plan of pkg/plan/plantest/contributing_test.go; copy it")
	}
}
