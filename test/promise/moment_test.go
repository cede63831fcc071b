package promise_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/size"
)

// momentSeeds is the number of instances of TestLaterArrivalsLoseNoDeadline: LULL_MOMENTS, by default few.
func momentSeeds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("LULL_MOMENTS"), 10, 64); err == nil {
		return n
	}
	return size.Of[uint64](200, 600)
}

// TestLaterArrivalsLoseNoDeadline: some jobs are submitted at once, and at a later moment, which nobody knows before, some more.
// If until then the clusters run what they run as submitted, all deadlines that running as submitted keeps are kept: what
// may not wait leaves the room of what was submitted before it or at the same moment.
func TestLaterArrivalsLoseNoDeadline(t *testing.T) {
	for _, m := range byName(t, "asap", "cheapest", "waitawhile-deadline") {
		alike, kept := 0, 0
		for seed := range momentSeeds() {
			in, second := momentInstance(seed)
			cfg := in.with(t, m)
			base, err := sim.AsSubmitted(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			res, err := sim.Simulate(context.Background(), cfg)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if runsUntil(&base, second) != runsUntil(&res, second) || overtakes(&cfg, &base, second) {
				continue
			}
			alike++
			for i := range cfg.Jobs {
				if cfg.Jobs[i].Deadline.IsZero() || late(&cfg, &base, i) > 0 {
					continue
				}
				kept++
				if by := late(&cfg, &res, i); by > 0 {
					t.Errorf("seed %d, %s: job %s is late by %v", seed, m.name, cfg.Jobs[i].ID, by)
				}
			}
		}
		t.Logf("%s: %d instances alike until the second moment, %d deadlines", m.name, alike, kept)
		if alike < int(momentSeeds()/10) {
			t.Errorf("%s: %d of %d instances are alike until the second moment; want at least a tenth, or the test shows nothing", m.name, alike, momentSeeds())
		}
	}
}

// runsUntil names what runs until a time, and where.
func runsUntil(r *sim.Result, until time.Time) string {
	out := ""
	for i := range r.Jobs {
		for _, u := range r.Jobs[i].Runs {
			if r.At(u.From).Before(until) {
				out += fmt.Sprintln(i, u.From, min(u.To, until.Sub(r.Start)), u.Cluster, u.Workers)
			}
		}
	}
	return out
}

// overtakes reports whether both a job with a deadline and one that may not wait have come before a moment and wait
// for room at that moment. Lull has released the second and may hold the first: the queue is not the one of running as
// submitted.
func overtakes(cfg *sim.Config, base *sim.Result, at time.Time) bool {
	var held, released bool
	for i := range cfg.Jobs {
		if j := &cfg.Jobs[i]; j.Submitted.Before(at) && !base.At(base.Jobs[i].Runs[0].From).Before(at) {
			held, released = held || !j.Deadline.IsZero(), released || j.Deadline.IsZero()
		}
	}
	return held && released
}

// momentInstance returns an instance of jobs that are submitted at two moments, with deadlines that running as
// submitted keeps, and the second moment.
func momentInstance(seed uint64) (*instance, time.Time) {
	rng := rand.New(rand.NewPCG(seed, 0x6d6f6d656e74))
	in := single(float64(1+rng.IntN(8)), sunny(), 15*time.Minute, time.Duration(rng.IntN(2))*5*time.Minute)
	in.seed = seed
	for c := range rng.IntN(3) {
		next := in.cfg.Clusters[0]
		next.Name = fmt.Sprint("c", c)
		next.Zone, next.Capacity = next.Name, cpu(float64(1+rng.IntN(8)))
		in.cfg.Clusters, in.waves = append(in.cfg.Clusters, next), append(in.waves, in.waves[0])
	}
	if rng.IntN(4) == 0 {
		in.cfg.MinRun, in.cfg.MinPause = time.Duration(rng.IntN(5))*10*time.Minute, time.Duration(rng.IntN(5))*10*time.Minute
	}
	checkpoints, odd := rng.IntN(4) == 0, nanoseconds(rng, rng.IntN(2) == 0)
	start := at("1h").Add(odd())
	second := start.Add(time.Duration(1+rng.IntN(90))*time.Minute + odd())
	first := 1 + rng.IntN(3)
	for i := range first + 2 + rng.IntN(4) {
		j := sim.Job{ID: fmt.Sprintf("j%d", i), Kind: workload.Kind(kinds[rng.IntN(3)]), Submitted: start}
		if i >= first {
			j.Submitted = second
		}
		j.Length = time.Duration(1+rng.IntN(20))*7*time.Minute + odd()
		j.Estimate = j.Length
		home := &in.cfg.Clusters[rng.IntN(len(in.cfg.Clusters))]
		j.Request = cpu(float64(1 + rng.IntN(int(home.Capacity["cpu"]))))
		if j.Kind == workload.Elastic {
			j.Scale = &sim.Scale{MinWorkers: 1, MaxWorkers: 1 + rng.IntN(3), Curve: []float64{1, 0.8, 0.5}}
			j.Scale.Curve = j.Scale.Curve[:j.Scale.MaxWorkers]
		}
		if rng.IntN(4) == 0 {
			j.Clusters = []string{home.Name}
		}
		j.Migratable = j.Kind != workload.Rigid && rng.IntN(2) == 0
		if checkpoints && j.Kind != workload.Rigid && rng.IntN(2) == 0 {
			j.Checkpoint, j.RestartKWh = time.Duration(1+rng.IntN(60))*time.Minute+odd(), 0.1*rng.Float64()
		}
		in.cfg.Jobs = append(in.cfg.Jobs, j)
	}
	base, err := sim.AsSubmitted(context.Background(), in.cfg)
	if err != nil {
		panic(err)
	}
	for i := range in.cfg.Jobs {
		if j := &in.cfg.Jobs[i]; j.Scale != nil || rng.IntN(3) > 0 {
			j.Deadline = base.At(base.Jobs[i].Finish).Add(time.Duration(rng.IntN(4)*rng.IntN(2)*rng.IntN(2))*45*time.Minute + odd())
		}
	}
	return in, second
}
