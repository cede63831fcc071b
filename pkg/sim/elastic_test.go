package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/gaia"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/waitawhile"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// hourly is a series of n hours that varies by the day and by chance.
func hourly(t testing.TB, seed uint64, n int) *carbon.Series {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 77))
	var samples []carbon.Sample
	for h := range n {
		from := t0.Add(time.Duration(h) * time.Hour)
		v := 250 + 150*math.Sin(float64(h)/24*2*math.Pi) + 60*rng.Float64()
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(v)})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var curve = &sim.Scale{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 0.9, 0.7, 0.4}}

// whole is a simulation of jobs on the hour and of whole hours, so that plans and runs
// are of equal slots.
func whole(t testing.TB, seed uint64, jobs int, kind workload.Kind, planner plan.Planner, revise sim.Revision) sim.Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	s := hourly(t, seed, 400)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1.3}, Forecast: s, Actual: s}},
		Planner:  planner, Slot: time.Hour, Revise: revise, Seed: seed,
	}
	for i := range jobs {
		j := sim.Job{
			ID: fmt.Sprint(i), Submitted: t0.Add(time.Duration(rng.IntN(100)) * time.Hour), Length: time.Duration(1+rng.IntN(12)) * time.Hour,
			MaxDelay: time.Duration(1+rng.IntN(30)) * time.Hour, Kind: kind, Request: map[string]float64{"cpu": float64(1 + rng.IntN(4))},
		}
		j.Estimate = j.Length
		if kind == workload.Elastic {
			j.Scale = curve
		}
		cfg.Jobs = append(cfg.Jobs, j)
	}
	return cfg
}

func planners(t testing.TB) map[string]plan.Planner {
	t.Helper()
	g, err := gaia.New(gaia.Params{Policy: gaia.LowestWindow, Oracle: true})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]plan.Planner{"cheapest": cheapest.Planner{}, "waitawhile": waitawhile.Deadline{}, "gaia": g, "carbonscaler": carbonscaler.Planner{}, "joint": joint.Planner{}}
}

// TestPredictedIsSimulated: with a perfect forecast, room and true lengths each job
// emits what its first plan said, and jobs sum to the cluster.
func TestPredictedIsSimulated(t *testing.T) {
	for name, planner := range planners(t) {
		for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
			for seed := range uint64(5) {
				res := simulate(t, whole(t, seed, 40, kind, planner, sim.OnChange))
				sum := units.Emissions(0)
				for i, o := range res.Jobs {
					if math.Abs(float64(o.Emissions-o.Expected)) > 1e-9*float64(o.Expected) {
						t.Fatalf("%s %s seed %d job %d: emits %v, planned %v", name, kind, seed, i, o.Emissions, o.Expected)
					}
					sum += o.Emissions
				}
				if math.Abs(float64(sum-res.Emissions)) > 1e-9*float64(sum) || res.Missed > 0 {
					t.Errorf("%s %s seed %d: jobs emit %v, the cluster %v; %d late", name, kind, seed, sum, res.Emissions, res.Missed)
				}
			}
		}
	}
}

// TestReplanningWithoutNewsChangesNothing: where nothing changes, planning anew in every slot comes to the
// same emissions as letting plans stand.
func TestReplanningWithoutNewsChangesNothing(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		for seed := range uint64(10) {
			a := simulate(t, whole(t, seed, 30, kind, joint.Planner{}, sim.OnChange))
			b := simulate(t, whole(t, seed, 30, kind, joint.Planner{}, sim.EverySlot))
			if math.Abs(float64(a.Emissions-b.Emissions)) > 1e-6*float64(a.Emissions) || a.Decisions >= b.Decisions {
				t.Errorf("%s seed %d: %v in %d decisions, planned anew %v in %d", kind, seed, a.Emissions, a.Decisions, b.Emissions, b.Decisions)
			}
		}
	}
}

