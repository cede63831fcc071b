package capacity_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/capacity"
)

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func minute(m int) time.Time { return epoch.Add(time.Duration(m) * time.Minute) }

// TestLedgerAgainstMinutes compares the ledger with an array of minutes.
func TestLedgerAgainstMinutes(t *testing.T) {
	const span = 200
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		l := &capacity.Ledger{}
		var total, used [span]float64
		l.Offer("a", minute(0), map[string]float64{"cpu": 10, "memory": 1e12})
		for m := range total {
			total[m] = 10
		}
		if at := rng.IntN(span); rng.IntN(2) == 0 {
			l.Offer("a", minute(at), map[string]float64{"cpu": 6, "memory": 1e12})
			for m := max(at, 0); m < span && at > 0; m++ {
				total[m] = 6
			}
			if at == 0 {
				for m := range total {
					total[m] = 6
				}
			}
		}
		c := l.Cluster("a")
		for range 40 {
			amount := float64(1 + rng.IntN(3))
			need := l.Demand(map[string]float64{"cpu": amount})
			from, length, latest := rng.IntN(span-1), 1+rng.IntN(30), span-rng.IntN(50)
			fits := func(at int) bool {
				for m := at; m < at+length; m++ {
					if m >= span || used[m]+amount > total[m] {
						return false
					}
				}
				return true
			}
			if from+length <= span {
				if got := l.Fits(c, need, 1, minute(from), minute(from+length)); got != fits(from) {
					t.Fatalf("seed %d: Fits(%d, %d) = %v", seed, from, length, got)
				}
			}
			want := -1
			for at := from; at+length <= latest; at++ {
				if fits(at) {
					want = at
					break
				}
			}
			start, ok := l.Earliest(c, need, 1, minute(from), time.Duration(length)*time.Minute, minute(latest))
			if ok != (want >= 0) || ok && !start.Equal(minute(want)) {
				t.Fatalf("seed %d: Earliest(%d, %d, %d) = %v %v, want minute %d", seed, from, length, latest, start, ok, want)
			}
			if ok {
				l.Take(c, need, 1, start, start.Add(time.Duration(length)*time.Minute))
				for m := want; m < want+length; m++ {
					used[m] += amount
				}
				if got, _ := l.Peak(c, "cpu", start, start.Add(time.Minute)); got != used[want] {
					t.Fatalf("seed %d: peak %v, want %v", seed, got, used[want])
				}
			}
		}
		if x := l.Excesses(minute(0)); len(x) > 0 {
			t.Fatalf("seed %d: %v", seed, x)
		}
		l.Take(c, l.Demand(map[string]float64{"cpu": 11}), 1, minute(3), minute(4))
		if x := l.Excesses(minute(0)); len(x) == 0 || x[0].Resource != "cpu" || x[0].From.After(minute(3)) {
			t.Fatalf("seed %d: excess not found: %v", seed, x)
		}
	}
}

// TestRoomIsTheLargestThatFits: the number of workers that fit is the largest for which Fits holds.
func TestRoomIsTheLargestThatFits(t *testing.T) {
	l := &capacity.Ledger{}
	l.Offer("a", minute(0), map[string]float64{"cpu": 10})
	c, need := l.Cluster("a"), l.Demand(map[string]float64{"cpu": 3})
	l.Take(c, need, 1, minute(10), minute(20))
	for _, x := range []struct{ from, to, want int }{{0, 10, 3}, {0, 11, 2}, {20, 30, 3}} {
		if got := l.Room(c, need, 5, minute(x.from), minute(x.to)); got != x.want {
			t.Errorf("Room(%d, %d) = %d, want %d", x.from, x.to, got, x.want)
		}
	}
	if got := l.Room(l.Cluster("unknown"), need, 5, minute(0), minute(1)); got != 0 {
		t.Errorf("room for %d on a cluster without capacity", got)
	}
}

// TestLedgersNumberResourcesAlike: what a request takes does not depend on the order of a map, so that it is the same for ledgers with the
// same offers.
func TestLedgersNumberResourcesAlike(t *testing.T) {
	total := map[string]float64{"cpu": 1, "memory": 2, "nvidia.com/gpu": 3, "pods": 4, "ephemeral-storage": 5}
	var first []capacity.Need
	for k := range 50 {
		l := &capacity.Ledger{}
		l.Offer("a", minute(0), total)
		need := l.Demand(total)
		if k == 0 {
			first = need
		}
		if !slices.Equal(need, first) {
			t.Fatalf("takes %v, and in another ledger %v", need, first)
		}
		if !l.Fits(l.Cluster("a"), first, 1, minute(0), minute(1)) {
			t.Fatal("all of the capacity does not fit")
		}
	}
}

// TestEarliestRoundsAsTakeDoes: with ticks, Earliest finds a start exactly where a run that is taken leaves room and
// ends in time, though times are no ticks.
func TestEarliestRoundsAsTakeDoes(t *testing.T) {
	const part = 767 * time.Nanosecond
	for begin := range 3 {
		l := &capacity.Ledger{Tick: time.Microsecond}
		l.Offer("a", epoch, map[string]float64{"cpu": 1})
		c, need := l.Cluster("a"), l.Demand(map[string]float64{"cpu": 1})
		from := epoch.Add(time.Duration(begin) * part)
		end := from.Add(time.Hour + part)
		l.Take(c, need, 1, end.Truncate(time.Microsecond), end.Add(time.Hour)) // in the same tick as the end
		if start, ok := l.Earliest(c, need, 1, from, time.Hour+part, end); !ok || !start.Equal(from) {
			t.Errorf("from %v, to end by %v: %v, %v; want that time", from, end, start, ok)
		}
		if start, ok := l.Earliest(c, need, 1, from, time.Hour+part, end.Add(-1)); ok {
			t.Errorf("from %v, to end by %v: %v; want none", from, end.Add(-1), start)
		}
	}
}

func BenchmarkLedger(b *testing.B) {
	for b.Loop() {
		l := &capacity.Ledger{}
		l.Offer("a", epoch, map[string]float64{"cpu": 500, "memory": 1e12})
		c, need := l.Cluster("a"), l.Demand(map[string]float64{"cpu": 1, "memory": 1e9})
		rng := rand.New(rand.NewPCG(1, 1))
		for range 5000 {
			from := minute(rng.IntN(10000))
			if start, ok := l.Earliest(c, need, 1, from, time.Hour, from.Add(240*time.Hour)); ok {
				l.Take(c, need, 1, start, start.Add(time.Hour))
			}
		}
	}
}
