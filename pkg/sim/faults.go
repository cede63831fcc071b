package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults are what goes wrong. Errors of forecasts are part of a cluster's outlook,
// those of run times and profiles of the jobs.
type Faults struct {
	// Deny is the probability that a worker which is asked for is not granted
	// (CarbonScaler, Section 5.6); it is asked for again after Retry, 0 meaning with the
	// next slot.
	Deny  float64
	Retry time.Duration
	// Losses are machines that fail.
	Losses []Loss
}

// Loss takes part of a cluster's capacity away for a time. Jobs that no longer fit lose
// their place, the last to start first: rigid ones begin anew, the others go on from
// the beginning of the slot.
type Loss struct {
	Cluster  int
	From, To time.Time
	Capacity map[string]float64
}

func (f Faults) validate(clusters []Cluster) error {
	if !(f.Deny >= 0 && f.Deny < 1) {
		return fmt.Errorf("%w: faults: denial: %v; accepted: 0 to below 1", ErrConfig, f.Deny)
	}
	if f.Retry < 0 {
		return fmt.Errorf("%w: faults: retry: %v; accepted: at least 0", ErrConfig, f.Retry)
	}
	for _, l := range f.Losses {
		if l.Cluster < 0 || l.Cluster >= len(clusters) || clusters[l.Cluster].Capacity == nil || !l.To.After(l.From) {
			return fmt.Errorf("%w: faults: loss on cluster %d from %s to %s; accepted: a cluster with a capacity, and a time after the other",
				ErrConfig, l.Cluster, l.From.Format(time.RFC3339), l.To.Format(time.RFC3339))
		}
	}
	return nil
}

// ProfileError returns a copy of s whose planners see marginal capacities that are off
// by up to share each, up or down, uniformly distributed, while the true ones stay
// (CarbonScaler, Section 5.6).
func ProfileError(s *Scale, share float64, seed uint64) *Scale {
	rng := rand.New(rand.NewPCG(seed, 0x70726f66))
	out := *s
	out.Actual = s.Curve
	if s.Actual != nil {
		out.Actual = s.Actual
	}
	out.Curve = make([]float64, len(s.Curve))
	for i, v := range s.Curve {
		out.Curve[i] = v
		if i > 0 {
			out.Curve[i] = v * (1 + share*(2*rng.Float64()-1))
		}
	}
	return &out
}