// TestLoadIsWhatJobsUse: the use that is observed slot by slot sums to the hours that
// jobs ran, and prices to what they emit.
func TestLoadIsWhatJobsUse(t *testing.T) {
	for seed := range uint64(5) {
		cfg := whole(t, seed, 40, workload.Elastic, joint.Planner{}, sim.EverySlot)
		cfg.Clusters[0].Capacity = map[string]float64{"cpu": 30}
		hours, grams := 0.0, 0.0
		cfg.Observe = func(s sim.Slot) {
			x, _ := cfg.Clusters[0].Actual.At(s.At)
			hours += s.Use["cpu"]
			grams += s.Use["cpu"] * 10 * 1.3 / 1000 * float64(x.Value)
			if s.Use["cpu"] > 30+1e-6 {
				t.Fatalf("%v CPUs of 30 in use at %v", s.Use["cpu"], s.At)
			}
		}
		res := simulate(t, cfg)
		want := 0.0
		for i, o := range res.Jobs {
			for _, r := range o.Runs {
				want += (r.To - r.From).Hours() * float64(r.Workers) * cfg.Jobs[i].Request["cpu"]
			}
		}
		// The last slot is not over when the last job ends.
		if hours > want*(1+1e-9) || hours < want*0.98 || grams > float64(res.Emissions)*(1+1e-9) || grams < float64(res.Emissions)*0.97 {
			t.Errorf("seed %d: %v CPU-hours and %v g observed, jobs used %v and emitted %v", seed, hours, grams, want, res.Emissions)
		}
	}
}

// TestJobsEndThoughWorkersAreDenied: with workers denied jobs still end, and cost no less.
func TestJobsEndThoughWorkersAreDenied(t *testing.T) {
	cfg := whole(t, 3, 60, workload.Elastic, carbonscaler.Planner{}, sim.OnChange)
	none := simulate(t, cfg)
	cfg.Faults.Deny = 0.4
	res := simulate(t, cfg)
	if res.Denied == 0 || res.Emissions <= none.Emissions {
		t.Errorf("%d workers denied: %v emitted, without denial %v", res.Denied, res.Emissions, none.Emissions)
	}
	if again := simulate(t, cfg); !reflect.DeepEqual(res, again) {
		t.Error("two runs of one seed differ")
	}
	cfg.Faults.Retry = 10 * time.Minute
	if soon := simulate(t, cfg); soon.MeanDelay >= res.MeanDelay {
		t.Errorf("asking again after 10 minutes ends jobs %v later than at once, after an hour %v", soon.MeanDelay, res.MeanDelay)
	}
}

// TestLossTakesPlacesAndAllJobsEnd: a machine that fails takes its jobs' places; rigid ones begin anew, the
// others lose at most the slot, and all end.
func TestLossTakesPlacesAndAllJobsEnd(t *testing.T) {
	const down, up = 42*time.Hour + 30*time.Minute, 46 * time.Hour // when the grid is clean and the cluster full
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		cfg := whole(t, 5, 40, kind, cheapest.Planner{}, sim.EverySlot)
		cfg.Clusters[0].Capacity = map[string]float64{"cpu": 40}
		plain := simulate(t, cfg)
		cfg.Faults.Losses = []sim.Loss{{Cluster: 0, From: t0.Add(down), To: t0.Add(up), Capacity: map[string]float64{"cpu": 40}}}
		res := simulate(t, cfg)
		if res.Evicted == 0 {
			t.Fatalf("%s: nobody lost a place", kind)
		}
		for i, o := range res.Jobs {
			for _, r := range o.Runs {
				if a, b := res.At(r.From), res.At(r.To); b.After(t0.Add(down)) && a.Before(t0.Add(up)) {
					t.Errorf("%s: job %d ran from %v to %v, without a machine", kind, i, a, b)
				}
			}
		}
		if kind == workload.Rigid && res.WorkerHours <= plain.WorkerHours {
			t.Errorf("rigid jobs lost no work: %v hours, without the loss %v", res.WorkerHours, plain.WorkerHours)
		}
	}
}

