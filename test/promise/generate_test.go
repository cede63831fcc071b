package promise_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// The arrivals of a class.
const (
	atStart = "start"  // all jobs are submitted at once, so that all is known
	poisson = "steady" // submissions spread over days
	bursty  = "bursts" // submissions in a few bursts
)

// class is what the counts of a test are split by.
type class struct {
	kind     string // a workload.Kind, or "mixed"
	load     float64
	arrivals string
	// tight deadlines leave no more room than running as submitted needs.
	tight bool
}

func (c class) String() string {
	slack := "roomy"
	if c.tight {
		slack = "tight"
	}
	return fmt.Sprintf("%s, load %.2f, %s, %s", c.kind, c.load, c.arrivals, slack)
}

// instance is a simulation without a planner.
type instance struct {
	seed  uint64
	class class
	cfg   sim.Config
	waves []wave // of the clusters
	// reach bounds how far ahead deadlines lie, longest how long jobs are: with short slots
	// less, as the cost of planning grows with the slots before the last deadline.
	reach, longest time.Duration
}

// with returns the simulation with a planner.
func (in *instance) with(t testing.TB, m method) sim.Config {
	cfg := in.cfg
	cfg.Planner = m.planner(t)
	return cfg
}

var (
	kinds     = []string{string(workload.Rigid), string(workload.Interruptible), string(workload.Elastic), "mixed"}
	loads     = []float64{0.3, 0.6, 0.8, 0.95}
	slots     = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}
	resources = []string{"cpu", "memory", "gpu"}
)

const gib = 1 << 30

// wild is how often an instance has lengths of a day and deadlines in a week whatever its
// slots: every wild-th seed.
const wild = 41

// generate returns the instance of a seed, no larger than the method can take. Deadlines are set last, from when each job
// ends as submitted, so that running as submitted keeps all of them: whoever misses one
// has broken a promise.
func generate(t testing.TB, seed uint64, known bool, m method, data [][]float64) *instance {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x70726f6d697365))
	in := &instance{seed: seed}
	// Seeds that follow one another cover all kinds and loads evenly.
	k, l := int(seed%uint64(len(kinds))), int((seed+seed/uint64(len(kinds)))%uint64(len(loads)))
	in.class = class{kind: kinds[k], load: loads[l], arrivals: atStart, tight: rng.IntN(3) == 0}
	if !known {
		in.class.arrivals = []string{poisson, bursty}[rng.IntN(2)]
	}
	in.cfg.Slot = slots[rng.IntN(len(slots))]
	in.reach, in.longest = 300*in.cfg.Slot, min(24*time.Hour, 48*in.cfg.Slot)
	if seed%wild == 0 {
		in.reach, in.longest = 7*24*time.Hour, 24*time.Hour
	}
	in.cfg.Margin = []time.Duration{0, 5 * time.Minute, 2 * in.cfg.Slot}[rng.IntN(3)]
	in.cfg.Seed = seed
	if rng.IntN(4) == 0 {
		in.cfg.Horizon = 48 * time.Hour
	}
	in.addClusters(rng, data)
	n := 8 + rng.IntN(32)
	most := m.most
	if m.mostElastic > 0 && (in.class.kind == string(workload.Elastic) || in.class.kind == "mixed") {
		most = m.mostElastic
	}
	if most > 0 {
		n = 1 + rng.IntN(most)
	}
	for i := range n {
		in.cfg.Jobs = append(in.cfg.Jobs, in.randomJob(rng, i))
	}
	span := in.span()
	in.submit(rng, span)
	in.setDeadlines(t, rng, span)
	return in
}

