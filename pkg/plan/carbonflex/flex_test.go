package carbonflex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

func knows(t testing.TB, n int) *Knowledge {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	k := NewKnowledge(0)
	var cases []Case
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		c := Case{State: someState(rng), Capacity: rng.Float64(), Rho: rng.Float64(), At: start.Add(time.Duration(i) * time.Hour)}
		if i > 0 && rng.IntN(10) == 0 {
			c.State = cases[rng.IntN(i)].State // ties
		}
		cases = append(cases, c)
	}
	if err := k.Add(cases...); err != nil {
		t.Fatal(err)
	}
	return k
}

func someState(rng *rand.Rand) State {
	return State{
		Intensity: 50 + 400*rng.Float64(), Gradient: 40 * rng.NormFloat64(), Rank: rng.Float64(), Elasticity: rng.Float64(),
		Queue: [Queues]float64{float64(rng.IntN(20)), float64(rng.IntN(10)), 3}, // the last never varies
	}
}

// TestNearestIsBruteForce: the same neighbours, in the same order.
func TestNearestIsBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 31, 100, 1000} {
		k := knows(t, n)
		for range 100 {
			s := someState(rng)
			if n > 0 && rng.IntN(3) == 0 {
				s = k.cases[rng.IntN(n)].State
			}
			got := k.Nearest(s, 5)
			at := make([]int, n)
			d := make([]float64, n)
			q := k.scaled(s)
			for i := range at {
				at[i] = i
				for x, v := range k.scaled(k.cases[i].State) {
					d[i] += (v - q[x]) * (v - q[x])
				}
			}
			sort.SliceStable(at, func(a, b int) bool { return d[at[a]] < d[at[b]] })
			if len(got) != min(5, n) {
				t.Fatalf("%d cases: %d neighbours", n, len(got))
			}
			for i, m := range got {
				if m.Case != k.cases[at[i]] || math.Abs(m.Distance-math.Sqrt(d[at[i]])) > 1e-12 {
					t.Fatalf("%d cases: neighbour %d is at %v, brute force finds %v", n, i, m.Distance, math.Sqrt(d[at[i]]))
				}
			}
		}
	}
}