// TestIdleMachinesCountForTheCluster: machines that are on without work count for the cluster, not for
// jobs; turned off they do not.
func TestIdleMachinesCountForTheCluster(t *testing.T) {
	cfg := whole(t, 1, 20, workload.Rigid, cheapest.Planner{}, sim.OnChange)
	cfg.Clusters[0].Nodes = sim.Nodes{Count: 10, Idle: 100}
	on := simulate(t, cfg)
	last := time.Duration(0)
	for _, o := range on.Jobs {
		last = max(last, o.Finish)
	}
	if want := 10 * 100 * 1.3 / 1000 * last.Hours(); math.Abs(float64(on.IdleEnergy)-want) > 1e-9*want {
		t.Errorf("idle energy %v, want %v kWh", on.IdleEnergy, want)
	}
	jobs := units.Energy(0)
	for _, o := range on.Jobs {
		jobs += o.Energy
	}
	if math.Abs(float64(jobs+on.IdleEnergy-on.Energy)) > 1e-9*float64(on.Energy) {
		t.Errorf("jobs %v and idling %v are not %v", jobs, on.IdleEnergy, on.Energy)
	}
	cfg.Clusters[0].Nodes.Resource, cfg.Clusters[0].Nodes.Each = "cpu", 4
	if off := simulate(t, cfg); off.IdleEnergy <= 0 || off.IdleEnergy >= on.IdleEnergy/2 {
		t.Errorf("idle energy %v with machines turned off, %v with all on", off.IdleEnergy, on.IdleEnergy)
	}
}

// TestUnknownLengths: with nothing but the mean known, no job with room ends later than
// its allowed delay, at any scale.
func TestUnknownLengths(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		for _, revise := range []sim.Revision{sim.EverySlot, sim.OnChange} {
			for seed := range uint64(5) {
				cfg := whole(t, seed, 60, kind, joint.Planner{}, revise)
				for i := range cfg.Jobs {
					cfg.Jobs[i].Length += time.Duration(i%7) * 7 * time.Minute
				}
				one := func(*sim.Job) int { return 0 }
				cfg.Lengths = sim.MeanOf{Class: one, Means: []time.Duration{6 * time.Hour}}
				if res := simulate(t, cfg); res.Missed > 0 {
					t.Errorf("%s seed %d, revision %v: %d late", kind, seed, revise, res.Missed)
				}
				cfg.Lengths = &sim.Learned{Class: one}
				if res := simulate(t, cfg); res.Missed > 0 {
					t.Errorf("%s seed %d, revision %v: %d late with lengths learned", kind, seed, revise, res.Missed)
				}
				cfg.Lengths = nil // estimates that are half wrong
				for i := range cfg.Jobs {
					cfg.Jobs[i].Estimate = cfg.Jobs[i].Length * time.Duration(5+i%10) / 10
				}
				if res := simulate(t, cfg); res.Missed > 0 {
					t.Errorf("%s seed %d, revision %v: %d late with wrong estimates", kind, seed, revise, res.Missed)
				}
			}
		}
	}
}

func TestLearned(t *testing.T) {
	l := &sim.Learned{Class: func(*sim.Job) int { return 0 }}
	j := &sim.Job{Estimate: time.Hour}
	if got := l.Estimate(j, 0); got != time.Hour {
		t.Errorf("nothing learned: %v", got)
	}
	for i := 1; i <= 100; i++ {
		l.Observe(&sim.Job{Length: time.Duration(i) * time.Hour})
	}
	// Those not yet sorted in may be missing: the mean of 1..n.
	if got := l.Estimate(j, 0).Hours(); got < 40 || got > 50.5 {
		t.Errorf("mean of 1 to 100 hours: %v", got)
	}
	if got := l.Estimate(j, 80*time.Hour).Hours(); got <= 80 || got > 90.5 {
		t.Errorf("mean above 80 of 100 hours: %v", got)
	}
	if got := l.Estimate(j, 1000*time.Hour); got != time.Hour {
		t.Errorf("beyond all: %v", got)
	}
}

