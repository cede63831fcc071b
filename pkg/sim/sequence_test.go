package sim_test

import (
	"context"
	"reflect"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/sim"
)

// counting is a planner that counts its sequences and the plans made outside of them.
type counting struct{ sequences, apart *int }

func (c counting) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	*c.apart++
	return joint.Planner{}.Plan(ctx, p)
}

func (c counting) Sequence() plan.Planner {
	*c.sequences++
	return joint.NewWarm(joint.Planner{})
}

// TestSimulationsPlanAsControllersDo: each simulation is a sequence of decisions, and so plans with a
// memory of its own; simulations that share a planner come out the same.
func TestSimulationsPlanAsControllersDo(t *testing.T) {
	var sequences, apart int
	for _, revise := range []sim.Revision{sim.EverySlot, sim.OnChange} {
		cfg := config(t, 3, 25, 9, plan.Guarded{Planner: counting{&sequences, &apart}, Probability: 0.95})
		cfg.Revise = revise
		a, b := simulate(t, cfg), simulate(t, cfg)
		if !reflect.DeepEqual(a, b) {
			t.Error("two simulations of one planner differ")
		}
	}
	if sequences != 4 || apart != 0 {
		t.Errorf("%d sequences for 4 simulations, %d plans outside of them", sequences, apart)
	}
}
