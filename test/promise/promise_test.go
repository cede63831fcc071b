package promise_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// TestKnownJobsKeepDeadlines: all jobs are submitted at the start, run times are exact and forecasts
// perfect. No deadline that running as submitted keeps may be missed, by any planner.
func TestKnownJobsKeepDeadlines(t *testing.T) {
	y := random{known: true, first: 1}.run(t)
	expectNone(t, y)
}

// TestAnnouncedJobsKeepDeadlines is TestKnownJobsKeepDeadlines with jobs that come over days and are known before.
func TestAnnouncedJobsKeepDeadlines(t *testing.T) {
	y := random{first: 1_000_001, change: func(in *instance) { in.cfg.Known = true }}.run(t)
	expectNone(t, y)
}

// TestGuardedJobsKeepDeadlines is TestKnownJobsKeepDeadlines with jobs that state quantiles of their run times, from below the mean to
// absurd ones. They run as long as expected, so what the guards cost is visible: no deadline may be lost for one.
func TestGuardedJobsKeepDeadlines(t *testing.T) {
	y := random{known: true, first: 8_000_001, change: func(in *instance) {
		rng := rand.New(rand.NewPCG(in.seed, 0x7175616e))
		for i := range in.cfg.Jobs {
			j := &in.cfg.Jobs[i]
			for p, by := 0.01+0.5*rng.Float64(), 0.5; p < 1 && rng.IntN(5) > 0; p += 0.01 + 0.5*rng.Float64() {
				by += 2 * rng.ExpFloat64() * rng.ExpFloat64()
				length := time.Duration(min(by*float64(j.Estimate), math.MaxInt64/2))
				j.Quantiles = append(j.Quantiles, workload.RunTimeQuantile{P: p, Length: length})
			}
		}
	}}.run(t)
	expectNone(t, y)
}

// TestJobsWithCheckpointsKeepDeadlines is TestKnownJobsKeepDeadlines with jobs that lose what they did since their last checkpoint if they are
// paused or moved, and whose restarts take energy.
func TestJobsWithCheckpointsKeepDeadlines(t *testing.T) {
	y := random{known: true, first: 9_000_001, change: func(in *instance) {
		rng := rand.New(rand.NewPCG(in.seed, 0x636865636b))
		for i := range in.cfg.Jobs {
			if j := &in.cfg.Jobs[i]; j.Kind != workload.Rigid && rng.IntN(4) > 0 {
				j.Checkpoint = 1 + time.Duration(rng.Float64()*float64(j.Length))
				j.RestartKWh = 0.1 * rng.Float64() * j.Request["cpu"]
			}
		}
	}}.run(t)
	expectNone(t, y)
}

func expectNone(t *testing.T, y *tally) {
	t.Helper()
	for _, m := range methods {
		if c := y.sum(func(k row) bool { return k.planner == m.name }); c.broken > 0 {
			t.Errorf("%s: %d of %d promises broken, worst by %v; want none. Replay: %s",
				m.name, c.broken, c.kept, c.worst, m.replay(y.seeds[m.name][0]))
		}
	}
}

// What the planner with a reserve may break where arrivals are unknown, as shares of the
// deadlines kept as submitted.
const (
	unknownMost = 0.0001 // up to a load of 0.8
	fullMost    = 0.005  // at a load of 0.95
	fullLoad    = 0.95
)

// TestUnknownArrivalsAreExplained: jobs come over days and nobody knows them before. Running as
// submitted is judged by the same arrivals. The counts of planners without a reserve are
// printed only: no bound of theirs is part of the promise.
func TestUnknownArrivalsAreExplained(t *testing.T) {
	y := random{first: 2_000_001}.run(t)
	check := func(name string, most float64, match func(row) bool) {
		c := y.sum(match)
		if allowed := int(math.Floor(most * float64(c.kept))); c.broken > allowed {
			t.Errorf("%s, %s: %d of %d promises broken, worst by %v; accepted: %d. Replay: %s",
				reserved, name, c.broken, c.kept, c.worst, allowed, byName(t, reserved)[0].replay(y.seeds[reserved][0]))
		}
	}
	// Whatever the planner, a deadline is lost only to work that came too late to be planned for.
	expectExplained(t, y)
	check("load up to 0.8", unknownMost, func(k row) bool { return k.planner == reserved && k.load < fullLoad })
	check("load 0.95", fullMost, func(k row) bool { return k.planner == reserved && k.load >= fullLoad })
}