// TestPlannersSeeOnlyIssuedForecasts: what planners are told comes from what was issued, and no later.
func TestPlannersSeeOnlyIssuedForecasts(t *testing.T) {
	s := hourly(t, 1, 200)
	issued := []forecast.Issued{
		{At: t0, Step: time.Hour, Values: []float64{1, 2, 3}},
		{At: t0.Add(24 * time.Hour), Step: time.Hour, Values: []float64{4, -5, 6}},
	}
	o := sim.Recorded(s, issued)
	if got, next := o.At(t0.Add(-time.Hour)); got != nil || !next.Equal(t0) {
		t.Errorf("before the first issue: %v, next %v", got, next)
	}
	got, next := o.At(t0.Add(2 * time.Hour))
	if x, ok := got.At(t0.Add(time.Hour)); !ok || x.Value != 2 || !next.Equal(t0.Add(24*time.Hour)) {
		t.Errorf("first issue: %v, next %v", x, next)
	}
	got, next = o.At(t0.Add(30 * time.Hour))
	if x, ok := got.At(t0.Add(25 * time.Hour)); !ok || x.Value != 0 || !next.IsZero() {
		t.Errorf("a forecast below zero counts as zero: %v, next %v", x, next)
	}
	if x, ok := got.At(t0.Add(10 * time.Hour)); !ok || x.Estimated {
		t.Errorf("the past is what happened: %v", x)
	}
	out := sim.Outage{Of: o, From: t0.Add(20 * time.Hour), To: t0.Add(40 * time.Hour)}
	got, next = out.At(t0.Add(30 * time.Hour))
	if x, _ := got.At(t0.Add(time.Hour)); x.Value != 2 || !next.Equal(t0.Add(40*time.Hour)) {
		t.Errorf("in an outage what was known stays: %v, next %v", x, next)
	}
	m := sim.Modelled(s, forecast.Persistence{}, time.Hour, 6*time.Hour, 48*time.Hour, 24*time.Hour)
	got, next = m.At(t0.Add(8 * time.Hour))
	last, _ := s.At(t0.Add(5 * time.Hour))
	if x, ok := got.At(t0.Add(20 * time.Hour)); !ok || math.Abs(float64(x.Value-last.Value)) > 1e-9 || !next.Equal(t0.Add(12*time.Hour)) {
		t.Errorf("persistence at 6 h: %v, want %v; next %v", x, last.Value, next)
	}
	noisy, err := sim.Noisy(s, 0.3, 1)
	if err != nil {
		t.Fatal(err)
	}
	differ := false
	for i := range noisy.Len() {
		r := float64(noisy.Sample(i).Value / s.Sample(i).Value)
		differ = differ || r != 1
		if r < 0.7-1e-12 || r > 1.3+1e-12 {
			t.Fatalf("sample %d is off by a factor of %v", i, r)
		}
	}
	if _, err := sim.Noisy(s, 1.5, 1); !differ || !errors.Is(err, sim.ErrConfig) {
		t.Errorf("noise: differs %v, an error of 150 %%: %v", differ, err)
	}
}

// TestForecastsThatAreRenewed: what a later forecast says is used for what still waits.
func TestForecastsThatAreRenewed(t *testing.T) {
	s := hourly(t, 2, 200)
	flat := make([]float64, 48)
	for i := range flat {
		flat[i] = 100
	}
	flat[20] = 1 // the first forecast is wrong about the cleanest hour
	var right []float64
	for h := 6; h < 54; h++ {
		x, _ := s.At(t0.Add(time.Duration(h) * time.Hour))
		right = append(right, float64(x.Value))
	}
	cfg := sim.Config{
		Clusters: []sim.Cluster{{
			Name: "c", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Actual: s,
			Outlook: func() sim.Outlook {
				return sim.Recorded(s, []forecast.Issued{{At: t0, Step: time.Hour, Values: flat}, {At: t0.Add(6 * time.Hour), Step: time.Hour, Values: right}})
			},
		}},
		Planner: cheapest.Planner{}, Slot: time.Hour, Revise: sim.OnChange,
		Jobs: []sim.Job{{ID: "a", Submitted: t0, Length: time.Hour, Estimate: time.Hour, MaxDelay: 24 * time.Hour, Kind: workload.Rigid, Request: map[string]float64{"cpu": 1}}},
	}
	res := simulate(t, cfg)
	best, at := math.Inf(1), 0
	for h := 6; h < 25; h++ {
		if x, _ := s.At(t0.Add(time.Duration(h) * time.Hour)); float64(x.Value) < best {
			best, at = float64(x.Value), h
		}
	}
	if got := res.At(res.Jobs[0].Runs[0].From); !got.Equal(t0.Add(time.Duration(at) * time.Hour)) {
		t.Errorf("started %v, want hour %d, the cleanest by the renewed forecast", got, at)
	}
}

