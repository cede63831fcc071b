package capacity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// plainSlots answers what Slots answers, by listing what was taken and adding it up.
type plainSlots struct {
	resources []string
	total     map[string][]float64 // by cluster and resource, then slot
	reserve   map[string][]float64
	open      bool
	taken     []taken
}

type taken struct {
	cluster, slot int
	request       map[string]float64
	workers       float64
}

func key(cluster int, resource string) string { return fmt.Sprint(cluster, resource) }

func (p *plainSlots) free(cluster int, resource string, slot int) float64 {
	used := 0.0
	for _, x := range p.taken {
		if x.cluster == cluster && x.slot == slot {
			used += x.request[resource] * x.workers
		}
	}
	return p.total[key(cluster, resource)][slot] - used
}

func (p *plainSlots) fits(cluster int, request map[string]float64, workers float64, slot int, share float64) bool {
	for _, r := range p.resources {
		kept := share * p.total[key(cluster, r)][slot]
		if !p.open {
			kept += p.reserve[key(cluster, r)][slot]
		}
		if request[r] > 0 && request[r]*workers > p.free(cluster, r, slot)-kept {
			return false
		}
	}
	return true
}

// TestSlotsCountAsOneByOne compares Slots with adding up, on random tables. Amounts are whole
// numbers and shares halves, so that nothing is rounded.
func TestSlotsCountAsOneByOne(t *testing.T) {
	resources := []string{"cpu", "gpu", "memory"}
	const clusters, slots = 3, 6
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := capacity.NewSlots(clusters, resources, slots)
		p := &plainSlots{resources: resources, total: map[string][]float64{}, reserve: map[string][]float64{}}
		reserve := make([]float64, clusters*len(resources)*slots)
		for c := range clusters {
			for r, name := range resources {
				total, kept := make([]float64, slots), make([]float64, slots)
				for i := range total {
					total[i] = float64(rng.IntN(40))
					if seed%2 == 0 {
						kept[i] = float64(rng.IntN(5))
					}
					reserve[s.Row(c, r, i)] = kept[i]
				}
				p.total[key(c, name)], p.reserve[key(c, name)] = total, kept
				s.Offer(c, r, total)
				if load := float64(rng.IntN(6)); load > 0 { // at times more than there is
					s.Load(c, r, []float64{load, load, load, load, load, load})
					for i := range slots {
						p.taken = append(p.taken, taken{c, i, map[string]float64{name: load}, 1})
					}
				}
			}
		}
		if seed%2 == 0 {
			s.Keep(reserve)
		}
		for range 40 {
			request := map[string]float64{"other": 1}
			for _, r := range resources {
				if rng.IntN(2) == 0 {
					request[r] = float64(rng.IntN(5))
				}
			}
			need := s.Demand(request)
			c, slot, workers := rng.IntN(clusters), rng.IntN(slots), rng.IntN(4)
			p.open = rng.IntN(2) == 0
			s.UseReserve(p.open)
			compareSlots(t, rng, s, p, c, slot, need, request, workers)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			if rng.IntN(2) == 0 {
				workers = -workers
			}
			s.Take(c, need, float64(workers), slot)
			p.taken = append(p.taken, taken{c, slot, request, float64(workers)})
		}
	}
}

func compareSlots(t *testing.T, rng *rand.Rand, s *capacity.Slots, p *plainSlots, c, slot int, need []capacity.Need, request map[string]float64, workers int) {
	t.Helper()
	if got, want := s.Fits(c, need, float64(workers), slot), p.fits(c, request, float64(workers), slot, 0); got != want {
		t.Errorf("fits: %v, want %v", got, want)
	}
	if got, want := s.FitsBeside(c, need, float64(workers), slot, 0.5), p.fits(c, request, float64(workers), slot, 0.5); got != want {
		t.Errorf("fits beside half: %v, want %v", got, want)
	}
	from, to := rng.IntN(6), rng.IntN(7)
	want := -1
	for i := from; i < to && want < 0; i++ {
		if !p.fits(c, request, float64(workers), i, 0) {
			want = i
		}
	}
	if got := s.Blocked(c, need, float64(workers), from, to); got != want {
		t.Errorf("blocked in [%d, %d): %d, want %d", from, to, got, want)
	}
	least, most := 1+rng.IntN(3), 0
	for w := least; w <= least+5 && p.fits(c, request, float64(w), slot, 0); w++ {
		most = w
	}
	if got := s.Room(c, need, float64(least), least, least+5, slot); got != most {
		t.Errorf("room for %d to %d workers: %d, want %d", least, least+5, got, most)
	}
	rows := s.AppendFree([]float64{-7})[1:]
	share, overfull := 0.0, false
	for r, name := range p.resources {
		free, total := p.free(c, name, slot), p.total[key(c, name)][slot]
		if got := s.Used(c, r, slot); got != total-free {
			t.Errorf("used of %s: %v, want %v", name, got, total-free)
		}
		overfull = overfull || free < 0
		if request[name] > 0 && total > 0 {
			share = math.Max(share, (total-free)/total)
		}
		free -= p.reserve[key(c, name)][slot]
		if got, row := s.Free(c, r, slot), rows[s.Row(c, r, slot)]; got != free || row != free {
			t.Errorf("free of %s: %v and %v by row, want %v", name, got, row, free)
		}
	}
	if got := s.Share(c, need, slot); math.Abs(got-share) > 1e-9 {
		t.Errorf("share %v, want %v", got, share)
	}
	if got := s.Overfull(c, slot); got != overfull {
		t.Errorf("overfull %v, want %v", got, overfull)
	}
}

