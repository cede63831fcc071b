package reproduce

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

func caspianExperiments() []Experiment {
	const setup = "200 workloads, Poisson over 24 h, 1 to 5 GPUs for 1 to 5 h, deadlines of 2 to 4 lengths; three clusters of 32 GPUs (CA-ON, JP-KN, DE; 200, 100, 200 W a GPU) from 2022-11-14, the nearest day for which JP-KN is in the data (the paper: 2023); planned every hour, 24 h ahead; one slot between submission and dispatch; seeds 1 to 10."
	return []Experiment{
		{Paper: "caspian", ID: "fig4-5", Title: "Sustainable (omega1 = 1) against baseline mode", Setup: setup, Run: caspianModes},
		{Paper: "caspian", ID: "fig6", Title: "Weight of sustainability", Setup: setup, Run: caspianWeights},
	}
}

const caspianSeeds = 10

const (
	// hardDeadlines is planner joint with the objective of least carbon.
	hardDeadlines = "joint by hard deadlines"
	// tiesToFirst is planner caspian, whose ties go to the first cluster: CA-ON, the clean one.
	tiesToFirst = "caspian, ties to the first cluster"
)

// caspianRun is what came of a mode, means over seeds.
type caspianRun struct {
	grams         float64
	onTime, alpha float64
	gpuUse        [3]float64
	hours         float64
}

// CaspianZones are the clusters of Caspian's experiment with their watts of a GPU, and
// CaspianStart the day on which it is run here.
var (
	CaspianZones = []string{"CA-ON", "JP-KN", "DE"}
	CaspianWatts = []float64{200, 100, 200}
	CaspianStart = time.Date(2022, 11, 14, 0, 0, 0, 0, time.UTC)
)

// CaspianJobs draws the workloads of a seed: 200 that ask for GPUs. arrival and deadline count
// hours from the start; what arrives within an hour is submitted at its end, as Caspian looks at
// the queue once in a period, and alpha counts from its beginning.
func CaspianJobs(seed uint64, start time.Time) (jobs []sim.Job, arrival, deadline []float64) {
	rng := rand.New(rand.NewPCG(seed, 0x63617370))
	at := 0.0
	for len(jobs) < 200 {
		at += rng.ExpFloat64() * 24 / 200
		if at >= 24 {
			at -= 24 // the last few wrap around: 200 in 24 hours
		}
		slot := int(at)
		length := 1 + rng.IntN(5)
		beta := 2 + 2*rng.Float64()
		d := float64(slot) + beta*float64(length)
		jobs = append(jobs, sim.Job{
			ID: fmt.Sprintf("w%03d", len(jobs)), Submitted: start.Add(time.Duration(slot+1) * time.Hour), Length: time.Duration(length) * time.Hour, Estimate: time.Duration(length) * time.Hour,
			Deadline: start.Add(time.Duration(d * float64(time.Hour))), Kind: workload.Rigid, Request: map[string]float64{"gpu": float64(1 + rng.IntN(5))},
		})
		arrival, deadline = append(arrival, at), append(deadline, d)
	}
	return jobs, arrival, deadline
}

// CaspianAlpha is the share of its time until the deadline that a workload has taken.
func CaspianAlpha(finish, arrival, deadline float64) float64 {
	slot := math.Floor(arrival)
	return (finish - slot) / (deadline - slot)
}

// caspianMode simulates a planner with weight omega1 on a seed. With omega1 = 0 planner caspian is the
// paper's baseline: clusters score the same and workloads are spread over them (Section V-B, Fig. 4b).
func (e *Env) caspianMode(ctx context.Context, planner plan.Planner, omega1 float64, hard bool, seed uint64) (caspianRun, [3][]float64, error) {
	var out caspianRun
	var load [3][]float64
	start := CaspianStart
	cfg := sim.Config{
		Planner: planner, Slot: time.Hour, Horizon: 24 * time.Hour, Revise: sim.EverySlot,
		Objective: plan.Objective{Kind: plan.MOSP, Weights: [3]float64{omega1, 1, 1}},
	}
	for i, zone := range CaspianZones {
		s, err := e.carbon(zone, "2022")
		if err != nil {
			return out, load, err
		}
		watts := CaspianWatts[i]
		cfg.Clusters = append(cfg.Clusters, sim.Cluster{
			Name: zone, Zone: zone, Capacity: map[string]float64{"gpu": 32}, Power: power.PerUnit{Watts: map[string]float64{"gpu": watts}, PUE: 1}, Forecast: s, Actual: s,
		})
	}
	var arrival, deadline []float64
	cfg.Jobs, arrival, deadline = CaspianJobs(seed, start)
	if hard {
		cfg.Objective, cfg.Horizon = plan.Objective{}, 0
	}
	cfg.Observe = func(s sim.Slot) { load[s.Cluster] = append(load[s.Cluster], s.Use["gpu"]) }
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return out, load, err
	}
	out.grams, out.hours = float64(res.Emissions), 1+res.Makespan.Hours()
	for i := range res.Jobs {
		finish := res.At(res.Jobs[i].Finish).Sub(start).Hours()
		alpha := CaspianAlpha(finish, arrival[i], deadline[i])
		out.alpha += alpha / float64(len(res.Jobs))
		if alpha <= 1+1e-9 {
			out.onTime += 1 / float64(len(res.Jobs))
		}
		for _, r := range res.Jobs[i].Runs {
			out.gpuUse[r.Cluster] += (r.To - r.From).Hours() * cfg.Jobs[i].Request["gpu"]
		}
	}
	return out, load, nil
}

