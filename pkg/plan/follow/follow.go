// Package follow places long-running deployments where power is clean and moves them
// when another place is better by enough: follow the clean power, the sun or the wind.
package follow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Source names what the method is taken from.
const Source = "James and Schien, A Low Carbon Kubernetes Scheduler, ICT4S 2019, Section IV"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner follow")

// Temperature is the name of the signal that breaks ties: air temperature, Celsius.
const Temperature = "temperature"

// Score rates a place by its signals; the highest is the best. "intensity" is one of
// them, beside those of the cluster.
type Score func(signals map[string]float64) (float64, error)

// Params are the settings of the method.
type Params struct {
	// Score ranks places; nil ranks by intensity, the lowest first, then by
	// temperature, the coolest first.
	Score Score
	// Equal is the relative difference of intensities that counts as none; 0 takes
	// 0.05. Unused with a Score.
	Equal float64
	// Every is how often places are ranked; 0 takes 30 minutes (at least a slot).
	Every time.Duration
	// Dwell is the least stay after a move, Stay how long a place is expected to stay
	// the better one, over which a move must pay; 0 takes an hour and the dwell time.
	Dwell, Stay time.Duration
	// Threshold is the least relative improvement of intensity that is worth a move,
	// 0 to below 1. Unused with a Score.
	Threshold float64
}

// Planner is the method; its zero value is ready.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams.
func New(params Params) (Planner, error) {
	for name, v := range map[string]float64{"equal": params.Equal, "threshold": params.Threshold} {
		if !(v >= 0 && v < 1) {
			return Planner{}, fmt.Errorf("%w: %s: %v; accepted: 0 to below 1", ErrParams, name, v)
		}
	}
	for name, d := range map[string]time.Duration{"every": params.Every, "dwell": params.Dwell, "stay": params.Stay} {
		if d < 0 {
			return Planner{}, fmt.Errorf("%w: %s: %s; accepted: at least 0", ErrParams, name, d)
		}
	}
	return Planner{params}, nil
}

func (pl Planner) complete() Params {
	q := pl.params
	if q.Equal == 0 {
		q.Equal = 0.05
	}
	if q.Every == 0 {
		q.Every = 30 * time.Minute
	}
	if q.Dwell == 0 {
		q.Dwell = time.Hour
	}
	if q.Stay == 0 {
		q.Stay = q.Dwell
	}
	return q
}

// Plan runs every job as a deployment: without a pause from its arrival until its work
// is done at MinWorkers. Where it may migrate, places are ranked anew every period and
// it moves to the best when it has room there, the dwell time is over, the improvement
// exceeds the threshold and the move pays:
//
//	E_CA I_A > E_CB I_B + E_RB I_B + E_NAB I_AB
//
// with the energy E_C of computing over the expected stay, E_R of ramping up in B (the
// job's RestartKWh), E_N of the transfer (its TransferKWh) at the mean intensity I_AB;
// PUE multiplies the energy of either place. It is make-before-break: what runs twice
// while it moves is the ramp-up's energy. A deployment that loses its room moves
// whatever that costs, and stays where it is when no place can take it.
//
// Deviations from the source: of several deployments the earlier ones choose first;
// capacity binds. Jobs that may not migrate stay at the best place of their first slot
// with room for all of their run.
//
// Errors: that of ctx, and those of the score, naming the cluster. Bound: none.
// Complexity: O(jobs x slots x clusters log clusters).
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	free := plan.NewFree(p)
	ranks, err := pl.rankings(p)
	if err != nil {
		return plan.Result{}, err
	}
	return plan.PlaceEach(ctx, p, free, func(j, last int) ([]plan.Segment, int64, bool) {
		segments, ok := pl.follow(p, free, ranks, j, last)
		return segments, int64(len(p.Clusters) * len(segments)), ok
	})
}

// rankings lists the clusters of every slot, the best first.
func (pl Planner) rankings(p *plan.Problem) ([][]int, error) {
	out := make([][]int, p.Grid.N)
	places := make([]Place, len(p.Clusters))
	for t := range out {
		for c := range p.Clusters {
			cl := &p.Clusters[c]
			places[c] = Place{Name: cl.Name, Intensity: cl.Intensity[t], Signals: make(map[string]float64, len(cl.Signals))}
			for name, v := range cl.Signals {
				places[c].Signals[name] = v[t]
			}
		}
		var err error
		if out[t], err = pl.Rank(places); err != nil {
			return nil, fmt.Errorf("slot %d: %w", t, err)
		}
	}
	return out, nil
}

// Place is a place at one moment.
type Place struct {
	Name string
	// Intensity of its power, gCO2eq/kWh.
	Intensity float64
	// Signals are what else is known of it.
	Signals map[string]float64
}

// Rank orders places, the best first: by the score, the highest first, or by intensity, the
// lowest first, and those within the relative difference Equal of the lowest of their group by
// air temperature, the coolest first, places of unknown temperature last. The error is that of
// the score, naming the place.
func (pl Planner) Rank(places []Place) ([]int, error) {
	params := pl.complete()
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	if params.Score == nil {
		byIntensity(places, params.Equal, order)
		return order, nil
	}
	scores := make([]float64, len(places))
	for i := range places {
		signals := map[string]float64{"intensity": places[i].Intensity}
		for name, v := range places[i].Signals {
			signals[name] = v
		}
		v, err := params.Score(signals)
		if err == nil && math.IsNaN(v) {
			err = errors.New("not a number")
		}
		if err != nil {
			return nil, fmt.Errorf("ranking cluster %q: %w", places[i].Name, err)
		}
		scores[i] = v
	}
	sort.SliceStable(order, func(a, b int) bool { return scores[order[a]] > scores[order[b]] })
	return order, nil
}

