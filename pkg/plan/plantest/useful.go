package plantest

import (
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/workload"
)

// UsefulScales checks that a planner which counts workers, not watts, never runs a job with a
// worker that adds nothing to its throughput, on random instances with measured curves.
//
// The environment variable LULL_RANDOM overrides the number of instances.
func UsefulScales(t *testing.T, planner plan.Planner, instances int, o Options) {
	t.Helper()
	o.Kinds = []workload.Kind{workload.Elastic}
	for seed := range uint64(Instances(instances)) {
		p := Random(seed, o)
		rng := rand.New(rand.NewPCG(seed, 0x05e))
		for j := range p.Jobs {
			job := &p.Jobs[j]
			job.Curve, job.Watts = generate.MeasuredCurve(rng, job.MinWorkers, len(job.Curve)), nil
		}
		for _, jp := range solve(t, planner, p).Plan.Jobs {
			job := &p.Jobs[jp.Job]
			for _, s := range jp.Segments {
				if i := s.Workers - job.MinWorkers; i > 0 && job.Curve[i] <= 0 {
					t.Fatalf("seed %d: job %q runs with %d workers in slot %d, and the last one adds nothing: curve %v from %d workers", seed, job.ID, s.Workers, s.Slot, job.Curve, job.MinWorkers)
				}
			}
		}
	}
}
