package sim_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// cpus is an amount of CPUs.
func cpus(n float64) map[string]float64 { return map[string]float64{"cpu": n} }

// afternoon is a cluster of two CPUs that is dirty before 08:00 and clean after, and jobs submitted at 00:00.
func afternoon(t *testing.T, jobs ...sim.Job) sim.Config {
	t.Helper()
	day := make([]float64, 24)
	for h := range day {
		day[h] = 500
		if h >= 8 {
			day[h] = 100
		}
	}
	cfg := alternating(t)
	s := steps(t, 3, day...)
	cfg.Clusters[0].Capacity, cfg.Clusters[0].Actual, cfg.Clusters[0].Forecast = cpus(2), s, s
	cfg.Jobs = jobs
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Submitted, j.Estimate, j.Request = t0, j.Length, cpus(1)
	}
	return cfg
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

// expectRun fails if a job does not run in one piece between two hours.
func expectRun(t *testing.T, name string, runs []sim.Run, from, to float64) {
	t.Helper()
	if len(runs) != 1 || runs[0].From != hours(from) || runs[0].To != hours(to) {
		t.Errorf("%s runs %v; want once, from %v to %v", name, runs, hours(from), hours(to))
	}
}

// TestHeldOutJobRunsAsSubmitted: a job that is held out runs as submitted, whatever its deadline; one like it waits for the clean hours.
func TestHeldOutJobRunsAsSubmitted(t *testing.T) {
	cfg := afternoon(t,
		sim.Job{ID: "a", Length: 2 * time.Hour, Kind: workload.Interruptible, Deadline: t0.Add(20 * time.Hour), HeldOut: true},
		sim.Job{ID: "b", Length: 2 * time.Hour, Kind: workload.Interruptible, Deadline: t0.Add(20 * time.Hour)},
		sim.Job{ID: "c", Length: 2 * time.Hour, Kind: workload.Elastic, Scale: exact, HeldOut: true})
	cfg.Decided = func(s decide.Snapshot, _ decide.Decision) {
		for i := range s.Tasks {
			if x := &s.Tasks[i]; x.HeldOut != (x.ID != "b") || x.HeldOut && !x.Deadline.IsZero() {
				t.Errorf("task %s: held out %v, deadline %v", x.ID, x.HeldOut, x.Deadline)
			}
		}
	}
	res := simulate(t, cfg)
	expectRun(t, "a, held out,", res.Jobs[0].Runs, 0, 2)
	expectRun(t, "b", res.Jobs[1].Runs, 8, 10)
	expectRun(t, "c, held out,", res.Jobs[2].Runs, 0, 2)
}

