package promise_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
)

// golden is a small instance that broke a promise once: found at random, shrunk by shrink,
// and printed by literal.
type golden struct {
	name, planner         string
	slot, margin, horizon time.Duration
	clusters              []sim.Cluster
	waves                 []wave
	jobs                  []sim.Job
}

func (g golden) instance() *instance {
	in := &instance{waves: make([]wave, len(g.waves)), cfg: sim.Config{Slot: g.slot, Margin: g.margin, Horizon: g.horizon, Clusters: g.clusters, Jobs: g.jobs}}
	for c, w := range g.waves {
		in.setWave(c, w)
	}
	return in
}

// TestGoldens: instances that broke a promise before keep it now, with the planner that
// broke it and with the others.
func TestGoldens(t *testing.T) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			for _, m := range byName(t, g.planner, "asap", "cheapest", "joint", reserved) {
				in := g.instance()
				if breaks(t, in, m) {
					cfg, res := mustSimulate(t, in, m)
					expectInTime(t, &cfg, &res, m.name)
				}
			}
		})
	}
}

// falling is an intensity that is lower in the afternoon and at night.
var falling = []float64{
	329.25, 276.08, 250.54, 256.25, 260.19, 262.87, 265.56, 272.6, 282.17, 279.86, 272.94, 250.43, 241.36, 244.22, 239.64, 230.78, 226.45, 228.13, 236.21, 241.81,
	263.5, 276.64, 261.49, 248.02, 252.35, 253.43, 261.92, 256.81, 259.44, 257.09, 258.81, 281.39, 325.41, 342.19, 346.81, 327.37, 327.84, 339.51, 351.28, 369.89,
}

// stairs is a marginal capacity curve of a job that uses one, three or seven more workers.
var stairs = []float64{1, 0, 0.36, 0, 0, 0, 0.29, 0}

// rising is a noisy intensity that rises over the first half of the day, in steps of 5 min.
var rising = []float64{
	14.5, 5.9, 8.1, 11.3, 4.3, 9.1, 7.5, 5.5, 3.9, 4.2, 8.5, 11.4, 5.1, 8.3, 5.4, 9.3,
	9.3, 5.5, 12.7, 15.3, 18.2, 11, 13.4, 11.6, 16.7, 18, 25.3, 14.9, 26, 15.1, 17.2, 19.7,
	41, 22.5, 23, 41.4, 19, 50, 31.6, 26.4, 53.1, 47.5, 57, 43.5, 52.6, 64.6, 72.3, 43.2,
	85.2, 55.8, 76.7, 39.3, 48.3, 62.8, 101.3, 81.9, 123.8, 76.3, 63, 126.9, 107.2, 57.3, 96.5, 77.4,
	150.6, 167.3, 103.7, 84.5, 137.1, 110.7, 158.5, 173.3, 116.3, 129.2, 183.9, 177.4, 111.6, 99.9, 202.4, 128.3,
	194.8, 199.1, 182.8, 92.2, 140.4, 252.3, 208, 243.9, 163.9, 232.8, 161.9, 160.9, 256.9, 285.3, 212.3, 273,
	221.1, 255.8, 193.3, 135.4, 163.2, 300.2, 307.2, 234.7, 173.8, 333.9, 261.6, 293.4, 176.7,
}

