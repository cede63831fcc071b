// Package ksearch implements carbon-aware provisioning (CAP): the share of a cluster that may be
// used follows thresholds of online search, between the lowest and the highest intensity of the next two
// days. It needs no job length and no history.
package ksearch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/rollout"
)

// Source names what the method is taken from.
const Source = "Lechowicz et al., Carbon- and Precedence-Aware Scheduling for Data Processing Clusters, SIGCOMM 2025 (CAP)"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner cap")

// DefaultFloor is the share of the capacity that may always be used by default: the source's moderate setting.
const DefaultFloor = 0.2

// lookAhead is how far ahead the lowest and the highest intensity are taken from.
const lookAhead = 48 * time.Hour

// Params are the settings of the method.
type Params struct {
	// Floor is the share of the capacity that may always be used, 0 to 1.
	Floor float64
}

// Planner is the method; its zero value has no floor.
type Planner struct{ floor float64 }

// New returns the planner, or an error wrapping ErrParams.
func New(params Params) (Planner, error) {
	if !(params.Floor >= 0 && params.Floor <= 1) {
		return Planner{}, fmt.Errorf("%w: floor: %v; accepted: 0 to 1", ErrParams, params.Floor)
	}
	return Planner{floor: params.Floor}, nil
}

// Plan starts jobs in order of arrival at MinWorkers, as long as the used share of the capacity stays below that of Share.
// A job that has begun goes on: a share that falls stops no job. A job without slack runs, above the share where it must.
//
// Deviations from the source: its jobs have no deadline, and their parallelism follows the share, too; here all run at MinWorkers. The
// source counts executors and has a threshold for each; here the share is continuous, as for many executors. Near the end of the
// horizon the two days are shorter.
//
// Optimality: heuristic; see Share for its ratio. Bound: none. Errors: that of ctx. Complexity: O(clusters x slots x slots
// in two days) for the shares, then that of the roll-out.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	x := &policy{share: make([][]float64, len(p.Clusters))}
	ahead := max(1, int(lookAhead/p.Grid.Slot))
	for c := range p.Clusters {
		ci := p.Clusters[c].Intensity
		for t := range p.Grid.N {
			next := ci[t:min(len(ci), t+ahead)]
			x.share[c] = append(x.share[c], pl.floor+(1-pl.floor)*Share(ci[t], slices.Min(next), slices.Max(next)))
		}
	}
	return rollout.Plan(ctx, p, x)
}

// Share is the share of the capacity that may be used at an intensity, where intensities are from low to high: 0 at high and
// 1 at low. With the competitive ratio a of the search for the lowest price, which solves
//
//	(1 - 1/a) e^(1/a) = 1 - low/high
//
// it is the s of the threshold high (1 - (1 - 1/a) e^(s/a)) that equals the intensity. Whoever buys up to this share as
// intensities fall, and the rest at high, pays at most a times the lowest intensity that there was.
func Share(intensity, low, high float64) float64 {
	low = math.Max(0, low)
	switch {
	case intensity <= low || low >= high:
		return 1
	case intensity >= high:
		return 0
	}
	y := inverseRatio(low / high)
	if y == 0 {
		return 0 // low is 0: the search waits for it
	}
	return math.Min(1, math.Max(0, math.Log((1-intensity/high)/(1-y))/y))
}

// inverseRatio is 1/a of Share, by bisection: its equation falls in 1/a from 1 to 0.
func inverseRatio(lowToHigh float64) float64 {
	least, most := 0.0, 1.0
	for range 60 {
		if y := (least + most) / 2; (1-y)*math.Exp(y) > 1-lowToHigh {
			least = y
		} else {
			most = y
		}
	}
	return least
}

type policy struct {
	share [][]float64 // by cluster and slot
}

// Slot schedules one slot under the shares.
func (x *policy) Slot(run *rollout.Run) {
	list := run.Active()
	all := func(int) float64 { return 0 }
	under := func(c int) float64 { return 1 - x.share[c][run.T] }
	for _, j := range list {
		if run.Slack(j) <= 0 || run.Home(j) >= 0 {
			run.Raise(j, run.Cleanest(j, all), 0)
		}
	}
	for _, j := range list {
		if run.Scales(j) == 0 {
			if c := run.Cleanest(j, under); c >= 0 {
				run.Raise(j, c, under(c))
			}
		}
	}
}
