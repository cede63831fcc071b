package carbonflex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/rollout"
	"lull.dev/lull/pkg/workload"
)

// FlexSource names what the method is taken from.
const FlexSource = "Hanafy et al., CarbonFlex, 2025, Algorithms 2 and 3"

// ErrParams marks parameters that make no sense.
var ErrParams = errors.New("invalid parameters of planner carbonflex")

// Params are the settings of the method; zero values take those of the paper.
type Params struct {
	// Knowledge is what has been learned; nil or empty knows nothing: the method is
	// carbon-agnostic then.
	Knowledge *Knowledge
	// Neighbours is how many cases are looked up: 5.
	Neighbours int
	// Tolerance is epsilon, the share of delayed jobs from which capacity is raised:
	// 0.05. Distance is delta, the mean distance of the cases, in standard deviations,
	// beyond which they are not trusted then: 2.
	Tolerance, Distance float64
	// Now, where it is set, is what Algorithm 2 has decided for the first slot; Algorithm 3
	// follows it there.
	Now *Decision
	// Relearn, where it is set, is what is known from a slot on; nil keeps what was known before.
	Relearn func(slot int) *Knowledge
}

// Planner is the method: Algorithm 2 sets the capacity of every slot, Algorithm 3
// gives it to jobs.
type Planner struct{ params Params }

// New returns the planner, or an error wrapping ErrParams.
func New(params Params) (Planner, error) {
	if params.Neighbours == 0 {
		params.Neighbours = 5
	}
	if params.Tolerance == 0 {
		params.Tolerance = 0.05
	}
	if params.Distance == 0 {
		params.Distance = 2
	}
	switch {
	case params.Neighbours < 1:
		return Planner{}, fmt.Errorf("%w: neighbours: %d; accepted: at least 1", ErrParams, params.Neighbours)
	case !(params.Tolerance >= 0 && params.Tolerance <= 1):
		return Planner{}, fmt.Errorf("%w: tolerance: %v; accepted: 0 to 1", ErrParams, params.Tolerance)
	case !(params.Distance > 0):
		return Planner{}, fmt.Errorf("%w: distance: %v; accepted: above 0", ErrParams, params.Distance)
	}
	if params.Knowledge == nil {
		params.Knowledge = NewKnowledge(0)
	}
	return Planner{params}, nil
}

// Plan rolls the method out over p, slot by slot, with p's intensities as the day-ahead
// forecast and the lengths of jobs unknown:
//
//	m_t = M            if the share of delayed jobs exceeds epsilon and the cases are
//	                   farther than delta, or nothing is known
//	    = max of cases if it exceeds epsilon
//	    = mean of cases otherwise                                   (Algorithm 2)
//
// and then, by falling marginal throughput p_j(k) >= rho and rising remaining delay,
// scales until m_t is full (Algorithm 3). A job whose allowed delay is used up runs at
// least at MinWorkers, whatever m_t.
//
// Deviations from the source: rho is the mean of the cases' lowest marginal
// throughputs, and a scale equal to it is taken. Workers that are of use only together
// (workload.Increments) are taken together. On several clusters each has its own
// capacity m_t; a job runs on the cleanest with room. Rigid jobs, once started, run on.
//
// Optimality: heuristic. Bound: none. Errors: that of ctx. Complexity: O(slots x (log
// cases + S log S)) for S scales of active jobs.
func (pl Planner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	return rollout.Plan(ctx, p, &policy{params: pl.params, features: newFeatures(p)})
}

type policy struct {
	params   Params
	features *features
}

// Decision is what Algorithm 2 decides for a cluster and a slot, and from what.
type Decision struct {
	// Capacity is the share of the cluster to use, Rho the least marginal throughput.
	Capacity, Rho float64
	Matches       []Match
	// Why says which branch was taken.
	Why string
}

// Provision is Algorithm 2: delayed is the share of jobs whose allowed delay is used up.
//
// Complexity: that of Knowledge.Nearest.
func (pl Planner) Provision(s State, delayed float64) Decision {
	d := Decision{Matches: pl.params.Knowledge.Nearest(s, pl.params.Neighbours)}
	if len(d.Matches) == 0 {
		d.Capacity, d.Rho, d.Why = 1, 1, "nothing is known: carbon-agnostic"
		return d
	}
	most, distance := 0.0, 0.0
	n := float64(len(d.Matches))
	for _, m := range d.Matches {
		d.Capacity += m.Case.Capacity / n
		d.Rho += m.Case.Rho / n
		distance += m.Distance / n
		most = math.Max(most, m.Case.Capacity)
	}
	switch {
	case delayed > pl.params.Tolerance && distance > pl.params.Distance:
		d.Capacity, d.Rho, d.Why = 1, 0, "delays, and no case like this one: all of the cluster"
	case delayed > pl.params.Tolerance:
		d.Capacity, d.Why = most, "delays: the most of the cases"
	default:
		d.Why = "the mean of the cases"
	}
	return d
}

