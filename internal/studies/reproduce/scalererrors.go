package reproduce

import (
	"context"
	"fmt"
	"time"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// errorSeeds are the seeds of drawn errors.
const errorSeeds = 5

// overheads are how much more each start emits than without an error.
func overheads(with, without []advise.Outcome) []float64 {
	out := make([]float64, len(with))
	for i := range out {
		out[i] = with[i].Grams/without[i].Grams - 1
	}
	return out
}

func scalerFig20(ctx context.Context, env *Env) (*Result, error) {
	res := &Result{}
	base := study{env: env, zone: "CA-ON", year: "2022", profile: "nbody100k", length: 24, slack: 12, stride: 3}
	series, err := env.carbon("CA-ON", "2022")
	if err != nil {
		return nil, err
	}
	c := report.Chart{Title: "Added carbon at the 95th percentile", XUnit: " % error", YUnit: " %", Series: []report.Series{{Name: "CarbonScaler"}, {Name: "joint"}}}
	planners, err := env.planners("carbonscaler", "joint")
	if err != nil {
		return nil, err
	}
	shares := []float64{0.1, 0.2, 0.3}
	at95 := map[string]float64{}
	means := map[string]float64{}
	for k, name := range []string{"carbonscaler", "joint"} {
		without, err := base.run(ctx, planners[name])
		if err != nil {
			return nil, err
		}
		for si, share := range shares {
			var all []float64
			for seed := uint64(1); seed <= errorSeeds; seed++ {
				noisy, err := sim.Noisy(series, share, seed)
				if err != nil {
					return nil, err
				}
				s := base
				s.noise = hours(noisy)
				with, err := s.run(ctx, planners[name])
				if err != nil {
					return nil, err
				}
				all = append(all, overheads(with, without)...)
			}
			spread := advise.SpreadOf(all)
			c.Series[k].X, c.Series[k].Y = append(c.Series[k].X, 100*share), append(c.Series[k].Y, 100*spread.P95)
			at95[name], means[name] = spread.P95, spread.Mean
			env.progress(k*len(shares)+si+1, 2*len(shares))
		}
	}
	res.Rows = append(res.Rows,
		Row{What: "30 % error: added carbon, 95th percentile", Unit: "%", Paper: 4, Anchor: None, Here: percent(at95["carbonscaler"]), Joint: percent(at95["joint"]), Why: "the paper's variants over one error draw; here the plan is never changed, over five draws and all seasons"},
		Row{What: "30 % error: added carbon, mean", Unit: "%", Paper: None, Anchor: None, Here: percent(means["carbonscaler"]), Joint: percent(means["joint"])})
	res.Charts = []report.Chart{c}
	return res, nil
}

func scalerFig21(ctx context.Context, env *Env) (*Result, error) {
	res := &Result{Notes: []string{"The paper draws curves without figures and says that N-body suffers least. Here the errors last for the whole job, because no curve is learned again."}}
	c := report.Chart{Title: "Added carbon by error of the profile", XUnit: " % error", YUnit: " %"}
	planners, err := env.planners("carbonscaler", "joint")
	if err != nil {
		return nil, err
	}
	shares := []float64{0.1, 0.2, 0.3}
	names := []string{"nbody100k", "resnet18", "mobilenet_v2"}
	for wi, name := range names {
		base := study{env: env, zone: "CA-ON", year: "2022", profile: name, length: 24, slack: 12, stride: 3}
		m, err := env.profile(name, scalerMost)
		if err != nil {
			return nil, err
		}
		line := report.Series{Name: name}
		var last, own float64
		for si, share := range shares {
			for _, method := range []string{"carbonscaler", "joint"} {
				without, err := base.run(ctx, planners[method])
				if err != nil {
					return nil, err
				}
				var all []float64
				for seed := uint64(1); seed <= errorSeeds; seed++ {
					s := base
					s.told = sim.ProfileError(&sim.Scale{MinWorkers: 1, MaxWorkers: scalerMost, Curve: m.Curve}, share, seed).Curve
					with, err := s.run(ctx, planners[method])
					if err != nil {
						return nil, err
					}
					all = append(all, overheads(with, without)...)
				}
				if method == "joint" {
					own = mean(all)
					continue
				}
				last = mean(all)
				line.X, line.Y = append(line.X, 100*share), append(line.Y, 100*last)
			}
			env.progress(wi*len(shares)+si+1, len(names)*len(shares))
		}
		c.Series = append(c.Series, line)
		res.Rows = append(res.Rows, Row{What: name + ", 30 % error: added carbon, mean", Unit: "%", Paper: None, Anchor: None, Here: percent(last), Joint: percent(own)})
	}
	res.Charts = []report.Chart{c}
	return res, nil
}

func scalerFig22(ctx context.Context, env *Env) (*Result, error) {
	res := &Result{Notes: []string{"VGG16 is not in the data; of the available profiles, MobileNetV2 scales least. The paper does not state the probability of its figures; Lull assumes 40 %."}}
	c := report.Chart{Title: "Added carbon by probability of denial", XUnit: " %", YUnit: " %"}
	series, err := env.carbon("CA-ON", "2022")
	if err != nil {
		return nil, err
	}
	planners, err := env.planners("carbonscaler", "joint")
	if err != nil {
		return nil, err
	}
	shares := []float64{0, 0.1, 0.2, 0.3, 0.4}
	names := []string{"nbody100k", "mobilenet_v2"}
	for wi, name := range names {
		m, err := env.profile(name, scalerMost)
		if err != nil {
			return nil, err
		}
		added := map[string]float64{}
		line := report.Series{Name: name}
		late, jobs := 0, 0
		for _, method := range []string{"carbonscaler", "joint"} {
			none := 0.0
			for si, share := range shares {
				cfg := sim.Config{
					Clusters: []sim.Cluster{{Name: "CA-ON", Power: power.PerUnit{PUE: 1}, Forecast: series, Actual: series}},
					Planner:  planners[method], Slot: time.Hour, Revise: sim.OnChange, Faults: sim.Faults{Deny: share}, Seed: 1,
				}
				scale := &sim.Scale{MinWorkers: 1, MaxWorkers: scalerMost, Curve: m.Curve, Watts: m.Watts}
				for start := 0; start+48+24 < series.Len(); start += 12 {
					cfg.Jobs = append(cfg.Jobs, sim.Job{
						ID: fmt.Sprint(start), Submitted: series.Start().Add(time.Duration(start) * time.Hour), Length: 24 * time.Hour, Estimate: 24 * time.Hour,
						MaxDelay: 24 * time.Hour, Kind: workload.Elastic, Request: map[string]float64{"worker": 1}, Scale: scale,
					})
				}
				out, err := sim.Simulate(ctx, cfg)
				if err != nil {
					return nil, err
				}
				if share == 0 {
					none = float64(out.Emissions)
				}
				added[method] = float64(out.Emissions)/none - 1
				if method == "carbonscaler" {
					late, jobs = out.Missed, len(cfg.Jobs)
					line.X, line.Y = append(line.X, 100*share), append(line.Y, 100*added[method])
				}
				env.progress(wi*len(shares)+si+1, len(names)*len(shares))
			}
		}
		c.Series = append(c.Series, line)
		p := Value(5)
		if name != "nbody100k" {
			p = 15
		}
		res.Rows = append(res.Rows, Row{What: name + ", 40 % denied: added carbon", Unit: "%", Paper: p, Anchor: None, Here: percent(added["carbonscaler"]), Joint: percent(added["joint"]),
			Why: fmt.Sprintf("here each worker is denied separately, so most of a request is granted; %d of %d jobs late", late, jobs)})
	}
	res.Charts = []report.Chart{c}
	return res, nil
}
