package joint_test

import (
	"context"
	"fmt"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// tooMany has elastic jobs that each need most of their window, on servers for all but one.
func tooMany(jobs, slots int) *plan.Problem {
	intensity := make([]float64, slots)
	for t := range intensity {
		intensity[t] = float64(200 + t*37%211)
	}
	all := make([]workload.Job, jobs)
	for i := range all {
		all[i] = plantest.Job(fmt.Sprintf("j%d", i), workload.Elastic, 0, slots, 0.9*float64(slots), 1, 0.8, 0.5)
	}
	return plantest.OneCluster(float64(jobs-1), intensity, all...)
}

// TestOneOfTooManyIsLeftOut: as many jobs as there are servers find a place.
func TestOneOfTooManyIsLeftOut(t *testing.T) {
	p := tooMany(4, 96)
	res, err := joint.Planner{}.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Unplaced) != 1 {
		t.Errorf("%d jobs left out, want 1", len(res.Unplaced))
	}
}

// BenchmarkLeftOut: a job without a place is sought one again and again.
func BenchmarkLeftOut(b *testing.B) {
	for _, slots := range []int{288, 2304} {
		p := tooMany(4, slots)
		b.Run(fmt.Sprintf("jobs=4/clusters=1/slots=%d", slots), func(b *testing.B) {
			for b.Loop() {
				if _, err := (joint.Planner{}).Plan(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAJobThatNeedsTheReserveIsNotSearchedFor: without others, one look at its window says that it
// has no place beside the reserve, and it gets its best place in it.
func TestAJobThatNeedsTheReserveIsNotSearchedFor(t *testing.T) {
	planner, err := joint.New(1, 0, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		p := plantest.OneCluster(1, []float64{300, 200, 100, 200, 300, 100}, plantest.Job("a", kind, 0, 6, 2))
		res, err := planner.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if res.Status != plan.Optimal || res.Considered != 1 {
			t.Errorf("%s: %s after %d schedules, want optimal after 1", kind, res.Status, res.Considered)
		}
	}
}