// caspianMean is the mean over all seeds.
func (e *Env) caspianMean(ctx context.Context, name string, omega1 float64) (caspianRun, [3][]float64, error) {
	runs := make([]caspianRun, caspianSeeds)
	loads := make([][3][]float64, caspianSeeds)
	errs := make([]error, caspianSeeds)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 2)
	for i := range runs {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			var p plan.Planner
			hard := name == hardDeadlines
			switch name {
			case hardDeadlines:
				p, errs[i] = e.Planner("joint", nil)
			case tiesToFirst:
				p, errs[i] = e.Planner("caspian", map[string]string{"ties": "first"})
			default:
				p, errs[i] = e.Planner(name, nil)
			}
			if errs[i] == nil {
				runs[i], loads[i], errs[i] = e.caspianMode(ctx, p, omega1, hard, uint64(i+1))
			}
		})
	}
	wg.Wait()
	var out caspianRun
	for i := range runs {
		if errs[i] != nil {
			return out, loads[0], errs[i]
		}
		out.grams += runs[i].grams / caspianSeeds
		out.alpha += runs[i].alpha / caspianSeeds
		out.onTime += runs[i].onTime / caspianSeeds
		out.hours += runs[i].hours / caspianSeeds
		for c := range out.gpuUse {
			out.gpuUse[c] += runs[i].gpuUse[c] / caspianSeeds
		}
	}
	return out, loads[0], nil
}

func caspianModes(ctx context.Context, env *Env) (*Result, error) {
	res := &Result{Notes: []string{"The baseline is Caspian with omega1 = 0, as in the paper. Then all clusters have the same score; \"Caspian distributes workloads equally among clusters\" (Section V-B), so ties go to the cluster with the most room. If they went to the first cluster, the clean one, the baseline would be cleaner and the saving smaller: the second row says by how much."}}
	base, _, err := env.caspianMean(ctx, "caspian", 0)
	if err != nil {
		return nil, err
	}
	first, _, err := env.caspianMean(ctx, tiesToFirst, 0)
	if err != nil {
		return nil, err
	}
	env.progress(1, 3)
	own, load, err := env.caspianMean(ctx, "caspian", 1)
	if err != nil {
		return nil, err
	}
	env.progress(2, 3)
	joint, _, err := env.caspianMean(ctx, "joint", 1)
	if err != nil {
		return nil, err
	}
	c := report.Chart{Title: "GPUs in use, sustainable mode, seed 1", XUnit: " h"}
	for i, zone := range CaspianZones {
		line := report.Series{Name: zone, Stairs: true}
		for t, v := range load[i] {
			line.X, line.Y = append(line.X, float64(t)), append(line.Y, v)
		}
		c.Series = append(c.Series, line)
	}
	share := func(r caspianRun, i int) Value {
		return percent(r.gpuUse[i] / (r.gpuUse[0] + r.gpuUse[1] + r.gpuUse[2]))
	}
	res.Rows = []Row{
		{What: "carbon saving", Unit: "%", Paper: 38.2, Anchor: 32, Here: percent(1 - own.grams/base.grams), Joint: percent(1 - joint.grams/base.grams), Why: "another year, mean of ten seeds against one"},
		{What: "carbon saving, ties of the baseline to the first cluster", Unit: "%", Paper: None, Anchor: None, Here: percent(1 - own.grams/first.grams), Joint: percent(1 - joint.grams/first.grams), Why: "the effect of the rule is the saving above minus this one"},
		{What: "late in sustainable mode", Unit: "%", Paper: 7.2, Anchor: 3.2, Here: percent(1 - own.onTime), Joint: percent(1 - joint.onTime), Why: "as above"},
		{What: "late in baseline mode", Unit: "%", Paper: 0, Anchor: None, Here: percent(1 - base.onTime), Joint: None},
		{What: "makespan in sustainable mode, hours", Unit: "h", Paper: 39, Anchor: None, Here: Value(own.hours), Joint: Value(joint.hours), Why: "the last arrivals differ by seed"},
		{What: "makespan in baseline mode, hours", Unit: "h", Paper: 29, Anchor: None, Here: Value(base.hours), Joint: None},
		{What: "share of work on CA-ON in sustainable mode", Unit: "%", Paper: None, Anchor: None, Here: share(own, 0), Joint: share(joint, 0), Why: "\"the highest\" in the paper"},
		{What: "share of work on JP-KN in sustainable mode", Unit: "%", Paper: None, Anchor: None, Here: share(own, 1), Joint: share(joint, 1), Why: "above DE in the paper, whose power is twice as high"},
		{What: "share of work on DE in sustainable mode", Unit: "%", Paper: None, Anchor: None, Here: share(own, 2), Joint: share(joint, 2)},
		{What: "share of work on CA-ON in baseline mode", Unit: "%", Paper: 33.3, Anchor: None, Here: share(base, 0), Joint: None, Why: "\"equally\" in the paper"},
		{What: "share of work on CA-ON in baseline mode, ties to the first cluster", Unit: "%", Paper: None, Anchor: None, Here: share(first, 0), Joint: None},
	}
	res.Charts = []report.Chart{c}
	env.progress(1, 1)
	return res, nil
}

