package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/test/size"
)

// TestConcernedIsWhatHasChanged: intensities come in any order, late, finer or revised. Each settled workload whose mean intensity has changed is concerned. No workload
// of a zone without news is concerned, and most of those that are concerned have changed.
func TestConcernedIsWhatHasChanged(t *testing.T) {
	concerned, changed := 0, 0
	for seed := range uint64(size.Of(60, 1000)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := NewSettler(fresh(t))
		type counted struct {
			zone     string
			from, to time.Time
			mean     carbon.FilledMean
		}
		mean := func(zone string, from, to time.Time) carbon.FilledMean {
			if s.zones[zone] == nil {
				return carbon.FilledMean{Unknown: to.Sub(from)}
			}
			return s.series(zone).FilledMean(from, to)
		}
		all := map[string]*counted{}
		zones := []string{"a", "b", "gone"}
		for i := range 200 {
			c := &counted{zone: zones[rng.IntN(3)], from: at(rng.Float64() * 400)}
			c.to = c.from.Add(time.Duration(rng.ExpFloat64() * float64(6*time.Hour)))
			if rng.IntN(50) == 0 {
				c.to = c.from.Add((mostDays + 1) * 24 * time.Hour)
			}
			all[fmt.Sprintf("%03d", i)] = c
		}
		seq := int64(0)
		settle := func(uid string, c *counted) {
			b := Settled{Of: Submitted{At: c.from, Zone: c.zone}, From: c.from, To: c.to, After: seq, Method: "3", Counterfactual: Counterfactual{From: c.from, To: c.to, Zone: c.zone}}
			c.mean = mean(c.zone, c.from, c.to)
			if b.FilledSeconds, b.MissingSeconds = c.mean.Filled.Seconds(), c.mean.Unknown.Seconds(); uid > "020" {
				b.Zones = []string{c.zone}
			}
			s.setSettled(uid, &b)
		}
		for uid, c := range all {
			settle(uid, c)
		}
		revisions := map[string]int{}
		for range 40 {
			s.revised, s.arrived = nil, nil
			for range 1 + rng.IntN(30) {
				zone, from, length := zones[rng.IntN(2)], float64(rng.IntN(420)), 1.0
				if rng.IntN(4) == 0 {
					from, length = from+float64(rng.IntN(4))/4, 0.25
				}
				k := fmt.Sprint(zone, from)
				seq++
				e := Entry{Seq: seq, Kind: KindIntensity, Key: k}
				n := New{KindIntensity, k, "", Intensity{Zone: zone, From: at(from), To: at(from + length), Value: rng.Float64() * float64(units.MaxCarbonIntensity), Revision: revisions[k]}}
				revisions[k]++
				e.Body = n.entryBody(t)
				if err := s.read(&e, nil); err != nil {
					t.Fatal(err)
				}
			}
			found := s.concerned()
			for uid, c := range all {
				is := slices.Contains(found, uid)
				was := c.mean
				now := mean(c.zone, c.from, c.to)
				differs := !same(float64(now.Mean), float64(was.Mean)) || now.Filled != was.Filled || now.Unknown != was.Unknown
				switch {
				case differs && !is:
					t.Fatalf("seed %d: %s of zone %s, %v to %v, was %+v, is %+v, and is not concerned", seed, uid, c.zone, c.from, c.to, was, now)
				case is && c.zone == "gone" && uid > "020":
					t.Fatalf("seed %d: %s of a zone without news is concerned", seed, uid)
				}
				if is {
					concerned++
					settle(uid, c)
				}
				if differs {
					changed++
				}
			}
		}
	}
	if concerned > 2*changed || changed == 0 {
		t.Errorf("%d were concerned, %d of them had changed", concerned, changed)
	}
}

func (n *New) entryBody(t *testing.T) []byte {
	t.Helper()
	e, err := n.encode()
	if err != nil {
		t.Fatal(err)
	}
	return e.Body
}
