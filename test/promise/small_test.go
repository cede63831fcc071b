package promise_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// smallSeeds is the number of instances of each kind in TestSmallInstancesKeepDeadlines.
var smallSeeds = size.Of(120, 400)

// nanoseconds returns a source of durations below 2 microseconds, or if none are asked for, of 0.
func nanoseconds(rng *rand.Rand, some bool) func() time.Duration {
	return func() time.Duration {
		if !some {
			return 0
		}
		return time.Duration(rng.IntN(3) * rng.IntN(1000))
	}
}

// small says what differs between the instances of TestSmallInstancesKeepDeadlines: there are least runs and pauses, some jobs may
// not wait, jobs are submitted within an hour and announced before, not all submitted at once, and there are
// checkpoints, so that a pause loses what was done since the last one. With nanoseconds, times are not whole microseconds.
type small struct{ dwell, noSlack, announced, checkpoints, nanoseconds bool }

// TestSmallInstancesKeepDeadlines: a few jobs compete for one or two clusters of a few CPUs, with deadlines that running as
// submitted just keeps. Orders matter more here than in larger instances.
func TestSmallInstancesKeepDeadlines(t *testing.T) {
	for name, x := range map[string]small{
		"plain":                            {},
		"least runs and pauses":            {dwell: true},
		"some may not wait":                {noSlack: true},
		"both":                             {dwell: true, noSlack: true},
		"announced":                        {announced: true},
		"announced, some may not wait":     {announced: true, noSlack: true},
		"announced, least runs and pauses": {announced: true, dwell: true},
		"announced, both":                  {announced: true, noSlack: true, dwell: true},
		"checkpoints":                      {checkpoints: true},
		"all":                              {announced: true, noSlack: true, dwell: true, checkpoints: true},
		"nanoseconds":                      {nanoseconds: true, checkpoints: true},
		"nanoseconds, all":                 {nanoseconds: true, announced: true, noSlack: true, dwell: true, checkpoints: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range byName(t, "asap", "cheapest", "waitawhile-deadline") {
				kept := 0
				for seed := range uint64(smallSeeds) {
					kept += trySmall(t, smallInstance(seed, x), m)
				}
				if kept < smallSeeds {
					t.Errorf("%s: %d deadlines; want at least %d, or the test shows nothing", m.name, kept, smallSeeds)
				}
			}
		})
	}
}

// TestFoundSmallInstancesKeepInvariants replays instances of TestSmallInstancesKeepDeadlines that once broke an invariant of a decision.
func TestFoundSmallInstancesKeepInvariants(t *testing.T) {
	for _, x := range []struct {
		seed  uint64
		small small
		fault string
	}{
		{389, small{announced: true, dwell: true}, "a repair resumed a task before the end of its least pause, though it could wait for that"},
	} {
		for _, m := range byName(t, "asap", "waitawhile-deadline") {
			t.Run(fmt.Sprintf("seed=%d/planner=%s", x.seed, m.name), func(t *testing.T) {
				t.Log(x.fault)
				trySmall(t, smallInstance(x.seed, x.small), m)
			})
		}
	}
}

// smallInstance returns an instance whose deadlines running as submitted keeps.
func smallInstance(seed uint64, x small) *instance {
	rng := rand.New(rand.NewPCG(seed, 0x736d616c6c))
	in := single(float64(1+rng.IntN(4)), sunny(), 15*time.Minute, time.Duration(rng.IntN(2))*5*time.Minute)
	in.seed = seed
	first := in.cfg.Clusters[0]
	if rng.IntN(2) == 0 {
		second := first
		second.Name, second.Zone, second.Capacity = "second", "second", cpu(float64(1+rng.IntN(4)))
		in.cfg.Clusters, in.waves = append(in.cfg.Clusters, second), append(in.waves, in.waves[0])
	}
	in.cfg.Known = x.announced
	odd := nanoseconds(rng, x.nanoseconds)
	if x.dwell {
		in.cfg.MinRun, in.cfg.MinPause = time.Duration(rng.IntN(5))*10*time.Minute, time.Duration(rng.IntN(5))*10*time.Minute
	}
	submitted := at("1h").Add(odd())
	for i := range 2 + rng.IntN(4) {
		j := sim.Job{ID: fmt.Sprintf("j%d", i), Kind: workload.Kind(kinds[rng.IntN(3)]), Submitted: submitted}
		if x.announced {
			j.Submitted = j.Submitted.Add(time.Duration(rng.IntN(12))*5*time.Minute + odd())
		}
		j.Length = time.Duration(1+rng.IntN(20))*7*time.Minute + odd()
		j.Estimate = j.Length
		j.Request = cpu(float64(1 + rng.IntN(int(first.Capacity["cpu"]))))
		if j.Kind == workload.Elastic {
			j.Scale = &sim.Scale{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 0.8, 0.5}}
			j.Request = cpu(1)
		}
		if rng.IntN(3) == 0 {
			j.Clusters = []string{first.Name}
		}
		j.Migratable = j.Kind != workload.Rigid && rng.IntN(2) == 0
		if x.checkpoints && j.Kind != workload.Rigid && rng.IntN(2) == 0 {
			j.Checkpoint, j.RestartKWh = time.Duration(1+rng.IntN(60))*time.Minute+odd(), 0.1*rng.Float64()
		}
		in.cfg.Jobs = append(in.cfg.Jobs, j)
	}
	base, err := sim.AsSubmitted(context.Background(), in.cfg)
	if err != nil {
		panic(err)
	}
	for i := range in.cfg.Jobs {
		if j := &in.cfg.Jobs[i]; j.Scale != nil || !x.noSlack || rng.IntN(3) > 0 {
			j.Deadline = base.At(base.Jobs[i].Finish).Add(time.Duration(rng.IntN(4)*rng.IntN(2))*45*time.Minute + odd())
		}
	}
	return in
}

// trySmall runs an instance and returns how many deadlines it x. None may be missed.
func trySmall(t *testing.T, in *instance, m method) (deadlines int) {
	t.Helper()
	cfg := in.with(t, m)
	var broken []decide.Violation
	cfg.Decided = func(s decide.Snapshot, d decide.Decision) {
		if len(broken) == 0 {
			broken = decide.Verify(s, d)
		}
	}
	res, err := sim.Simulate(context.Background(), cfg)
	if err != nil {
		t.Fatalf("seed %d: %v", in.seed, err)
	}
	if len(broken) > 0 {
		t.Errorf("seed %d, %s: a decision breaks an invariant: %v", in.seed, m.name, broken[0])
	}
	if err := audit(&cfg, &res); err != nil {
		t.Errorf("seed %d, %s: %v", in.seed, m.name, err)
	}
	for i := range cfg.Jobs {
		if !cfg.Jobs[i].Deadline.IsZero() {
			deadlines++
		}
		if by := late(&cfg, &res, i); by > 0 {
			t.Errorf("seed %d, %s: job %s is late by %v", in.seed, m.name, cfg.Jobs[i].ID, by)
		}
	}
	return deadlines
}