// TestUncertainRunsAreExplained: run times differ by up to 30 % from what planners are told, and
// forecasts by as much from what occurs. Only a job whose own estimate was below the truth
// by more than the margin may be late, and others to which a job that runs longer than it was
// said to, or one that came later, leaves no room. Each is explained. Jobs here state no quantiles of their run
// times; for those that do, the same holds of the guarded run time (TestOnlyLongRunsAreLate in pkg/sim).
func TestUncertainRunsAreExplained(t *testing.T) {
	y := random{
		first: 3_000_001,
		change: func(in *instance) {
			rng := rand.New(rand.NewPCG(in.seed, 0x65737469))
			for i := range in.cfg.Jobs {
				j := &in.cfg.Jobs[i]
				j.Estimate = time.Duration(float64(j.Length) * (0.7 + 0.6*rng.Float64())).Round(time.Second)
				j.Estimate = max(j.Estimate, time.Second)
			}
			for c := range in.cfg.Clusters {
				in.cfg.Clusters[c].Forecast = noisy(in.cfg.Clusters[c].Actual, in.seed+uint64(c))
			}
		},
		excuse: func(in *instance) func(j *sim.Job) bool {
			return func(j *sim.Job) bool { return j.Length-j.Estimate > in.cfg.Margin }
		},
	}.run(t)
	expectExplained(t, y)
}

// expectExplained fails for deadlines that were lost without a reason in what nobody could know.
func expectExplained(t *testing.T, y *tally) {
	t.Helper()
	for _, m := range methods {
		if c := y.sum(func(k row) bool { return k.planner == m.name }); c.unexplained > 0 {
			t.Errorf("%s: nothing explains %d of %d broken promises", m.name, c.unexplained, c.broken)
		}
	}
}

func noisy(actual *carbon.Series, seed uint64) *carbon.Series {
	s, err := sim.Noisy(actual, 0.3, seed)
	if err != nil {
		panic(err)
	}
	return s
}

// TestLossesKeepWorkAndCapacity: capacity changes and machines fail, and nobody knows before. A deadline
// that is missed then is printed, not judged: a job that waited may meet a failure that it
// would have escaped. What is judged are capacity, work and emissions.
func TestLossesKeepWorkAndCapacity(t *testing.T) {
	random{
		first: 4_000_001,
		change: func(in *instance) {
			rng := rand.New(rand.NewPCG(in.seed, 0x6c6f7373))
			start := in.cfg.Jobs[0].Submitted
			for c := range in.cfg.Clusters {
				cl := &in.cfg.Clusters[c]
				part := func(by float64) map[string]float64 {
					out := map[string]float64{}
					for r, q := range cl.Capacity {
						out[r] = math.Floor(q * by)
					}
					return out
				}
				from := start.Add(time.Duration(rng.IntN(36*60)) * time.Minute)
				to := from.Add(time.Duration(1+rng.IntN(600)) * time.Minute)
				if rng.IntN(2) == 0 {
					cl.Changes = []sim.Change{{At: from, Capacity: part(rng.Float64())}, {At: to, Capacity: cl.Capacity}}
					continue
				}
				in.cfg.Faults.Losses = append(in.cfg.Faults.Losses, sim.Loss{Cluster: c, From: from, To: to, Capacity: part(rng.Float64())})
			}
		},
	}.run(t)
}

// TestNothingToGain: where the intensity is flat and all clusters alike, jobs that do not
// scale emit the same whenever they run. A saving would be invented.
func TestNothingToGain(t *testing.T) {
	y := random{
		first: 5_000_001,
		change: func(in *instance) {
			level := flat(300)
			for c := range in.cfg.Clusters {
				cl := &in.cfg.Clusters[c]
				s := level.series(cl.Zone)
				in.waves[c], cl.Actual, cl.Forecast, cl.Power = level, s, s, in.cfg.Clusters[0].Power
			}
			for i := range in.cfg.Jobs {
				in.cfg.Jobs[i].RestartKWh, in.cfg.Jobs[i].TransferKWh = 0, 0
			}
		},
	}.run(t)
	for k, c := range y.rows {
		if (k.kind == "rigid" || k.kind == "interruptible") && math.Abs(c.after/c.before-1) > 1e-9 {
			t.Errorf("%s, %s: saved %v of flat emissions; want 0", k.planner, k.kind, 1-c.after/c.before)
		}
	}
}