// remaining is the allowed delay that job j has left in slot t: a_j + d_j - t.
func remaining(p *plan.Problem, j, t int) int {
	return p.Jobs[j].LatestStart() - t
}

// Slot is one slot of both algorithms.
func (x *policy) Slot(run *rollout.Run) {
	p := run.P
	if x.params.Relearn != nil {
		if k := x.params.Relearn(run.T); k != nil {
			x.params.Knowledge = k
		}
	}
	state := x.features.of(p, run)
	reserve := make([]float64, len(p.Clusters))
	rho := make([]float64, len(p.Clusters))
	var active, delayed int
	run.Waiting(func(j int) {
		active++
		if remaining(p, j, run.T) < 0 {
			delayed++
		}
	})
	share := float64(delayed) / math.Max(1, float64(active))
	for c := range p.Clusters {
		here := x.features.at(state, c, run.T)
		here.Intensity = p.Clusters[c].Intensity[run.T]
		d := x.params.Now
		if d == nil || run.T > 0 {
			provisioned := Planner{x.params}.Provision(here, share)
			d = &provisioned
		}
		reserve[c], rho[c] = math.Max(0, math.Min(1, 1-d.Capacity)), d.Rho
	}
	list := run.Active()
	none := func(int) float64 { return 0 }
	under := func(c int) float64 { return reserve[c] }
	for _, j := range list {
		if remaining(p, j, run.T) <= 0 {
			run.Raise(j, run.Cleanest(j, none), 0)
		}
	}
	schedule(run, list, under, rho)
}

// schedule is Algorithm 3: everyone's MinWorkers first, by remaining delay, then
// further workers by marginal throughput and remaining delay.
func schedule(run *rollout.Run, list []int, reserve func(c int) float64, rho []float64) {
	p := run.P
	type entry struct {
		job, from, to int // numbers of scales
		p             float64
	}
	var entries []entry
	for _, j := range list {
		job := &p.Jobs[j]
		entries = append(entries, entry{j, 0, 1, 1})
		for _, more := range run.Increments(j) {
			entries = append(entries, entry{j, more.From + 1, more.To + 1, marginal(job, more)})
		}
	}
	sort.SliceStable(entries, func(a, b int) bool {
		x, y := entries[a], entries[b]
		if x.p != y.p {
			return x.p > y.p
		}
		return remaining(p, x.job, run.T) < remaining(p, y.job, run.T)
	})
	at := map[int]int{}
	for _, e := range entries {
		c, chosen := at[e.job]
		if !chosen {
			c = run.Cleanest(e.job, reserve)
			if run.Scales(e.job) > 0 {
				c = run.On(e.job)
			}
			at[e.job] = c
		}
		if c < 0 || e.p < rho[c]-workload.Eps || run.Scales(e.job) != e.from {
			continue
		}
		run.RaiseTo(e.job, c, e.to, reserve(c))
	}
}

// marginal returns the marginal throughput of each worker of an increment, p_j(k), in units of that of
// MinWorkers. One that is above it counts as equal: it cannot come first.
func marginal(job *workload.Job, more workload.Increment) float64 {
	return min(1, more.PerWorker()/job.Curve[0])
}

// features computes states.
type features struct {
	rank     [][]float64 // by cluster and slot
	gradient [][]float64
}

func newFeatures(p *plan.Problem) *features {
	f := &features{}
	day := max(1, int(24*time.Hour/p.Grid.Slot))
	for c := range p.Clusters {
		ci := p.Clusters[c].Intensity
		rank, gradient := make([]float64, len(ci)), make([]float64, len(ci))
		for t := range ci {
			if t > 0 {
				gradient[t] = ci[t] - ci[t-1]
			} else if before := p.Clusters[c].Before; before != nil {
				gradient[t] = ci[t] - *before
			}
			rank[t] = Rank(ci[t:min(len(ci), t+day)])
		}
		f.rank, f.gradient = append(f.rank, rank), append(f.gradient, gradient)
	}
	return f
}

