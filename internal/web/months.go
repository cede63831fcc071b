package web

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"lull.dev/lull/internal/accounting/ledger"
)

// Month is a sum over the workloads that ended in a month (UTC), of one signal and factor: emissions by others do not add up.
type Month struct {
	Name      string  `json:"name"` // 2026-11
	Signal    string  `json:"signal"`
	Factor    string  `json:"factor"`
	Workloads int     `json:"workloads"`
	Late      int     `json:"late"`
	KWh       float64 `json:"kWh"`
	// Grams were emitted, AsSubmittedGrams would have been, and SavedGrams is the difference. UncertainGrams is how far Grams may be off
	// at 90 %, SavedUncertain how far SavedGrams may be: both rest on the same energy, so its uncertainty is a share of each.
	Grams            float64 `json:"gCO2eq"`
	AsSubmittedGrams float64 `json:"asSubmittedGCO2eq"`
	SavedGrams       float64 `json:"savedGCO2eq"`
	UncertainGrams   float64 `json:"uncertainGCO2eq"`
	SavedUncertain   float64 `json:"savedUncertainGCO2eq"`
	// Withheld counts the workloads whose emissions are not stated.
	Withheld int `json:"withheld,omitempty"`
}

// maxMonths is how many months the page shows.
const maxMonths = 13

type monthKey struct{ name, signal, factor string }

// months are sums by month, signal and factor.
type months map[monthKey]Month

// add counts a workload, unless it never ran.
func (m months) add(b *ledger.Settled) {
	if b.Runs == 0 {
		return
	}
	key := monthKey{b.To.UTC().Format("2006-01"), b.Signal, b.Factor}
	x := m[key]
	x.Name, x.Signal, x.Factor = key.name, key.signal, key.factor
	x.Workloads++
	if !b.OnTime {
		x.Late++
	}
	x.KWh += b.KWh
	if b.Withheld != "" {
		x.Withheld++
	} else {
		x.Grams += b.Grams
		x.AsSubmittedGrams += b.Counterfactual.Grams
		x.SavedGrams += b.SavedGrams
		x.UncertainGrams += b.Uncertainty * b.Grams
		x.SavedUncertain += b.Uncertainty * math.Abs(b.SavedGrams)
	}
	m[key] = x
}

// sorted returns the last months, the first one first.
func (m months) sorted() []Month {
	out := slices.SortedFunc(maps.Values(m), func(a, b Month) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Factor, b.Factor))
	})
	names, first := map[string]bool{}, len(out)
	for first > 0 && (len(names) < maxMonths || names[out[first-1].Name]) {
		first--
		names[out[first].Name] = true
	}
	return append([]Month{}, out[first:]...)
}