func TestKnowledgeAges(t *testing.T) {
	k := NewKnowledge(10 * time.Hour)
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	for h := range 30 {
		if err := k.Add(Case{State: State{Intensity: float64(h)}, At: start.Add(time.Duration(h) * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if k.Len() != 11 || k.Cases()[0].At != start.Add(19*time.Hour) {
		t.Errorf("%d cases, the oldest of %v; want the last 10 hours", k.Len(), k.Cases()[0].At)
	}
	if m := k.Nearest(State{Intensity: 2}, 1); m[0].Case.State.Intensity != 19 {
		t.Errorf("a forgotten case is found: %v", m)
	}
	if err := k.Add(Case{State: State{Intensity: math.NaN()}}); err == nil {
		t.Error("NaN accepted")
	}
}

// TestKnowledgeIsReadAtOnce: several planners ask one base at the same moment, from the first question on, as
// lull advise does.
func TestKnowledgeIsReadAtOnce(t *testing.T) {
	var cases []Case
	for i := range 2000 {
		cases = append(cases, Case{State: State{Intensity: float64(i * 7919 % 2000)}, At: time.Unix(int64(i), 0)})
	}
	for range 20 {
		k := NewKnowledge(0)
		if err := k.Add(cases...); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for asker := range 8 {
			all.Go(func() {
				for intensity := asker; intensity < 2000; intensity += 97 {
					if m := k.Nearest(State{Intensity: float64(intensity)}, 1); len(m) != 1 || m[0].Case.State.Intensity != float64(intensity) {
						t.Errorf("intensity %d: nearest %v", intensity, m)
					}
				}
			})
		}
		all.Wait()
	}
}

// TestProvisionTakesEachBranchOfAlgorithm2: the branches of Algorithm 2.
func TestProvisionTakesEachBranchOfAlgorithm2(t *testing.T) {
	k := NewKnowledge(0)
	var cases []Case
	for i := range 10 {
		cases = append(cases, Case{State: State{Intensity: float64(100 + i)}, Capacity: float64(i) / 10, Rho: 0.5, At: time.Unix(int64(i), 0)})
	}
	if err := k.Add(cases...); err != nil {
		t.Fatal(err)
	}
	pl, err := New(Params{Knowledge: k})
	if err != nil {
		t.Fatal(err)
	}
	near, far := State{Intensity: 102}, State{Intensity: 1000}
	for _, c := range []struct {
		s             State
		delayed       float64
		capacity, rho float64
	}{
		{near, 0, 0.2, 0.5},    // the mean of 0..0.4
		{near, 0.5, 0.4, 0.5},  // their most
		{far, 0, 0.7, 0.5},     // the mean of 0.5..0.9, however far
		{far, 0.5, 1, 0},       // all
		{near, 0.05, 0.2, 0.5}, // epsilon itself is tolerated
	} {
		if d := pl.Provision(c.s, c.delayed); math.Abs(d.Capacity-c.capacity) > 1e-12 || math.Abs(d.Rho-c.rho) > 1e-12 {
			t.Errorf("intensity %v, %v delayed: capacity %v, rho %v (%s); want %v, %v", c.s.Intensity, c.delayed, d.Capacity, d.Rho, d.Why, c.capacity, c.rho)
		}
	}
	for _, p := range []Params{{Neighbours: -1}, {Tolerance: 2}, {Distance: -1}, {Tolerance: math.NaN()}} {
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestFlexLaws(t *testing.T) {
	cold, err := New(Params{})
	if err != nil {
		t.Fatal(err)
	}
	warm, err := New(Params{Knowledge: knows(t, 50)})
	if err != nil {
		t.Fatal(err)
	}
	plantest.Laws(t, cold, 100, plantest.Options{})
	plantest.Laws(t, cold, 50, plantest.Options{Objective: plan.MOSP})
	plantest.Laws(t, intensityBlind{warm}, 50, plantest.Options{})
}

// intensityBlind plans with intensities brought to one level, so that the law of
// scaling, which holds for states relative to what was learned only, can be tested.
type intensityBlind struct{ Planner }

func (b intensityBlind) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	q := *p
	q.Clusters = append([]plan.Cluster(nil), p.Clusters...)
	most := 0.0
	for c := range q.Clusters {
		for _, v := range q.Clusters[c].Intensity {
			most = math.Max(most, v)
		}
	}
	for c := range q.Clusters {
		q.Clusters[c].Intensity = append([]float64(nil), q.Clusters[c].Intensity...)
		for t := range q.Clusters[c].Intensity {
			q.Clusters[c].Intensity[t] *= 400 / math.Max(most, 1)
		}
	}
	return b.Planner.Plan(ctx, &q)
}

// weeks is a problem of elastic jobs at about half load over whole days of a grid
// whose nights are clean.
func weeks(seed uint64, days int) *plan.Problem {
	rng := rand.New(rand.NewPCG(seed, 9))
	ci := make([]float64, 24*days)
	for t := range ci {
		ci[t] = 250 + 180*math.Sin(2*math.Pi*float64(t)/24) + 40*rng.Float64()
	}
	var jobs []workload.Job
	for i := range days * 30 {
		length := 1 + rng.IntN(8)
		arrival := rng.IntN(24*days - 40)
		curve := []float64{}
		gain := 0.7 + 0.3*rng.Float64()
		for k := 1; k < 8; k++ {
			curve = append(curve, math.Pow(gain, float64(k)))
		}
		jobs = append(jobs, plantest.Job(fmt.Sprintf("j%04d", i), workload.Elastic, arrival, arrival+length+24, float64(length), curve...))
	}
	return plantest.OneCluster(14, ci, jobs...)
}

// TestLearnedBeatsAgnostic: Section 6.2. What is learned from two weeks before makes the
// next one cleaner than carbon-agnostic, and the oracle bounds it.
func TestLearnedBeatsAgnostic(t *testing.T) {
	k := NewKnowledge(0)
	for seed := range uint64(2) {
		cases, err := Learn(context.Background(), weeks(seed, 7), 6, 12, 18)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Add(cases...); err != nil {
			t.Fatal(err)
		}
	}
	pl, err := New(Params{Knowledge: k})
	if err != nil {
		t.Fatal(err)
	}
	cold, err := New(Params{})
	if err != nil {
		t.Fatal(err)
	}
	p := weeks(7, 7)
	emits := func(pl plan.Planner) float64 {
		res, err := pl.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if res.Status == plan.Infeasible {
			t.Fatalf("%d jobs unplaced: %s", len(res.Unplaced), res.Unplaced[0].Why)
		}
		if err := plan.Check(p, res.Plan); err != nil {
			t.Fatal(err)
		}
		return plan.Evaluate(p, res.Plan).CarbonG
	}
	agnostic, learned, oracle := emits(asap.Planner{}), emits(pl), emits(Oracle{})
	t.Logf("agnostic %.0f g, cold start %.0f, learned %.0f (%.1f %% saved), oracle %.0f (%.1f %%)", agnostic, emits(cold), learned, 100*(1-learned/agnostic), oracle, 100*(1-oracle/agnostic))
	if learned > 0.85*agnostic {
		t.Errorf("learned %v g, agnostic %v g: want at least 15 %% saved", learned, agnostic)
	}
	if oracle > learned {
		t.Errorf("the oracle emits %v g, the method %v g", oracle, learned)
	}
}

func BenchmarkNearest(b *testing.B) {
	k := knows(b, 10_000)
	rng := rand.New(rand.NewPCG(3, 3))
	states := make([]State, 1000)
	for i := range states {
		states[i] = someState(rng)
	}
	k.Nearest(states[0], 5)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k.Nearest(states[i%len(states)], 5)
		i++
	}
}

// BenchmarkSchedule is Algorithm 3 over two slots of 1,000 elastic jobs that are all there.
func BenchmarkSchedule(b *testing.B) {
	pl, err := New(Params{Now: &Decision{Capacity: 0.6, Rho: 0.3}, Knowledge: knows(b, 1344)})
	if err != nil {
		b.Fatal(err)
	}
	var jobs []workload.Job
	for i := range 1000 {
		jobs = append(jobs, plantest.Job(fmt.Sprintf("j%04d", i), workload.Elastic, 0, 2, 6, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3))
	}
	p := plantest.OneCluster(3000, []float64{100, 200}, jobs...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pl.Plan(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFlex(b *testing.B) {
	pl, err := New(Params{Knowledge: knows(b, 1000)})
	if err != nil {
		b.Fatal(err)
	}
	p := weeks(1, 7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pl.Plan(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// TestGradientOfTheFirstSlot: how the intensity has risen up to the first slot of a problem is known if the slot before it is, and not otherwise.
func TestGradientOfTheFirstSlot(t *testing.T) {
	p := plantest.OneCluster(4, []float64{300, 250, 260})
	before := 220.0
	for _, tc := range []struct {
		before *float64
		want   []float64
	}{{nil, []float64{0, -50, 10}}, {&before, []float64{80, -50, 10}}} {
		p.Clusters[0].Before = tc.before
		if got := newFeatures(p).gradient[0]; !slices.Equal(got, tc.want) {
			t.Errorf("before %v: %v; want %v", tc.before, got, tc.want)
		}
	}
}
