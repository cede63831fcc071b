package reproduce

import (
	"context"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
	"lull.dev/lull/test/data"
	"lull.dev/lull/test/size"
)

// What a reserve of 0.2 may cost where all jobs are known from the start, in points of saving below a
// plan with full knowledge. Jobs that may pause use the reserve, as they can give it back. Rigid jobs stay out
// of it: with them joint saves at least as much as full knowledge saves on a cluster without the reserve.
const (
	knownReserve = 0.2
	knownPoints  = 2
)

// TestKnownJobsKeepTheirSaving compares planner joint with a reserve, in the simulator, with the better
// one of three plans made once with full knowledge: joint without a reserve, CarbonFlex's oracle, and joint
// without a reserve followed by the simulator. Forecasts are perfect and run times exact. By default each zone has
// one week; run it with LULL_LARGE=1 and -v for all and the table of docs/capacity.md.
func TestKnownJobsKeepTheirSaving(t *testing.T) {
	env := &Env{Data: data.Folder(t, "carbon", "jobs", "profiles")}
	if err := env.Check(); err != nil {
		t.Skip(err)
	}
	for i, zone := range []string{"AU-SA", "CA-ON", "DE"} {
		for k, x := range []struct {
			week int
			used float64
		}{{13, 0.5}, {37, 0.5}, {13, 0.7}} {
			if !size.Large() && k != i {
				continue
			}
			for _, kind := range []workload.Kind{workload.Elastic, workload.Interruptible, workload.Rigid} {
				w := knownWeek(t, env, zone, x.week, x.used, kind)
				base, err := sim.AsSubmitted(t.Context(), w.known(nil))
				if err != nil {
					t.Fatal(err)
				}
				saved := func(grams float64) float64 { return 100 * (1 - grams/float64(base.Emissions)) }
				full := saved(w.fullKnowledge(t))
				res := w.mustSimulate(t, joint.Planner{Reserve: knownReserve})
				got := saved(float64(res.Emissions))
				least := full - knownPoints
				if kind == workload.Rigid {
					w.setServers(w.servers * (1 - knownReserve))
					least = saved(w.fullKnowledge(t))
				}
				t.Logf("%s, week %d, %d jobs, %.0f %% used, %s: full knowledge %.1f %%, reserve %v %.1f %%, want at least %.1f %%; %d late",
					zone, x.week, len(w.jobs), 100*x.used, kind, full, knownReserve, got, least, res.Missed)
				if got < least || res.Missed > 0 {
					t.Errorf("%s, week %d, %.0f %% used, %s: saved %.1f %%, %d late; want at least %.1f %%, none late", zone, x.week, 100*x.used, kind, got, res.Missed, least)
				}
			}
		}
	}
}

// knownWeek is a quarter of the arrivals of an Azure week, of jobs of one hour to a day, on as many
// servers as they use to a share. Deadlines are equal in the problem and in the simulation.
func knownWeek(t *testing.T, env *Env, zone string, number int, used float64, kind workload.Kind) *week {
	t.Helper()
	s := azureWeek(number)
	s.zone, s.kmax, s.rate = zone, 4, 0.25
	w, err := s.build(env)
	if err != nil {
		t.Fatal(err)
	}
	w.shorten(24 * time.Hour)
	w.problem.Objective.Kind = plan.Carbon
	work := 0.0
	for i := range w.jobs {
		j, k := &w.jobs[i], &w.problem.Jobs[i]
		j.Kind, k.Kind = kind, kind
		j.Deadline, j.MaxDelay = w.problem.Grid.Time(k.Deadline), 0
		if kind != workload.Elastic {
			j.Scale, k.MaxWorkers, k.Curve = nil, 1, []float64{1}
		}
		work += j.Length.Hours()
	}
	w.setServers(math.Ceil(work / (7 * 24) / used))
	return w
}

// setServers changes how many servers the cluster has.
func (w *week) setServers(n float64) {
	w.servers = n
	capacity := w.problem.Clusters[0].Capacity["server"]
	for i := range capacity {
		capacity[i] = n
	}
	w.cluster.Capacity = map[string]float64{"server": n}
}

// known is the simulation of the week with all jobs known from the start and plans made anew on
// changes, as live.
func (w *week) known(p plan.Planner) sim.Config {
	return sim.Config{Clusters: []sim.Cluster{w.cluster}, Jobs: w.jobs, Planner: p, Slot: time.Hour, Known: true, Revise: sim.OnChange}
}

func (w *week) mustSimulate(t *testing.T, p plan.Planner) sim.Result {
	t.Helper()
	res, err := sim.Simulate(t.Context(), w.known(p))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// fullKnowledge is what the best plan with full knowledge emits.
func (w *week) fullKnowledge(t *testing.T) float64 {
	t.Helper()
	least := float64(w.mustSimulate(t, joint.Planner{}).Emissions)
	soft := *w.problem
	soft.Objective.Kind = plan.MOSP // the oracle plans past deadlines otherwise not at all
	for p, planner := range map[*plan.Problem]plan.Planner{w.problem: joint.Planner{}, &soft: carbonflex.Oracle{}} {
		res, err := planner.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if e := plan.Evaluate(w.problem, res.Plan); e.Planned == len(w.jobs) && e.Late == 0 {
			least = math.Min(least, e.CarbonG)
		}
	}
	return least
}
