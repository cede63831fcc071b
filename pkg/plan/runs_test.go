package plan_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"lull.dev/lull/pkg/plan"
)

// TestRunsAgainstEnumeration compares Runs with all sets of slots on up to two clusters.
func TestRunsAgainstEnumeration(t *testing.T) {
	found := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		slots, clusters := 2+rng.IntN(5), 1+rng.IntN(2)
		table := func(most int) func(c, t int) float64 {
			values := make([]float64, slots*clusters)
			for i := range values {
				values[i] = float64(rng.IntN(most))
			}
			return func(c, t int) float64 { return values[t*clusters+c] }
		}
		r := plan.Runs{
			N: 1 + rng.IntN(slots), Part: 1, From: rng.IntN(2), Last: slots, Clusters: clusters,
			Slot: table(10), Start: table(4), Resume: table(6), Leave: table(4), Arrive: table(4),
		}
		if rng.IntN(2) == 0 {
			r.Part = 0.25
		}
		if slot := r.Slot; rng.IntN(2) == 0 {
			closed := rng.IntN(slots)
			r.Slot = func(c, t int) float64 {
				if t == closed && c == 0 {
					return math.Inf(1)
				}
				return slot(c, t)
			}
		}
		want := leastRuns(&r, r.From, nil)
		picked, got, ok := r.Cheapest()
		if ok != !math.IsInf(want, 1) || ok && math.Abs(got-want) > 1e-9 {
			t.Fatalf("seed %d: %v (%v), want %v", seed, got, ok, want)
		}
		if !ok {
			continue
		}
		found++
		if again := costOfRuns(&r, picked); math.Abs(again-got) > 1e-9 {
			t.Fatalf("seed %d: %v cost %v, stated are %v", seed, picked, again, got)
		}
	}
	if found < 1000 {
		t.Errorf("only %d instances with a schedule", found)
	}
}

func leastRuns(r *plan.Runs, t int, used []plan.RunSlot) float64 {
	if len(used) == r.N {
		if r.Part == 1 {
			return costOfRuns(r, used)
		}
		best := math.Inf(1)
		for i := range used {
			used[i].Part = true
			best = math.Min(best, costOfRuns(r, used))
			used[i].Part = false
		}
		return best
	}
	if t == r.Last {
		return math.Inf(1)
	}
	best := leastRuns(r, t+1, used)
	for c := range r.Clusters {
		best = math.Min(best, leastRuns(r, t+1, append(used, plan.RunSlot{Slot: t, Cluster: c})))
	}
	return best
}

func costOfRuns(r *plan.Runs, used []plan.RunSlot) float64 {
	sum := r.Start(used[0].Cluster, used[0].Slot)
	for i, x := range used {
		share := 1.0
		if x.Part {
			share = r.Part
		}
		sum += share * r.Slot(x.Cluster, x.Slot)
		if i == 0 {
			continue
		}
		switch last := used[i-1]; {
		case last.Cluster != x.Cluster:
			sum += r.Leave(last.Cluster, x.Slot) + r.Arrive(x.Cluster, x.Slot) + r.Resume(x.Cluster, x.Slot)
		case last.Slot != x.Slot-1:
			sum += r.Resume(x.Cluster, x.Slot)
		}
	}
	return sum
}
