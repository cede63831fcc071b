package demo

import (
	"context"
	"io"
	"math"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/caspian"
)

// TestCaspianBaselineSharesEvenly: with omega1 = 0, live and simulated alike, each cluster gets about a third of the work. The
// paper: "Caspian distributes workloads equally among clusters".
func TestCaspianBaselineSharesEvenly(t *testing.T) {
	r := &caspianRun{Options: Options{Planner: "caspian", Seed: 1, Jobs: 200, Out: io.Discard}}
	if err := r.places(); err != nil {
		t.Fatal(err)
	}
	r.workloads()
	simulate := func(omega float64, params caspian.Params) outcome {
		o, err := r.simulate(context.Background(), omega, func(string, map[string]string, []string) (plan.Planner, error) { return caspian.New(params) })
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	base, first, own := simulate(0, caspian.Params{}), simulate(0, caspian.Params{TiesToFirst: true}), simulate(1, caspian.Params{})
	t.Logf("GPU hours %.0f, ties to the first cluster %.0f; omega1 = 1 saves %.1f %%, %.1f %% with ties to the first", base.gpuHours, first.gpuHours, 100*(1-float64(own.grams/base.grams)), 100*(1-float64(own.grams/first.grams)))
	third := (base.gpuHours[0] + base.gpuHours[1] + base.gpuHours[2]) / 3
	for c, hours := range base.gpuHours {
		if math.Abs(hours/third-1) > 0.05 {
			t.Errorf("%s: %.0f GPU hours; want a third of all, %.0f, within 5 %%", r.zones[c], hours, third)
		}
	}
	if base.makespan > first.makespan+1 || base.onTime < first.onTime-0.01 {
		t.Errorf("spread: makespan %.1f h, on time %.3f; to the first: %.1f h, %.3f; spreading must cost no service", base.makespan, base.onTime, first.makespan, first.onTime)
	}
}
