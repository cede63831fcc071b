package capacity_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// TestEarliestBetweenTicks: times are nanoseconds, and the ledger counts microseconds. Earliest returns a start at which Fits
// says that there is room, and finds one if there is any.
func TestEarliestBetweenTicks(t *testing.T) {
	const span = 20_000 // ns
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found, none := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0x7469636b))
		at := func() time.Time { return t0.Add(time.Duration(rng.IntN(span))) }
		l := &capacity.Ledger{Tick: time.Microsecond}
		l.Offer("c", t0, map[string]float64{"cpu": 2})
		c, need := l.Cluster("c"), l.Demand(map[string]float64{"cpu": 1})
		for range rng.IntN(6) {
			from := at()
			l.Take(c, need, 1, from, from.Add(time.Duration(rng.IntN(span/2))))
		}
		from, latest, length := at(), at(), time.Duration(1000+rng.IntN(span/2))
		best, some := time.Time{}, false
		for n := range span {
			start := t0.Add(time.Duration(n))
			if !start.Before(from) && (start.Equal(from) || n%1000 == 0) && !start.Add(length).After(latest) && l.Fits(c, need, 1, start, start.Add(length)) {
				best, some = start, true
				break
			}
		}
		start, ok := l.Earliest(c, need, 1, from, length, latest)
		switch {
		case some && (!ok || start.After(best)):
			t.Fatalf("seed %d: %v, %v; want a start at %v", seed, start, ok, best)
		case ok && !l.Fits(c, need, 1, start, start.Add(length)):
			t.Fatalf("seed %d: a start at %v, where there is no room for %v", seed, start, length)
		case ok && start.Add(length).After(latest.Add(time.Microsecond)):
			t.Fatalf("seed %d: a start at %v, from which %v end after %v", seed, start, length, latest)
		}
		if ok {
			found++
		} else {
			none++
		}
	}
	if found < 300 || none < 300 {
		t.Errorf("%d starts found and %d not; want at least 300 of each, or the test shows nothing", found, none)
	}
}