// Rank is the share of the slots ahead whose intensity is below that of the first one, which is now.
func Rank(ci []float64) float64 {
	below := 0
	for _, v := range ci[1:] {
		if v < ci[0] {
			below++
		}
	}
	return float64(below) / math.Max(1, float64(len(ci)-1))
}

// of is the part of the state that clusters share.
func (f *features) of(p *plan.Problem, run *rollout.Run) State {
	var b InSystem
	run.Waiting(func(j int) { b.add(p, j) })
	return b.State()
}

func (f *features) at(s State, c, t int) State {
	s.Gradient, s.Rank = f.gradient[c][t], f.rank[c][t]
	return s
}

// InSystem gathers the part of a state that is of jobs: those that have come and are not done.
type InSystem struct {
	queue      [Queues]float64
	elasticity float64
	jobs       float64
}

// Add counts a job by the delay that it was allowed when it came, and its curve of marginal
// throughputs (at least one, the first above 0).
func (b *InSystem) Add(delay time.Duration, curve []float64) {
	switch {
	case delay <= 6*time.Hour:
		b.queue[0]++
	case delay <= 24*time.Hour:
		b.queue[1]++
	default:
		b.queue[2]++
	}
	sum := 0.0
	for _, v := range curve {
		sum += v / curve[0]
	}
	b.elasticity += sum / float64(len(curve))
	b.jobs++
}

// State is that part of a state; the others are zero.
func (b *InSystem) State() State {
	return State{Queue: b.queue, Elasticity: b.elasticity / math.Max(1, b.jobs)}
}

// add counts job j.
func (b *InSystem) add(p *plan.Problem, j int) {
	job := &p.Jobs[j]
	b.Add(time.Duration(max(0, job.LatestStart()-job.Arrival))*p.Grid.Slot, job.Curve)
}

// Learn replays p, a stretch of the past, through the oracle and returns a case for
// every slot of every cluster. It does so again with the intensities shifted by each
// of the given numbers of slots, so that one history of jobs meets several of the
// grid. Deadlines that cannot be kept are extended, as in the source.
//
// Errors: that of ctx. Complexity: that of the oracle, times 1 + len(shifts).
func Learn(ctx context.Context, p *plan.Problem, shifts ...int) ([]Case, error) {
	var out []Case
	for _, shift := range append([]int{0}, shifts...) {
		q := *p
		q.Objective = plan.Objective{Kind: plan.MOSP} // deadlines may be extended
		q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
		for c := range q.Clusters {
			ci := p.Clusters[c].Intensity
			by := ((shift % len(ci)) + len(ci)) % len(ci)
			if by > 0 {
				q.Clusters[c].Before = &ci[by-1]
			}
			q.Clusters[c].Intensity = append(append([]float64(nil), ci[by:]...), ci[:by]...)
		}
		res, err := Oracle{}.Plan(ctx, &q)
		if err != nil {
			return nil, err
		}
		out = append(out, casesOf(&q, res)...)
	}
	return out, nil
}

func casesOf(p *plan.Problem, res plan.Result) []Case {
	free := plan.NewFree(p)
	n := p.Grid.N
	rho := make([][]float64, len(p.Clusters))
	for c := range rho {
		rho[c] = make([]float64, n)
		for t := range rho[c] {
			rho[c][t] = 1
		}
	}
	builders := make([]InSystem, n)
	done := make([]int, len(p.Jobs))
	for j := range done {
		done[j] = n
	}
	for _, jp := range res.Plan.Jobs {
		job := &p.Jobs[jp.Job]
		free.TakeAll(jp.Job, jp.Segments)
		adds := workload.Majorant(job.Curve)
		for _, s := range jp.Segments {
			done[jp.Job] = s.Slot + 1
			rho[s.Cluster][s.Slot] = math.Min(rho[s.Cluster][s.Slot], adds[s.Workers-job.MinWorkers]/job.Curve[0])
		}
	}
	for j := range p.Jobs {
		for t := p.Jobs[j].Arrival; t < done[j]; t++ {
			builders[t].add(p, j)
		}
	}
	f := newFeatures(p)
	var out []Case
	for t := range n {
		s := builders[t].State()
		for c := range p.Clusters {
			x := f.at(s, c, t)
			x.Intensity = p.Clusters[c].Intensity[t]
			out = append(out, Case{State: x, Capacity: free.Used(c, t), Rho: rho[c][t], At: p.Grid.Time(t)})
		}
	}
	return out
}
