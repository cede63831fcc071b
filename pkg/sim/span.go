package sim

import (
	"time"

	"lull.dev/lull/pkg/units"
)

// SameSpan makes the results of several runs of the same jobs comparable: it counts the idle power of
// machines up to the end of the run that ends last in all of them. Without it, a run that is done
// earlier is credited with the hours in which its machines only idle. cfg is that of the runs; only
// its clusters matter. A second call changes nothing.
//
// Complexity: O(results x (jobs + clusters x samples)).
func SameSpan(cfg Config, results ...*Result) {
	last := time.Time{}
	for _, r := range results {
		if end := r.At(r.counted); end.After(last) {
			last = end
		}
	}
	for _, r := range results {
		to := last.Sub(r.Start)
		for c := range cfg.Clusters {
			cl := &cfg.Clusters[c]
			kWh, p := cl.idle(cl.Nodes.needed(0), r.At(r.counted), r.At(to))
			r.IdleEmissions += p.Emissions
			r.IdleEnergy += units.Energy(kWh)
			r.Emissions += p.Emissions
			r.Energy += units.Energy(kWh)
			r.Filled, r.Unpriced = addTime(r.Filled, p.Filled), addTime(r.Unpriced, p.Unknown)
		}
		r.counted = to
	}
}