// TestMigratingJobFollowsTheCleanerCluster: a job that may migrate follows the cleaner cluster and pays for it.
func TestMigratingJobFollowsTheCleanerCluster(t *testing.T) {
	a, b := hourly(t, 1, 100), hourly(t, 9, 100)
	cfg := sim.Config{
		Planner: joint.Planner{}, Slot: time.Hour, Revise: sim.EverySlot,
		Clusters: []sim.Cluster{
			{Name: "a", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: a, Actual: a},
			{Name: "b", Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Forecast: b, Actual: b},
		},
		Jobs: []sim.Job{{ID: "m", Submitted: t0, Length: 40 * time.Hour, Estimate: 40 * time.Hour, MaxDelay: time.Hour, Kind: workload.Interruptible, Request: map[string]float64{"cpu": 1}, Migratable: true}},
	}
	res := simulate(t, cfg)
	clusters := map[int32]bool{}
	for _, r := range res.Jobs[0].Runs {
		clusters[r.Cluster] = true
	}
	if len(clusters) != 2 || res.Missed > 0 {
		t.Errorf("ran on %v, %d late", clusters, res.Missed)
	}
	cfg.Jobs[0].TransferKWh = 1e-4
	if paid := simulate(t, cfg); paid.Energy <= res.Energy {
		t.Errorf("moves cost nothing: %v and %v", paid.Energy, res.Energy)
	}
	// Decide withholds a move that takes more than twice the energy of the whole work.
	cfg.Jobs[0].TransferKWh = 1
	stays := simulate(t, cfg)
	for _, r := range stays.Jobs[0].Runs {
		if r.Cluster != stays.Jobs[0].Runs[0].Cluster {
			t.Errorf("moves to %d, which does not pay", r.Cluster)
		}
	}
}

func TestMoreConfigErrors(t *testing.T) {
	for name, breakIt := range map[string]func(*sim.Config){
		"slot":           func(c *sim.Config) { c.Slot = 0 },
		"denial":         func(c *sim.Config) { c.Faults.Deny = 1 },
		"retry":          func(c *sim.Config) { c.Faults.Retry = -1 },
		"loss":           func(c *sim.Config) { c.Faults.Losses = []sim.Loss{{Cluster: 7}} },
		"loss, endless":  func(c *sim.Config) { c.Faults.Losses = []sim.Loss{{From: t0, To: t0.Add(1)}} },
		"delay":          func(c *sim.Config) { c.Jobs[0].MaxDelay = -1 },
		"no scale":       func(c *sim.Config) { c.Jobs[0].Scale = nil },
		"curve":          func(c *sim.Config) { c.Jobs[0].Scale = &sim.Scale{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1}} },
		"no throughput":  func(c *sim.Config) { c.Jobs[0].Scale = &sim.Scale{MinWorkers: 1, MaxWorkers: 1, Curve: []float64{0}} },
		"cluster absent": func(c *sim.Config) { c.Jobs[0].Clusters = []string{"nowhere"} },
	} {
		cfg := whole(t, 1, 3, workload.Elastic, cheapest.Planner{}, sim.OnChange)
		breakIt(&cfg)
		if _, err := sim.Simulate(context.Background(), cfg); !errors.Is(err, sim.ErrConfig) {
			t.Errorf("%s: error %v, want ErrConfig", name, err)
		}
	}
}
