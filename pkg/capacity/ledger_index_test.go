package capacity_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// minutes is what a ledger is compared with: an array of minutes.
type minutes struct{ total, used map[string][]float64 }

// blocked is the first minute of some in which workers do not fit; -1 for none.
func (x *minutes) blocked(request map[string]float64, workers float64, from, to int) int {
	first := -1
	for r, v := range request {
		total, used := x.total[r], x.used[r]
		for m := from; m < to && (first < 0 || m < first); m++ {
			if used[m]+v*workers > total[m] {
				first = m
			}
		}
	}
	return first
}

// change adds workers from one minute to another; a negative number gives them back.
func (x *minutes) change(request map[string]float64, workers float64, from, to int) {
	for r, v := range request {
		for m := from; m < to; m++ {
			x.used[r][m] += v * workers
		}
	}
}

// TestLedgerOfManySteps compares a ledger of thousands of steps, in which searches pass over whole blocks of
// them, with an array of minutes: runs short and long that come and go, capacity that changes, what lies
// behind forgotten, and all of it on copies too.
func TestLedgerOfManySteps(t *testing.T) {
	const span = 3000
	type run struct {
		request  map[string]float64
		workers  float64
		from, to int
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 11))
		l := &capacity.Ledger{}
		x := minutes{map[string][]float64{}, map[string][]float64{}}
		for _, r := range []string{"cpu", "gpu"} {
			x.total[r], x.used[r] = make([]float64, span), make([]float64, span)
		}
		offer := func(at int) {
			now := map[string]float64{"cpu": float64(50 + rng.IntN(150)), "gpu": float64(20 + rng.IntN(60))}
			l.Offer("a", minute(at), now)
			for r, v := range now {
				for m := at; m < span; m++ {
					x.total[r][m] = v
				}
			}
		}
		for at := 0; at < span; at += 1 + rng.IntN(1000) {
			offer(at)
		}
		c := l.Cluster("a")
		var runs []run
		oldest, placed := 0, 0
		for i := range 4000 {
			next := run{request: map[string]float64{"cpu": float64(1 + rng.IntN(6))}, workers: float64(1 + rng.IntN(3)), from: oldest + rng.IntN(span-oldest)}
			if rng.IntN(3) == 0 {
				next.request["gpu"] = float64(1 + rng.IntN(3))
			}
			length := 1 + rng.IntN(60)
			if rng.IntN(8) == 0 {
				length, next.workers = 1+rng.IntN(1500), 1
			}
			need := l.Demand(next.request)
			if to := next.from + length; to <= span {
				if got, blocked := l.Fits(c, need, next.workers, minute(next.from), minute(to)), x.blocked(next.request, next.workers, next.from, to); got != (blocked < 0) {
					t.Fatalf("seed %d, run %d: Fits(%v until %d) = %v, blocked in minute %d", seed, i, next, to, got, blocked)
				}
			}
			want := next.from
			for want+length <= span {
				m := x.blocked(next.request, next.workers, want, want+length)
				if m < 0 {
					break
				}
				want = m + 1
			}
			start, ok := l.Earliest(c, need, next.workers, minute(next.from), time.Duration(length)*time.Minute, minute(span))
			if ok != (want+length <= span) || ok && !start.Equal(minute(want)) {
				t.Fatalf("seed %d, run %d: Earliest(%v, %d) = %v, %v; want minute %d", seed, i, next, length, start, ok, want)
			}
			if ok {
				placed++
				next.from, next.to = want, want+length
				l.Take(c, need, next.workers, start, minute(next.to))
				x.change(next.request, next.workers, next.from, next.to)
				runs = append(runs, next)
			}
			switch k := rng.IntN(100); {
			case k < 30 && len(runs) > 0: // one is given back
				gone := rng.IntN(len(runs))
				if back := runs[gone]; back.from >= oldest {
					l.Take(c, l.Demand(back.request), -back.workers, minute(back.from), minute(back.to))
					x.change(back.request, -back.workers, back.from, back.to)
					runs = slices.Delete(runs, gone, gone+1)
				}
			case k < 31:
				oldest = min(oldest+rng.IntN(50), span/4)
				l.Forget(minute(oldest))
			case k < 32:
				l = l.Clone()
			case k < 33: // what is taken of a copy is not taken of the original
				l.Clone().Take(c, need, 100, minute(0), minute(span))
			}
		}
		if placed < 1000 {
			t.Errorf("seed %d: %d placed: too few to tell", seed, placed)
		}
	}
}

