package promise_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// live says what a world has that live clusters have: work that is held out, announced load of others, a capacity that is
// announced to fall, error bars of the forecasts, plans that stand until a trigger and the least runs and pauses of a
// CarbonPolicy, and interruptible work in parts.
type live struct{ heldOut, load, falls, bars, triggers, parts bool }

// liveWorlds are the kinds of worlds of TestLiveWorldsKeepDeadlines, with their first seeds.
var liveWorlds = []struct {
	name  string
	first uint64
	live  live
}{
	{"held out", 10_000_001, live{heldOut: true}},
	{"load of others", 11_000_001, live{load: true}},
	{"falling capacity", 12_000_001, live{falls: true}},
	{"error bars", 13_000_001, live{bars: true}},
	{"triggers", 14_000_001, live{triggers: true}},
	{"parts", 15_000_001, live{triggers: true, parts: true}},
	{"all but parts", 16_000_001, live{heldOut: true, load: true, falls: true, bars: true, triggers: true}},
}

// TestLiveWorldsKeepDeadlines is TestAnnouncedJobsKeepDeadlines in worlds like those of live clusters. All that changes is announced, so that no deadline may
// be missed that running as submitted keeps in the same world. Work that is held out is not judged: nobody tells Lull when
// it is due.
func TestLiveWorldsKeepDeadlines(t *testing.T) {
	for _, x := range liveWorlds {
		t.Run(x.name, func(t *testing.T) {
			expectNone(t, random{first: x.first, change: func(in *instance) { in.like(t, x.live) }}.run(t))
		})
	}
}

// TestUnannouncedLoadIsExplained: others use a part of the clusters now and then, and nobody knows before. A deadline that is missed then is
// printed, not judged, as in TestLossesKeepWorkAndCapacity.
func TestUnannouncedLoadIsExplained(t *testing.T) {
	random{first: 17_000_001, change: func(in *instance) {
		in.like(t, live{load: true, triggers: true})
		for c := range in.cfg.Clusters {
			for i := range in.cfg.Clusters[c].Load {
				in.cfg.Clusters[c].Load[i].Announced = false
			}
		}
	}}.run(t)
}

// like makes the world of an instance one like those of live clusters, and sets the deadlines anew.
func (in *instance) like(t testing.TB, x live) {
	t.Helper()
	rng := rand.New(rand.NewPCG(in.seed, 0x6c697665))
	in.cfg.Known = true
	for c := range in.cfg.Clusters {
		cl := &in.cfg.Clusters[c]
		if x.load {
			for range 1 + rng.IntN(3) {
				from, to := in.someSlots(rng)
				cl.Load = append(cl.Load, sim.Load{From: from, To: to, Amount: part(cl.Capacity, 0.6*rng.Float64()), Announced: true})
			}
		}
		if x.falls {
			cl.Announced = true
			from, to := in.someSlots(rng)
			cl.Changes = []sim.Change{{At: from, Capacity: part(cl.Capacity, rng.Float64())}, {At: to, Capacity: cl.Capacity}}
		}
		if x.bars {
			cl.ForecastLow, cl.ForecastHigh = scaledBy(cl.Actual, 0.7), scaledBy(cl.Actual, 1.5)
		}
	}
	if x.triggers {
		in.cfg.Revise, in.cfg.MinRun, in.cfg.MinPause = sim.OnChange, 5*time.Minute, 5*time.Minute
	}
	for i := range in.cfg.Jobs {
		j := &in.cfg.Jobs[i]
		j.Deadline, j.MaxDelay = time.Time{}, 0
		if x.parts && j.Kind == workload.Interruptible {
			j.Parts = 1 + rng.IntN(6)
		}
	}
	in.setDeadlines(t, rng, in.span())
	for i := range in.cfg.Jobs {
		in.cfg.Jobs[i].HeldOut = x.heldOut && rng.IntN(4) == 0
	}
}

// someSlots is a time at boundaries of slots within two days of the first submission.
func (in *instance) someSlots(rng *rand.Rand) (from, to time.Time) {
	first := in.cfg.Jobs[0].Submitted
	for i := range in.cfg.Jobs {
		if s := in.cfg.Jobs[i].Submitted; s.Before(first) {
			first = s
		}
	}
	span := min(48*time.Hour, 2*in.span())
	after := func() time.Duration { return time.Duration(rng.Float64() * float64(span)) }
	from = timegrid.Align(first.Add(after()), in.cfg.Slot)
	return from, timegrid.Align(from.Add(in.cfg.Slot+after()/2), in.cfg.Slot)
}

// part is a share of an amount, in whole units.
func part(of map[string]float64, share float64) map[string]float64 {
	out := make(map[string]float64, len(of))
	for r, q := range of {
		out[r] = math.Floor(q * share)
	}
	return out
}

// scaledBy is a series with each value times a factor.
func scaledBy(s *carbon.Series, factor float64) *carbon.Series {
	samples := make([]carbon.Sample, s.Len())
	for i := range samples {
		samples[i] = s.Sample(i)
		samples[i].Value *= units.CarbonIntensity(factor)
	}
	out, err := carbon.NewSeries(s.Provenance, samples)
	if err != nil {
		panic(err)
	}
	return out
}