func goldens() []golden {
	return []golden{
		{
			name: "three wait for the evening and one of them has no room left", planner: "cheapest", slot: dur("5m"),
			clusters: []sim.Cluster{{Name: "c0", Zone: "c0", Capacity: cpu(8), Power: power.PerUnit{Watts: cpu(7.5), PUE: 1.5}}},
			waves:    []wave{{step: dur("1h"), values: falling}},
			jobs: []sim.Job{
				{ID: "j000", Kind: "interruptible", Submitted: at("14h35m13s"), Length: dur("3h56m"), Estimate: dur("3h56m"), Request: cpu(3.5), Deadline: at("39h35m13s")},
				{ID: "j002", Kind: "interruptible", Submitted: at("14h30m"), Length: dur("35m"), Estimate: dur("35m"), Request: cpu(1.3), MaxDelay: dur("2h39m33s")},
				{ID: "j005", Kind: "interruptible", Submitted: at("14h34m45s"), Length: dur("30m"), Estimate: dur("30m"), Request: cpu(3.3), Deadline: at("19h7m25s")},
				{ID: "j025", Kind: "interruptible", Submitted: at("14h33m51s"), Length: dur("1h5m"), Estimate: dur("1h5m"), Request: cpu(3.7), Deadline: at("23h44m41s")},
			},
		},
		{
			name: "a job of four minutes queues behind one that scales up", planner: "carbonscaler", slot: dur("1h"), margin: dur("5m"),
			clusters: []sim.Cluster{{Name: "c1", Zone: "c1", Capacity: cpu(12), Power: power.PerUnit{Watts: cpu(4.4), PUE: 1.3}}},
			waves:    []wave{flat(300)},
			jobs: []sim.Job{
				{ID: "j004", Kind: "elastic", Submitted: at("17h23m51s"), Length: dur("1h14m"), Estimate: dur("1h14m"), Request: cpu(3), Scale: &sim.Scale{MinWorkers: 1, MaxWorkers: 8, Curve: stairs}},
				{ID: "j016", Kind: "elastic", Submitted: at("17h23m51s"), Length: dur("4m"), Estimate: dur("4m"), Request: cpu(1), Deadline: at("17h50m25s"), Scale: &sim.Scale{MinWorkers: 2, MaxWorkers: 9, Curve: stairs}},
			},
		},
		{
			name: "elastic jobs share few GPUs", planner: "cheapest", slot: dur("5m"),
			clusters: []sim.Cluster{{Name: "c0", Zone: "c0", Capacity: map[string]float64{"gpu": 7}, Power: power.PerUnit{Watts: map[string]float64{"gpu": 300}, PUE: 1.2}}},
			waves:    []wave{{step: dur("5m"), values: rising}},
			jobs: []sim.Job{
				{ID: "j000", Kind: "elastic", Submitted: at("3h55m43s"), Length: dur("2h44m"), Estimate: dur("2h44m"), Request: map[string]float64{"gpu": 2}, Deadline: at("6h50m4s"), Scale: &sim.Scale{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}},
				{ID: "j003", Kind: "elastic", Submitted: at("3h55m43s"), Length: dur("1h19m"), Estimate: dur("1h19m"), Request: map[string]float64{"gpu": 3}, Deadline: at("9h2m35s"), Scale: &sim.Scale{MinWorkers: 1, MaxWorkers: 8, Curve: stairs}},
				{ID: "j012", Kind: "elastic", Submitted: at("3h55m43s"), Length: dur("13m"), Estimate: dur("13m"), Request: map[string]float64{"gpu": 1}, Deadline: at("5h57m50s"), Scale: &sim.Scale{MinWorkers: 2, MaxWorkers: 4, Curve: []float64{2, 0.5, 1.9}}},
				{ID: "j016", Kind: "elastic", Submitted: at("3h55m43s"), Length: dur("5m"), Estimate: dur("5m"), Request: map[string]float64{"gpu": 1}, Deadline: at("4h22m52s"), Scale: &sim.Scale{MinWorkers: 2, MaxWorkers: 7, Curve: []float64{1, 0.62, 0.55, 0.39, 0.3, 0.21}}},
				{ID: "j017", Kind: "elastic", Submitted: at("3h55m43s"), Length: dur("3h26m"), Estimate: dur("3h26m"), Request: map[string]float64{"gpu": 1}, Deadline: at("7h48m40s"), Scale: &sim.Scale{MinWorkers: 1, MaxWorkers: 8, Curve: []float64{1, 1, 0, 1.61, 0, 1.49, 0, 1.41}}},
			},
		},
	}
}