func caspianWeights(ctx context.Context, env *Env) (*Result, error) {
	res := &Result{Notes: []string{"With Caspian's weights joint saves more than Caspian, and is late more often if carbon has a large weight: both maximise Z, joint gets closer to the optimum, and Z trades deadlines for carbon. With hard deadlines joint needs no weights."}}
	best := 0.0 // saving of Caspian at any weight
	base, _, err := env.caspianMean(ctx, "caspian", 0)
	if err != nil {
		return nil, err
	}
	weights := []float64{0, 0.25, 0.5, 1, 2}
	papers := map[float64][3]Value{0: {0, 100, 0.49}, 0.25: {19.4, None, None}, 0.5: {33.21, 98.28, 0.6}, 1: {38.2, 92.8, 0.72}, 2: {42.4, 85, None}}
	anchors := map[float64][2]Value{0: {None, None}, 0.25: {25, 99.7}, 0.5: {28, 99.5}, 1: {32, 96.8}, 2: {37, 91.5}}
	saving := report.Chart{Title: "Saving and deadlines kept by weight", XUnit: "", YUnit: " %", Series: []report.Series{{Name: "saving"}, {Name: "on time"}, {Name: "saving, joint"}, {Name: "on time, joint"}}}
	for i, w := range weights {
		var got [2]caspianRun
		for k, name := range []string{"caspian", "joint"} {
			if w == 0 {
				got[k] = base
				continue
			}
			if got[k], _, err = env.caspianMean(ctx, name, w); err != nil {
				return nil, err
			}
		}
		best = max(best, 1-got[0].grams/base.grams)
		p, a := papers[w], anchors[w]
		label := fmt.Sprintf("omega1 = %g: ", w)
		why := "another year; mean of ten seeds; the paper's is one run"
		onTime := "less is saved and more is on time than in the paper"
		if w == 0 {
			onTime = "a few workloads have less slack than the slot between submission and dispatch"
			why = "the baseline itself, with one slot between submission and dispatch"
		}
		joint := func(v Value) Value {
			if w == 0 {
				return None
			}
			return v
		}
		res.Rows = append(res.Rows,
			Row{What: label + "carbon saving", Unit: "%", Paper: p[0], Anchor: a[0], Here: percent(1 - got[0].grams/base.grams), Joint: joint(percent(1 - got[1].grams/base.grams)), Why: why},
			Row{What: label + "on time", Unit: "%", Paper: p[1], Anchor: a[1], Here: percent(got[0].onTime), Joint: joint(percent(got[1].onTime)), Why: onTime},
			Row{What: label + "mean alpha", Unit: "", Paper: p[2], Anchor: None, Here: Value(got[0].alpha), Joint: joint(Value(got[1].alpha)), Why: "as above"})
		for k, v := range []float64{1 - got[0].grams/base.grams, got[0].onTime, 1 - got[1].grams/base.grams, got[1].onTime} {
			saving.Series[k].X, saving.Series[k].Y = append(saving.Series[k].X, w), append(saving.Series[k].Y, 100*math.Max(0, v))
		}
		env.progress(i+1, len(weights)+1)
	}
	hard, _, err := env.caspianMean(ctx, hardDeadlines, 0)
	if err != nil {
		return nil, err
	}
	res.Rows = append(res.Rows,
		Row{What: "joint, least carbon by hard deadlines: saving", Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(1 - hard.grams/base.grams), Why: fmt.Sprintf("how Lull plans by default; Caspian saves %.1f %% at most, with the largest weight", 100*best)},
		Row{What: "joint, least carbon by hard deadlines: on time", Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(hard.onTime), Why: "a workload whose dispatch slot is too late for its deadline cannot meet it"})
	res.Charts = []report.Chart{saving}
	return res, nil
}