// TestLoadOfOthersIsLeftFree: what others use is not there for jobs. If it is announced, jobs with a deadline go around it; if not, decisions
// expect it to go on.
func TestLoadOfOthersIsLeftFree(t *testing.T) {
	for _, announced := range []bool{true, false} {
		cfg := afternoon(t, sim.Job{ID: "a", Length: 2 * time.Hour, Kind: workload.Rigid, Deadline: t0.Add(12 * time.Hour)})
		cfg.Clusters[0].Load = []sim.Load{{From: t0.Add(8 * time.Hour), To: t0.Add(12 * time.Hour), Amount: cpus(2), Announced: announced}}
		res := simulate(t, cfg)
		if announced {
			expectRun(t, "a", res.Jobs[0].Runs, 0, 2) // all hours before 08:00 are alike
		} else {
			expectRun(t, "a", res.Jobs[0].Runs, 12, 14)
		}
	}
	// What others ask for waits until there is room, and takes it before a job that waits as well.
	cfg := afternoon(t,
		sim.Job{ID: "a", Length: 2 * time.Hour, Kind: workload.Rigid},
		sim.Job{ID: "b", Length: 2 * time.Hour, Kind: workload.Rigid},
		sim.Job{ID: "c", Length: 2 * time.Hour, Kind: workload.Rigid})
	cfg.Clusters[0].Load = []sim.Load{{From: t0.Add(time.Hour), To: t0.Add(4 * time.Hour), Amount: cpus(2)}}
	res := simulate(t, cfg)
	expectRun(t, "c", res.Jobs[2].Runs, 4, 6)
	submitted, err := sim.AsSubmitted(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Jobs {
		if !reflect.DeepEqual(res.Jobs[i].Runs, submitted.Jobs[i].Runs) {
			t.Errorf("job %s runs %v, as submitted %v", cfg.Jobs[i].ID, res.Jobs[i].Runs, submitted.Jobs[i].Runs)
		}
	}
	if got := float64(res.Energy); got < 0.06-1e-9 || got > 0.06+1e-9 {
		t.Errorf("%v kWh; want that of three jobs of 2 h at 10 W, without what others use", got)
	}
}

// TestJobsArePlannedAroundAnnouncedFalls: jobs are planned around a capacity that is announced to fall, and what cannot be planned around
// it keeps its room.
func TestJobsArePlannedAroundAnnouncedFalls(t *testing.T) {
	fall := []sim.Change{{At: t0.Add(9 * time.Hour), Capacity: cpus(0)}, {At: t0.Add(20 * time.Hour), Capacity: cpus(2)}}
	cfg := afternoon(t,
		sim.Job{ID: "a", Length: 2 * time.Hour, Kind: workload.Rigid, Deadline: t0.Add(19 * time.Hour)},
		sim.Job{ID: "b", Length: 10 * time.Hour, Kind: workload.Rigid})
	cfg.Clusters[0].Changes, cfg.Clusters[0].Announced = fall, true
	keeps := false
	cfg.Decided = func(s decide.Snapshot, _ decide.Decision) {
		for i := range s.Tasks {
			keeps = keeps || s.Tasks[i].KeepsRoom
		}
	}
	res := simulate(t, cfg)
	if runs := res.Jobs[0].Runs; len(runs) != 1 || runs[0].To > 9*time.Hour {
		t.Errorf("a runs %v; want before the capacity falls", runs)
	}
	expectRun(t, "b", res.Jobs[1].Runs, 0, 10)
	if !keeps || res.Evicted > 0 {
		t.Errorf("tasks keep their room: %v; %d evicted", keeps, res.Evicted)
	}
	cfg.Clusters[0].Announced = false
	if res := simulate(t, cfg); res.Evicted == 0 || res.Missed == 0 {
		t.Errorf("not announced: %d evicted, %d late; want some", res.Evicted, res.Missed)
	}
}

// TestOnlyAsMuchIsPausedAsMakesRoom: of what runs beyond a capacity that fell, only as much is paused as makes room.
func TestOnlyAsMuchIsPausedAsMakesRoom(t *testing.T) {
	cfg := afternoon(t,
		sim.Job{ID: "a", Length: 6 * time.Hour, Kind: workload.Interruptible, Deadline: t0.Add(30 * time.Hour)},
		sim.Job{ID: "b", Length: 6 * time.Hour, Kind: workload.Interruptible, Deadline: t0.Add(30 * time.Hour)})
	cfg.Planner = asap.Planner{}
	cfg.Clusters[0].Announced = true
	cfg.Clusters[0].Changes = []sim.Change{{At: t0.Add(2 * time.Hour), Capacity: cpus(1)}}
	res := simulate(t, cfg)
	for i, o := range res.Jobs {
		t.Log(cfg.Jobs[i].ID, o.Runs)
	}
	if a, b := len(res.Jobs[0].Runs), len(res.Jobs[1].Runs); a+b != 3 || res.Missed > 0 {
		t.Errorf("runs %v and %v, %d late; want one pause", res.Jobs[0].Runs, res.Jobs[1].Runs, res.Missed)
	}
}

// TestPausedPartStartsAnew: a part under way starts anew after a pause; decisions see the work at risk, and no checkpoints.
func TestPausedPartStartsAnew(t *testing.T) {
	cfg := alternating(t)
	cfg.Jobs[0].Parts = 6 // of 40 min
	risks := false
	cfg.Decided = func(s decide.Snapshot, _ decide.Decision) {
		x := &s.Tasks[0]
		risks = risks || x.AtRisk > 0
		if x.Checkpoint > 0 {
			t.Errorf("checkpoint %v", x.Checkpoint)
		}
	}
	res := simulate(t, cfg)
	ran, lost := time.Duration(0), time.Duration(0)
	for i, r := range res.Jobs[0].Runs {
		ran += r.To - r.From
		if i < len(res.Jobs[0].Runs)-1 {
			lost += (r.To - r.From) % (40 * time.Minute)
		}
	}
	if ran != cfg.Jobs[0].Length+lost || !risks || res.Missed > 0 {
		t.Errorf("ran %v in %v, of them lost %v; at risk: %v; %d late", ran, res.Jobs[0].Runs, lost, risks, res.Missed)
	}
}

// TestDecisionsSeeQuantilesOfTheForecast: decisions see the quantiles of the forecast.
func TestDecisionsSeeQuantilesOfTheForecast(t *testing.T) {
	cfg := alternating(t)
	cfg.Clusters[0].ForecastLow, cfg.Clusters[0].ForecastHigh = steps(t, 3, 400, 80), steps(t, 3, 700, 130)
	seen := false
	cfg.Decided = func(_ decide.Snapshot, d decide.Decision) {
		r := &d.Actions[0].Reason
		seen = seen || r.ThenLow == 80 && r.ThenHigh == 130
	}
	simulate(t, cfg)
	if !seen {
		t.Error("no decision states the error bars")
	}
}

var errBroken = errors.New("broken")

// broken is a planner that fails.
type broken struct{ plan.Planner }

func (broken) Plan(context.Context, *plan.Problem) (plan.Result, error) {
	return plan.Result{}, errBroken
}

// TestFailedDecisionsRunEveryJob: where decisions fail, a simulation fails too, or every job runs, as those of a policy that cannot decide.
func TestFailedDecisionsRunEveryJob(t *testing.T) {
	for _, endless := range []bool{true, false} {
		cfg := afternoon(t,
			sim.Job{ID: "a", Length: 2 * time.Hour, Kind: workload.Interruptible, Deadline: t0.Add(20 * time.Hour)},
			sim.Job{ID: "b", Length: 2 * time.Hour, Kind: workload.Rigid, Deadline: t0.Add(20 * time.Hour)})
		if endless {
			cfg.Clusters[0].Capacity = nil
		}
		cfg.Planner = broken{}
		if _, err := sim.Simulate(context.Background(), cfg); !errors.Is(err, errBroken) {
			t.Errorf("%v; want the error of the planner", err)
		}
		cfg.RunAll = true
		res := simulate(t, cfg)
		expectRun(t, "a", res.Jobs[0].Runs, 0, 2)
		expectRun(t, "b", res.Jobs[1].Runs, 0, 2)
		if res.Failed == 0 || !errors.Is(res.Failure, errBroken) {
			t.Errorf("%d failed, %v", res.Failed, res.Failure)
		}
	}
}

// TestAnnouncedLoadOffSlotsIsRefused: announced changes and load must be at boundaries of slots, and a cluster of endless capacity has no load.
func TestAnnouncedLoadOffSlotsIsRefused(t *testing.T) {
	odd := t0.Add(7 * time.Minute)
	for name, change := range map[string]func(*sim.Config){
		"change": func(c *sim.Config) {
			c.Clusters[0].Announced, c.Clusters[0].Changes = true, []sim.Change{{At: odd, Capacity: cpus(1)}}
		},
		"load": func(c *sim.Config) {
			c.Clusters[0].Load = []sim.Load{{From: t0, To: odd, Amount: cpus(1), Announced: true}}
		},
		"load ends":  func(c *sim.Config) { c.Clusters[0].Load = []sim.Load{{From: odd, To: t0, Amount: cpus(1)}} },
		"load below": func(c *sim.Config) { c.Clusters[0].Load = []sim.Load{{From: t0, To: odd, Amount: cpus(-1)}} },
		"endless": func(c *sim.Config) {
			c.Clusters[0].Capacity, c.Clusters[0].Load = nil, []sim.Load{{From: t0, To: odd, Amount: cpus(1)}}
		},
		"parts":       func(c *sim.Config) { c.Jobs[0].Parts, c.Jobs[0].Checkpoint = 2, time.Minute },
		"rigid parts": func(c *sim.Config) { c.Jobs[0].Parts, c.Jobs[0].Kind = 2, workload.Rigid },
	} {
		cfg := afternoon(t, sim.Job{ID: "a", Length: time.Hour, Kind: workload.Interruptible})
		change(&cfg)
		if _, err := sim.Simulate(context.Background(), cfg); !errors.Is(err, sim.ErrConfig) {
			t.Errorf("%s: %v; want ErrConfig", name, err)
		}
	}
}