// TestLedgerIndexFollowsOffers: capacity that is stated anew counts at once, whatever was asked before.
func TestLedgerIndexFollowsOffers(t *testing.T) {
	l := &capacity.Ledger{}
	l.Offer("a", minute(0), map[string]float64{"cpu": 4})
	c, need := l.Cluster("a"), l.Demand(map[string]float64{"cpu": 1})
	for m := range 500 {
		most := 0.5 // always free at both ends, where steps are looked at one by one
		if m >= 100 && m < 300 {
			most = 1
		}
		l.Take(c, need, most*float64(1+m%2), minute(m), minute(m+1))
	}
	fits := func(want bool) {
		t.Helper()
		if _, ok := l.Earliest(c, need, 2, minute(0), 400*time.Minute, minute(500)); ok != want {
			t.Errorf("2 more for 400 minutes fit: %v, want %v", ok, want)
		}
	}
	fits(true)
	l.Offer("a", minute(0), map[string]float64{"cpu": 3})
	fits(false)
	l.Offer("a", minute(0), map[string]float64{"cpu": 4})
	fits(true)
}

// TestLedgerForgetAndMost: the capacity of now and of later stays, that of the past does not.
func TestLedgerForgetAndMost(t *testing.T) {
	l := &capacity.Ledger{}
	for at, cpus := range []float64{9, 5, 7} {
		l.Offer("a", minute(60*at), map[string]float64{"cpu": cpus, "gpu": 0})
	}
	c := l.Cluster("a")
	if most := l.Most(c); len(most) != 1 || most["cpu"] != 9 {
		t.Errorf("most %v; want 9 CPUs and nothing else", most)
	}
	l.Take(c, l.Demand(map[string]float64{"cpu": 2}), 1, minute(0), minute(90))
	l.Forget(minute(70))
	if most := l.Most(c); most["cpu"] != 7 {
		t.Errorf("after the first hour %v; want 7 CPUs", most)
	}
	if used, has := l.Peak(c, "cpu", minute(70), minute(90)); used != 2 || has != 5 {
		t.Errorf("now %v of %v used; want 2 of 5", used, has)
	}
	// The capacity of before holds until the next offer.
	l.Offer("a", minute(80), map[string]float64{"cpu": 3})
	if at := l.Changes(c, minute(70), minute(200)); !slices.ContainsFunc(at, minute(80).Equal) || !l.Fits(c, l.Demand(map[string]float64{"cpu": 3}), 1, minute(70), minute(80)) || l.Fits(c, l.Demand(map[string]float64{"cpu": 2}), 1, minute(80), minute(85)) || !l.Fits(c, l.Demand(map[string]float64{"cpu": 7}), 1, minute(120), minute(500)) {
		t.Errorf("after another offer capacity changes at %v", at)
	}
}

// BenchmarkLedgerQueue places runs of many sizes in a queue that grows, each after those before it.
func BenchmarkLedgerQueue(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		l := &capacity.Ledger{}
		l.Offer("a", epoch, map[string]float64{"cpu": 100, "memory": 1e12})
		c := l.Cluster("a")
		for i := range 16000 {
			need := l.Demand(map[string]float64{"cpu": float64(1 + rng.IntN(3)), "memory": 1e9})
			length := time.Duration(30+rng.IntN(60)) * time.Minute
			start, _ := l.Earliest(c, need, 1, minute(i), length, minute(1e6))
			l.Take(c, need, 1, start, start.Add(length))
		}
	}
}