// TestSlotsAndLedgerAgree: slots of a length in a ledger and the same slots in a table have room
// for the same, also where sums of requests are off by rounding.
func TestSlotsAndLedgerAgree(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(slot int) time.Time { return start.Add(time.Duration(slot) * time.Hour) }
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 8))
		total := math.Pow(10, float64(rng.IntN(13)))
		l, s := &capacity.Ledger{}, capacity.NewSlots(1, []string{"memory"}, 8)
		l.Offer("a", start, map[string]float64{"memory": total})
		s.Offer(0, 0, []float64{total, total, total, total, total, total, total, total})
		for range 60 {
			request := map[string]float64{"memory": total / float64(1+rng.IntN(7))}
			a, b := l.Demand(request), s.Demand(request)
			from := rng.IntN(8)
			to := from + 1 + rng.IntN(8-from)
			fits := l.Fits(0, a, 1, at(from), at(to))
			if got := s.Blocked(0, b, 1, from, to) < 0; got != fits {
				t.Fatalf("seed %d: fits in the table %v, in the ledger %v", seed, got, fits)
			}
			if got, want := s.Room(0, b, 1, 1, 20, from), l.Room(0, a, 20, at(from), at(from+1)); got != want {
				t.Fatalf("seed %d: room for %d in the table, %d in the ledger", seed, got, want)
			}
			if !fits {
				continue
			}
			l.Take(0, a, 1, at(from), at(to))
			for slot := from; slot < to; slot++ {
				s.Take(0, b, 1, slot)
			}
		}
	}
}

// TestSlotsDivideWithoutLoss: a capacity divided among so many workers has room for all of them.
func TestSlotsDivideWithoutLoss(t *testing.T) {
	for workers := 1; workers <= 200; workers++ {
		s := capacity.NewSlots(1, []string{"memory"}, 1)
		s.Offer(0, 0, []float64{1e12})
		need := s.Demand(map[string]float64{"memory": 1e12 / float64(workers)})
		if got := s.Room(0, need, 1, 1, 2*workers, 0); got != workers {
			t.Errorf("room for %d of %d workers", got, workers)
		}
		for i := range workers {
			if !s.Fits(0, need, 1, 0) {
				t.Errorf("no room for worker %d of %d", i+1, workers)
			}
			s.Take(0, need, 1, 0)
		}
		if s.Overfull(0, 0) || s.Fits(0, need, 1, 0) {
			t.Errorf("%d workers: overfull %v, room for another %v", workers, s.Overfull(0, 0), s.Fits(0, need, 1, 0))
		}
	}
}

// TestSlotsWithoutCapacity: nothing fits where nothing was offered, except what needs nothing.
func TestSlotsWithoutCapacity(t *testing.T) {
	s := capacity.NewSlots(2, []string{"cpu"}, 2)
	if s.Fits(1, s.Demand(map[string]float64{"cpu": 1e-6}), 1, 1) {
		t.Error("a need fits without capacity")
	}
	if need := s.Demand(map[string]float64{"gpu": 1, "cpu": 0}); len(need) != 0 || !s.Fits(1, need, 9, 1) || s.Room(1, need, 1, 2, 9, 1) != 9 {
		t.Errorf("what needs nothing of the table: %v", need)
	}
}

func BenchmarkSlots(b *testing.B) {
	const clusters, slots = 4, 168
	s := capacity.NewSlots(clusters, []string{"cpu", "memory"}, slots)
	total := make([]float64, slots)
	for t := range total {
		total[t] = 1000
	}
	for c := range clusters {
		s.Offer(c, 0, total)
		s.Offer(c, 1, total)
	}
	need := s.Demand(map[string]float64{"cpu": 2, "memory": 8})
	b.Run("fits", func(b *testing.B) {
		for b.Loop() {
			for t := range slots {
				if !s.Fits(3, need, 4, t) {
					b.Fatal(t)
				}
			}
		}
	})
	b.Run("room", func(b *testing.B) {
		for b.Loop() {
			for t := range slots {
				if s.Room(3, need, 1, 1, 64, t) != 64 {
					b.Fatal(t)
				}
			}
		}
	})
	b.Run("blocked", func(b *testing.B) {
		for b.Loop() {
			if s.Blocked(3, need, 4, 0, slots) >= 0 {
				b.Fatal()
			}
		}
	})
}