func (in *instance) addClusters(rng *rand.Rand, data [][]float64) {
	n := []int{1, 1, 2, 3, 4}[rng.IntN(5)]
	base := float64(4 + rng.IntN(28))
	for c := range n {
		name := fmt.Sprintf("c%d", c)
		cpus := math.Round(base * math.Pow(8, rng.Float64()))
		capacity := map[string]float64{"cpu": cpus, "memory": math.Round(cpus*(1+7*rng.Float64())) * gib}
		if rng.IntN(2) == 0 {
			capacity["gpu"] = float64(1 + rng.IntN(16))
		}
		per := power.PerUnit{Watts: map[string]float64{"cpu": 1 + 9*rng.Float64(), "gpu": 300, "memory": 0.4 / gib}, PUE: 1 + rng.Float64()*0.8}
		w := randomWave(rng, data)
		s := w.series(name)
		in.waves = append(in.waves, w)
		in.cfg.Clusters = append(in.cfg.Clusters, sim.Cluster{Name: name, Zone: name, Capacity: capacity, Power: per, Forecast: s, Actual: s})
	}
}

// curves are marginal capacity curves: measured ones of PyTorch and MPI jobs, power-of-two
// scales, steps that add nothing, and straight lines.
var curves = [][]float64{
	{1, 1, 1, 1},
	{1, 0.96, 0.98, 0.92},
	{1, 0.62, 0.55, 0.39, 0.3, 0.21},
	{1, 0, 0.36, 0, 0, 0, 0.29, 0},
	{1, 1, 0, 1.61, 0, 1.49, 0, 1.41},
	{1, 0.8, 0, 0, 1.5},
	{1, 0, 0, 0},
	{2, 0.5, 1.9},
	{1},
}

func randomScale(rng *rand.Rand) *sim.Scale {
	curve := curves[rng.IntN(len(curves))]
	least := 1 + rng.IntN(2)
	s := &sim.Scale{MinWorkers: least, MaxWorkers: least + len(curve) - 1, Curve: curve}
	if rng.IntN(2) == 0 {
		idle := 20 + 100*rng.Float64()
		for i := range curve {
			s.Watts = append(s.Watts, math.Round(idle+float64(least+i)*(30+40*rng.Float64())))
		}
	}
	return s
}

// randomLength is log-uniform from a minute to the longest, or some whole slots.
func (in *instance) randomLength(rng *rand.Rand) time.Duration {
	if rng.IntN(4) == 0 {
		return time.Duration(1+rng.IntN(8)) * in.cfg.Slot
	}
	minutes := math.Pow(in.longest.Minutes(), rng.Float64())
	return time.Duration(minutes * float64(time.Minute)).Round(time.Second)
}

func (in *instance) randomJob(rng *rand.Rand, i int) sim.Job {
	kind := workload.Kind(in.class.kind)
	if in.class.kind == "mixed" {
		kind = workload.Kind(kinds[rng.IntN(3)])
	}
	length := in.randomLength(rng)
	j := sim.Job{ID: fmt.Sprintf("j%03d", i), Length: length, Estimate: length, Kind: kind}
	home := &in.cfg.Clusters[rng.IntN(len(in.cfg.Clusters))]
	share := 0.01 * math.Pow(20, rng.Float64())
	if rng.IntN(6) == 0 {
		share = 0.2 + 0.3*rng.Float64()
	}
	if kind == workload.Elastic {
		j.Scale = randomScale(rng)
		share /= float64(j.Scale.MinWorkers)
	}
	cpus := math.Max(0.1, math.Round(home.Capacity["cpu"]*share*10)/10)
	memory := math.Round(cpus * (0.25 + 8*rng.Float64()) * gib)
	j.Request = map[string]float64{"cpu": cpus, "memory": math.Min(memory, math.Floor(home.Capacity["memory"]*0.25))}
	least := 1.0
	if j.Scale != nil {
		least = float64(j.Scale.MinWorkers)
	}
	if g := math.Floor(home.Capacity["gpu"] / 2 / least); g >= 1 && rng.IntN(4) == 0 {
		j.Request["gpu"] = float64(1 + rng.IntN(int(g)))
	}
	if rng.IntN(3) == 0 {
		j.Clusters = []string{home.Name}
		for c := range in.cfg.Clusters {
			if name := in.cfg.Clusters[c].Name; name != home.Name && rng.IntN(2) == 0 {
				j.Clusters = append(j.Clusters, name)
			}
		}
	}
	if kind != workload.Rigid && rng.IntN(3) == 0 {
		j.Migratable = rng.IntN(2) == 0
		j.RestartKWh, j.TransferKWh = 0.2*rng.Float64(), 0.2*rng.Float64()
	}
	return j
}

