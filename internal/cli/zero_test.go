package cli

import (
	"math"
	"strings"
	"testing"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
)

// TestNoNegativeZero: savings that are negative by less than the digits shown are printed as 0.
func TestNoNegativeZero(t *testing.T) {
	const little = -1e-6
	zero := math.Copysign(0, -1)
	x := option{Saving: little, Cost: 1 + little, PerCost: &zero}
	x.SavingOf.P5, x.SavingOf.Median, x.SavingOf.P95 = little, little, little
	a := advice{Options: []option{x}}
	_, rows := scenario.Table(sim.Config{}, []scenario.Summary{{Planner: "p", Saving: little, CarbonG: zero, EnergyKWh: zero}})
	for name, text := range map[string]string{
		"advise":         strings.Join(x.cells(false), " "),
		"recommendation": a.words(&x, &adviseOptions{}),
		"simulate":       strings.Join(rows[0], " "),
		"report":         strings.Join(totalsRow("all", &ledger.Totals{SavedGrams: little, Grams: 1, AsSubmittedGrams: 1 + little, DelayHours: little}), " "),
		"plan":           saving(plan.Evaluation{CarbonG: 1 - little}, plan.Evaluation{CarbonG: 1}),
	} {
		if strings.Contains(text, "-0") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
