package plan_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// TestNumbersAreBounded: a number so large that products of it overflow is refused, with its field. Planners
// would search for a price among infinite ones.
func TestNumbersAreBounded(t *testing.T) {
	for _, v := range []float64{1e19, 1e290, math.MaxFloat64, math.Inf(1), math.NaN()} {
		for want, spoil := range map[string]func(p *plan.Problem){
			"intensity[0]":   func(p *plan.Problem) { p.Clusters[0].Intensity[0] = v },
			`watts["cpu"]`:   func(p *plan.Problem) { p.Clusters[0].Watts = map[string]float64{"cpu": v} },
			"pue":            func(p *plan.Problem) { p.Clusters[0].PUE = v },
			"curve[0]":       func(p *plan.Problem) { p.Jobs[0].Curve[0] = v },
			`request["cpu"]`: func(p *plan.Problem) { p.Jobs[0].Request = map[string]float64{"cpu": v} },
			"restartKWh":     func(p *plan.Problem) { p.Jobs[0].RestartKWh = v },
			`capacity["x"]`:  func(p *plan.Problem) { p.Clusters[0].Capacity["x"] = slices.Repeat([]float64{v}, p.Grid.N) },
		} {
			p := running()
			p.Jobs[0].Kind, p.Jobs[0].Begun = workload.Interruptible, nil
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			spoil(p)
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v: %v", want, v, err)
			}
		}
	}
}