// span is how long the clusters take for all work at the load of the class, by the
// resource that is scarcest.
func (in *instance) span() time.Duration {
	need, have := map[string]float64{}, map[string]float64{}
	for i := range in.cfg.Jobs {
		j := &in.cfg.Jobs[i]
		for r, q := range j.Request {
			need[r] += q * float64(least(j)) * j.Length.Hours()
		}
	}
	for c := range in.cfg.Clusters {
		for r, q := range in.cfg.Clusters[c].Capacity {
			have[r] += q
		}
	}
	hours := 1.0
	for _, r := range resources {
		if have[r] > 0 {
			hours = math.Max(hours, need[r]/have[r]/in.class.load)
		}
	}
	return time.Duration(math.Min(hours, 7*24) * float64(time.Hour))
}

// submit sets when jobs come: not at boundaries of slots, but for a few. In every third instance, times and lengths are
// not whole microseconds.
func (in *instance) submit(rng *rand.Rand, span time.Duration) {
	odd := nanoseconds(rand.New(rand.NewPCG(in.seed, 0x6f6464)), in.seed%3 == 0)
	start := day0.Add(time.Duration(rng.IntN(24*3600))*time.Second + odd())
	bursts := make([]time.Duration, 1+rng.IntN(4))
	for i := range bursts {
		bursts[i] = time.Duration(rng.Float64() * float64(span))
	}
	for i := range in.cfg.Jobs {
		after := time.Duration(0)
		switch in.class.arrivals {
		case poisson:
			after = time.Duration(rng.Float64() * float64(span)).Round(time.Second)
		case bursty:
			after = (bursts[rng.IntN(len(bursts))] + time.Duration(rng.IntN(120))*time.Second).Round(time.Second)
		}
		at := start.Add(after)
		if in.class.arrivals != atStart && rng.IntN(8) == 0 {
			at = at.Truncate(in.cfg.Slot)
		}
		if in.class.arrivals != atStart {
			at = at.Add(odd())
		}
		j := &in.cfg.Jobs[i]
		j.Length += odd()
		j.Submitted, j.Estimate = at, j.Length
	}
}

// setDeadlines sets deadlines that running as submitted keeps. A roomy deadline leaves the
// margin and two slots more at least.
func (in *instance) setDeadlines(t testing.TB, rng *rand.Rand, span time.Duration) {
	t.Helper()
	base, err := sim.AsSubmitted(context.Background(), in.cfg)
	if err != nil {
		t.Fatalf("seed %d: as submitted: %v", in.seed, err)
	}
	for i := range in.cfg.Jobs {
		j := &in.cfg.Jobs[i]
		end := base.At(base.Jobs[i].Finish)
		due := end
		if !in.class.tight {
			due = end.Add(in.cfg.Margin + 2*in.cfg.Slot)
		}
		wish := j.Submitted
		switch rng.IntN(8) {
		case 0: // no slack at all
		case 1:
			wish = j.Submitted.Add(time.Duration(rng.Float64() * 7 * 24 * float64(time.Hour)))
		case 2:
			wish = j.Submitted.Add(time.Duration(rng.Float64() * float64(span)))
		default:
			wish = j.Submitted.Add(time.Duration((3 + 9*rng.Float64()) * float64(j.Length)))
		}
		if furthest := j.Submitted.Add(in.reach); wish.After(furthest) {
			wish = furthest
		}
		if wish.After(due) {
			due = wish.Round(time.Second)
		}
		switch rng.IntN(20) {
		case 0: // it may not wait
		case 1, 2, 3:
			j.MaxDelay = max(0, due.Sub(j.Submitted.Add(j.Length))) // the simulation may end a run some nanoseconds early by rounding
		default:
			j.Deadline = due
		}
	}
}
