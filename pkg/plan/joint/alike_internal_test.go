package joint

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// crowded is a search of an instance with few slots, in which many jobs are alike, at prices
// that are about right.
func crowded(t *testing.T, seed uint64, reserve float64) *search {
	t.Helper()
	p, err := generate.Instance(generate.Options{
		Seed: seed, Jobs: 150, Clusters: 1 + int(seed%3), Slots: 24, Load: 0.6 * (1 - reserve),
		Kinds: []workload.Kind{workload.Rigid, workload.Rigid, workload.Interruptible, workload.Elastic},
	})
	if err != nil {
		t.Fatal(err)
	}
	for j := range p.Jobs {
		p.Jobs[j].Arrival, p.Jobs[j].Deadline = 0, min(24, (p.Jobs[j].Deadline+7)/8*8)
	}
	v, err := Planner{Reserve: reserve}.begin(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	v.ascend(nil, nil)
	v.climb(t.Context())
	s := v.newSearch()
	s.reprice(v.lambda)
	return s
}

// checkLists: every job is listed where it runs, once, and knows where it stands.
func checkLists(t *testing.T, s *search) {
	t.Helper()
	s.list()
	listed := 0
	for cell, list := range s.in {
		for i, x := range list {
			if s.at[x.job][x.nth] != int32(i) {
				t.Fatalf("job %d is at %d of the list of cell %d, not at %d", x.job, i, cell, s.at[x.job][x.nth])
			}
			if !slices.ContainsFunc(s.parts[x.job], func(p relax.Part) bool { return s.cell(&p) == cell }) {
				t.Fatalf("job %d does not run in cell %d", x.job, cell)
			}
			listed++
		}
	}
	want := 0
	for _, parts := range s.parts {
		for i := range parts {
			if i == 0 || parts[i-1].Slot != parts[i].Slot {
				want++
			}
		}
	}
	if listed != want {
		t.Fatalf("%d entries, want %d", listed, want)
	}
}

// TestAlikeJobsArePlacedAsOthers: with the look-up, jobs have the places that they have without.
func TestAlikeJobsArePlacedAsOthers(t *testing.T) {
	for seed := range size.Of[uint64](8, 60) {
		reserve := 0.2 * float64(seed%2)
		s, plain := crowded(t, seed, reserve), crowded(t, seed, reserve)
		s.buildAlike(s.bySize())
		plain.build(plain.bySize())
		checkLists(t, s)
		if s.missing == len(s.parts) || !reflect.DeepEqual(s.parts, plain.parts) {
			t.Fatalf("seed %d: %d and %d jobs left out; plans differ", seed, s.missing, plain.missing)
		}
		all := plan.ByArrival(s.m.P)
		each := crowded(t, seed, reserve)
		each.buildAlike(each.bySize())
		s.settle(all)
		settleBelow(each, all)
		if !reflect.DeepEqual(s.parts, each.parts) {
			t.Errorf("seed %d: jobs that are left where they are have a better place", seed)
		}
		before := plain.total
		settleEach(plain, all)
		checkLists(t, s)
		if math.Abs(s.total-plain.total) > 1e-9*plain.total || s.total > before*(1+1e-9) {
			t.Errorf("seed %d: settled from %v to %v, job by job to %v", seed, before, s.total, plain.total)
		}
	}
}

// settleBelow is settle that leaves no job where it is without seeking a place for it.
func settleBelow(s *search, jobs []int) {
	s.e.Set(make([]float64, len(s.m.Cap)))
	for _, j := range jobs {
		old, total, cost := s.parts[j], s.total, s.cost[j]
		if len(old) == 0 {
			s.insert(j)
			continue
		}
		s.put(j, nil)
		s.room.UseReserve(s.open != nil && s.open[j])
		if _, parts, ok := s.e.PlaceBelow(j, s.room, cost+1e-12*math.Abs(total)); ok && !slices.Equal(parts, old) {
			s.put(j, slices.Clone(parts))
			if s.total <= total+1e-12*math.Abs(total) {
				continue
			}
		}
		s.put(j, old)
	}
}

// settleEach is settle without leaving any job out.
func settleEach(s *search, jobs []int) {
	s.e.Set(make([]float64, len(s.m.Cap)))
	for _, j := range jobs {
		old, total := s.parts[j], s.total
		s.put(j, nil)
		if !s.insert(j) || len(old) > 0 && s.total > total+1e-12*math.Abs(total) {
			s.put(j, old)
		}
	}
}

// TestListsAfterMoves: moves and their undoing keep the lists right.
func TestListsAfterMoves(t *testing.T) {
	for seed := range uint64(6) {
		s := crowded(t, seed, 0)
		s.build(s.bySize())
		s.mend(t.Context(), budget{share: func(k int) float64 { return float64(k) / 300 }, to: 1, width: threshold * s.meanCost(), stop: func(float64) bool { return false }}, nil)
		checkLists(t, s)
	}
}