func byIntensity(places []Place, equal float64, order []int) {
	temperature := func(i int) float64 {
		if v, ok := places[i].Signals[Temperature]; ok {
			return v
		}
		return math.Inf(1)
	}
	sort.SliceStable(order, func(a, b int) bool { return places[order[a]].Intensity < places[order[b]].Intensity })
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && places[order[to]].Intensity <= places[order[from]].Intensity*(1+equal) {
			to++
		}
		group := order[from:to]
		sort.SliceStable(group, func(a, b int) bool { return temperature(group[a]) < temperature(group[b]) })
		from = to
	}
}

// follow is the run of one deployment.
func (pl Planner) follow(p *plan.Problem, free *plan.Free, ranks [][]int, j, last int) ([]plan.Segment, bool) {
	params, job := pl.complete(), &p.Jobs[j]
	period := max(1, int(params.Every/p.Grid.Slot))
	dwell := int((params.Dwell + p.Grid.Slot - 1) / p.Grid.Slot)
	need := job.Slots()
	if job.Arrival+need > last {
		return nil, false
	}
	if !job.Migratable || job.Kind == workload.Rigid {
		return stay(p, free, ranks, j)
	}
	at, since := -1, 0
	slots, clusters := make([]int, 0, need), make([]int, 0, need)
	for t := job.Arrival; t < job.Arrival+need; t++ {
		fits := func(c int) bool {
			return job.Allows(p.Clusters[c].Name) && free.FitsUnder(j, c, t, job.MinWorkers, 0)
		}
		best := -1
		for _, c := range ranks[t] {
			if fits(c) {
				best = c
				break
			}
		}
		switch {
		case best < 0:
			return nil, false
		case at < 0 || !fits(at):
			at, since = best, t
		case best != at && (t-job.Arrival)%period == 0 && t-since >= dwell && pl.worthIt(p, j, at, best, t):
			at, since = best, t
		}
		slots, clusters = append(slots, t), append(clusters, at)
	}
	return plan.Place(job, slots, clusters), true
}

// stay is the run of a deployment that may not migrate.
func stay(p *plan.Problem, free *plan.Free, ranks [][]int, j int) ([]plan.Segment, bool) {
	job := &p.Jobs[j]
	need := job.Slots()
	for _, c := range ranks[job.Arrival] {
		if !job.Allows(p.Clusters[c].Name) || free.FitsRun(j, c, job.Arrival, need, job.MinWorkers, 0) >= 0 {
			continue
		}
		slots, clusters := make([]int, need), make([]int, need)
		for i := range slots {
			slots[i], clusters[i] = job.Arrival+i, c
		}
		return plan.Place(job, slots, clusters), true
	}
	return nil, false
}

func (pl Planner) worthIt(p *plan.Problem, j, a, b, t int) bool {
	job := &p.Jobs[j]
	watts := func(c int) float64 { return p.Watts(j, c, job.MinWorkers) }
	return pl.Worth(Move{
		ComputeA: watts(a) * p.Clusters[a].PUE / 1000, ComputeB: watts(b) * p.Clusters[b].PUE / 1000,
		RampB: job.RestartKWh * p.Clusters[b].PUE, Transfer: job.TransferKWh,
		IntensityA: p.Clusters[a].Intensity[t], IntensityB: p.Clusters[b].Intensity[t],
	})
}

// Worth reports whether a move to the better place is worth it, with ComputeA and ComputeB in
// kWh for an hour: by the threshold, and by the inequality over the expected stay. A ranking by
// something else than carbon is followed as it is.
func (pl Planner) Worth(m Move) bool {
	params := pl.complete()
	if params.Score != nil {
		return true
	}
	hours := params.Stay.Hours()
	m.ComputeA, m.ComputeB = hours*m.ComputeA, hours*m.ComputeB
	return m.IntensityB <= m.IntensityA*(1-params.Threshold) && m.Pays()
}

// Due reports whether places may be ranked anew for what has been at its place since a time, and
// was last ranked at another.
func (pl Planner) Due(now, ranked, since time.Time) bool {
	params := pl.complete()
	return now.Sub(ranked) >= params.Every && now.Sub(since) >= params.Dwell
}

// Move is what a migration from A to B costs and saves: energies in kWh with the PUE of
// their place, intensities in gCO2eq/kWh.
type Move struct {
	ComputeA, ComputeB, RampB, Transfer float64
	IntensityA, IntensityB              float64
}

// Pays is the inequality of the paper (Section IV): what computing on emits exceeds what
// computing, ramping up and transferring emit.
func (m Move) Pays() bool {
	return m.ComputeA*m.IntensityA > (m.ComputeB+m.RampB)*m.IntensityB+m.Transfer*(m.IntensityA+m.IntensityB)/2
}
