package plan_test

import (
	"context"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/plantest"
)

// BenchmarkJudge checks and prices a plan, as planners and decisions do.
func BenchmarkJudge(b *testing.B) {
	p := plantest.Sized(1, 5000, 30, 48, 0.5)
	res, err := asap.Planner{}.Plan(context.Background(), p)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check/jobs=5000/clusters=30/slots=48", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := plan.Check(p, res.Plan); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("evaluate/jobs=5000/clusters=30/slots=48", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plan.Evaluate(p, res.Plan)
		}
	})
}
